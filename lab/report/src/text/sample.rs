//! A small comparison for tests: two allocators, the second four times as slow.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use keel_results::{AllocatorResult, Clock, Comparison, Histogram, RESULTS_VERSION, Run};
use std::collections::BTreeMap;

pub fn comparison() -> Comparison {
    let run = |factor: u64, round: u64| {
        let mut malloc = Histogram::default();
        malloc.0.auto(true);
        (1..=20_000u64).for_each(|value| malloc.0.record(value * factor + round).unwrap());
        Run { latency: BTreeMap::from([("malloc".to_owned(), malloc)]), ..Run::default() }
    };
    let allocator = |name: &str, factor| AllocatorResult {
        name: name.into(),
        runs: (0..4).map(|round| run(factor, round)).collect(),
        ..AllocatorResult::default()
    };
    let mut comparison = Comparison {
        version: RESULTS_VERSION,
        clock: Clock { ticks_per_ns: 1.0, ..Clock::default() },
        allocators: vec![allocator("keel", 1), allocator("a|b", 4)],
        ..Comparison::default()
    };
    comparison.journal.operations.insert("malloc".into(), 20_000);
    comparison
}
