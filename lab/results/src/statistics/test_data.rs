//! Comparisons made up for tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::conclude;
use crate::{AllocatorResult, Clock, Comparison, Histogram, Run};

/// One run for each of `ticks`, with 1000 mallocs that took that long.
pub fn result(name: &str, ticks: &[u64]) -> AllocatorResult {
    let run = |(round, &ticks): (usize, &u64)| {
        let mut histogram = Histogram::default();
        histogram.0.auto(true);
        histogram.0.record_n(ticks, 1000).unwrap();
        Run {
            round: round as u32,
            elapsed_ns: 1000 * ticks,
            peak_rss_bytes: 4096,
            latency: [("malloc".to_owned(), histogram)].into(),
            inside_ns: [("malloc".to_owned(), (1000 * ticks) as f64)].into(),
            ..Run::default()
        }
    };
    let runs = ticks.iter().enumerate().map(run).collect();
    AllocatorResult { name: name.to_owned(), runs, ..AllocatorResult::default() }
}

pub fn comparison(step_ticks: u64, allocators: Vec<AllocatorResult>) -> Comparison {
    let mut comparison = Comparison {
        clock: Clock { ticks_per_ns: 1.0, step_ticks, ..Clock::default() },
        allocators,
        ..Comparison::default()
    };
    comparison.journal.operations.insert("malloc".to_owned(), 1000);
    conclude(&mut comparison, "null");
    comparison
}

/// A random number between 0 and 1, from a state that is then changed.
pub fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

/// A normal number as the sum of twelve uniform ones.
pub fn normal(state: &mut u64) -> f64 {
    (0..12).map(|_| uniform(state)).sum::<f64>() - 6.0
}
