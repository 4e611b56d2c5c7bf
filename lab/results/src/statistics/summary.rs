//! Numbers for tables: of all calls of an allocator, with the spread between its runs.
//!
//! Percentiles are never averaged. Those of a summary are computed from the merged histogram of all
//! runs; the spread gives the smallest, median and largest value of single runs.

use super::percentile::percentile;
use crate::{AllocatorResult, Clock, Histogram, PERCENTILES, Run};

/// A value over the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The smallest value of a run.
    pub least: f64,
    /// The median over the runs.
    pub median: f64,
    /// The largest value of a run.
    pub most: f64,
}

/// One operation of one allocator, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Calls in all runs.
    pub count: u64,
    /// Calls in the run that has the fewest, for [`crate::supports_percentile`].
    pub fewest: u64,
    /// Their mean.
    pub mean: f64,
    /// [`PERCENTILES`] of the calls of all runs together.
    pub percentiles: [f64; PERCENTILES.len()],
    /// The longest of all calls.
    pub worst: f64,
    /// The spread of each percentile between runs.
    pub spreads: [Spread; PERCENTILES.len()],
}

/// Summarizes an operation of an allocator; None if it never occurred.
pub fn summary(result: &AllocatorResult, operation: &str, clock: &Clock) -> Option<Summary> {
    let histograms: Vec<&Histogram> = result
        .runs
        .iter()
        .filter_map(|run| run.latency.get(operation))
        .filter(|one| !one.0.is_empty())
        .collect();
    let merged = all_runs(&histograms)?;
    let at = |histogram: &Histogram, fraction: f64| {
        percentile(&histogram.0, fraction, clock.step_ticks) / clock.ticks_per_ns
    };
    let inside: f64 = result.runs.iter().filter_map(|run| run.inside_ns.get(operation)).sum();
    let spread = |fraction: f64| {
        let mut values: Vec<f64> = histograms.iter().map(|one| at(one, fraction)).collect();
        spread_of(&mut values)
    };
    Some(Summary {
        count: merged.0.len(),
        fewest: histograms.iter().map(|one| one.0.len()).min().unwrap_or(0),
        // The sum is exact; a histogram computes its mean from rounded values.
        mean: inside / result.runs.iter().map(|run| run.calls(operation)).sum::<u64>() as f64,
        percentiles: PERCENTILES.map(|percentile| at(&merged, percentile.fraction)),
        worst: merged.0.max() as f64 / clock.ticks_per_ns,
        spreads: PERCENTILES.map(|percentile| spread(percentile.fraction)),
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
    // A new histogram grows as needed; one that was read from a file does not.
    let mut merged = Histogram::default();
    merged.0.auto(true);
    for histogram in histograms {
        merged.0.add(&histogram.0).ok()?;
    }
    Some(merged)
}

/// The median; for an even number of values, the higher of the two in the middle. None without
/// values.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Nanoseconds inside all calls of a run.
pub fn total_inside(run: &Run) -> f64 {
    run.inside_ns.values().sum()
}

/// The index of the run that is shown where a view has room for one: the median by total time
/// inside calls (the slower of the two in the middle if their number is even).
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
        // Run one has a bad tail: 1 of its 100 calls. Of 300 calls that is 1 too, so p99 of all is
        // not the mean of p99s.
        let mut slow = vec![20; 99];
        slow.push(2000);
        let result = AllocatorResult {
            runs: vec![run(&slow), run(&[20; 100]), run(&[40; 100])],
            ..Default::default()
        };
        let clock = Clock { ticks_per_ns: 2.0, ..Clock::default() };
        let summary = summary(&result, "malloc", &clock).unwrap();
        assert_eq!((summary.count, summary.fewest), (300, 100));
        assert_eq!(summary.percentiles[0], 10.0);
        assert_eq!(summary.percentiles[2], 20.0);
        assert!((summary.worst - 1000.0).abs() < 1.0);
        assert!(
            (summary.mean - (99.0 * 20.0 + 2000.0 + 100.0 * 20.0 + 100.0 * 40.0) / 600.0).abs()
                < 1e-9
        );
        assert_eq!((summary.spreads[0].least, summary.spreads[0].most), (10.0, 20.0));
        assert!(super::summary(&result, "calloc", &clock).is_none());
    }

    #[test]
    fn the_median_run_is_chosen_by_time_inside_calls() {
        assert_eq!(median_run(&[run(&[90]), run(&[10]), run(&[50])]), Some(2));
        assert_eq!(median_run(&[run(&[90]), run(&[10])]), Some(0));
        assert_eq!(median_run(&[]), None);
    }
}
