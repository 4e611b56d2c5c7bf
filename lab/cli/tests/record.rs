//! `keel record` as a user runs it: streams, exit codes, signals, full disks, a killed recorder.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stderr, reason = "a skipped test prints why")]

mod common;

use common::{prefix_with_recorder, root};
use keel_journal::{Op, Reader, Rules};
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// With the default actions of signals, which a test in the background does not inherit.
fn keel(arguments: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,TERM", env!("CARGO_BIN_EXE_keel")]);
    command.env("KEEL_PREFIX", prefix_with_recorder()).env_remove("LD_PRELOAD").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The number of operations in a journal, after every rule was checked.
fn operations(path: &Path) -> u64 {
    let reader = Reader::open(path).unwrap();
    let mut rules = Rules::new(reader.metadata()).unwrap();
    for event in reader.events() {
        rules.check(&event.unwrap()).unwrap();
    }
    rules.rows()
}

/// A program that allocates and frees 64 bytes as often as its first argument demands, prints the
/// number, and exits with 9. With a second argument it reads a line and repeats this once.
fn compile_loop(folder: &Path) -> PathBuf {
    let source = folder.join("loop.c");
    let code = "#include <stdio.h>\n#include <stdlib.h>\n\
                int main(int n, char** a) { long c = atol(a[1]); char line[9]; again:\n\
                for (long i = 0; i < c; i++) { void* p = malloc(64); __asm__ volatile(\"\" : \
                \"+r\"(p)); free(p); }\n\
                printf(\"%ld\\n\", c); fflush(stdout);\n\
                if (n-- > 2) { if (fgets(line, 9, stdin)) goto again; return 3; } return 9; }\n";
    std::fs::write(&source, code).unwrap();
    let program = folder.join("loop");
    let status = Command::new("cc")
        .args(["-O1", "-fno-builtin", "-o"])
        .arg(&program)
        .arg(&source)
        .status()
        .unwrap();
    assert!(status.success());
    program
}

/// Records `count` short children, with 64 MB of shared memory and 256 descriptors. Returns the
/// journals' folder and the peak of keel's resident memory, KiB; `None` if that cannot be set up.
fn record_crowd(count: u32) -> Option<(tempfile::TempDir, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("crowd");
    let source = root().join("tests/recorder/programs/crowd.c");
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-fno-builtin", "-pthread", "-o"]).arg(&program).arg(source);
    assert!(compile.status().unwrap().success());
    // The mount is seen by these processes only.
    let script = "mkdir s && mount -t tmpfs -o size=64m none s || exit 77; ulimit -n 256; \
                  \"$0\" record -q -f --spool s -o c.journal.parquet -- ./crowd \"$1\" & pid=$!; \
                  while :; do p=$(grep VmHWM /proc/$pid/status 2>/dev/null) && echo $p >peak; \
                  kill -0 $pid 2>/dev/null || break; sleep 0.05; done; wait $pid";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_keel"), &count.to_string()]);
    command.env("KEEL_PREFIX", prefix_with_recorder()).env_remove("LD_PRELOAD");
    let output = command.current_dir(&folder).output().unwrap();
    if matches!(output.status.code(), Some(1 | 77)) && !folder.path().join("peak").exists() {
        eprintln!("SKIPPED: cannot mount here: {}", text(&output.stderr));
        return None;
    }
    assert!(output.status.success(), "{:?}: {}", output.status, text(&output.stderr));
    let peak = std::fs::read_to_string(folder.path().join("peak")).unwrap();
    Some((folder, peak.split_whitespace().nth(1).unwrap().parse().unwrap()))
}

#[test]
fn thousands_of_children_lose_nothing_and_take_no_memory() {
    const COUNT: u32 = 5000;
    let Some((_, peak_of_few)) = record_crowd(COUNT / 10) else { return };
    let Some((folder, peak)) = record_crowd(COUNT) else { return };
    let (mut forked, mut executed) = (0, 0);
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.to_str().unwrap().ends_with(".journal.parquet") {
            continue;
        }
        let reader = Reader::open(&path).unwrap();
        let events: Vec<_> = reader.events().map(|event| event.unwrap()).collect();
        let of = |size| events.iter().filter(|e| e.op == Op::Malloc && e.size == size).count();
        match (of(1003), of(1005)) {
            (10, 0) => forked += 1,
            (0, 25) => executed += 1,
            others => assert_eq!(others, (0, 0), "{}", path.display()),
        }
    }
    assert_eq!((forked, executed), (COUNT / 2, COUNT / 2));
    // The result of each child stays until the end: names, modules, counts.
    let each = peak.saturating_sub(peak_of_few) * 1024 / u64::from(COUNT * 9 / 10);
    assert!(each < 8192, "{peak_of_few} KiB with a tenth of the children, {peak} KiB with all");
}

#[test]
fn the_journal_is_what_a_link_names() {
    let folder = tempfile::tempdir().unwrap();
    compile_loop(folder.path());
    std::fs::create_dir(folder.path().join("far")).unwrap();
    std::os::unix::fs::symlink("far/a.journal.parquet", folder.path().join("link")).unwrap();
    // The first program is sh, whose journal gets another name at the end.
    let script = "echo; exec ./loop 500";
    let arguments = ["record", "-o", "link", "--", "sh", "-c", script];
    let output = keel(&arguments).current_dir(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stderr));
    assert!(folder.path().join("link").is_symlink());
    assert!(operations(&folder.path().join("far/a.journal.parquet")) >= 1000);
    assert!(operations(&folder.path().join("far/a.image-1.journal.parquet")) > 0);
    assert_eq!(std::fs::read_dir(folder.path().join("far")).unwrap().count(), 2);
    let arguments = ["record", "-o", "/dev/stdout", "--", "./loop", "5"];
    let output = keel(&arguments).current_dir(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "the program has not run");
    let refused = "cannot create /dev/stdout: it is a device, a FIFO or a socket";
    assert!(text(&output.stderr).contains(refused), "{}", text(&output.stderr));
}

#[test]
fn a_program_has_the_name_by_which_it_was_called() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile_loop(folder.path());
    let called = folder.path().join("called");
    std::os::unix::fs::symlink(&program, &called).unwrap();
    let of_proc = format!("/proc/self/root{}", program.display());
    for (by, name) in [("./called", called.as_path()), (&of_proc, program.as_path())] {
        let journal = folder.path().join("journal");
        let mut record = keel(&["record", "-q", "-o"]);
        record.arg(&journal).args(["--", by, "5"]).current_dir(folder.path());
        assert_eq!(record.output().unwrap().status.code(), Some(9));
        let reader = Reader::open(&journal).unwrap();
        assert_eq!(reader.metadata().program, name.display().to_string());
    }
}

#[test]
fn children_that_do_the_work_are_mentioned() {
    let folder = tempfile::tempdir().unwrap();
    let work = "i=0; while [ $i -lt 500000 ]; do i=$((i + 1)); done";
    let own = keel(&["record", "--", "sh", "-c", work]).current_dir(&folder).output().unwrap();
    assert!(!text(&own.stderr).contains("processor time"), "{}", text(&own.stderr));
    for (options, is_noted) in [(&["record"][..], true), (&["record", "-f"], false)] {
        let script = format!("sh -c '{work}'; exit 5");
        let arguments = [options, &["--", "sh", "-c", &script]].concat();
        let output = keel(&arguments).current_dir(&folder).output().unwrap();
        assert_eq!(output.status.code(), Some(5));
        let words = text(&output.stderr);
        let note = "and are not recorded: keel record --follow-children records them";
        assert_eq!(words.contains(note), is_noted, "{words}");
    }
}

#[test]
fn a_recorder_without_address_space_ends() {
    let folder = tempfile::tempdir().unwrap();
    compile_loop(folder.path());
    let script = "ulimit -v 400000; exec timeout 100 \"$0\" record -- ./loop 1000";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_keel")]).current_dir(&folder);
    shell.env("KEEL_PREFIX", prefix_with_recorder()).env_remove("LD_PRELOAD");
    let output = shell.output().unwrap();
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(9), "{words}");
    assert!(words.contains("keel cannot map its rings (Cannot allocate memory"), "{words}");
}

#[test]
fn streams_and_exit_code_are_the_programs() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("sh.journal.parquet");
    let script = "read line; echo \"out $line\"; echo err >&2; exit 3";
    let mut child =
        keel(&["record", "--", "sh", "-c", script]).current_dir(&folder).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stdout), "out hello\n");
    let words = text(&output.stderr);
    assert!(
        words.starts_with("err\nkeel record: ") && words.contains("-> sh.journal.parquet"),
        "{words}"
    );
    assert!(operations(&journal) > 0);

    let quiet = keel(&["record", "-q", "--", "sh", "-c", "kill -KILL $$"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert_eq!((quiet.status.code(), text(&quiet.stderr)), (Some(137), ""));
    operations(&journal);
}

#[test]
fn a_recording_of_no_time_is_refused() {
    for time in ["0", "0.0"] {
        let output = keel(&["record", "--for", time, "--", "true"]).output().unwrap();
        let errors = text(&output.stderr);
        assert!(errors.contains("give a number of seconds above 0"), "{errors}");
    }
}

#[test]
fn errors_precede_the_start_and_have_no_backtrace() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| keel(arguments).current_dir(&folder).output().unwrap();
    let expect = |output: Output, sentence: &str| {
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), sentence));
    };
    let missing =
        "keel: cannot find the program no-such-program: give its path, or a name that is in PATH\n";
    expect(run(&["record", "no-such-program"]), missing);
    let output = run(&["record", "-o", "/no/such/x.parquet", "--", "touch", "started"]);
    let sentence = "keel: cannot create /no/such/x.parquet: No such file or directory (os error \
        2); choose another \
                    place for the journal\n";
    expect(output, sentence);
    assert!(!folder.path().join("started").exists());
}

#[test]
fn an_existing_preload_is_kept_after_the_recorder() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = keel(&["record", "--", "sh", "-c", "echo $LD_PRELOAD"]);
    let output = command.env("LD_PRELOAD", "libdl.so.2").current_dir(&folder).output().unwrap();
    let preload = text(&output.stdout).trim();
    assert!(preload.ends_with("/libkeel_recorder.so:libdl.so.2"), "{preload}");
}

/// Reads from the child's output, which must be these words.
fn wait_for(child: &mut Child, words: &str) {
    let mut read = vec![0; words.len()];
    child.stdout.as_mut().unwrap().read_exact(&mut read).unwrap();
    assert_eq!(text(&read), words);
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

#[test]
fn signals_go_to_the_program_and_the_journal_is_kept() {
    for (name, code) in [("-INT", 41), ("-TERM", 42)] {
        let folder = tempfile::tempdir().unwrap();
        let script =
            "trap 'exit 41' INT; trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done";
        let mut child =
            keel(&["record", "--", "sh", "-c", script]).current_dir(&folder).spawn().unwrap();
        wait_for(&mut child, "ready\n");
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{name}: {}", text(&output.stderr));
        assert!(operations(&folder.path().join("sh.journal.parquet")) > 0);
    }
}

#[test]
fn a_program_outlives_its_recorder() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile_loop(folder.path());
    let arguments = ["record", "--", program.to_str().unwrap(), "2000000", "twice"];
    let mut child = keel(&arguments).current_dir(&folder).spawn().unwrap();
    wait_for(&mut child, "2000000\n");
    signal(&child, "-KILL");
    let mut input = child.stdin.take().unwrap(); // wait() would close it
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    // More than the rings can hold, so the program must detect that no recorder empties them.
    input.write_all(b"go\n").unwrap();
    wait_for(&mut child, "2000000\n");
}

/// Runs a shell script with a file system of `size` bytes at `$disk`; `None` if mounting is not
/// permitted.
fn with_small_disk(folder: &Path, size: &str, script: &str) -> Option<Output> {
    let disk = folder.join("disk");
    std::fs::create_dir_all(&disk).unwrap();
    let whole = format!("mount -t tmpfs -o size={size} tmpfs $disk || exit 77\n{script}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", &whole]).current_dir(folder);
    command
        .env("disk", &disk)
        .env("keel", env!("CARGO_BIN_EXE_keel"))
        .env("KEEL_PREFIX", prefix_with_recorder());
    let output = command.output().ok()?;
    if output.status.code() == Some(77) || text(&output.stderr).starts_with("unshare:") {
        eprintln!("SKIPPED: file systems cannot be mounted here");
        return None;
    }
    Some(output)
}

#[test]
fn a_full_disk_keeps_what_fits_and_lets_the_program_finish() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile_loop(folder.path());
    let script = format!(
        "export HOME=$disk TMPDIR=$disk; $keel record -o $disk/x.journal.parquet -- {} 3000000; \
            code=$?\ncp $disk/*.parquet .; \
            exit $code",
        program.display()
    );
    let Some(output) = with_small_disk(folder.path(), "300k", &script) else { return };
    let words = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(9), "3000000\n"), "{words}");
    assert!(words.contains("error: the journal was cut short: No space left on device"), "{words}");
    let rows = operations(&folder.path().join("x.journal.parquet"));
    assert!(rows > 100_000 && rows < 6_000_000, "{rows} operations");
    assert!(words.contains(&format!("holds the first {rows} operations")), "{words}");
}

#[test]
fn a_full_spool_ends_the_recording_and_not_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("tests/recorder/programs/exchange.c");
    let program = folder.path().join("exchange");
    let status = Command::new("cc")
        .args(["-fno-builtin", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(status.unwrap().success());
    let script = format!(
        "$keel record --spool $disk -o t.journal.parquet -- {} 6 100000; code=$?; ls $disk; exit \
         $code",
        program.display()
    );
    // Room for the rings of two of the seven threads.
    let Some(output) = with_small_disk(folder.path(), "3m", &script) else { return };
    let words = text(&output.stderr);
    // The program succeeded and its journal is incomplete; the spool is empty.
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""), "{words}");
    assert!(
        words.contains("error: the recording was cut short: no room for another thread's ring"),
        "{words}"
    );
    let journal = folder.path().join("t.journal.parquet");
    assert!(operations(&journal) > 0);
    let reader = Reader::open(&journal).unwrap();
    // The events before the end are recorded; how many follow depends on a race between the
    // recorded threads.
    let first = |event: &keel_journal::Event| event.op == Op::Malloc && event.size == 1001;
    assert!(reader.events().any(|event| first(&event.unwrap())));
}

/// Without the option, Python keeps small objects in pools that the recorder cannot observe.
#[test]
fn objects_of_python_are_recorded_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let code = "keep = [str(n) * 3 for n in range(20000)]";
    let recorded = |name: &str, options: &[&str]| {
        let journal = folder.path().join(name);
        let path = journal.to_str().unwrap();
        let arguments = [&["record", "-o", path], options, &["--", "python3", "-c", code]].concat();
        let output = keel(&arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        operations(&journal)
    };
    let pools = recorded("pools.journal.parquet", &[]);
    let objects = recorded("objects.journal.parquet", &["--python-objects"]);
    assert!(objects > pools + 20_000, "{objects} operations with objects, {pools} without");
}
