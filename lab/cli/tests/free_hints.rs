//! Sized and aligned frees from the program to the results: recorded, shown by `keel info`,
//! replayed as such, exported and imported again.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::root;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn keel(folder: &Path, arguments: &[&str]) -> Output {
    let output = common::keel().current_dir(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// The counts of each kind of free in `keel info --json`, and the wrong hints.
fn frees(folder: &Path, journal: &str) -> ([u64; 4], Value) {
    let output = keel(folder, &["info", "--json", journal]);
    let facts: Value = serde_json::from_str(stdout(&output)).unwrap();
    let facts = facts["facts"].clone();
    let count = |kind: &str| {
        let kinds = facts["operations_by_kind"].as_array().unwrap().iter();
        kinds.filter(|one| one["kind"] == kind).map(|one| one["count"].as_u64().unwrap()).sum()
    };
    (
        ["free", "free_sized", "free_aligned", "free_aligned_sized"].map(count),
        facts["wrong_frees"].clone(),
    )
}

#[test]
fn sized_and_aligned_frees_are_recorded_shown_and_replayed_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let program = folder.join("sized");
    let compiled = Command::new("c++")
        .args(["-std=c++17", "-O1", "-fno-builtin", "-o"])
        .arg(&program)
        .arg(root().join("tests/recorder/programs/sized.cpp"))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    keel(folder, &["record", "-q", "-o", "sized.journal.parquet", "--", "./sized"]);

    let (counts, wrong) = frees(folder, "sized.journal.parquet");
    let (plain, [sized, aligned, both]) = (counts[0], [counts[1], counts[2], counts[3]]);
    // tests/recorder/programs/sized.cpp makes each kind ten times, and each wrong one three times.
    assert_eq!([sized, aligned, both], [60 + 9, 10 + 3, 40 + 6]);
    assert!(plain >= 20);
    assert_eq!(wrong["count"], 18);
    assert_eq!((&wrong["first"]["hint_size"], &wrong["first"]["size"]), (&21.into(), &1021.into()));
    let verified = keel(folder, &["info", "--verify", "sized.journal.parquet"]);
    let words = stdout(&verified);
    assert!(words.contains("valid: every rule holds for 307 rows"), "{words}");
    assert!(words.contains("found: 18 frees passed another size or alignment"), "{words}");
    assert!(words.contains("passed 21 bytes; the allocation requested 1021 bytes"), "{words}");

    let compare =
        ["compare", "sized.journal.parquet", "-a", "keel,glibc,null", "-r", "1", "-o", "results"];
    keel(folder, &compare);
    let text = std::fs::read_to_string(folder.join("results/results.json")).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    let journal = &results["journal"];
    assert_eq!(journal["wrong_frees"], 18);
    assert_eq!(journal["frees"]["free_sized"], 60);
    assert_eq!(journal["frees"]["free_aligned"], 10);
    assert_eq!(journal["frees"]["free_aligned_sized"], 40);
    assert_eq!(journal["operations"]["free"], counts.iter().sum::<u64>());
    let keel_by = &results["allocators"][0]["free_functions"];
    assert_eq!(keel_by["free_sized"], "free_sized");
    assert_eq!(keel_by["free_aligned_sized"], "free_aligned_sized");
    assert_eq!(
        keel_by["free_aligned"], "free",
        "libkeel has no function that takes only an alignment"
    );

    keel(folder, &["export", "sized.journal.parquet", "--to", "doom3", "-o", "sized.txt"]);
    keel(folder, &["import", "sized.txt", "-o", "again.journal.parquet"]);
    let (again, wrong) = frees(folder, "again.journal.parquet");
    assert_eq!((again, &wrong["count"]), (counts, &18.into()));
    let lossy = keel(
        folder,
        &["export", "sized.journal.parquet", "--to", "android", "-o", "sized.android"],
    );
    let words = String::from_utf8_lossy(&lossy.stderr).into_owned();
    assert!(
        words.contains("128") && words.contains("hints of frees: written as plain frees"),
        "{words}"
    );
}
