//! The answers of `keel compare`, `keel allocators` and `keel export` to wrong input. Tests of the
//! measurements are in the crates that measure. And which allocators are compared by default.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::prefix;
use keel_journal::{Event, Metadata, Op, Writer};
use keel_results::Comparison;
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

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_unknown_allocator_is_answered_with_the_nearest_names() {
    let folder = tempfile::tempdir().unwrap();
    let output = keel(folder.path(), &["compare", "game.journal.parquet", "-a", "glibc,jemaloc"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        messages(&output).contains("no allocator `jemaloc` (did you mean `jemalloc`"),
        "{}",
        messages(&output)
    );
}

#[test]
fn wrong_options_are_answered_with_the_possible_values() {
    let folder = tempfile::tempdir().unwrap();
    for (option, value, answer) in [
        ("--pace", "fast", "`fast` is not a pace: give max, 1x, 4x"),
        ("--touch", "some", "give none, first-byte, page or all"),
        ("--runs", "0", "give 1 to 1000, FEWEST..MOST, or auto"),
        ("--runs", "5..3", "give 1 to 1000, FEWEST..MOST, or auto"),
        ("--between", "1M", "give evict=auto or evict=SIZE, such as evict=1M"),
        ("--symbols", "mi_", "--symbols applies to libraries given by path, and there is none"),
    ] {
        let output = keel(folder.path(), &["compare", "game.journal.parquet", option, value]);
        assert_eq!(output.status.code(), Some(2), "{option}");
        assert!(messages(&output).contains(answer), "{}", messages(&output));
    }
}

#[test]
fn a_missing_or_invalid_journal_is_named_and_no_file_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let output = keel(folder.path(), &["compare", "absent.journal.parquet", "-a", "glibc"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(messages(&output).contains("absent.journal.parquet"), "{}", messages(&output));
    std::fs::write(folder.path().join("story.txt"), "a 16 1000 1 5\nonce upon a time\n").unwrap();
    let output = keel(folder.path(), &["compare", "story.txt", "-a", "glibc"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        messages(&output).contains("story.txt") && messages(&output).contains("2"),
        "{}",
        messages(&output)
    );
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["story.txt"]);
}

#[test]
fn results_are_replaced_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("story.txt"), "a 16 1000 1 5\n").unwrap();
    std::fs::create_dir(folder.path().join("old")).unwrap();
    std::fs::write(folder.path().join("old/results.json"), "{}").unwrap();
    let output = keel(folder.path(), &["compare", "story.txt", "-a", "glibc", "-o", "old"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(messages(&output).contains("--force"), "{}", messages(&output));
    // With --force they remain until new ones are complete. Here no player exists, so there are no
    // new ones.
    let output =
        keel(folder.path(), &["compare", "story.txt", "-a", "glibc", "-o", "old", "--force"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(folder.path().join("old/results.json").exists());
    // A folder with other contents is never replaced, not even with --force.
    std::fs::create_dir(folder.path().join("letters")).unwrap();
    std::fs::write(folder.path().join("letters/letter"), "dear").unwrap();
    let output =
        keel(folder.path(), &["compare", "story.txt", "-a", "glibc", "-o", "letters", "--force"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(messages(&output).contains("is not a result folder"), "{}", messages(&output));
    assert!(folder.path().join("letters/letter").exists());
}

/// A mistyped path ends the command before the first run.
#[test]
fn an_unusable_allocator_ends_the_command_at_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("story.txt"), "a 16 1000 1 5\n").unwrap();
    for command in [&["compare", "story.txt", "-o", "new", "-a"][..], &["time", "story.txt", "-a"]]
    {
        for mistyped in ["glibc,./libnot.so", "glibc,before=/not/there.so:KEEL_KEEPER=on"] {
            let output = keel(folder.path(), &[command, &[mistyped]].concat());
            assert_eq!(output.status.code(), Some(2), "{}", messages(&output));
            assert!(messages(&output).contains("cannot be used:"), "{}", messages(&output));
            assert!(
                messages(&output).contains("No such file or directory"),
                "{}",
                messages(&output)
            );
        }
    }
    assert!(!folder.path().join("new").exists());
}

#[test]
fn without_its_player_keel_explains_how_to_build_it() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["allocators"][..], &["compare", "story.txt", "-a", "glibc"]] {
        std::fs::write(folder.path().join("story.txt"), "a 16 1000 1 5\n").unwrap();
        let output = keel(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            messages(&output).contains("keel-player is missing: build it with `make build`"),
            "{}",
            messages(&output)
        );
    }
}

#[test]
fn exporting_from_a_missing_folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = keel(folder.path(), &["export", "nowhere", "--to", "csv"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(messages(&output).contains("nowhere: no such folder"), "{}", messages(&output));
}

/// A journal of ten blocks of a program that used the allocator of this object file.
fn journal_of(path: &Path, allocator: &str, settings: &[(&str, &str)]) {
    let mut writer = Writer::create(path).unwrap();
    for object in 1..=10 {
        let time = object * 1000;
        writer.push(&Event { size: 100, created: object, ..Event::at(time, Op::Malloc) }).unwrap();
        writer.push(&Event { released: object, ..Event::at(time + 500, Op::Free) }).unwrap();
    }
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let metadata = Metadata {
        allocator: allocator.to_owned(),
        settings: settings.iter().map(text).collect(),
        ..Metadata::default()
    };
    writer.finish(metadata).unwrap();
}

/// The names of the compared allocators that have settings.
fn tuned(folder: &Path, allocator: &str, settings: &[(&str, &str)], more: &[&str]) -> Vec<String> {
    journal_of(&folder.join("ten.parquet"), allocator, settings);
    let arguments = ["compare", "ten.parquet", "-r", "1", "--no-throughput", "--no-usable-size"];
    let arguments = [&arguments[..], &["--force", "-o", "results"], more].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_keel"))
        .current_dir(folder)
        .env("KEEL_PREFIX", prefix())
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    let found = Comparison::load(&folder.join("results")).unwrap();
    let names = found.allocators.into_iter().map(|one| one.name);
    names.filter(|name| name.ends_with("-tuned")).collect()
}

#[test]
fn the_programs_allocator_is_also_compared_with_settings() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";
    assert_eq!(tuned(folder, LIBC, &[], &[]), ["glibc-tuned"]);
    assert_eq!(tuned(folder, "", &[], &["-a", "all"]), ["glibc-tuned"]);
    let none: [&str; 0] = [];
    assert_eq!(tuned(folder, "/opt/lib/libhoard.so", &[], &[]), none);
    let own = [("GLIBC_TUNABLES", "glibc.malloc.mmap_max=0")];
    assert_eq!(tuned(folder, LIBC, &own, &[]), none, "the program had it already");
    assert_eq!(tuned(folder, LIBC, &[], &["-a", "glibc"]), none, "they were selected");
}
