//! A small comparison for tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::lowest::complete;
use keel_results::{AllocatorResult, Comparison, Histogram, Run};

/// A comparison of allocators by name; each value is the latency of all mallocs of one run, ns.
pub fn comparison(allocators: &[(&str, &[u64])]) -> Comparison {
    let run = |ns: &u64| {
        let mut malloc = Histogram::default();
        malloc.0.auto(true);
        malloc.0.record_n(*ns, 1000).unwrap();
        let inside_ns = [("malloc".to_owned(), (1000 * ns) as f64)].into();
        Run { latency: [("malloc".to_owned(), malloc)].into(), inside_ns, ..Run::default() }
    };
    let one = |(name, runs): &(&str, &[u64])| AllocatorResult {
        name: (*name).to_owned(),
        runs: runs.iter().map(run).collect(),
        ..AllocatorResult::default()
    };
    let mut comparison =
        Comparison { allocators: allocators.iter().map(one).collect(), ..Comparison::default() };
    comparison.clock.ticks_per_ns = 1.0;
    comparison.clock.step_ticks = 1;
    comparison.journal.operations.insert("malloc".to_owned(), 1000);
    complete(&mut comparison, "null");
    comparison
}
