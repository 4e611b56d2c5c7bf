//! From the histograms of runs to the figures of the table and the curves of the percentile plot.
//!
//! A percentile is computed in each run; the figure is the median of these percentiles over the
//! runs. Percentiles are never averaged. Intervals come from the results.

use super::spread::{Spread, short};
use keel_results::{
    ALL_OPERATIONS, AllocatorResult, Clock, Comparison, FrameSums, Histogram, Interval, OPERATIONS,
    PERCENTILES, Percentile, Run, percentile, supports_percentile,
};
use serde::Serialize;
use std::collections::BTreeMap;

type Counts = hdrhistogram::Histogram<u64>;

/// The allocator that does nothing: its times are the cost of measuring. It does not compete.
pub const FLOOR: &str = "null";
/// Points of a percentile curve for each factor of ten in `1 - quantile`.
pub const CURVE_POINTS_PER_NINE: f64 = 16.0;

/// Labels of the axis of percentiles, by their position in nines.
pub const NINES: [(f64, &str); 10] = [
    (0.0, "0"),
    (std::f64::consts::LOG10_2, "50 %"),
    (1.0, "90 %"),
    (2.0, "99 %"),
    (3.0, "99.9 %"),
    (4.0, "99.99 %"),
    (5.0, "99.999 %"),
    (6.0, "99.9999 %"),
    (7.0, "99.99999 %"),
    (8.0, "99.999999 %"),
];

/// The position of a fraction on the axis of percentiles: 3 for 0.999.
pub fn nines(fraction: f64) -> f64 {
    -(1.0 - fraction).log10()
}

/// One operation of one allocator; all latencies in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationSummary {
    /// Calls in one run.
    pub count: u64,
    /// Total time inside calls.
    pub total: Spread,
    /// Mean latency.
    pub mean: Spread,
    /// By the columns of [`PERCENTILES`]; a percentile needs at least ten calls above it.
    pub percentiles: BTreeMap<&'static str, Spread>,
    /// The slowest call of each run.
    pub worst: Spread,
    /// The latency exceeded by one call in `10^(index / 16)`: medians, lows and highs over runs.
    pub curve: [Vec<f64>; 3],
}

/// Summaries by operation, including [`ALL_OPERATIONS`]. Operations without calls are left out.
pub fn summarize(result: &AllocatorResult, clock: &Clock) -> BTreeMap<String, OperationSummary> {
    let mut summaries = BTreeMap::new();
    for name in OPERATIONS.iter().copied().chain([ALL_OPERATIONS]) {
        let runs: Vec<Counted> =
            result.runs.iter().filter_map(|run| counts_of(run, name, clock.ticks_per_ns)).collect();
        let intervals = result.intervals.get(name);
        if let Some(summary) = summarize_runs(&runs, clock, intervals) {
            summaries.insert(name.to_owned(), summary);
        }
    }
    summaries
}

/// The comparison without interrupted calls: an estimate of the latencies on a quiet machine. None
/// if no call was interrupted, or if this was not recorded.
pub fn undisturbed(comparison: &Comparison) -> Option<Comparison> {
    let mut runs = comparison.allocators.iter().flat_map(|result| &result.runs);
    runs.find(|run| !run.interrupted.is_empty())?;
    let ticks_per_ns = comparison.clock.ticks_per_ns;
    let without = |result: &AllocatorResult| AllocatorResult {
        name: result.name.clone(),
        runs: result.runs.iter().map(|run| without_interrupted(run, ticks_per_ns)).collect(),
        ..AllocatorResult::default()
    };
    let mut calm = Comparison {
        journal: comparison.journal.clone(),
        clock: comparison.clock.clone(),
        allocators: comparison.allocators.iter().map(without).collect(),
        ..Comparison::default()
    };
    keel_results::conclude(&mut calm, FLOOR);
    keel_results::conclude_frames(&mut calm, FLOOR);
    Some(calm)
}

/// A run without interrupted calls. The time inside the remaining calls is an estimate.
fn without_interrupted(run: &Run, ticks_per_ns: f64) -> Run {
    let mut latency = run.latency.clone();
    for (name, interrupted) in &run.interrupted {
        if let Some(counts) = latency.get_mut(name) {
            // Cannot fail: every interrupted call was counted in both histograms.
            let subtracted = counts.0.subtract(&interrupted.0);
            debug_assert!(
                subtracted.is_ok(),
                "{name}: the results are not valid: there are more interrupted calls than calls"
            );
        }
    }
    let estimate = |counts: &Histogram| counts.0.mean() * counts.0.len() as f64 / ticks_per_ns;
    let inside_ns = latency.iter().map(|(name, counts)| (name.clone(), estimate(counts))).collect();
    let frames = run.frames.as_ref().and_then(|frames| frames.uninterrupted.clone());
    let frames = frames.map(|sums| FrameSums { all_threads: sums, ..FrameSums::default() });
    Run { round: run.round, latency, inside_ns, frames, ..Run::default() }
}

/// An operation in one run.
struct Counted {
    /// Its latencies in ticks.
    counts: Counts,
    /// Its calls, with those that are left out of `counts`.
    calls: u64,
    /// The time inside all of these calls, ns.
    inside: f64,
}

fn counts_of(run: &Run, name: &str, ticks_per_ns: f64) -> Option<Counted> {
    let estimate = |counts: &Counts| counts.mean() * counts.len() as f64 / ticks_per_ns;
    if name == ALL_OPERATIONS {
        // A new histogram grows as needed; a histogram that was read from a file does not.
        let mut counts = Counts::new(3).ok()?;
        run.latency.values().try_for_each(|part| counts.add(&part.0)).ok()?;
        if counts.is_empty() {
            return None;
        }
        let inside =
            if run.inside_ns.is_empty() { estimate(&counts) } else { run.inside_ns.values().sum() };
        let calls = run.latency.keys().map(|name| run.calls(name)).sum();
        return Some(Counted { counts, calls, inside });
    }
    let counts = run.latency.get(name)?.0.clone();
    if counts.is_empty() {
        return None;
    }
    let inside = run.inside_ns.get(name).copied().unwrap_or_else(|| estimate(&counts));
    Some(Counted { counts, calls: run.calls(name), inside })
}

fn summarize_runs(
    runs: &[Counted],
    clock: &Clock,
    intervals: Option<&BTreeMap<String, Interval>>,
) -> Option<OperationSummary> {
    let interval = |name: &str| intervals.and_then(|found| found.get(name));
    let count = runs.iter().map(|run| run.counts.len()).min()?;
    let calls = runs.iter().map(|run| run.calls).min()?;
    let over_runs = |value: &dyn Fn(&Counts) -> f64| {
        Spread::of(runs.iter().map(|run| value(&run.counts) / clock.ticks_per_ns))
    };
    let at = |quantile: f64| over_runs(&|counts| percentile(counts, quantile, clock.step_ticks));
    let mut percentiles = BTreeMap::new();
    for Percentile { label, column, fraction } in PERCENTILES {
        if supports_percentile(count, fraction) {
            let spread = at(fraction)?;
            percentiles.insert(column, spread.with(interval(label), runs.len()));
        }
    }
    let points = ((count as f64).log10() * CURVE_POINTS_PER_NINE).floor() as usize + 1;
    let mut curve = [const { Vec::new() }; 3];
    for point in 0..points {
        let quantile = 1.0 - 10f64.powf(-(point as f64) / CURVE_POINTS_PER_NINE);
        let spread = at(quantile)?;
        for (values, value) in curve.iter_mut().zip([spread.median, spread.low, spread.high]) {
            values.push(short(value));
        }
    }
    Some(OperationSummary {
        count: calls,
        total: Spread::of(runs.iter().map(|run| run.inside))?
            .with(interval("mean").map(|mean| times(mean, calls as f64)).as_ref(), runs.len()),
        mean: Spread::of(runs.iter().map(|run| run.inside / run.calls as f64))?
            .with(interval("mean"), runs.len()),
        percentiles,
        worst: over_runs(&|counts| counts.max() as f64)?,
        curve,
    })
}

fn times(interval: &Interval, factor: f64) -> Interval {
    Interval {
        value: interval.value * factor,
        low: interval.low * factor,
        high: interval.high * factor,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use keel_results::Histogram;

    fn run(scale: u64) -> Run {
        let mut malloc = Histogram::default();
        (1..=10_000u64).for_each(|value| malloc.0.record(value * scale).unwrap());
        let mut free = Histogram::default();
        (1..=5u64).for_each(|value| free.0.record(value).unwrap());
        let latency = BTreeMap::from([("malloc".to_owned(), malloc), ("free".to_owned(), free)]);
        Run { latency, ..Run::default() }
    }

    fn clock(ticks_per_ns: f64) -> Clock {
        Clock { ticks_per_ns, ..Clock::default() }
    }

    fn close(value: f64, expected: f64) -> bool {
        (value - expected).abs() <= expected * 0.002
    }

    #[test]
    fn percentiles_are_medians_over_runs_in_nanoseconds() {
        let result =
            AllocatorResult { runs: vec![run(2), run(4), run(8)], ..AllocatorResult::default() };
        let summaries = summarize(&result, &clock(2.0));
        let malloc = &summaries["malloc"];
        assert_eq!(malloc.count, 10_000);
        let p50 = malloc.percentiles["p50"];
        assert!(
            close(p50.median, 10_000.0) && close(p50.low, 5_000.0) && close(p50.high, 20_000.0),
            "{p50:?}"
        );
        assert!(close(malloc.percentiles["p999"].median, 9_990.0 * 2.0));
        assert!(close(malloc.worst.median, 20_000.0));
        assert!(close(malloc.mean.median, 10_001.0));
        assert!(!malloc.percentiles.contains_key("p9999"), "only one call is above p99.99");
        assert_eq!(
            malloc.curve[0].len(),
            65,
            "16 points for each of four nines, and the first point"
        );
        assert!(malloc.curve[0].is_sorted() && close(malloc.curve[0][16], 18_000.0));
        assert_eq!(summaries["all"].count, 10_005);
        assert_eq!(summaries["free"].percentiles.len(), 0);
        assert!(!summaries.contains_key("realloc"));
    }

    #[test]
    fn all_operations_add_up_after_a_round_trip_through_a_file() {
        let text = serde_json::to_string(&run(1000)).unwrap();
        let result = AllocatorResult {
            runs: vec![serde_json::from_str(&text).unwrap()],
            ..AllocatorResult::default()
        };
        assert_eq!(
            summarize(&result, &clock(1.0))["all"].count,
            10_005,
            "the range of free is far below that of malloc"
        );
    }

    #[test]
    fn interrupted_calls_are_subtracted() {
        let mut only = run(1);
        let mut interrupted = Histogram::default();
        (9_001..=10_000u64).for_each(|value| interrupted.0.record(value).unwrap());
        only.interrupted = BTreeMap::from([("malloc".to_owned(), interrupted)]);
        let mut comparison = Comparison {
            allocators: vec![AllocatorResult { runs: vec![only], ..AllocatorResult::default() }],
            ..Comparison::default()
        };
        comparison.clock.ticks_per_ns = 1.0;
        comparison.journal.operations.insert("malloc".to_owned(), 10_000);
        let calm = undisturbed(&comparison).unwrap();
        let summaries = summarize(&calm.allocators[0], &clock(1.0));
        assert_eq!(summaries["malloc"].count, 9_000);
        assert!(
            close(summaries["malloc"].worst.median, 9_000.0),
            "{:?}",
            summaries["malloc"].worst
        );
        assert!(close(summaries["malloc"].mean.median, 4_500.5), "{:?}", summaries["malloc"].mean);
        comparison.allocators[0].runs[0].interrupted.clear();
        assert!(undisturbed(&comparison).is_none(), "no interruptions were recorded");
    }

    #[test]
    fn the_time_inside_calls_is_used_where_it_was_measured() {
        let mut only = run(1);
        only.inside_ns = BTreeMap::from([("malloc".to_owned(), 1e6), ("free".to_owned(), 5e3)]);
        let result = AllocatorResult { runs: vec![only], ..AllocatorResult::default() };
        let summaries = summarize(&result, &clock(1.0));
        assert_eq!(summaries["malloc"].mean.median, 100.0);
        assert_eq!(summaries["all"].total.median, 1_005_000.0);
    }
}
