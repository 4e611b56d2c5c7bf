//! Numbers for tables: of all calls of an allocator, with the spread between its runs.
//!
//! Percentiles are never averaged. Those of a summary are of the merged histogram, so of every call of every run;
//! beside them stand the smallest and the largest that a single run had.

use crate::percentile::percentile;
use keel_results::{AllocatorResult, Clock, Histogram, Run};

/// The percentiles of a summary, as quantiles.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

/// What the runs had, one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Of the run with the least.
    pub least: f64,
    /// Of the middle run.
    pub median: f64,
    /// Of the run with the most.
    pub most: f64,
}

/// One operation of one allocator, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Calls in all runs.
    pub count: u64,
    /// Calls in the run that has the fewest: what percentiles they bear tells [`crate::bears`].
    pub fewest: u64,
    /// Their mean.
    pub mean: f64,
    /// [`QUANTILES`] of the calls of all runs together.
    pub quantiles: [f64; 5],
    /// The longest of all calls.
    pub worst: f64,
    /// The quantiles of single runs: how well the numbers repeat.
    pub spreads: [Spread; 5],
}

/// Sums up an operation of an allocator; None if it never occurred.
pub fn summary(result: &AllocatorResult, operation: &str, clock: &Clock) -> Option<Summary> {
    let histograms: Vec<&Histogram> = result
        .runs
        .iter()
        .filter_map(|run| run.latency.get(operation))
        .filter(|one| !one.0.is_empty())
        .collect();
    let merged = all_runs(&histograms)?;
    let at = |histogram: &Histogram, quantile: f64| {
        percentile(&histogram.0, quantile, clock.step_ticks) / clock.ticks_per_ns
    };
    let inside: f64 = result.runs.iter().filter_map(|run| run.inside_ns.get(operation)).sum();
    let spread = |quantile: f64| {
        let mut values: Vec<f64> = histograms.iter().map(|one| at(one, quantile)).collect();
        spread_of(&mut values)
    };
    Some(Summary {
        count: merged.0.len(),
        fewest: histograms.iter().map(|one| one.0.len()).min().unwrap_or(0),
        // The sum is exact; the histogram's own mean is of rounded values.
        mean: inside / merged.0.len() as f64,
        quantiles: QUANTILES.map(|quantile| at(&merged, quantile)),
        worst: merged.0.max() as f64 / clock.ticks_per_ns,
        spreads: QUANTILES.map(spread),
    })
}

fn spread_of(values: &mut [f64]) -> Spread {
    values.sort_by(f64::total_cmp);
    match (values.first(), values.get(values.len() / 2), values.last()) {
        (Some(&least), Some(&median), Some(&most)) => Spread { least, median, most },
        _ => Spread::default(),
    }
}

/// The histograms of several runs as one; None if there are none.
pub fn all_runs(histograms: &[&Histogram]) -> Option<Histogram> {
    histograms.first()?;
    // A new one grows as needed; one that was read from a file does not.
    let mut merged = Histogram::default();
    merged.0.auto(true);
    for histogram in histograms {
        merged.0.add(&histogram.0).ok()?;
    }
    Some(merged)
}

/// The middle value (of an even number, the higher of the two in the middle); None of none.
pub fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Nanoseconds inside all calls of a run.
pub fn total_inside(run: &Run) -> f64 {
    run.inside_ns.values().sum()
}

/// Index of the run that stands for an allocator where only one can be shown: the middle one by total time inside calls
/// (the slower of the two middle ones where their number is even).
pub fn median_run(runs: &[Run]) -> Option<usize> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by(|&one, &other| total_inside(&runs[one]).total_cmp(&total_inside(&runs[other])));
    order.get(runs.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn run(ticks: &[u64]) -> Run {
        let mut histogram = Histogram::default();
        histogram.0.auto(true);
        ticks.iter().for_each(|&value| histogram.0.record(value).unwrap());
        let inside = ticks.iter().sum::<u64>() as f64 / 2.0;
        Run {
            latency: [("malloc".to_owned(), histogram)].into(),
            inside_ns: [("malloc".to_owned(), inside)].into(),
            ..Run::default()
        }
    }

    #[test]
    fn percentiles_are_of_all_calls_and_the_spread_of_single_runs() {
        // Run one has a bad tail: 1 of its 100 calls. Of 300 calls that is 1 too, so p99 of all is not the mean of
        // p99s.
        let mut slow = vec![20; 99];
        slow.push(2000);
        let result = AllocatorResult {
            runs: vec![run(&slow), run(&[20; 100]), run(&[40; 100])],
            ..Default::default()
        };
        let clock = Clock { ticks_per_ns: 2.0, ..Clock::default() };
        let summary = summary(&result, "malloc", &clock).unwrap();
        assert_eq!((summary.count, summary.fewest), (300, 100));
        assert_eq!(summary.quantiles[0], 10.0);
        assert_eq!(summary.quantiles[2], 20.0);
        assert!((summary.worst - 1000.0).abs() < 1.0);
        assert!((summary.mean - (99.0 * 20.0 + 2000.0 + 100.0 * 20.0 + 100.0 * 40.0) / 600.0).abs() < 1e-9);
        assert_eq!((summary.spreads[0].least, summary.spreads[0].most), (10.0, 20.0));
        assert!(super::summary(&result, "calloc", &clock).is_none());
    }

    #[test]
    fn the_run_in_the_middle_stands_for_all() {
        assert_eq!(median_run(&[run(&[90]), run(&[10]), run(&[50])]), Some(2));
        assert_eq!(median_run(&[run(&[90]), run(&[10])]), Some(0));
        assert_eq!(median_run(&[]), None);
    }
}
