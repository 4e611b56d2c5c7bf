//! Unfinished recordings: a killed recorder, a program that records itself, and `keel import` of
//! the files they leave.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stderr, reason = "a skipped test prints why")]

mod common;

use common::prefix_with_recorder;
use keel_journal::{Event, Metadata, Op, Reader, Rules};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn keel(arguments: &[&str]) -> Command {
    let mut command = common::keel();
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The contents of a journal, after every rule was checked.
fn read(path: &Path) -> (Vec<Event>, Metadata) {
    let reader = Reader::open(path).unwrap();
    let mut rules = Rules::new(reader.metadata()).unwrap();
    let events: Vec<Event> = reader.events().map(|event| event.unwrap()).collect();
    events.iter().for_each(|event| rules.check(event).unwrap());
    (events, reader.metadata().clone())
}

fn compile(folder: &Path, code: &str) -> PathBuf {
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, code).unwrap();
    let status = Command::new("cc")
        .args(["-O1", "-fno-builtin", "-o"])
        .arg(&program)
        .arg(&source)
        .status()
        .unwrap();
    assert!(status.success());
    program
}

/// The row groups that have a record (journal/FORMAT.md, Writing).
fn row_groups(partial: &Path) -> usize {
    let bytes = std::fs::read(partial).unwrap_or_default();
    bytes.windows(8).filter(|eight| *eight == b"KLGROUP1").count()
}

#[test]
fn the_file_of_a_killed_recorder_can_be_imported() {
    let folder = tempfile::tempdir().unwrap();
    let code = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 15000000; i++) { void* \
        p = malloc(64);\n\
                __asm__ volatile(\"\" : \"+r\"(p)); free(p); } return 0; }\n";
    let program = compile(folder.path(), code);
    let journal = folder.path().join("x.journal.parquet");
    let partial = folder.path().join("x.journal.parquet.partial");
    let arguments = ["record", "-o", journal.to_str().unwrap(), "--", program.to_str().unwrap()];
    let mut child = keel(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    // Two row groups are written. A size would be of no use: the better these groups compress, the
    // longer a slow recorder needs for it.
    while row_groups(&partial) < 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} row groups", row_groups(&partial));
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert!(!journal.exists());

    let refused = keel(&["info", partial.to_str().unwrap()]).output().unwrap();
    let words = text(&refused.stderr);
    assert!(
        !refused.status.success() && words.contains("lacks its end: its writer was killed"),
        "{words}"
    );
    assert!(words.contains("keel import "), "{words}");
    let saved = folder.path().join("saved.journal.parquet");
    let arguments = ["import", partial.to_str().unwrap(), "-o", saved.to_str().unwrap()];
    let output = keel(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (events, metadata) = read(&saved);
    // Complete row groups with the program's first operations, without a gap.
    assert!(!events.is_empty() && events.len() % (1 << 18) == 0, "{} operations", events.len());
    let loops = events.iter().filter(|event| event.op == Op::Malloc && event.size == 64).count();
    assert!(events.len() - 2 * loops < 20, "{loops} of {}", events.len());
    assert_eq!(metadata.foreign, 0);
    assert_eq!(
        (metadata.ended.as_str(), metadata.program.as_str()),
        ("recorder killed", program.to_str().unwrap())
    );
    assert!(
        metadata.modules.iter().any(|module| module.path.ends_with("/program")),
        "{:?}",
        metadata.modules
    );
    let words = text(&output.stdout);
    assert!(
        words.contains(" salvaged, up to ") && words.contains("lost: the events in memory"),
        "{words}"
    );
}

#[test]
fn a_program_waits_for_a_stopped_recorder_and_no_event_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let code = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(void) { \
        char line[9];\n\
                printf(\"%7d\\n\", getpid()); fflush(stdout);\n\
                if (!fgets(line, 9, stdin)) return 3; puts(\"going\"); fflush(stdout);\n\
                for (int i = 0; i < 200000; i++) { void* p = malloc(77);\n\
                __asm__ volatile(\"\" : \"+r\"(p)); free(p); } return 4; }\n";
    let program = compile(folder.path(), code);
    let arguments = ["record", "-o", "x.journal.parquet", "--", program.to_str().unwrap()];
    let mut child = keel(&arguments).current_dir(&folder).stdin(Stdio::piped()).spawn().unwrap();
    let (mut number, mut going) = ([0; 8], [0; 6]);
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut number).unwrap();
    let pid = child.id().to_string();
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    signal("-STOP");
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"go\n").unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut going).unwrap();
    // The program sleeps when its ring is full.
    let stat = format!("/proc/{}/stat", text(&number).trim());
    let began = Instant::now();
    while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
        assert!(began.elapsed() < Duration::from_secs(60), "the program does not wait");
        std::thread::sleep(Duration::from_millis(2));
    }
    // Longer than the time after which the program checks whether its reader has ended.
    std::thread::sleep(Duration::from_millis(2500));
    signal("-CONT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let (events, metadata) = read(&folder.path().join("x.journal.parquet"));
    assert_eq!(events.iter().filter(|event| event.size == 77).count(), 200_000);
    assert!(
        metadata.stalls >= 1 && metadata.stalled_ns > 1_500_000_000,
        "{} ns",
        metadata.stalled_ns
    );
    assert!(text(&output.stderr).contains("times for the recorder"), "{}", text(&output.stderr));
}

/// The numbers that the sample prints.
fn numbers(output: &Output) -> Vec<u64> {
    text(&output.stdout).split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn engine() -> PathBuf {
    let engine = prefix_with_recorder().join("lib/keel/samples/engine");
    assert!(engine.is_file(), "{} is missing: run `make build` first", engine.display());
    engine
}

/// Checks that the journal contains exactly the operations that the engine reports.
fn check_engine(reported: &[u64], events: &[Event], metadata: &Metadata) {
    let count = |op: Op| events.iter().filter(|event| event.op == op).count() as u64;
    let counts = [Op::Malloc, Op::Calloc, Op::Realloc, Op::Free].map(count);
    assert_eq!(reported[1..], counts);
    assert_eq!((reported[0], metadata.foreign), (metadata.frames.len() as u64, 0));
    let marks: Vec<&str> = metadata.marks.iter().map(|mark| mark.text.as_str()).collect();
    assert_eq!(marks, ["level 1", "level 2", "level 3", "level 4", "level 5"]);
    let mut names: Vec<&str> = metadata.threads.iter().map(|thread| thread.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["engine", "level loader"]);
    // On a busy machine an event may be stored milliseconds after its time; then only the time is
    // repaired.
    assert!(metadata.repairs.keys().all(|kind| kind == "late"), "{:?}", metadata.repairs);
    // Every block was freed, the loader's levels by the other thread.
    assert_eq!(
        counts[3],
        counts[0]
            + counts[1]
            + events.iter().filter(|e| e.op == Op::Realloc && e.released == 0).count() as u64
    );
}

#[test]
fn an_engine_records_its_own_allocator() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], crash: bool| {
        let mut command = Command::new(engine());
        if crash {
            command.env("ENGINE_CRASH", "1");
        }
        command.args(arguments).current_dir(&folder).output().unwrap()
    };
    let alone = run(&["4000"], false);
    assert_eq!((alone.status.code(), numbers(&alone).len()), (Some(0), 5));
    let import = |from: &str, to: &str| {
        let output = keel(&["import", from, "-o", to]).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let (events, metadata) = read(&folder.path().join(to));
        (text(&output.stdout).to_owned(), events, metadata)
    };

    // From inside: one file remains, and the program behaves as without recording.
    let recorded = run(&["4000", "game.spool"], false);
    assert_eq!((recorded.status.code(), &recorded.stdout), (Some(0), &alone.stdout));
    assert!(!folder.path().join("game.spool.rings").exists());
    let (_, events, metadata) = import("game.spool", "game.journal.parquet");
    check_engine(&numbers(&recorded), &events, &metadata);
    assert_eq!(
        (metadata.allocator.as_str(), metadata.ended.as_str()),
        ("the program's own", "still running")
    );
    assert!(metadata.stalls > 5, "more events than the ring has slots: {} stalls", metadata.stalls);

    // After a crash both files exist, and no event is lost.
    let crashed = run(&["4000", "crash.spool"], true);
    assert_eq!((crashed.status.signal(), &crashed.stdout), (Some(6), &alone.stdout));
    assert!(folder.path().join("crash.spool.rings").exists());
    let (words, events, metadata) = import("crash.spool", "crash.journal.parquet");
    check_engine(&numbers(&crashed), &events, &metadata);
    assert!(
        metadata.ended == "crashed" && words.contains("events were read from its rings"),
        "{words}"
    );

    // From outside.
    let engine = engine();
    let arguments = [
        "record",
        "--embedded",
        "-o",
        "out.journal.parquet",
        "--",
        engine.to_str().unwrap(),
        "4000",
    ];
    let outside = keel(&arguments).current_dir(&folder).output().unwrap();
    assert_eq!(
        (outside.status.code(), &outside.stdout),
        (Some(0), &alone.stdout),
        "{}",
        text(&outside.stderr)
    );
    let (events, metadata) = read(&folder.path().join("out.journal.parquet"));
    check_engine(&numbers(&outside), &events, &metadata);

    // And its calls of malloc, which allocate the zones.
    let arguments =
        ["record", "-o", "malloc.journal.parquet", "--", engine.to_str().unwrap(), "4000"];
    assert!(keel(&arguments).current_dir(&folder).output().unwrap().status.success());
    let (events, _) = read(&folder.path().join("malloc.journal.parquet"));
    assert!(events.iter().filter(|event| event.size == 64 << 10).count() >= 5);
}

#[test]
fn a_spool_that_cannot_be_written_is_an_error_before_the_start() {
    let output = Command::new(engine()).args(["10", "/no/such/folder/x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "engine: cannot record into /no/such/folder/x: No such file or directory\n"
    );
}

#[test]
fn a_spool_on_a_full_disk_keeps_what_fits() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    std::fs::create_dir_all(&disk).unwrap();
    // Space for the rings of two threads and for a part of the events.
    let script = "mount -t tmpfs -o size=4m tmpfs $disk || exit 77\n$engine 40000 $disk/x.spool > \
        $disk/../output; \
                  echo $? > $disk/../code; cp --sparse=always $disk/x.spool* .";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script]).current_dir(&folder);
    let output = command.env("disk", &disk).env("engine", engine()).output().unwrap();
    if output.status.code() == Some(77) || text(&output.stderr).starts_with("unshare:") {
        eprintln!("SKIPPED: file systems cannot be mounted here");
        return;
    }
    // The program ran to its end, and kl_record_stop returned the error.
    assert_eq!(std::fs::read_to_string(folder.path().join("code")).unwrap(), "1\n");
    let printed = std::fs::read_to_string(folder.path().join("output")).unwrap();
    assert!(printed.starts_with("frames 40000 "), "{printed}");
    let output = keel(&["import", "x.spool", "-o", "x.journal.parquet"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (events, metadata) = read(&folder.path().join("x.journal.parquet"));
    assert!(events.len() > 10_000 && metadata.foreign == 0, "{} operations", events.len());
}

#[test]
fn options_are_checked_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], sentence: &str| {
        let output = keel(arguments).current_dir(&folder).output().unwrap();
        let words = text(&output.stderr);
        assert!(!output.status.success() && words.contains(sentence), "{arguments:?}: {words}");
    };
    refused(&["record", "--after", "soon", "true"], "give a number of seconds, such as 2.5");
    refused(&["record", "--for=-1", "true"], "not negative");
    refused(
        &["record", "--max-size", "12Q", "true"],
        "give a size such as 500000, 200K, 64M or 2G",
    );
    refused(&["record", "--stacks", "101", "true"], "101 is not in 0..=100");
    std::fs::write(folder.path().join("text"), "a 8 10 1 5\n").unwrap();
    refused(
        &["import", "text", "--skip-module", "libc", "-o", "x"],
        "first import the trace without it",
    );
    refused(&["import", "none", "-o", "x"], "cannot read none");
}

#[test]
fn progress_is_printed_and_the_top_places_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let code = "#include <stdlib.h>\n#include <unistd.h>\nstatic void* make_items(int n) { return \
        malloc(n); }\n\
                static void fill_world(void) { for (int i = 0; i < 300; i++) \
                free(make_items(77)); }\n\
                int main(void) { for (int i = 0; i < 25; i++) { fill_world(); usleep(200000); } \
                return 0; }\n";
    let source = folder.path().join("busy.c");
    std::fs::write(&source, code).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O0", "-o", "busy", "busy.c"]).current_dir(&folder);
    assert!(compiler.status().unwrap().success());
    let arguments =
        ["record", "--progress", "--stacks", "8", "-o", "x.journal.parquet", "--", "./busy"];
    let output = keel(&arguments).current_dir(&folder).output().unwrap();
    let words = text(&output.stderr);
    assert!(
        words
            .lines()
            .filter(|line| line.contains(" per second, ") && line.ends_with(" live"))
            .count()
            >= 2,
        "{words}"
    );

    let top =
        keel(&["info", "--top", "3", "x.journal.parquet"]).current_dir(&folder).output().unwrap();
    let words = text(&top.stdout);
    let line = words
        .lines()
        .find(|line| line.contains("make_items (busy.c:3)"))
        .unwrap_or_else(|| panic!("{words}"));
    assert_eq!(line.split_whitespace().next(), Some("7,500"), "{words}");
    let after: Vec<&str> =
        words.lines().skip_while(|other| *other != line).skip(1).take(2).collect();
    assert!(
        after[0].ends_with("< fill_world (busy.c:4)") && after[1].ends_with("< main (busy.c:5)"),
        "{words}"
    );
    assert!(
        words.lines().any(|line| line.ends_with("/busy") && line.contains("15,000")),
        "{words}"
    );
    let json = keel(&["info", "--json", "--top", "3", "x.journal.parquet"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["top"]["sites"][0]["blocks"], 7500);
}
