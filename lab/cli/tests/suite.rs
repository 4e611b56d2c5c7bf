//! `keel bench --suite`: wrong input, a small suite from start to end, and continuing after Ctrl-C.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(words: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keel"));
    command.env("KEEL_PREFIX", common::prefix_with_recorder()).args(["bench", "--suite"]);
    command.args(words).arg("-o").arg(folder);
    command
}

fn suite(words: &[&str], folder: &Path) -> Output {
    command(words, folder).output().unwrap()
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The complete lines of the file with the runs.
fn runs(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("runs.jsonl")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

const SMALL: [&str; 5] =
    ["synthetic/json,patterns/turn-64", "-a", "keel,glibc", "--quick", "--rounds"];

#[test]
fn wrong_suites_workloads_and_folders_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (new, foreign) = (folder.path().join("new"), folder.path().join("foreign"));
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("letter.txt"), "").unwrap();
    for (words, place, answer) in [
        (&["patern"][..], &new, "there is no suite `patern`; the suites are all, synthetic"),
        (&["patterns/tre"][..], &new, "there is no workload `patterns/tre` here; patterns has"),
        (&["journals"][..], &new, "add --journal FILE"),
        (&["synthetic", "-a", "nobody"][..], &new, "there is no allocator `nobody`"),
        (&["synthetic", "--journal", "absent"][..], &new, "absent is not a file"),
        (&["synthetic"][..], &foreign, "is not empty and holds no suite"),
        (&["synthetic"][..], &foreign.join("letter.txt/below"), "letter.txt/below"),
    ] {
        let output = suite(words, place);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(messages(&output).contains(answer), "{}", messages(&output));
        assert!(!new.exists(), "{words:?} created a folder");
    }
    let without = Command::new(env!("CARGO_BIN_EXE_keel")).args(["bench", "--suite"]).output();
    assert!(messages(&without.unwrap()).contains("--output"));
}

#[test]
fn a_small_suite_gives_a_page_tables_and_a_site() {
    let folder = tempfile::tempdir().unwrap();
    let (results, site) = (folder.path().join("results"), folder.path().join("site"));
    let words = [&SMALL[..], &["2", "--publish", site.to_str().unwrap()]].concat();
    let output = suite(&words, &results);
    assert!(output.status.success(), "{}", messages(&output));
    assert_eq!(runs(&results).len(), 8);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("elapsed time, synthetic"), "{text}");
    let page = std::fs::read_to_string(results.join("index.html")).unwrap();
    assert_eq!(page.matches("\"process_elapsed_s\"").count(), 8);
    // In the first round only: the times of calls, and the number of system calls.
    for name in ["\"p999_ns\"", "\"worst_ns\"", "\"system_calls\""] {
        assert_eq!(page.matches(name).count(), 4, "{name}");
    }
    let markdown = std::fs::read_to_string(results.join("suite.md")).unwrap();
    assert!(markdown.contains("| patterns/turn-64 |") && markdown.contains("None."), "{markdown}");
    assert!(std::fs::read(results.join("runs.parquet")).unwrap().starts_with(b"PAR1"));
    let list = || std::fs::read_to_string(site.join("index.html")).unwrap();
    assert_eq!(list().matches("<section><h2>").count(), 1);
    // The folder of another machine is dropped in, beside one that cannot be read.
    let other = site.join("other");
    std::fs::create_dir(&other).unwrap();
    for file in ["suite.json", "runs.jsonl"] {
        std::fs::copy(results.join(file), other.join(file)).unwrap();
    }
    std::fs::create_dir(site.join("broken")).unwrap();
    std::fs::write(site.join("broken/suite.json"), "{}").unwrap();
    let listed = Command::new(env!("CARGO_BIN_EXE_keel"))
        .args(["bench", "--suite", "--publish"])
        .arg(&site)
        .output()
        .unwrap();
    assert!(listed.status.success(), "{}", messages(&listed));
    assert!(messages(&listed).contains("broken is left out of the site"), "{}", messages(&listed));
    assert_eq!(list().matches("<section><h2>").count(), 2);
    assert!(other.join("index.html").exists());
    // The same options continue it: there is nothing left to run. Others are refused.
    assert!(suite(&words, &results).status.success());
    assert_eq!(runs(&results).len(), 8);
    let output = suite(&["synthetic/json", "-a", "keel", "--quick"], &results);
    assert!(messages(&output).contains("holds another suite"), "{}", messages(&output));
}

#[test]
fn a_failed_run_is_recorded_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let library = common::prefix_with_recorder().join("lib/libkeel.so");
    let broken = format!("broken={}:symbols=none_", library.display());
    let words =
        ["synthetic/json", "-a", "glibc", "--allocator", &broken, "--quick", "--rounds", "2"];
    let output = suite(&words, folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(runs(folder.path()).len(), 3, "the failed run is not made again");
    let reason = "the library lacks a function with this prefix: none_";
    assert!(messages(&output).contains(reason), "{}", messages(&output));
    let markdown = std::fs::read_to_string(folder.path().join("suite.md")).unwrap();
    assert!(markdown.contains("| synthetic/json | **1.00** | failed |"), "{markdown}");
    assert!(markdown.contains(reason), "{markdown}");
}

#[test]
fn a_stopped_suite_is_continued_without_repeating_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let words = [&SMALL[..], &["10"]].concat();
    let mut child = command(&words, folder.path()).stderr(Stdio::piped()).spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(60);
    while runs(folder.path()).len() < 3 && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(5));
    }
    let process = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &process]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let before = runs(folder.path());
    assert!((3..40).contains(&before.len()), "{} runs", before.len());
    assert!(folder.path().join("index.html").exists(), "what is complete is shown");
    let output = suite(&words, folder.path());
    assert!(output.status.success(), "{}", messages(&output));
    assert!(messages(&output).contains(&format!("continues after {} runs", before.len())));
    let after = runs(folder.path());
    assert_eq!((&after[..before.len()], after.len()), (&before[..], 40));
    let keys = after.iter().map(|line| {
        let run: serde_json::Value = serde_json::from_str(line).unwrap();
        (run["workload"].clone(), run["allocator"].clone(), run["round"].clone())
    });
    assert_eq!(keys.map(|key| format!("{key:?}")).collect::<HashSet<_>>().len(), 40);
}
