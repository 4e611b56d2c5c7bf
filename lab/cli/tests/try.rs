//! `keel try` as a user runs it: one command from a program to a page.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::prefix;
use std::path::Path;
use std::process::{Command, Output};

fn keel_try(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keel"));
    command.current_dir(folder).env("KEEL_PREFIX", prefix()).env_remove("LD_PRELOAD");
    command.arg("try").args(arguments).output().unwrap()
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn one_command_leads_from_a_program_to_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let output = keel_try(folder.path(), &["--no-open", "-a", "glibc", "-r", "1", "--", "ls", "/"]);
    assert!(output.status.success(), "{}", messages(&output));
    let made = folder.path().join("ls.keel");
    assert!(made.join("program.journal.parquet").is_file(), "{}", messages(&output));
    assert!(made.join("results/results.json").is_file());
    let page = std::fs::read_to_string(made.join("report.html")).unwrap();
    assert!(page.contains("tiles-0-malloc"), "the page contains the calls");
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("usr"), "the program's output is kept: {out}");
    assert!(out.contains("● p50"), "the chart is printed below the tables: {out}");
}

#[test]
fn a_folder_in_use_and_a_missing_program_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "precious").unwrap();
    let here = folder.path().to_str().unwrap();
    let output = keel_try(folder.path(), &["--no-open", "-o", here, "--", "ls"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(messages(&output).contains("exists already: choose another"), "{}", messages(&output));
    let output = keel_try(folder.path(), &["--no-open", "--", "./no-such-program"]);
    assert!(!output.status.success());
    assert!(messages(&output).contains("no-such-program"), "{}", messages(&output));
    assert!(!messages(&output).contains("panicked"), "{}", messages(&output));
}
