//! The limits of a verdict: few runs, the cost of measuring, the machine, interruptions.

use super::criteria::{Criterion, FEW_RUNS, Figure};
use super::sentences::weigh;
use crate::figures::{AllocatorFigures, FLOOR};
use crate::words;
use keel_results::{CAUSE_INTERRUPTED, Comparison};

/// The step of the clock, ns.
pub fn clock_step_ns(comparison: &Comparison) -> f64 {
    comparison.clock.step_ticks as f64 / comparison.clock.ticks_per_ns.max(1e-9)
}

/// What a verdict is limited by, one sentence each.
pub fn cautions(
    comparison: &Comparison,
    calm: Option<&Comparison>,
    allocators: &[AllocatorFigures],
    criteria: &[Criterion],
    operation: &str,
    runs: usize,
) -> Vec<String> {
    let mut cautions = Vec::new();
    if (1..FEW_RUNS).contains(&runs) {
        let times = if runs == 1 { "once".to_owned() } else { format!("{runs} times") };
        cautions.push(format!(
            "Each allocator ran only {times}. Compare again with --runs {} before you decide.",
            more_runs(runs)
        ));
    }
    cautions.extend(criteria.iter().filter_map(floor_caution));
    cautions.extend(worst_caution(allocators, operation));
    cautions.extend(interrupted_caution(comparison, calm, allocators, operation, runs));
    cautions.extend(comparison.notes.iter().cloned());
    cautions
}

/// A figure that depends mostly on the measurement and the machine.
fn floor_caution(criterion: &Criterion) -> Option<String> {
    let (floor, best) = (criterion.floor?, criterion.rows.first()?.1);
    if criterion.unit != "ns" || floor.median < best.median * 0.5 {
        return None;
    }
    let (title, floor) = (&criterion.title, words::duration(floor.median));
    let best = words::duration(best.median);
    Some(format!(
        "The value “{title}” depends mostly on the measurement and the machine. It is {floor} with \
         the null allocator, which does nothing. The lowest value of the other allocators is \
         {best}."
    ))
}

/// On a shared machine the longest call of a run is seldom caused by the allocator.
fn worst_caution(allocators: &[AllocatorFigures], operation: &str) -> Option<String> {
    let worst = |one: &AllocatorFigures| Some(one.operations.get(operation)?.worst);
    let floor = allocators.iter().find(|one| one.floor).and_then(worst)?;
    let best = allocators.iter().filter(|one| !one.floor).filter_map(worst);
    let best = best.min_by(|a, b| a.median.total_cmp(&b.median))?;
    (floor.high >= best.median * 0.5).then(|| {
        format!(
            "Do not compare allocators by the slowest {operation} of a run: the machine alone can \
             cause such a slow call. With the null allocator, which does nothing, one call took \
             {}.",
            words::duration(floor.high)
        )
    })
}

/// The share of interrupted calls in the tail, and the verdict on the tail without them. A slow
/// call is preempted more often than a fast one, so this is shown in addition to the verdict and
/// does not replace it.
fn interrupted_caution(
    comparison: &Comparison,
    calm: Option<&Comparison>,
    allocators: &[AllocatorFigures],
    operation: &str,
    runs: usize,
) -> Option<String> {
    let outliers = || {
        let real = comparison.allocators.iter().filter(|result| result.name != FLOOR);
        real.flat_map(|result| &result.runs).flat_map(|run| &run.outliers)
    };
    let all = outliers().count();
    let hit = outliers().filter(|outlier| outlier.cause & CAUSE_INTERRUPTED != 0).count();
    let percent = 100.0 * hit as f64 / all.max(1) as f64;
    if percent < 5.0 {
        return None;
    }
    let share = format!(
        "{percent:.0} % of the slowest calls (those above p99.9) were preempted: the operating \
         system ran another thread during the call. Their latency also depends on the machine."
    );
    let Some(calm) = calm else { return Some(share) };
    let of =
        |one: &AllocatorFigures| one.undisturbed.get(operation)?.percentiles.get("p999").copied();
    let figure = Figure { operation, name: "p999", step: clock_step_ns(comparison), of: &of };
    let without = weigh(Criterion::default(), calm, allocators, &figure, runs);
    if without.rows.len() < 2 {
        return Some(share);
    }
    Some(format!(
        "{share} The following conclusion on {operation} p99.9 leaves out calls that were only \
         preempted (no page fault, system call or wait). {}",
        without.sentence
    ))
}

/// How to obtain a decision if the runs vary too much.
pub fn remedy(comparison: &Comparison, fewest_runs: usize) -> String {
    let compared = || comparison.allocators.iter().filter(|result| result.name != FLOOR);
    let runs = || compared().flat_map(|result| &result.runs);
    let busy = |run: &&keel_results::Run| {
        run.interference.iter().any(|word| word == keel_results::OTHER_PROGRAMS)
    };
    let (busy, all) = (runs().filter(busy).count(), runs().count());
    if 2 * busy > all {
        let busy = if busy == all { format!("all {all}") } else { format!("{busy} of the {all}") };
        return format!(
            "Other programs used the processors during {busy} runs. Repeat the comparison on an \
             idle machine."
        );
    }
    let more = more_runs(fewest_runs);
    format!("Repeat the comparison on a quiet machine, or with --runs {more}.")
}

/// How many runs may suffice where these did not.
fn more_runs(fewest: usize) -> usize {
    match fewest < FEW_RUNS {
        true => 10,
        false => 20.max(2 * fewest),
    }
}
