//! What the figures bear, in plain words.
//!
//! An allocator is called better only when every one of its runs lies below every run of the others; ranges that meet
//! are called no clear difference. With `n` runs each, chance alone does that in 1 of `(2n)! / n!^2 / 2` pairs: 1 in 3
//! for two runs, 1 in 10 for three, 1 in 126 for five. So with fewer than [`FEW_RUNS`] the words are hedged.

use crate::statistics::{Spread, lowest};
use crate::summary::{ALL_OPERATIONS, OperationSummary, clock_step_ticks};
use crate::words;
use keel_results::{CAUSE_INTERRUPTED, Comparison};
use serde::Serialize;
use std::collections::BTreeMap;

/// The name of the allocator that does nothing.
pub const FLOOR: &str = "null";
/// Fewer runs than this cannot carry a claim.
pub const FEW_RUNS: usize = 4;

/// The page's opening.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// One sentence or two.
    pub headline: String,
    /// What was compared, each with its own sentence.
    pub criteria: Vec<Criterion>,
    /// What a reader must keep in mind, plain sentences.
    pub cautions: Vec<String>,
}

/// One figure of all allocators.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Criterion {
    /// `time`, `p50`, `p999`, `p9999`, `memory`.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What it is, a line.
    pub meaning: &'static str,
    /// `ns` or `bytes`.
    pub unit: &'static str,
    /// What can be said.
    pub sentence: String,
    /// Index of the allocator and its figure, lowest median first.
    pub rows: Vec<(usize, Spread)>,
    /// Those that may be the lowest; one alone is.
    pub best: Vec<usize>,
    /// The same figure with no allocator at all.
    pub floor: Option<Spread>,
}

/// What the verdict is drawn from: one entry an allocator, in the comparison's order.
pub struct Contender<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its latencies; empty if it could not run.
    pub operations: &'a BTreeMap<String, OperationSummary>,
    /// The same without interrupted calls; empty if not known.
    pub undisturbed: &'a BTreeMap<String, OperationSummary>,
    /// Its peak memory.
    pub peak_bytes: Option<Spread>,
    /// Number of its runs.
    pub runs: usize,
}

impl Contender<'_> {
    fn all(&self) -> Option<&OperationSummary> {
        self.operations.get(ALL_OPERATIONS)
    }
}

/// Weighs the contenders against each other.
pub fn judge(comparison: &Comparison, contenders: &[Contender<'_>]) -> Verdict {
    let resolution = clock_step_ticks(comparison) as f64 / comparison.clock.ticks_per_ns.max(1e-9);
    let percentile =
        |name: &'static str| move |contender: &Contender<'_>| contender.all()?.percentiles.get(name).copied();
    let runs = contenders.iter().filter(|one| one.runs > 0).map(|one| one.runs).min().unwrap_or(0);
    let new = |id, title, meaning, unit, resolution, figure: &dyn Fn(&Contender<'_>) -> Option<Spread>| {
        weigh(
            Criterion { id, title, meaning, unit, ..Criterion::default() },
            contenders,
            resolution,
            runs,
            figure,
        )
    };
    let criteria: Vec<Criterion> = [
        new("time", "Time in calls", "all calls of a run added up", "ns", 0.0, &|one| Some(one.all()?.total)),
        new("p50", "Typical call", "half of all calls take longer", "ns", resolution, &percentile("p50")),
        new("p999", "Tail", "p99.9: one call in 1,000 takes longer", "ns", resolution, &percentile("p999")),
        new(
            "p9999",
            "Far tail",
            "p99.99: one call in 10,000 takes longer",
            "ns",
            resolution,
            &percentile("p9999"),
        ),
        new("memory", "Peak memory", "most resident memory at any moment", "bytes", 0.0, &|one| {
            one.peak_bytes
        }),
    ]
    .into_iter()
    .filter(|criterion| !criterion.rows.is_empty())
    .collect();
    let headline = headline(&criteria, contenders, runs);
    let cautions = cautions(comparison, contenders, &criteria, runs, resolution);
    Verdict { headline, criteria, cautions }
}

fn weigh(
    mut criterion: Criterion,
    contenders: &[Contender<'_>],
    resolution: f64,
    runs: usize,
    figure: &dyn Fn(&Contender<'_>) -> Option<Spread>,
) -> Criterion {
    for (index, contender) in contenders.iter().enumerate() {
        match figure(contender) {
            Some(spread) if contender.name == FLOOR => criterion.floor = Some(spread),
            Some(spread) => criterion.rows.push((index, spread)),
            None => {}
        }
    }
    criterion.rows.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    criterion.best = lowest(&criterion.rows, resolution);
    let by_clock = criterion.best.len() > lowest(&criterion.rows, 0.0).len();
    criterion.sentence = sentence(&criterion, contenders, runs, by_clock);
    criterion
}

/// `by_clock`: some are among the best only because the clock cannot tell them from the best.
fn sentence(criterion: &Criterion, contenders: &[Contender<'_>], runs: usize, by_clock: bool) -> String {
    let name = |index: &usize| contenders[*index].name;
    let names: Vec<&str> = criterion.best.iter().map(name).collect();
    if criterion.rows.len() < 2 {
        return "Nothing to compare with.".into();
    }
    if runs < 2 {
        return format!("{} is lowest in the only run; how far runs scatter is not known.", names[0]);
    }
    if names.len() == criterion.rows.len() {
        let why =
            if by_clock { "they are closer than the clock can tell" } else { "the runs of all overlap" };
        return format!("No clear difference: {why}.");
    }
    if names.len() > 1 {
        let why = if by_clock { "they are closer than the clock can tell" } else { "their runs overlap" };
        return format!("No clear difference between {}: {why}.", words::list(&names));
    }
    let (next, best) = (&criterion.rows[1], &criterion.rows[0]);
    let ratio = next.1.median / best.1.median.max(1e-9);
    let by = if ratio >= 1.95 {
        format!("{ratio:.1} times less than")
    } else {
        format!("{:.0} % less than", ((1.0 - 1.0 / ratio) * 100.0).max(1.0))
    };
    let every = if runs == 2 { "Both runs".to_owned() } else { format!("All {runs} runs") };
    let hedge = if runs < FEW_RUNS { ", though so few runs can do that by chance" } else { "" };
    format!("{every} of {} lie below those of all others{hedge}; {by} {}.", names[0], name(&next.0))
}

/// Winners first, grouped; then what is undecided.
fn headline(criteria: &[Criterion], contenders: &[Contender<'_>], runs: usize) -> String {
    let compared = criteria.iter().map(|criterion| criterion.rows.len()).max().unwrap_or(0);
    if compared < 2 {
        return "One allocator was measured: there is nothing to compare it with.".into();
    }
    let mut won: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut open = Vec::new();
    for criterion in criteria {
        let prize = prize(criterion.id);
        match criterion.best.as_slice() {
            [winner] => match won.iter_mut().find(|(index, _)| index == winner) {
                Some((_, prizes)) => prizes.push(prize),
                None => won.push((*winner, vec![prize])),
            },
            _ => open.push(criterion.title.to_lowercase()),
        }
    }
    won.sort_by_key(|(_, prizes)| std::cmp::Reverse(prizes.len()));
    let verb = if runs < FEW_RUNS { "seems to have" } else { "has" };
    let clauses: Vec<String> = won
        .iter()
        .map(|(index, prizes)| format!("{} {verb} {}", contenders[*index].name, words::list(prizes)))
        .collect();
    let open: Vec<&str> = open.iter().map(String::as_str).collect();
    match (clauses.is_empty(), open.is_empty()) {
        (true, _) => "No clear difference between the best allocators in anything that was measured.".into(),
        (false, true) => format!("{}.", clauses.join("; ")),
        (false, false) => format!("{}. No clear winner in {}.", clauses.join("; "), words::list(&open)),
    }
}

fn prize(id: &str) -> &'static str {
    match id {
        "time" => "the least time in calls",
        "p50" => "the fastest typical call",
        "p999" => "the shortest tail",
        "p9999" => "the shortest far tail",
        _ => "the smallest memory",
    }
}

fn cautions(
    comparison: &Comparison,
    contenders: &[Contender<'_>],
    criteria: &[Criterion],
    runs: usize,
    resolution: f64,
) -> Vec<String> {
    let mut cautions = Vec::new();
    if runs < FEW_RUNS {
        let each = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
        cautions
            .push(format!("Only {each} of each allocator: compare with --runs 5 or more before deciding."));
    }
    cautions.extend(criteria.iter().filter_map(floor_caution));
    cautions.extend(worst_caution(contenders));
    cautions.extend(interrupted_caution(comparison, contenders, resolution, runs));
    for result in &comparison.allocators {
        if let Some(failure) = &result.failure {
            cautions.push(format!("{} could not run: {}", result.name, failure));
        }
    }
    cautions.extend(comparison.notes.iter().cloned());
    cautions
}

/// A figure that is mostly the instrument's own is told to be so.
fn floor_caution(criterion: &Criterion) -> Option<String> {
    let (floor, best) = (criterion.floor?, criterion.rows.first()?.1);
    if criterion.unit != "ns" || criterion.id == "time" || floor.median < best.median * 0.5 {
        return None;
    }
    let (title, floor) = (criterion.title.to_lowercase(), words::duration(floor.median));
    let best = words::duration(best.median);
    Some(format!("With no allocator at all the {title} is already {floor} (the best allocator's: {best})."))
}

/// The longest call of a run on a shared machine is seldom the allocator's.
fn worst_caution(contenders: &[Contender<'_>]) -> Option<String> {
    let worst = |one: &Contender<'_>| Some(one.all()?.worst);
    let floor = contenders.iter().find(|one| one.name == FLOOR).and_then(worst)?;
    let best = contenders.iter().filter(|one| one.name != FLOOR).filter_map(worst);
    let best = best.min_by(|a, b| a.median.total_cmp(&b.median))?;
    (floor.high >= best.median * 0.5).then(|| {
        format!(
            "The worst call tells little here: with no allocator at all, calls of up to {} were seen. \
             That is the machine.",
            words::duration(floor.high)
        )
    })
}

/// How much of the tail is preemption, and who leads without it. A wait for a lock counts as an interruption too, so
/// this is told beside the verdict and never instead of it.
fn interrupted_caution(
    comparison: &Comparison,
    contenders: &[Contender<'_>],
    resolution: f64,
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
        "{percent:.0} % of the calls above p99.9 were interrupted (preempted, or put to sleep at a lock): their length \
         tells of the machine as much as of the allocator."
    );
    let without = weigh(Criterion::default(), contenders, resolution, runs, &|one| {
        one.undisturbed.get(ALL_OPERATIONS)?.percentiles.get("p999").copied()
    });
    if without.rows.len() < 2 {
        return Some(share);
    }
    Some(format!("{share} Without them, p99.9: {}", without.sentence))
}

#[cfg(test)]
mod tests;
