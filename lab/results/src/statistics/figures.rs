//! The figures of a run that are compared, identified by operation and name.

use super::percentile::{EXACT_TICKS, percentile};
use crate::{
    ALL_OPERATIONS, AllocatorResult, Comparison, FRAME, PERCENTILES, Percentile, RUN, Run,
    SLOW_PROCESSOR,
};

/// The least number of calls above a percentile, less a rounding error.
const CALLS_ABOVE: f64 = 9.999;

/// Whether this many calls are enough for a percentile: at least ten calls must exceed it.
pub fn supports_percentile(calls: u64, quantile: f64) -> bool {
    calls as f64 * (1.0 - quantile) >= CALLS_ABOVE
}

/// One figure over the rounds of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// An operation, [`ALL_OPERATIONS`] or [`RUN`].
    pub operation: String,
    /// `mean`, a percentile's label, `worst`; of a run `elapsed`, `peak`, `throughput`.
    pub name: &'static str,
    /// (round, value): ns, or bytes for `peak`.
    pub values: Vec<(u32, f64)>,
    /// The smallest difference that the clock can show, in the same unit: its step for single
    /// calls, else 0.
    pub resolution: f64,
    /// The rounds of `values` whose run had a slow processor.
    pub slow: Vec<u32>,
}

/// The fewest rounds with an undisturbed processor that replace all rounds in an interval.
pub const FEWEST_CALM: usize = 5;

impl Figure {
    /// The values without their rounds.
    pub fn plain(&self) -> Vec<f64> {
        self.values.iter().map(|&(_, value)| value).collect()
    }

    /// Whether the processor was as fast as in the fastest run.
    pub fn is_calm(&self, round: u32) -> bool {
        !self.slow.contains(&round)
    }

    /// The values from which the interval is computed: those of the rounds with an undisturbed
    /// processor, or all if those are fewer than `FEWEST_CALM`. The choice depends on the state
    /// of the machine, never on the values.
    pub fn calm(&self) -> Vec<f64> {
        let calm = self.values.iter().filter(|(round, _)| self.is_calm(*round));
        let calm: Vec<f64> = calm.map(|&(_, value)| value).collect();
        if calm.len() >= FEWEST_CALM { calm } else { self.plain() }
    }
}

/// The clock's step: the smallest difference between two short times in the results, ticks.
pub fn clock_step(comparison: &Comparison) -> u64 {
    let runs = comparison.allocators.iter().flat_map(|result| &result.runs);
    let histograms =
        runs.flat_map(|run| run.latency.values()).chain([&comparison.clock.empty_pair]);
    let mut values: Vec<u64> = histograms
        .flat_map(|histogram| histogram.0.iter_recorded().map(|value| value.value_iterated_to()))
        .filter(|&value| value < EXACT_TICKS)
        .collect();
    values.sort_unstable();
    values.dedup();
    values.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(1)
}

/// The clock's step, ticks: as stored in the results, or else [`clock_step`].
pub fn known_step(comparison: &Comparison) -> u64 {
    match comparison.clock.step_ticks {
        0 => clock_step(comparison),
        step => step,
    }
}

/// All figures of an allocator, in the order of tables.
pub fn figures(comparison: &Comparison, result: &AllocatorResult) -> Vec<Figure> {
    let clock = &comparison.clock;
    let step = clock.step_ticks as f64 / clock.ticks_per_ns.max(f64::MIN_POSITIVE);
    let mut found = Vec::new();
    let slow = slow_rounds(result);
    let mut operations: Vec<&str> =
        comparison.journal.operations.keys().map(String::as_str).collect();
    operations.push(ALL_OPERATIONS);
    for operation in operations {
        let counts: Vec<Counted> =
            result.runs.iter().filter_map(|run| counted(run, operation)).collect();
        let Some(calls) = counts.iter().map(|(_, histogram, _)| histogram.len()).min() else {
            continue;
        };
        let mut add =
            |name, resolution, value: &dyn Fn(&hdrhistogram::Histogram<u64>, f64) -> f64| {
                let values = counts
                    .iter()
                    .map(|(round, histogram, mean)| (*round, value(histogram, *mean)))
                    .collect();
                let (operation, slow) = (operation.to_owned(), slow.clone());
                found.push(Figure { operation, name, values, resolution, slow });
            };
        let ns = |ticks: u64| ticks as f64 / clock.ticks_per_ns;
        add("mean", 0.0, &|_, mean| mean);
        for Percentile { label, fraction, .. } in PERCENTILES {
            if supports_percentile(calls, fraction) {
                add(label, step, &|histogram, _| {
                    percentile(histogram, fraction, clock.step_ticks) / clock.ticks_per_ns
                });
            }
        }
        add("worst", step, &|histogram, _| ns(histogram.max()));
    }
    found.extend(whole_runs(result));
    found
}

/// The calls of an operation in a run: its round, their ticks, and the mean of all, ns.
type Counted = (u32, hdrhistogram::Histogram<u64>, f64);

fn counted(run: &Run, operation: &str) -> Option<Counted> {
    if operation == ALL_OPERATIONS {
        // A new histogram grows as needed; one that was read from a file does not.
        let mut all = hdrhistogram::Histogram::new(3).ok()?;
        run.latency.values().try_for_each(|part| all.add(&part.0)).ok()?;
        let calls: u64 = run.latency.keys().map(|name| run.calls(name)).sum();
        let mean = run.inside_ns.values().sum::<f64>() / calls as f64;
        return (!all.is_empty()).then_some((run.round, all, mean));
    }
    let histogram = &run.latency.get(operation)?.0;
    (!histogram.is_empty()).then(|| {
        let inside = run.inside_ns.get(operation).copied().unwrap_or(0.0);
        (run.round, histogram.clone(), inside / run.calls(operation) as f64)
    })
}

fn is_slow(interference: &[String]) -> bool {
    interference.iter().any(|word| word == SLOW_PROCESSOR)
}

/// The rounds in which the run with the clock had a slow processor.
fn slow_rounds(result: &AllocatorResult) -> Vec<u32> {
    let slow = result.runs.iter().filter(|run| is_slow(&run.interference));
    slow.map(|run| run.round).collect()
}

fn whole_runs(result: &AllocatorResult) -> Vec<Figure> {
    let figure = |name, values: Vec<(u32, f64)>, slow: Vec<u32>| Figure {
        operation: RUN.to_owned(),
        name,
        values,
        resolution: 0.0,
        slow,
    };
    let of_runs = |value: &dyn Fn(&Run) -> f64| -> Vec<(u32, f64)> {
        result.runs.iter().map(|run| (run.round, value(run))).collect()
    };
    let throughput: Vec<(u32, f64)> = result
        .throughput
        .iter()
        .map(|run| (run.round, run.elapsed_ns as f64 / run.operations.max(1) as f64))
        .collect();
    let mut found = vec![
        figure("elapsed", of_runs(&|run| run.elapsed_ns as f64), slow_rounds(result)),
        // The speed of the processor does not change it.
        figure("peak", of_runs(&|run| run.peak_rss_bytes as f64), Vec::new()),
    ];
    if !throughput.is_empty() {
        let slow = result.throughput.iter().filter(|run| is_slow(&run.interference));
        let slow = slow.map(|run| run.round).collect();
        found.push(figure("throughput", throughput, slow));
    }
    found
}

/// The time inside the calls of a frame, ns, all threads together; empty without frames. A
/// percentile needs at least ten frames above it, as with calls.
pub fn frame_figures(result: &AllocatorResult) -> Vec<Figure> {
    let frames: Vec<(u32, &hdrhistogram::Histogram<u64>)> = result
        .runs
        .iter()
        .filter_map(|run| Some((run.round, &run.frames.as_ref()?.all_threads.0)))
        .filter(|(_, frames)| !frames.is_empty())
        .collect();
    let Some(count) = frames.iter().map(|(_, frames)| frames.len()).min() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut add = |name, value: &dyn Fn(&hdrhistogram::Histogram<u64>) -> f64| {
        let values = frames.iter().map(|(round, frames)| (*round, value(frames))).collect();
        let (operation, slow) = (FRAME.to_owned(), slow_rounds(result));
        found.push(Figure { operation, name, values, resolution: 0.0, slow });
    };
    add("mean", &hdrhistogram::Histogram::mean);
    for Percentile { label, fraction, .. } in PERCENTILES {
        if supports_percentile(count, fraction) {
            add(label, &|frames| frames.value_at_quantile(fraction) as f64);
        }
    }
    add("worst", &|frames| frames.max() as f64);
    found
}
