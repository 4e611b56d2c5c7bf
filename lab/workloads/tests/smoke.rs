//! Every workload runs to its end with tiny counts and reports the data of a bench.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use keel_workloads::{Measured, Suite, Workload, bars, list};
use std::path::Path;
use std::process::{Command, Output};

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_keel-workload"))
}

fn start(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).output().unwrap()
}

fn tiny(target: &str, workload: &str, more: &[&str]) -> Measured {
    let output = start(&[&[target, workload, "--tiny"], more].concat());
    assert!(output.status.success(), "{workload}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn check_workload(workload: &Workload, target: &str) {
    let name = &workload.name;
    let measured = tiny(target, name, &[]);
    assert!(measured.peak_rss > 0, "{name}");
    if workload.suite == Suite::Throughput {
        assert!(measured.pairs > 0 && measured.ns_a_pair > 0.0, "{name}: {measured:?}");
    } else {
        assert!(!measured.events.is_empty(), "{name}");
    }
    for event in &measured.events {
        assert!(event.calls > 0, "{name}: {event:?}");
        assert!(event.percentiles_ns.is_sorted(), "{name}: {event:?}");
        assert!(
            event.worst_ns >= event.percentiles_ns[5] && event.mean_ns <= event.worst_ns,
            "{name}: {event:?}"
        );
    }
    if workload.suite == Suite::Latency {
        let counted = tiny(target, name, &["--count"]);
        assert!(counted.events.is_empty(), "{name}: a counted run has no times");
        assert!(
            !counted.counted.is_empty() && counted.counted.iter().all(|one| one.calls > 0),
            "{name}"
        );
    }
}

#[test]
fn every_workload_runs_on_the_c_library() {
    let workloads = list(program()).unwrap();
    assert!(workloads.len() >= 18);
    workloads.iter().for_each(|workload| check_workload(workload, "system"));
}

#[test]
fn every_workload_runs_on_keel() {
    let Some(prefix) = std::env::var_os("KEEL_PREFIX") else { return };
    let target = format!("keel:{}/lib/libkeel.so", prefix.to_string_lossy());
    let workloads = list(program()).unwrap();
    workloads.iter().for_each(|workload| check_workload(workload, &target));
    tiny(&target, "first-touch", &["--warm=1048576"]);
}

#[test]
fn every_bar_names_an_existing_workload_and_event() {
    let known = list(program()).unwrap();
    let mut events: Vec<(String, Vec<String>)> = Vec::new();
    for bar in bars::all().unwrap() {
        assert!(known.iter().any(|one| one.name == bar.workload), "{bar:?}");
        let Some(event) = &bar.event else { continue };
        if !events.iter().any(|(name, _)| *name == bar.workload) {
            let read = tiny("system", &bar.workload, &[]).events;
            events.push((bar.workload.clone(), read.into_iter().map(|one| one.event).collect()));
        }
        assert!(
            events.iter().any(|(name, read)| *name == bar.workload && read.contains(event)),
            "{bar:?}"
        );
    }
}

#[test]
fn the_c_library_unmaps_large_blocks_in_free_and_small_blocks_cost_no_system_call() {
    let counted = |workload, event: &str| {
        let counted = tiny("system", workload, &["--count"]).counted;
        counted.into_iter().find(|one| one.event == event).unwrap()
    };
    let large = counted("free-large", "free");
    let small = counted("threads", "first mallocs of a thread");
    if let (Some(of_large), Some(of_small)) = (large.system_calls, small.system_calls) {
        assert!(of_large >= 1, "{large:?}");
        assert!(of_small * 10 < small.calls, "{small:?}");
    }
    // New memory becomes resident when it is first touched: the allocator's own headers touch it.
    assert!(small.faulting_calls >= 1 && small.faulting_calls < small.calls, "{small:?}");
}

#[test]
fn errors_are_reported() {
    for (arguments, answer) in [
        (&["system", "nothing"][..], "there is no workload `nothing`"),
        (&["system", "lifo-64", "--fast"][..], "there is no option `--fast`"),
        (&["system", "lifo-64", "--warm=1"][..], "only libkeel can prepare warm memory"),
        (&[][..], "usage:"),
    ] {
        let output = start(arguments);
        assert_eq!(output.status.code(), Some(3));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(answer), "{said}");
    }
}
