//! The processes that a recorded program starts and leaves behind, and programs that cannot be
//! recorded, however short they run.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{compile_text, prefix_with_recorder};
use keel_journal::{Op, Reader, Rules};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Ends at once and leaves a daemon behind, which is idle for 2 s, allocates 77 bytes 200 times,
/// and then is idle for as many seconds as the first argument says.
const DAEMON: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int n, char** a) {
    free(malloc(11));
    if (n < 2 || fork()) _exit(0);
    setsid();
    if (fork()) _exit(0);
    sleep(2);
    for (int i = 0; i < 200; i++) free(malloc(77));
    FILE* f = fopen("allocated", "w");
    if (f) fprintf(f, "%d", getpid()), fclose(f);
    rename("allocated", "daemon.pid");
    for (int i = 0; i < 10 * atoi(a[1]); i++) usleep(100000);
    return 0;
}
"#;

fn keel(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,TERM,HUP,QUIT", env!("CARGO_BIN_EXE_keel")]);
    command.env("KEEL_PREFIX", prefix_with_recorder()).env_remove("LD_PRELOAD").args(arguments);
    command.current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// How often each journal of the folder has an allocation of this size; every rule was checked.
fn counts(folder: &Path, size: u64) -> Vec<usize> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_journal = |path: &PathBuf| path.to_str().unwrap().ends_with(".journal.parquet");
    let count = |path: PathBuf| {
        let reader = Reader::open(&path).unwrap();
        let mut rules = Rules::new(reader.metadata()).unwrap();
        let events: Vec<_> = reader.events().map(|event| event.unwrap()).collect();
        events.iter().for_each(|event| rules.check(event).unwrap());
        events.iter().filter(|event| event.op == Op::Malloc && event.size == size).count()
    };
    let mut counts: Vec<usize> = entries.filter(is_journal).map(count).collect();
    counts.sort_unstable();
    counts
}

#[test]
fn a_daemon_that_has_not_allocated_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    compile_text(DAEMON, &folder.path().join("daemon"), &[]);
    let output = keel(folder.path(), &["record", "-f", "--", "./daemon", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(counts(folder.path(), 77).last(), Some(&200), "{}", words(&output));
}

#[test]
fn a_signal_ends_the_recording_of_a_daemon() {
    for signal in ["-INT", "-TERM", "-HUP", "-QUIT"] {
        let folder = tempfile::tempdir().unwrap();
        compile_text(DAEMON, &folder.path().join("daemon"), &[]);
        let mut child =
            keel(folder.path(), &["record", "-f", "--", "./daemon", "600"]).spawn().unwrap();
        let began = Instant::now();
        let pid_file = folder.path().join("daemon.pid");
        while !pid_file.exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "the daemon makes no progress");
            std::thread::sleep(Duration::from_millis(10));
        }
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let began = Instant::now();
        let status = child.wait().unwrap();
        // The daemon keeps the pipe open.
        let daemon = std::fs::read_to_string(&pid_file).unwrap();
        assert!(Command::new("kill").args(["-KILL", &daemon]).status().unwrap().success());
        let output = Output { status, ..child.wait_with_output().unwrap() };
        assert!(began.elapsed() < Duration::from_secs(60), "{signal}");
        assert_eq!(output.status.code(), Some(0), "{signal}: {}", words(&output));
        assert_eq!(counts(folder.path(), 77).last(), Some(&200), "{signal}: {}", words(&output));
    }
}

#[test]
fn a_child_that_lives_on_unrecorded_is_named() {
    let folder = tempfile::tempdir().unwrap();
    compile_text(DAEMON, &folder.path().join("daemon"), &[]);
    let output = keel(folder.path(), &["record", "--", "./daemon", "1"]).output().unwrap();
    let words = words(&output);
    assert_eq!(output.status.code(), Some(0), "{words}");
    let said = words.lines().find(|line| line.contains("still run unrecorded"));
    let said = said.unwrap_or_else(|| panic!("{words}"));
    assert!(said.contains("(daemon)") && said.contains("--follow-children"), "{said}");
}

#[test]
fn programs_that_run_without_the_recorder_are_named_however_short_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    compile_text("int main(void) { return 0; }", &place("fixed"), &["-static"]);
    let own = "#include <stddef.h>\nstatic char m[99999]; static size_t at;\n\
               void* malloc(size_t n) { return m + (at += n & ~15ul) - (n & ~15ul); }\n\
               void free(void* p) { (void)p; }\nint main(void) { return malloc(64) == 0; }";
    compile_text(own, &place("own"), &["-rdynamic"]);
    for (script, follow, sentence) in [
        ("exec env -i /bin/true", false, "/true ran once and is not recorded: it was started"),
        ("env -i /bin/true; :", true, "/true ran once and is not recorded: it was started"),
        ("./fixed; ./fixed; :", true, "/fixed ran 2 times and is not recorded: it is statically"),
        ("./own; :", true, "/own ran once and is not recorded: it exports its own malloc"),
    ] {
        let mut arguments = vec!["record", "-o", "x.journal.parquet"];
        arguments.extend(follow.then_some("-f"));
        arguments.extend(["--", "sh", "-c", script]);
        let output = keel(folder.path(), &arguments).output().unwrap();
        let words = words(&output);
        let said = words.lines().filter(|line| line.contains("is not recorded")).count();
        assert!(words.contains(sentence) && said == 1, "{script}: {words}");
        // The program itself must be recorded; its children are a bonus.
        assert_eq!(output.status.code(), Some(i32::from(!follow)), "{script}: {words}");
    }
    for script in ["./nothing; ./fixed/x; true", "sort /dev/null"] {
        let output = keel(folder.path(), &["record", "-f", "--", "sh", "-c", script]).output();
        let words = words(&output.unwrap());
        assert!(!words.contains("is not recorded"), "{script}: {words}");
    }
}
