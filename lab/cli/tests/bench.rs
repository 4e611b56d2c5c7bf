//! The answers of `keel bench` to wrong input, and reading kept samples again. Tests of the
//! workloads are in their crate.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output};

fn bench(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_keel"))
        .current_dir(folder)
        .env("KEEL_PREFIX", folder.join("prefix"))
        .arg("bench")
        .args(arguments)
        .output()
        .unwrap()
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const KEPT: &str = r#"{"format":2,"date":"2026-11-22T00:00:00Z","commit":"","machine":{},
"load_before":"","runs":1,"stopped":false,"workloads":[
{"name":"free-large","suite":"latency","about":"large blocks"}],
"contestants":[{"name":"keel","version":"0.1.0","settings":[]},
{"name":"system","version":"","settings":[]}],
"samples":[
{"allocator":"keel","workload":"free-large","pass":"timed","round":0,"measured":
{"peak_rss":1000000,"events":[
{"event":"free","calls":9,"interrupted":1,"detected_by":"rseq","mean_ns":40.0,
"percentiles_ns":[40,45,50,60,70,80],
"worst_ns":5040.0,"floor_ns":40.0,"noise_ns":1000.0}]}},
{"allocator":"keel","workload":"free-large","pass":"counted","round":0,"measured":{"counted":[
{"event":"free","calls":9,"faults":0,"faulting_calls":0,"system_calls":3}]}},
{"allocator":"system","workload":"free-large","pass":"timed","round":0,"failed":"it fell over"}]}"#;

#[test]
fn kept_samples_are_shown_with_the_targets() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("latency.json"), KEPT).unwrap();
    let output = bench(folder.path(), &["--from", "latency.json", "--bars", "--archive", "kept"]);
    assert!(output.status.success(), "{}", messages(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // 5040 ns less 40 of the clock and 1000 of noise are 4 µs; the target is 2.
    for expected in
        ["4.00 (4.00 .. 4.00)", "missed by 2.00 µs (2.00 x)", "it fell over", "latency contract"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let markdown = std::fs::read_to_string(folder.path().join("kept/latency.md")).unwrap();
    assert!(markdown.contains("| keel | 4.00 (4.00 .. 4.00) |"), "{markdown}");
    assert!(folder.path().join("kept/latency.json").exists());
}

#[test]
fn wrong_files_and_missing_programs_are_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("story.json"), "{}").unwrap();
    std::fs::write(folder.path().join("new.json"), KEPT.replace("\"format\":2", "\"format\":7"))
        .unwrap();
    for (arguments, answer) in [
        (&["--from", "absent.json"][..], "absent.json"),
        (&["--from", "story.json"][..], "story.json does not contain samples"),
        (&["--from", "new.json"][..], "has format 7"),
        (&["latency"][..], "keel-workload is missing: build it with `make build`"),
    ] {
        let output = bench(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(messages(&output).contains(answer), "{}", messages(&output));
    }
}
