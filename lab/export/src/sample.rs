//! A small result folder for the tests.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use keel_results::raw::{OPERATIONS_FILE, OperationRows, OperationWriter, RunRows, RunWriter};
use keel_results::{
    AllocatorResult, Clock, Comparison, Histogram, MemorySample, RESULTS_VERSION, Run,
};
use std::collections::BTreeMap;

/// malloc 64, malloc 32, free of the first, realloc of the second to 128, malloc 16 (never freed),
/// free of the 128.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut operations = OperationWriter::create(&folder.path().join(OPERATIONS_FILE)).unwrap();
    let rows = OperationRows {
        op: &[0, 0, 1, 3, 0, 1],
        size: &[64, 32, 64, 128, 16, 128],
        thread: &[0, 1, 1, 0, 0, 0],
        frame: &[0; 6],
        time: &[10, 20, 30, 40, 50, 60],
    };
    operations.write_with_ages(rows, &[0, 0, 2, 2, 0, 2]).unwrap();
    operations.finish().unwrap();
    let mut run = RunWriter::create(&folder.path().join("run-keel-1.parquet")).unwrap();
    let start = [100, 200, 300, 400, 500, 600];
    run.write(RunRows { start: &start, ticks: &[52, 26, 78, 260, 27, 104], cause: &[0; 6] })
        .unwrap();
    run.finish().unwrap();
    let keel = AllocatorResult {
        name: "keel".to_owned(),
        runs: vec![
            Run {
                position: 1,
                elapsed_ns: 1_000_000,
                latency: BTreeMap::from([
                    ("malloc".to_owned(), histogram(&[52, 26, 27])),
                    ("free".to_owned(), histogram(&[78, 104])),
                ]),
                inside_ns: BTreeMap::from([("malloc".to_owned(), 40.0), ("free".to_owned(), 70.0)]),
                ..Run::default()
            },
            Run {
                position: 2,
                raw: Some("run-keel-1.parquet".to_owned()),
                memory: vec![MemorySample { time: 150, resident: 4096, live: 96 }],
                ..Run::default()
            },
        ],
        ..AllocatorResult::default()
    };
    let system = AllocatorResult {
        name: "system".to_owned(),
        runs: vec![Run {
            elapsed_ns: 2_000_000,
            latency: BTreeMap::from([("malloc".to_owned(), histogram(&[130, 260]))]),
            ..Run::default()
        }],
        ..AllocatorResult::default()
    };
    let comparison = Comparison {
        version: RESULTS_VERSION,
        clock: Clock { ticks_per_ns: 2.6, ..Clock::default() },
        allocators: vec![system, keel],
        ..Comparison::default()
    };
    comparison.save(folder.path()).unwrap();
    folder
}

fn histogram(ticks: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    ticks.iter().for_each(|ticks| histogram.0.record(*ticks).unwrap());
    histogram
}

/// Three runs of malloc on a clock of 26 ticks per step. Their medians are within the same step;
/// each run has a tail.
pub(crate) fn three_runs(step_ticks: u64) -> tempfile::TempDir {
    let clock = Clock { ticks_per_ns: 2.6, step_ticks, ..Clock::default() };
    let run = |(share, worst)| {
        let mut counts = Histogram::default();
        let readings = [(52, share), (78, 10_000 - share), (104, 500), (worst, 20)];
        readings.iter().for_each(|&(ticks, times)| counts.0.record_n(ticks, times).unwrap());
        let ticks: u64 = readings.iter().map(|(ticks, times)| ticks * times).sum();
        Run {
            inside_ns: BTreeMap::from([("malloc".to_owned(), ticks as f64 / clock.ticks_per_ns)]),
            latency: BTreeMap::from([("malloc".to_owned(), counts)]),
            ..Run::default()
        }
    };
    let runs = [(4000, 5200), (5100, 52_000_000), (4600, 5200)].map(run).to_vec();
    let allocators =
        vec![AllocatorResult { name: "keel".to_owned(), runs, ..AllocatorResult::default() }];
    let folder = tempfile::tempdir().unwrap();
    let comparison =
        Comparison { version: RESULTS_VERSION, clock, allocators, ..Comparison::default() };
    comparison.save(folder.path()).unwrap();
    folder
}
