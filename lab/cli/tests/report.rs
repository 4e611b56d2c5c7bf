//! `keel report` as a user runs it: its files, its messages and its errors.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use keel_results::{AllocatorResult, Clock, Comparison, Histogram, RESULTS_VERSION, Run};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

fn keel_report(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_keel")).arg("report").args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A comparison of which no call was kept: enough for a page of figures.
fn write_results(folder: &Path) {
    let mut malloc = Histogram::default();
    (40..4000u64).for_each(|ticks| malloc.0.record(ticks).unwrap());
    let run = Run { latency: BTreeMap::from([("malloc".to_owned(), malloc)]), ..Run::default() };
    let allocator =
        AllocatorResult { name: "system".into(), runs: vec![run], ..AllocatorResult::default() };
    let clock = Clock { ticks_per_ns: 2.0, ..Clock::default() };
    let comparison = Comparison {
        version: RESULTS_VERSION,
        clock,
        allocators: vec![allocator],
        ..Comparison::default()
    };
    comparison.save(folder).unwrap();
}

#[test]
fn it_writes_the_page_and_reports_its_size_and_time() {
    let folder = tempfile::tempdir().unwrap();
    write_results(folder.path());
    let output = keel_report(&[folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stdout.is_empty(), "stdout is for data");
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    let message = stderr(&output);
    assert!(
        message.contains("report.html") && message.contains("MB") && message.contains("built in"),
        "{message}"
    );
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "no temporary file remains: {names:?}");
}

#[test]
fn errors_name_the_cause_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let refused = |arguments: &[&str], expected: &str| {
        let output = keel_report(arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.starts_with("keel: ") && message.contains(expected), "{message}");
        assert!(!message.contains("panicked"), "{message}");
    };
    refused(&["/nowhere/at/all"], "no such folder; `keel compare");
    refused(&[path], "not a result folder");
    write_results(folder.path());
    refused(&[path, "-o", path], "is a folder: give a file with -o");
    refused(
        &[path, "-o", "/nowhere/at/all/report.html"],
        "cannot write /nowhere/at/all/report.html",
    );
    std::fs::write(folder.path().join("results.json"), "{").unwrap();
    refused(&[path], "run `keel compare` again");
}

#[test]
fn markdown_goes_to_stdout_and_writes_no_page() {
    let folder = tempfile::tempdir().unwrap();
    write_results(folder.path());
    let output = keel_report(&[folder.path().to_str().unwrap(), "--markdown"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("### Allocators compared on") && text.contains("| system |"),
        "{text}"
    );
    assert!(!folder.path().join("report.html").exists());
}

#[test]
fn several_folders_become_one_page() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    folders.iter().for_each(|folder| write_results(folder.path()));
    let page = folders[0].path().join("both.html");
    let paths = folders.each_ref().map(|folder| folder.path().to_str().unwrap());
    let output = keel_report(&[paths[0], paths[1], "-o", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(std::fs::read_to_string(page).unwrap().contains("id=\"2-facts\""));
}

/// Two allocators with several runs, of which the second is twice as slow, and the floor.
fn write_rounds(folder: &Path) {
    let run = |ticks: u64, round: u32| {
        let mut malloc = Histogram::default();
        malloc.0.auto(true);
        malloc.0.record_n(ticks + ticks / 100 * u64::from(round), 1000).unwrap();
        let inside_ns = BTreeMap::from([("malloc".to_owned(), (ticks * 500) as f64)]);
        Run {
            round,
            inside_ns,
            latency: BTreeMap::from([("malloc".to_owned(), malloc)]),
            ..Run::default()
        }
    };
    let allocator = |name: &str, ticks| AllocatorResult {
        name: name.into(),
        runs: (0..5).map(|round| run(ticks, round)).collect(),
        ..AllocatorResult::default()
    };
    let mut comparison = Comparison {
        version: RESULTS_VERSION,
        clock: Clock { ticks_per_ns: 2.0, step_ticks: 1, ..Clock::default() },
        allocators: vec![allocator("one", 1000), allocator("a|b", 2000), allocator("null", 10)],
        ..Comparison::default()
    };
    comparison.journal.operations.insert("malloc".into(), 1000);
    comparison.save(folder).unwrap();
}

#[test]
fn two_allocators_are_compared_figure_by_figure() {
    let folder = tempfile::tempdir().unwrap();
    write_rounds(folder.path());
    let path = folder.path().to_str().unwrap();
    let text = |arguments: &[&str]| {
        let output = keel_report(arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let table = text(&[path, "--pair", "one, a|b"]);
    let line = table.lines().find(|line| line.contains("p50")).unwrap();
    assert!(line.contains("0.50") && line.trim_end().ends_with("one lower"), "{table}");
    assert!(table.contains("one is significantly lower in "), "{table}");
    let back = text(&[path, "--pair", "a|b,one", "--markdown"]);
    let line = back.lines().find(|line| line.contains("p50")).unwrap();
    assert!(line.contains("| 2.00") && line.contains("| one lower |"), "{back}");
    assert!(back.starts_with("### a\\|b and one"), "{back}");
    let json: serde_json::Value =
        serde_json::from_str(&text(&[path, "--pair", "one,a|b", "--json"])).unwrap();
    assert_eq!(json[0]["pair"]["rows"][0]["lower"], "a");
    assert!(!folder.path().join("report.html").exists(), "no page is written");
}

#[test]
fn invalid_pairs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_rounds(folder.path());
    let path = folder.path().to_str().unwrap();
    let refused = |pair: &str, code: i32, expected: &str| {
        let output = keel_report(&[path, "--pair", pair]);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(expected), "{message}");
    };
    refused("one,two", 1, "no results for the allocator two; there are results for one and a|b");
    refused("one,null", 1, "does nothing");
    refused("one,one", 1, "name two");
    refused("one", 2, "give two names separated by a comma");
}
