//! The part of the page that shows one comparison.

use super::blocks::{self, LANE_COLUMNS};
use super::call_sites::{call_sites, code_costs};
use super::model::{AllocatorFacts, ClockFacts, Facts, Part, PercentileFacts};
use super::stacks::Stacks;
use crate::counts::{
    Counted, CountedRun, LATENCY_ROWS, LIFETIME_STEPS, LIFETIME_STEPS_PER_OCTAVE, Operations,
    Options, ROWS_PER_OCTAVE, Tiles, WINDOW_NS, in_parallel,
};
use crate::error::ReportError;
use crate::figures::{
    CURVE_POINTS_PER_NINE, FLOOR, NINES, all_leaders, figures, nines, operations, short,
};
use crate::verdict::{PAIR_PHRASES, SlowCalls, Verdict, all_pairs, base_of, hitches, judge};
use keel_results::{Comparison, PERCENTILES, Percentile};

/// The facts and blocks of one comparison. `prefix` begins the names of its blocks; `label` names
/// it among several comparisons.
pub fn part(
    counted: &Counted<'_>,
    prefix: String,
    label: String,
    options: Options,
    stacks: Option<&Stacks>,
) -> Result<Part, ReportError> {
    let comparison = counted.comparison;
    let figures = figures(comparison, counted.calm.as_ref());
    let base = base_of(comparison, &figures).map(|base| figures[base].name.as_str());
    let code = stacks.and_then(|one| code_costs(&one.explained.profile, comparison, base?));
    let calm = counted.calm.as_ref();
    let verdict = judge(comparison, calm, &figures, options.matters, code.as_deref());
    let slow_calls = SlowCalls::of(comparison);
    let of_run = |index: usize| {
        let run = counted.runs[index].as_ref();
        Ok(run.map(|run| {
            let name = format!("{prefix}{index}");
            blocks::of_run(counted, index, run, &name, (&slow_calls, stacks))
        }))
    };
    let runs = in_parallel(counted.runs.len(), options.threads, &|_, _| {}, &of_run)?;
    let (mut allocators, mut packed) = (Vec::new(), Vec::new());
    for (index, (figures, run)) in figures.into_iter().zip(runs).enumerate() {
        let median_run =
            if run.is_some() { counted.drawn[index].map_or(0, |run| run + 1) } else { 0 };
        let (blocks, bytes) = run.unwrap_or_default();
        packed.extend(bytes);
        allocators.push(AllocatorFacts {
            figures,
            median_run,
            memory: counted.resident(index),
            blocks,
        });
    }
    packed.extend(blocks::shared(counted, &prefix));
    let found = stacks.map(|stacks| stacks.encode(counted, &prefix));
    let mut facts = facts(counted, allocators, verdict, slow_calls, [prefix, label]);
    facts.call_sites = stacks.and_then(|one| call_sites(&one.explained.profile, comparison));
    facts.pinned = stacks.and_then(|one| one.pinned.clone());
    if let Some((found, blocks)) = found {
        facts.stacks = Some(found);
        packed.extend(blocks);
    }
    Ok(Part { facts, blocks: packed })
}

fn facts(
    counted: &Counted<'_>,
    allocators: Vec<AllocatorFacts>,
    verdict: Verdict,
    slow_calls: SlowCalls,
    [prefix, label]: [String; 2],
) -> Facts {
    let comparison = counted.comparison;
    let (rows, calm) = (counted.operations.as_ref(), counted.calm.as_ref());
    let mut journal = comparison.journal.clone();
    let frame_count = std::mem::take(&mut journal.frames).len();
    Facts {
        prefix,
        label,
        keel_version: comparison.keel_version.clone(),
        started: comparison.started.clone(),
        machine: comparison.machine.clone(),
        journal,
        settings: comparison.settings.clone(),
        clock: clock(comparison),
        operations: operations(allocators.iter().map(|one| &one.figures)),
        span_ns: counted.span_ns,
        columns: counted.columns,
        rows_per_octave: ROWS_PER_OCTAVE,
        row_range: row_range(comparison, &counted.runs),
        latency_rows: LATENCY_ROWS,
        lanes: rows.map_or(Vec::new(), |rows| rows.threads.clone()),
        lane_columns: LANE_COLUMNS,
        windows: rows.map_or(0, Operations::windows),
        window_ns: WINDOW_NS,
        lateness: rows.is_some_and(|rows| !rows.due.is_empty()),
        probes: counted.probes.len(),
        lifetimes: counted.lifetimes.as_ref().map(|found| [found.freed, found.live]),
        lifetime_steps: LIFETIME_STEPS,
        lifetime_steps_per_octave: LIFETIME_STEPS_PER_OCTAVE,
        percentiles: PERCENTILES.map(|Percentile { label, column, fraction }| PercentileFacts {
            column,
            label,
            nines: nines(fraction),
        }),
        nines: NINES,
        curve_points_per_nine: CURVE_POINTS_PER_NINE as u32,
        frame_count,
        live: counted.live(),
        leaders: all_leaders(comparison),
        calm_leaders: calm.map(all_leaders).unwrap_or_default(),
        pairs: all_pairs(comparison),
        calm_pairs: calm.map(all_pairs).unwrap_or_default(),
        pair_phrases: PAIR_PHRASES,
        hitches: hitches(counted),
        call_sites: None,
        pinned: None,
        stacks: None,
        slow_calls,
        allocators,
        verdict,
    }
}

/// The rows that the latency axis must span: those of the contenders, or those of the floor if
/// nothing else is drawn.
fn row_range(comparison: &Comparison, counted: &[Option<CountedRun>]) -> [u16; 2] {
    let range_of = |floor: bool| {
        let drawn = comparison
            .allocators
            .iter()
            .zip(counted)
            .filter(|(one, _)| (one.name == FLOOR) == floor);
        let ranges = drawn.filter_map(|(_, run)| run.as_ref()).flat_map(|run| &run.tiles);
        ranges.filter_map(Tiles::row_range).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    };
    let (low, high) = range_of(false).or_else(|| range_of(true)).unwrap_or((0, 1));
    [low, high]
}

fn clock(comparison: &Comparison) -> ClockFacts {
    let (pair, ticks_per_ns) = (&comparison.clock.empty_pair.0, comparison.clock.ticks_per_ns);
    let at = |quantile: f64| short(pair.value_at_quantile(quantile) as f64 / ticks_per_ns);
    let empty_pair = if pair.is_empty() { Vec::new() } else { [0.5, 0.99, 0.999].map(at).to_vec() };
    let step_ns = short(comparison.clock.step_ticks as f64 / ticks_per_ns);
    let stores_in_flight = comparison.instrument.stores_in_flight_ns.map(short);
    let name = comparison.clock.name.clone();
    ClockFacts { name, ticks_per_ns, step_ns, empty_pair, stores_in_flight }
}
