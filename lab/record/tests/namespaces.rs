//! Processes in a process namespace of their own, as in a container.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failed unwrap is a failed test; what is skipped is printed"
)]

mod common;

use common::{Bench, Journal};
use keel_journal::Op;
use keel_record::Options;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const UNSHARE: [&str; 5] = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];

#[test]
fn processes_of_a_container_are_recorded_until_they_end() {
    if !Command::new("unshare").args(UNSHARE).arg("true").status().unwrap().success() {
        eprintln!("SKIPPED: process namespaces are not permitted here");
        return;
    }
    let bench = Bench::new();
    let program = bench.compile("children.c", &[]);
    let script = format!("{0} fork & {0} fork & sleep 1; wait", program.display());
    let arguments = [&UNSHARE[..], &["sh", "-c", &script]].concat();
    let options = Options {
        follow_children: true,
        length: Some(Duration::from_secs(60)),
        ..bench.options(Path::new("unshare"), &arguments)
    };
    let recorded = keel_record::record(&options).unwrap();
    assert_eq!(recorded.status.code(), Some(0));
    assert_eq!(recorded.problems, Vec::<String>::new());
    let paths = recorded.journals.iter().map(|journal| journal.path.as_ref().unwrap());
    let journals: Vec<Journal> = paths.map(|path| Journal::read(path)).collect();
    let of = |size, wanted| {
        let whole = move |journal: &&Journal| journal.count(Op::Malloc, size) == wanted;
        journals.iter().filter(whole).map(|journal| journal.metadata.pid)
    };
    let mut pids: Vec<u32> = of(1001, 200).chain(of(1003, 50)).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 4, "two parents and two children");
    let sleeps = journals.iter().find(|journal| journal.metadata.program.ends_with("/sleep"));
    let thread = &sleeps.unwrap().metadata.threads[0];
    assert_eq!((thread.name.as_str(), thread.policy.as_str()), ("sleep", "other"));
    // The shell is process 1 of its namespace.
    assert!(journals.iter().all(|journal| journal.metadata.pid != 1));
}

#[test]
fn a_program_that_does_not_see_the_folder_of_the_recording_is_named() {
    let mounts = ["--user", "--map-root-user", "--mount"];
    let script = "mount -t tmpfs none /dev/shm && exec sleep 2";
    let mut may = Command::new("unshare");
    may.args(mounts).args(["mount", "-t", "tmpfs", "none", "/mnt"]);
    if !may.status().unwrap().success() {
        eprintln!("SKIPPED: file systems cannot be mounted here");
        return;
    }
    let bench = Bench::new();
    let arguments = [&mounts[..], &["sh", "-c", script]].concat();
    let options = Options {
        follow_children: true,
        spool_folder: "/dev/shm".into(),
        ..bench.options(Path::new("unshare"), &arguments)
    };
    let recorded = keel_record::record(&options).unwrap();
    let words = [&recorded.problems[..], &recorded.notes].concat();
    let named = |text: &String| text.contains("/sleep, which is not recorded: it has other mounts");
    assert!(words.iter().any(named), "{words:?}");
}
