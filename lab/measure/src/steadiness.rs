//! How well medians repeat: whether another comparison of the same would show the same.

use crate::confidence::{CONFIDENCE, interval_of};
use crate::figures::{ALL_OPERATIONS, RUN, figures};
use keel_results::{AllocatorResult, Comparison};

/// Medians of two comparisons on one machine should differ by no more.
pub const AGREEMENT: f64 = 0.03;
/// A median is settled when its 95 % interval over the runs reaches no further than this to either side. Two of them
/// then differ by less than [`AGREEMENT`] in 19 of 20 pairs: by 1.96 times the root of 2 times the error of each, which
/// is 0.02 over the 2.3 or so that Student's t asks for with this many runs.
pub const SETTLED: f64 = 0.02;
/// Fewer runs tell nothing of what the next would be.
const FEWEST: usize = 3;
/// Operations that are rarer, as a share of all, hold nothing up.
const RARE: f64 = 0.05;

/// The operation whose median is least sure, and how far its 95 % interval reaches to the farther side, as a share of
/// the median. None with fewer than three runs. What the clock's steps hide is not counted: it is the same in each
/// comparison.
pub fn unsteadiness(comparison: &Comparison, result: &AllocatorResult) -> Option<(String, f64)> {
    let total: u64 = comparison.journal.operations.values().sum();
    let frequent = |operation: &str| {
        let count = comparison.journal.operations.get(operation).copied().unwrap_or(0);
        count as f64 >= RARE * total as f64
    };
    figures(comparison, result)
        .into_iter()
        .filter(|figure| figure.name == "p50" && ![ALL_OPERATIONS, RUN].contains(&figure.operation.as_str()))
        .filter(|figure| frequent(&figure.operation) && figure.values.len() >= FEWEST)
        .filter_map(|figure| {
            let interval = interval_of(&figure.plain(), CONFIDENCE)?;
            Some((figure.operation, interval.high / interval.value - 1.0))
        })
        .max_by(|one, other| one.1.total_cmp(&other.1))
}

/// Indices of the allocators of which a median is not yet settled.
pub fn unsettled(comparison: &Comparison) -> Vec<usize> {
    let is_unsettled = |result: &AllocatorResult| {
        result.failure.is_none() && unsteadiness(comparison, result).is_some_and(|(_, share)| share > SETTLED)
    };
    (0..comparison.allocators.len()).filter(|&index| is_unsettled(&comparison.allocators[index])).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use keel_results::{Clock, Histogram, Run};

    /// Runs of 1000 mallocs and 5 callocs of so many ticks each.
    fn result(name: &str, malloc: &[u64]) -> AllocatorResult {
        let counts = |ticks: u64, times: u64| {
            let mut counts = Histogram::default();
            counts.0.auto(true);
            counts.0.record_n(ticks, times).unwrap();
            counts
        };
        let runs = malloc.iter().enumerate().map(|(round, &ticks)| Run {
            round: round as u32,
            latency: [
                ("malloc".to_owned(), counts(ticks, 1000)),
                ("calloc".to_owned(), counts(100 * (round as u64 + 1), 5)),
            ]
            .into(),
            ..Run::default()
        });
        AllocatorResult { name: name.to_owned(), runs: runs.collect(), ..AllocatorResult::default() }
    }

    #[test]
    fn medians_that_stray_are_unsettled_and_rare_operations_are_not_asked() {
        let mut comparison = Comparison {
            clock: Clock { ticks_per_ns: 1.0, step_ticks: 2, ..Clock::default() },
            allocators: vec![
                result("steady", &[1000, 1002, 998, 1001]),
                result("straying", &[1000, 1100, 950, 1040]),
                result("few", &[1000, 2000]),
                AllocatorResult { failure: Some("gone".to_owned()), ..result("failed", &[1000, 1100, 950]) },
            ],
            ..Comparison::default()
        };
        comparison.journal.operations = [("malloc".to_owned(), 1000), ("calloc".to_owned(), 5)].into();
        assert_eq!(unsettled(&comparison), [1]);
        let (operation, share) = unsteadiness(&comparison, &comparison.allocators[1]).unwrap();
        assert!(operation == "malloc" && share > 0.05 && share < 0.15, "{operation} {share}");
        assert_eq!(unsteadiness(&comparison, &comparison.allocators[2]), None);
    }
}
