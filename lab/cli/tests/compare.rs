//! What `keel compare`, `keel allocators` and `keel export` say to wrong input. (That they measure well is tested where
//! it is done.)
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output};

fn keel(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_keel"))
        .current_dir(folder)
        .env("KEEL_PREFIX", folder.join("prefix"))
        .args(arguments)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_unknown_allocator_is_answered_with_the_nearest_names() {
    let folder = tempfile::tempdir().unwrap();
    let output = keel(folder.path(), &["compare", "game.journal.parquet", "-a", "system,jemaloc"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("no allocator `jemaloc` (did you mean `jemalloc`"), "{}", said(&output));
}

#[test]
fn wrong_options_name_what_is_possible() {
    let folder = tempfile::tempdir().unwrap();
    for (option, value, answer) in [
        ("--pace", "fast", "`fast` is no pace: give max, 1x, 4x"),
        ("--touch", "some", "give none, first-byte, page or all"),
        ("--runs", "0", "give 1 to 1000, FEWEST..MOST, or auto"),
        ("--runs", "5..3", "give 1 to 1000, FEWEST..MOST, or auto"),
        ("--symbols", "mi_", "--symbols is for libraries given by path, and none is"),
    ] {
        let output = keel(folder.path(), &["compare", "game.journal.parquet", option, value]);
        assert_eq!(output.status.code(), Some(2), "{option}");
        assert!(said(&output).contains(answer), "{}", said(&output));
    }
}

#[test]
fn a_journal_that_is_missing_or_none_is_named_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let output = keel(folder.path(), &["compare", "absent.journal.parquet", "-a", "system"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("absent.journal.parquet"), "{}", said(&output));
    std::fs::write(folder.path().join("story.txt"), "a 16 1000 1 5\nonce upon a time\n").unwrap();
    let output = keel(folder.path(), &["compare", "story.txt", "-a", "system"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("story.txt") && said(&output).contains("2"), "{}", said(&output));
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["story.txt"]);
}

#[test]
fn results_are_never_replaced_unasked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("story.txt"), "a 16 1000 1 5\n").unwrap();
    std::fs::create_dir(folder.path().join("old")).unwrap();
    std::fs::write(folder.path().join("old/results.json"), "{}").unwrap();
    let output = keel(folder.path(), &["compare", "story.txt", "-a", "system", "-o", "old"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("--force"), "{}", said(&output));
    // With --force they stay until there are others: here none can be made, for want of a player.
    let output = keel(folder.path(), &["compare", "story.txt", "-a", "system", "-o", "old", "--force"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(folder.path().join("old/results.json").exists());
    // Nor is a folder of other things ever, not even with --force.
    std::fs::create_dir(folder.path().join("home")).unwrap();
    std::fs::write(folder.path().join("home/letter"), "dear").unwrap();
    let output = keel(folder.path(), &["compare", "story.txt", "-a", "system", "-o", "home", "--force"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("not a result folder"), "{}", said(&output));
    assert!(folder.path().join("home/letter").exists());
}

/// A path that was mistyped ends it before the first run: beside others it would be missed.
#[test]
fn an_allocator_that_cannot_be_used_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("story.txt"), "a 16 1000 1 5\n").unwrap();
    for command in [&["compare", "story.txt", "-o", "new", "-a"][..], &["time", "story.txt", "-a"]] {
        for mistyped in ["system,./libnot.so", "system,before=/not/there.so:KEEL_KEEPER=on"] {
            let output = keel(folder.path(), &[command, &[mistyped]].concat());
            assert_eq!(output.status.code(), Some(2), "{}", said(&output));
            assert!(said(&output).contains("cannot be used:"), "{}", said(&output));
            assert!(said(&output).contains("No such file or directory"), "{}", said(&output));
        }
    }
    assert!(!folder.path().join("new").exists());
}

#[test]
fn without_its_player_keel_says_how_to_build_it() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["allocators"][..], &["compare", "story.txt", "-a", "system"]] {
        std::fs::write(folder.path().join("story.txt"), "a 16 1000 1 5\n").unwrap();
        let output = keel(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            said(&output).contains("keel-player is missing: build it with `make build`"),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn exporting_from_what_is_no_result_folder_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let output = keel(folder.path(), &["export", "nowhere", "--to", "csv"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("nowhere: no such folder"), "{}", said(&output));
}
