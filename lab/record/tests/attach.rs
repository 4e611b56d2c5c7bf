//! Programs that run already: the recorder enters them, records, and leaves.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Bench, Journal};
use keel_journal::Op;
use keel_record::{Error, Options, attach_with};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// One recording at a time in a process.
static ONE: Mutex<()> = Mutex::new(());

/// Starts a program, and waits until it prints a line.
fn start(command: &mut Command) -> Child {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_ne!(line, "");
    child
}

fn options(bench: &Bench, seconds: f64) -> Options {
    let length = Some(Duration::from_secs_f64(seconds));
    Options { length, ..bench.options(Path::new(""), &[]) }
}

/// Records for some time. Returns the journal, with all rules checked.
fn attach(bench: &Bench, child: &Child, seconds: f64) -> Journal {
    let options = options(bench, seconds);
    let recorded = attach_with(child.id(), &options, &mut |_| {}).unwrap();
    assert_eq!(recorded.problems, Vec::<String>::new());
    assert!(recorded.still_runs);
    // One stop to enter and one to leave, or more if a thread is in the recorder meanwhile. All
    // stops of a visit are those of one thread.
    assert!((2..20).contains(&recorded.visits.len()), "{:?}", recorded.visits);
    assert!(recorded.visits.iter().all(|visit| visit.stops < 40), "{:?}", recorded.visits);
    Journal::read(&options.output)
}

/// What the recorder leaves in a process: addresses in other objects' tables, and shared memory.
fn left_behind(child: &Child) -> String {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    let is_left = |line: &&str| line.contains("keel-record-") && line.contains("rw-s");
    maps.lines().filter(is_left).filter(|line| !line.contains("/control")).collect()
}

#[test]
fn a_running_program_is_recorded_and_left_again_and_again() {
    let _one = ONE.lock();
    let bench = Bench::new();
    let program = bench.compile("served.c", &[]);
    let mut child = start(Command::new(&program).arg("4"));
    for round in 0..rounds(5) {
        let journal = attach(&bench, &child, 0.3);
        let made: usize = (1001..1220).map(|size| journal.count(Op::Malloc, size)).sum();
        assert!(made > 100, "round {round}: {made}");
        // Blocks from before the recording are freed in it.
        assert!(journal.metadata.foreign > 0, "{:?}", journal.metadata);
        assert_eq!(journal.metadata.repairs.get("unseen_free"), None);
        assert_eq!(left_behind(&child), "", "round {round}");
    }
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

/// `KEEL_ATTACH_ROUNDS`, or `usual`.
fn rounds(usual: u32) -> u32 {
    std::env::var("KEEL_ATTACH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn what_cannot_be_entered_is_refused_with_the_reason() {
    let _one = ONE.lock();
    let bench = Bench::new();
    let refused = |pid: u32| {
        let result = attach_with(pid, &options(&bench, 0.1), &mut |_| {});
        let Err(Error::Attach { reason, .. }) = result else { panic!("{result:?}") };
        reason
    };
    assert_eq!(refused(std::process::id()), "it is keel itself");
    assert_eq!(refused(0x3fff_ffff), "there is no such process");
    let fixed = bench.compile("served.c", &["-static"]);
    let mut child = start(Command::new(fixed).arg("1"));
    assert!(refused(child.id()).contains("statically linked"));
    let stopped = Command::new("kill").args(["-STOP", &child.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    std::thread::sleep(Duration::from_millis(100));
    assert!(refused(child.id()).contains("it is stopped"));
    child.kill().unwrap();
    // Not waited for: it has ended.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(refused(child.id()), "it has ended");
    child.wait().unwrap();
}
