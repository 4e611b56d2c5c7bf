//! `keel slice` as a user runs it: a part of the supplied recording, replayed with its contents
//! verified.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{prefix, root};
use std::path::Path;
use std::process::{Command, Output};

fn keel(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keel"));
    command.current_dir(folder).env("KEEL_PREFIX", prefix()).args(arguments).output().unwrap()
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn sample() -> String {
    root().join("samples/minetest-slice.journal.parquet").to_string_lossy().into_owned()
}

#[test]
fn a_part_of_a_game_is_a_valid_journal_and_replays() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let part = "part.journal.parquet";
    let sliced = keel(here, &["slice", &sample(), "--frames", "100..130", "-o", part]);
    assert!(sliced.status.success(), "{}", messages(&sliced));
    let said = String::from_utf8(sliced.stdout).unwrap();
    assert!(said.contains("30 frame marks") && said.contains("blocks live"), "{said}");
    let info = keel(here, &["info", "--verify", part]);
    let text = String::from_utf8_lossy(&info.stdout).into_owned() + &messages(&info);
    assert!(info.status.success() && text.contains("every rule holds for"), "{text}");
    let compare = ["compare", part, "-a", "glibc", "-r", "1", "--verify", "-o", "results"];
    let compared = keel(here, &compare);
    assert!(compared.status.success(), "{}", messages(&compared));
    assert!(messages(&compared).contains("existed already"));
}

#[test]
fn what_a_journal_does_not_have_is_said_and_no_file_is_left() {
    let folder = tempfile::tempdir().unwrap();
    for (selection, answer) in [
        (&["--threads", "nobody"][..], "there is no thread `nobody`; the threads are: 0, 1"),
        (&["--frames", "9..99999"], "the journal has no frames 9..99999: its frames are 0 to 251"),
        (&["--from", "500"], "no operation of"),
        (&["--from", "5", "--to", "5"], "ends before it begins"),
        (&["--frames", "7..3"], "give a frame or a range"),
        (&["--from", "soon"], "give a number of seconds"),
    ] {
        let journal = sample();
        let arguments = [&["slice", &journal, "-o", "part"][..], selection].concat();
        let output = keel(folder.path(), &arguments);
        assert!(!output.status.success() && output.stdout.is_empty(), "{selection:?}");
        assert!(messages(&output).contains(answer), "{}", messages(&output));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let journal = sample();
    let output = keel(folder.path(), &["slice", &journal, "-o", &journal]);
    assert!(messages(&output).contains("is the journal itself"), "{}", messages(&output));
}

#[test]
fn successive_parts_are_a_folder_of_journals() {
    let folder = tempfile::tempdir().unwrap();
    let slice = ["slice", &sample(), "--every", "200000", "-o", "parts"];
    let output = keel(folder.path(), &slice);
    assert!(output.status.success(), "{}", messages(&output));
    let names: Vec<_> = std::fs::read_dir(folder.path().join("parts")).unwrap().collect();
    assert!(names.len() > 1 && folder.path().join("parts/part-0001.journal.parquet").exists());
    let again = keel(folder.path(), &slice);
    assert!(messages(&again).contains("is not empty"), "{}", messages(&again));
    let both = keel(folder.path(), &["slice", &sample(), "--every", "5", "--from", "1", "-o", "x"]);
    assert_eq!(both.status.code(), Some(2));
}
