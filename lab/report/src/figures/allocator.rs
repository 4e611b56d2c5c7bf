//! All figures of one allocator.

use super::lowest::complete;
use super::spread::Spread;
use super::summary::{FLOOR, OperationSummary, summarize};
use crate::error::ReportError;
use keel_results::{
    AllocatorResult, Comparison, Histogram, OPERATIONS, RESULTS_FILE, RUN, Run, frame_figures,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The figure of [`AllocatorFigures::figures`] with the calls above 1 ms of a run.
pub const CALLS_ABOVE_1_MS: &str = "calls_above_1_ms";
/// The figure with the resident bytes at the end of a run.
pub const MEMORY_AT_END: &str = "memory_at_end";
const MS_NS: f64 = 1e6;

/// The figures of one allocator; field names are those that the page's scripts read.
#[derive(Debug, Serialize)]
pub struct AllocatorFigures {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
    /// Whether it is [`FLOOR`], which does not compete.
    pub floor: bool,
    /// Why it could not run.
    pub failure: Option<String>,
    /// Number of its runs.
    pub runs: usize,
    /// Latencies by operation; empty if it could not run.
    pub operations: BTreeMap<String, OperationSummary>,
    /// The same without interrupted calls; empty if interruptions were not recorded.
    pub undisturbed: BTreeMap<String, OperationSummary>,
    /// Figures of whole runs by name: `peak`, [`MEMORY_AT_END`], `throughput` (ns per operation, in
    /// runs that do not time each call), `minor_faults`, `major_faults`, `elapsed`, `cpu`,
    /// `background`, `waited`, `voluntary_switches`, `involuntary_switches`, [`CALLS_ABOVE_1_MS`]
    /// (without interrupted calls, if interruptions were recorded).
    pub figures: BTreeMap<&'static str, Spread>,
    /// Time inside the calls of one frame, ns: `mean`, `p50` ... , `worst`; empty without frames.
    pub frames: BTreeMap<String, Spread>,
    /// The same without interrupted calls; empty if interruptions were not recorded.
    pub undisturbed_frames: BTreeMap<String, Spread>,
}

impl AllocatorFigures {
    /// The figures of `result`. `calm` is the same allocator without interrupted calls, if known.
    pub fn new(
        comparison: &Comparison,
        result: &AllocatorResult,
        calm: Option<&AllocatorResult>,
    ) -> AllocatorFigures {
        let clock = &comparison.clock;
        AllocatorFigures {
            name: result.name.clone(),
            version: result.version.clone(),
            floor: result.name == FLOOR,
            failure: result.failure.clone(),
            runs: result.runs.len(),
            operations: summarize(result, clock),
            undisturbed: calm.map_or_else(BTreeMap::new, |calm| summarize(calm, clock)),
            figures: run_figures(result)
                .into_iter()
                .chain(long_calls(calm.unwrap_or(result), clock.ticks_per_ns))
                .collect(),
            frames: frame_spreads(result),
            undisturbed_frames: calm.map_or_else(BTreeMap::new, frame_spreads),
        }
    }
}

/// The figures of all allocators, in the order of the comparison. `calm` is the comparison without
/// interrupted calls, if known.
pub fn figures(comparison: &Comparison, calm: Option<&Comparison>) -> Vec<AllocatorFigures> {
    let calm = |index: usize| calm.map(|calm| &calm.allocators[index]);
    let results = comparison.allocators.iter().enumerate();
    results.map(|(index, result)| AllocatorFigures::new(comparison, result, calm(index))).collect()
}

/// The operations that occur, in the order of [`OPERATIONS`].
pub fn operations<'a>(
    allocators: impl Iterator<Item = &'a AllocatorFigures> + Clone,
) -> Vec<&'static str> {
    let occurs = |name: &&str| allocators.clone().any(|one| one.operations.contains_key(*name));
    OPERATIONS.into_iter().filter(occurs).collect()
}

fn run_figures(result: &AllocatorResult) -> BTreeMap<&'static str, Spread> {
    type Figure = (&'static str, fn(&Run) -> u64);
    let of: [Figure; 10] = [
        ("peak", |run| run.peak_rss_bytes),
        (MEMORY_AT_END, |run| run.memory.last().map_or(0, |sample| sample.resident)),
        ("minor_faults", |run| run.minor_faults),
        ("major_faults", |run| run.major_faults),
        ("elapsed", |run| run.elapsed_ns),
        ("cpu", |run| run.cpu_ns),
        ("background", |run| run.background_cpu_ns),
        ("waited", |run| run.waited_ns),
        ("voluntary_switches", |run| run.voluntary_switches),
        ("involuntary_switches", |run| run.involuntary_switches),
    ];
    let of_runs = |(name, value): Figure| {
        let spread = Spread::of(result.runs.iter().map(|run| value(run) as f64))?;
        Some((name, spread, result.runs.len()))
    };
    let each =
        result.throughput.iter().map(|run| run.elapsed_ns as f64 / run.operations.max(1) as f64);
    let throughput = Spread::of(each).map(|spread| ("throughput", spread, result.throughput.len()));
    let intervals = result.intervals.get(RUN);
    let with = |(name, spread, runs): (&'static str, Spread, usize)| {
        (name, spread.with(intervals.and_then(|found| found.get(name)), runs))
    };
    of.into_iter().filter_map(of_runs).chain(throughput).map(with).collect()
}

/// The calls of a run that take more than 1 ms; None without runs.
fn long_calls(result: &AllocatorResult, ticks_per_ns: f64) -> Option<(&'static str, Spread)> {
    let least = (MS_NS * ticks_per_ns) as u64;
    let above = |counts: &Histogram| {
        let longer = counts.0.iter_recorded().filter(|step| step.value_iterated_to() > least);
        longer.map(|step| step.count_since_last_iteration()).sum::<u64>()
    };
    let of_run = |run: &Run| run.latency.values().map(above).sum::<u64>() as f64;
    Some((CALLS_ABOVE_1_MS, Spread::of(result.runs.iter().map(of_run))?))
}

fn frame_spreads(result: &AllocatorResult) -> BTreeMap<String, Spread> {
    let spread = |figure: keel_results::Figure| {
        Some((figure.name.replace('.', ""), Spread::of(figure.plain())?))
    };
    frame_figures(result).into_iter().filter_map(spread).collect()
}

/// Reads the summary of a result folder, refuses contradictory ones and completes the others.
pub fn load(folder: &Path) -> Result<Comparison, ReportError> {
    let mut comparison = Comparison::load(folder)?;
    let nonsense = |detail: &str| ReportError::Nonsense {
        path: folder.join(RESULTS_FILE),
        detail: detail.into(),
    };
    if comparison.allocators.iter().all(|result| result.runs.is_empty()) {
        return Err(nonsense("holds no run of any allocator"));
    }
    if !(comparison.clock.ticks_per_ns.is_finite() && comparison.clock.ticks_per_ns > 0.0) {
        let missing = "the results do not contain the clock's frequency (clock.ticks_per_ns)";
        return Err(nonsense(missing));
    }
    complete(&mut comparison, FLOOR);
    Ok(comparison)
}

/// The run that the page draws.
pub fn median_run(result: &AllocatorResult) -> Option<usize> {
    result.median_run()
}
