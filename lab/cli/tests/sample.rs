//! Journals of samples as a user meets them: what works with estimates, and what refuses.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::root;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn keel(arguments: &[&str]) -> Output {
    common::keel().args(arguments).output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = keel(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    text
}

fn compile(folder: &Path) -> PathBuf {
    let program = folder.join("samples");
    let source = root().join("tests/recorder/programs/samples.c");
    let flags = ["-g", "-O1", "-fno-builtin", "-pthread", "-o"];
    let status = Command::new("cc").args(flags).arg(&program).arg(source).status().unwrap();
    assert!(status.success());
    program
}

/// The journals of all calls and of samples.
fn record(folder: &Path) -> [String; 2] {
    let program = compile(folder);
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (whole, sampled) = (path("whole.journal.parquet"), path("sampled.journal.parquet"));
    let program = program.to_str().unwrap();
    stdout(&["record", "--stacks", "8", "-o", &whole, "--", program]);
    let sample = ["record", "--sample", "8K", "--sample-seed", "5", "-o", &sampled];
    stdout(&[&sample[..], &["--", program]].concat());
    [whole, sampled]
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(arguments)).unwrap()
}

fn assert_near(estimate: &Value, truth: f64) {
    let (value, error) = (&estimate["value"], &estimate["standard_error"]);
    let (value, error) = (value.as_f64().unwrap(), error.as_f64().unwrap());
    assert!(error > 0.0 && error < value / 2.0, "{value} ±{error}");
    assert!((value - truth).abs() < 4.0 * error, "{value} ±{error}, and it was {truth}");
}

#[test]
fn samples_are_weighted_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, sampled] = record(folder.path());
    let facts = json(&["info", "--json", &whole])["facts"].clone();
    let info = json(&["info", "--json", "--verify", &sampled]);
    let found = &info["sampled"];
    assert_eq!(info["valid"], true);
    assert!(info["facts"].is_null(), "rows are not facts about the program");
    assert_near(&found["allocated"]["bytes"], facts["allocated_bytes"].as_f64().unwrap());
    assert_near(&found["allocated"]["blocks"], facts["objects"].as_f64().unwrap());
    assert_near(&found["live"]["bytes"], facts["leaked"]["bytes"].as_f64().unwrap());
    assert!(stdout(&["info", &sampled]).contains("one per 8,192 allocated bytes"));

    let (all, some) = (json(&["blame", "--json", &whole]), json(&["blame", "--json", &sampled]));
    assert_eq!(some["sample_bytes"], 8192);
    for site in all["sites"].as_array().unwrap() {
        let name = &site["stack"][0]["function"];
        let calls = site["values"]["calls"].as_f64().unwrap();
        if calls < 1000.0 {
            continue;
        }
        let mut found = some["sites"].as_array().unwrap().iter();
        let values = &found.find(|one| one["stack"][0]["function"] == *name).unwrap()["values"];
        for kind in ["calls", "bytes"] {
            let truth = site["values"][kind].as_f64().unwrap();
            let error = values[format!("{kind}-variance")].as_f64().unwrap().sqrt();
            let value = values[kind].as_f64().unwrap();
            // Nearly all calls of a site of large blocks are samples.
            let allowed = (4.0 * error).max(truth / 1000.0);
            assert!((value - truth).abs() < allowed, "{name} {kind}: {value} ±{error}, {truth}");
        }
    }
    let text = stdout(&["blame", &sampled]);
    assert!(text.contains("Estimated from samples") && text.contains(" ±"), "{text}");
}

#[test]
fn pprof_gets_the_values_of_heap_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let [_, sampled] = record(folder.path());
    let output = folder.path().join("heap.pb.gz");
    stdout(&["export", &sampled, "--to", "pprof", "-o", output.to_str().unwrap()]);
    let unpacked = Command::new("gzip").arg("-dc").arg(&output).output().unwrap().stdout;
    let text = String::from_utf8_lossy(&unpacked).into_owned();
    for name in ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "small", "space"] {
        assert!(text.contains(name), "{name}");
    }
    assert!(!text.contains("variance"));
}

#[test]
fn what_needs_all_operations_refuses_samples() {
    let folder = tempfile::tempdir().unwrap();
    let [_, sampled] = record(folder.path());
    let output = folder.path().join("out").to_str().unwrap().to_owned();
    let sampled = sampled.as_str();
    for arguments in [
        &["compare", sampled, "-o", &output][..],
        &["compare", "plan", sampled, "-o", &output],
        &["time", sampled],
        &["check", "--zone", "thread=samples", sampled],
        &["slice", sampled, "--from", "0", "-o", &output],
        &["export", sampled, "--to", "doom3", "-o", &output],
        &["export", sampled, "--to", "perfetto", "-o", &output],
        &["export", sampled, "--to", "firefox", "-o", &output],
        &["blame", "--pinned", "peak", sampled],
    ] {
        let output = keel(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(said.contains("has only samples"), "{arguments:?}: {said}");
    }
    let output = keel(&["info", "--top", "3", sampled]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("keel blame"));
}
