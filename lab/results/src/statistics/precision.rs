//! The precision of medians: whether a second comparison would give the same values.

use super::confidence::{CONFIDENCE, interval_of};
use super::figures::figures;
use crate::{ALL_OPERATIONS, AllocatorResult, Comparison, RUN};

/// The largest difference that two comparisons on one machine should show in a median.
pub const AGREEMENT: f64 = 0.03;
/// A median is precise when its 95 % interval over the runs extends at most this share to either
/// side. Two such medians differ by less than [`AGREEMENT`] in 19 of 20 cases: 1.96 * sqrt(2) *
/// error, where the error is 0.02 / 2.3, and 2.3 is about Student's t for this number of runs.
pub const PRECISION: f64 = 0.02;
/// The fewest runs for an estimate of the variation.
const FEWEST: usize = 3;
/// Operations below this share of all calls need not be precise.
const RARE: f64 = 0.05;

/// The operation with the least precise median, and the longer side of its 95 % interval as a share
/// of the median. None with fewer than three runs. The clock's steps are left out: they are the
/// same in every comparison.
pub fn imprecision(comparison: &Comparison, result: &AllocatorResult) -> Option<(String, f64)> {
    let total: u64 = comparison.journal.operations.values().sum();
    let frequent = |operation: &str| {
        let count = comparison.journal.operations.get(operation).copied().unwrap_or(0);
        count as f64 >= RARE * total as f64
    };
    figures(comparison, result)
        .into_iter()
        .filter(|figure| {
            figure.name == "p50" && ![ALL_OPERATIONS, RUN].contains(&figure.operation.as_str())
        })
        .filter(|figure| frequent(&figure.operation) && figure.values.len() >= FEWEST)
        .filter_map(|figure| {
            let interval = interval_of(&figure.plain(), CONFIDENCE)?;
            Some((figure.operation, interval.high / interval.value - 1.0))
        })
        .max_by(|one, other| one.1.total_cmp(&other.1))
}

/// The indices of the allocators that have a median which is not yet precise.
pub fn imprecise(comparison: &Comparison) -> Vec<usize> {
    let is_imprecise = |result: &AllocatorResult| {
        result.failure.is_none()
            && imprecision(comparison, result).is_some_and(|(_, share)| share > PRECISION)
    };
    (0..comparison.allocators.len())
        .filter(|&index| is_imprecise(&comparison.allocators[index]))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::{Clock, Histogram, Run};

    /// One run for each of `malloc`: 1000 mallocs that took that many ticks, and 5 callocs.
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
        AllocatorResult {
            name: name.to_owned(),
            runs: runs.collect(),
            ..AllocatorResult::default()
        }
    }

    #[test]
    fn medians_that_vary_are_imprecise_and_rare_operations_do_not_count() {
        let mut comparison = Comparison {
            clock: Clock { ticks_per_ns: 1.0, step_ticks: 2, ..Clock::default() },
            allocators: vec![
                result("steady", &[1000, 1002, 998, 1001]),
                result("varying", &[1000, 1100, 950, 1040]),
                result("few", &[1000, 2000]),
                AllocatorResult {
                    failure: Some("gone".to_owned()),
                    ..result("failed", &[1000, 1100, 950])
                },
            ],
            ..Comparison::default()
        };
        comparison.journal.operations =
            [("malloc".to_owned(), 1000), ("calloc".to_owned(), 5)].into();
        assert_eq!(imprecise(&comparison), [1]);
        let (operation, share) = imprecision(&comparison, &comparison.allocators[1]).unwrap();
        assert!(operation == "malloc" && share > 0.05 && share < 0.15, "{operation} {share}");
        assert_eq!(imprecision(&comparison, &comparison.allocators[2]), None);
    }
}
