//! What the figures bear, in plain words.
//!
//! An allocator is called lowest only where the comparison of each two allocators, round by round, sets it below
//! every other at 95 % confidence, corrected for the number of allocators (`docs/decisions/0052-statistics.md`). What
//! cannot be told apart is said to be so. With fewer than [`FEW_RUNS`] rounds nobody can see whether the runs are of
//! the kind that the statistics suppose, so the words are hedged.

use crate::contest::{Ratio, lowest, ratio};
use crate::statistics::Spread;
use crate::summary::{ALL_OPERATIONS, OperationSummary};
use crate::words;
use keel_measure::RUN;
use keel_results::{CAUSE_INTERRUPTED, Comparison, Interval};
use serde::Serialize;
use std::collections::BTreeMap;

/// The name of the allocator that does nothing.
pub const FLOOR: &str = "null";
/// Fewer runs than this cannot carry a claim.
pub const FEW_RUNS: usize = 4;
/// A lead smaller than this may be certain and is yet no reason to choose anything.
pub const SLIGHT: f64 = 1.005;

/// The page's opening.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// One sentence or two.
    pub headline: String,
    /// Who is oftenest among those that may be lowest, a sentence; empty if that would be many.
    pub overall: String,
    /// What was compared, each with its own sentence.
    pub criteria: Vec<Criterion>,
    /// What a reader must keep in mind, plain sentences.
    pub cautions: Vec<String>,
}

/// One figure of all allocators.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Criterion {
    /// `time`, `throughput`, `p50`, `p999`, `p9999`, `memory`.
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
    /// Those that may be the lowest; one alone is. Empty where the runs bear nothing.
    pub best: Vec<usize>,
    /// The figure of each of `rows` over that of the first of `best`.
    pub ratios: Vec<Option<Ratio>>,
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
    /// Its figures of whole runs: `peak`, `throughput`.
    pub figures: &'a BTreeMap<&'static str, Spread>,
    /// Number of its runs.
    pub runs: usize,
}

impl Contender<'_> {
    fn all(&self) -> Option<&OperationSummary> {
        self.operations.get(ALL_OPERATIONS)
    }
}

/// What is weighed: where results hold it, and where a contender does.
struct Figure<'a> {
    operation: &'a str,
    name: &'a str,
    /// What the clock cannot tell apart, ns; 0 where it does not matter.
    step: f64,
    of: &'a dyn Fn(&Contender<'_>) -> Option<Spread>,
}

/// Weighs the contenders against each other. `calm` is the comparison without interrupted calls.
pub fn judge(comparison: &Comparison, calm: Option<&Comparison>, contenders: &[Contender<'_>]) -> Verdict {
    let runs = contenders.iter().filter(|one| one.runs > 0).map(|one| one.runs).min().unwrap_or(0);
    let criteria = criteria(comparison, contenders, runs);
    let headline = headline(&criteria, contenders, runs);
    let overall = overall(&criteria, contenders);
    let cautions = cautions(comparison, calm, contenders, &criteria, runs);
    Verdict { headline, overall, criteria, cautions }
}

fn clock_step_ns(comparison: &Comparison) -> f64 {
    comparison.clock.step_ticks as f64 / comparison.clock.ticks_per_ns.max(1e-9)
}

fn criteria(comparison: &Comparison, contenders: &[Contender<'_>], runs: usize) -> Vec<Criterion> {
    let step = clock_step_ns(comparison);
    let percentile = |name: &'static str, title, meaning| {
        let of = move |one: &Contender<'_>| one.all()?.percentiles.get(name).copied();
        let figure = Figure { operation: ALL_OPERATIONS, name, step, of: &of };
        let new = Criterion { id: name, title, meaning, unit: "ns", ..Criterion::default() };
        weigh(new, comparison, contenders, &figure, runs)
    };
    let whole = |id, title, meaning, unit, operation, name, of: &dyn Fn(&Contender<'_>) -> Option<Spread>| {
        let new = Criterion { id, title, meaning, unit, ..Criterion::default() };
        weigh(new, comparison, contenders, &Figure { operation, name, step: 0.0, of }, runs)
    };
    let found = [
        whole("time", "Time in calls", "all calls of a run added up", "ns", ALL_OPERATIONS, "mean", &|one| {
            Some(one.all()?.total)
        }),
        whole(
            "throughput",
            "Without a clock",
            "an operation of runs in which no clock is read around calls",
            "ns",
            RUN,
            "throughput",
            &|one| one.figures.get("throughput").copied(),
        ),
        percentile("p50", "Typical call", "half of all calls take longer"),
        percentile("p999", "Tail", "p99.9: one call in 1,000 takes longer"),
        percentile("p9999", "Far tail", "p99.99: one call in 10,000 takes longer"),
        whole("memory", "Peak memory", "most resident memory at any moment", "bytes", RUN, "peak", &|one| {
            one.figures.get("peak").copied()
        }),
    ];
    // What is zero everywhere was not measured.
    let measured = |criterion: &Criterion| criterion.rows.iter().any(|(_, spread)| spread.high > 0.0);
    found.into_iter().filter(measured).collect()
}

fn weigh(
    mut criterion: Criterion,
    comparison: &Comparison,
    contenders: &[Contender<'_>],
    figure: &Figure<'_>,
    runs: usize,
) -> Criterion {
    for (index, contender) in contenders.iter().enumerate() {
        match (figure.of)(contender) {
            Some(spread) if contender.name == FLOOR => criterion.floor = Some(spread),
            Some(spread) => criterion.rows.push((index, spread)),
            None => {}
        }
    }
    criterion.rows.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    criterion.best = lowest(comparison, figure.operation, figure.name);
    if let Some(best) = criterion.best.first().copied() {
        let over =
            |(index, _): &(usize, Spread)| ratio(comparison, figure.operation, figure.name, best, *index);
        criterion.ratios = criterion.rows.iter().map(over).collect();
    }
    let alone = criterion.best.len() == 1;
    let slightly = |ratio: &Option<Ratio>| ratio.is_some_and(|ratio| ratio.interval.value < SLIGHT);
    let near = criterion.rows.iter().zip(&criterion.ratios).filter(|(_, ratio)| alone && slightly(ratio));
    let near: Vec<usize> = near.map(|(row, _)| row.0).collect();
    criterion.best.extend(near);
    criterion.sentence = sentence(&criterion, contenders, runs, figure.step);
    criterion
}

/// `step`: what the clock cannot tell apart.
fn sentence(criterion: &Criterion, contenders: &[Contender<'_>], runs: usize, step: f64) -> String {
    let name = |index: &usize| contenders[*index].name;
    if criterion.rows.len() < 2 {
        return "Nothing to compare with.".into();
    }
    if runs < 2 {
        let first = name(&criterion.rows[0].0);
        return format!("{first} is lowest in the only run; how far runs scatter is not known.");
    }
    let placed = criterion.rows.iter().filter(|row| criterion.best.contains(&row.0));
    let names: Vec<&str> = placed.map(|row| name(&row.0)).collect();
    let [only] = criterion.best.as_slice() else {
        let medians =
            || criterion.rows.iter().filter(|row| criterion.best.contains(&row.0)).map(|row| row.1.median);
        let apart = medians().fold(0.0, f64::max) - medians().fold(f64::INFINITY, f64::min);
        let slight =
            criterion.rows.iter().zip(&criterion.ratios).filter(|(row, _)| criterion.best.contains(&row.0));
        let slight = slight.filter_map(|(_, ratio)| *ratio).all(|ratio| ratio.interval.value < SLIGHT);
        let why = if slight && !names.is_empty() {
            "it is less than half a percent"
        } else if step > 0.0 && (0.0..=step).contains(&apart) {
            "they are closer than the clock can tell"
        } else {
            "their runs scatter more than they differ"
        };
        let above: Vec<&str> = criterion
            .rows
            .iter()
            .filter(|row| !criterion.best.contains(&row.0))
            .map(|row| name(&row.0))
            .collect();
        return match names.as_slice() {
            [] => format!("No clear difference: {why}."),
            _ if above.is_empty() => format!("No clear difference: {why}."),
            [first, rest @ ..] if rest.len() > 2 => {
                format!(
                    "No clear difference between {first} and {} others: {why}. Higher: {}.",
                    rest.len(),
                    words::list(&above)
                )
            }
            _ => format!("No clear difference between {}: {why}.", words::list(&names)),
        };
    };
    let next = criterion.rows.iter().zip(&criterion.ratios).filter(|(row, _)| row.0 != *only);
    let nearest = next
        .filter_map(|(row, ratio)| Some((row.0, (*ratio)?)))
        .min_by(|a, b| a.1.interval.value.total_cmp(&b.1.interval.value));
    let hedge = if runs < FEW_RUNS { " in these few rounds" } else { "" };
    let lead = nearest.map_or(String::new(), |(index, ratio)| {
        format!(
            ": {} {}, the next, over {} rounds",
            less(&ratio.interval),
            contenders[index].name,
            ratio.rounds
        )
    });
    format!("{} is below all others{hedge}{lead}.", names[0])
}

/// How much less 1 is than a ratio: `12 % less (95 %: 8 to 15 %) than`.
fn less(ratio: &Interval) -> String {
    if ratio.value >= 1.95 {
        return format!("{:.1} times less (95 %: {:.1} to {:.1}) than", ratio.value, ratio.low, ratio.high);
    }
    let percent = |ratio: f64| (1.0 - 1.0 / ratio) * 100.0;
    let digits = usize::from(percent(ratio.low) < 1.95);
    let [value, low, high] = [ratio.value, ratio.low, ratio.high].map(percent);
    format!("{value:.digits$} % less (95 %: {low:.digits$} to {high:.digits$} %) than")
}

/// Winners first, grouped; then what is undecided.
fn headline(criteria: &[Criterion], contenders: &[Contender<'_>], runs: usize) -> String {
    let compared = criteria.iter().map(|criterion| criterion.rows.len()).max().unwrap_or(0);
    if compared < 2 {
        return "One allocator was measured: there is nothing to compare it with.".into();
    }
    if runs < 2 {
        return "One run of each allocator: enough to look at, too little for a verdict.".into();
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
            tied => open.push(undecided(criterion, tied, contenders)),
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
        (true, _) => "No allocator alone is best in anything that was measured.".into(),
        (false, true) => format!("{}.", clauses.join("; ")),
        (false, false) => format!("{}. No clear winner in {}.", clauses.join("; "), words::list(&open)),
    }
}

/// `tail (keel or mimalloc)`; many names would not help.
fn undecided(criterion: &Criterion, tied: &[usize], contenders: &[Contender<'_>]) -> String {
    let title = if criterion.id == "throughput" { "time without a clock" } else { criterion.title };
    let names: Vec<&str> = tied.iter().map(|index| contenders[*index].name).collect();
    match names.as_slice() {
        [init @ .., last] if (1..=2).contains(&init.len()) => {
            format!("{} ({} or {last})", title.to_lowercase(), init.join(", "))
        }
        _ => title.to_lowercase(),
    }
}

/// Who is oftenest among those that may be lowest, up to three. A count is no weighing: the sentence says what was
/// counted.
fn overall(criteria: &[Criterion], contenders: &[Contender<'_>]) -> String {
    let weighed: Vec<&Criterion> =
        criteria.iter().filter(|one| !one.best.is_empty() && one.best.len() < one.rows.len()).collect();
    let times = |index: usize| weighed.iter().filter(|one| one.best.contains(&index)).count();
    let most = (0..contenders.len()).map(times).max().unwrap_or(0);
    let first: Vec<usize> = (0..contenders.len()).filter(|index| times(*index) == most).collect();
    if most == 0 || weighed.len() < 2 || first.len() > 3 {
        return String::new();
    }
    let names: Vec<&str> = first.iter().map(|index| contenders[*index].name).collect();
    let are = if names.len() == 1 { "alone is" } else { "are" };
    let (names, all) = (words::list(&names), weighed.len());
    let often = match (most, all) {
        (2, 2) => "in both".to_owned(),
        _ if most == all => format!("in all {all}"),
        _ => format!("most often, in {most} of the {all}"),
    };
    format!("{names} {are} among the best {often} criteria in which there is a difference.")
}

fn prize(id: &str) -> &'static str {
    match id {
        "time" => "the least time in calls",
        "throughput" => "the least time without a clock",
        "p50" => "the fastest typical call",
        "p999" => "the shortest tail",
        "p9999" => "the shortest far tail",
        _ => "the smallest memory",
    }
}

fn cautions(
    comparison: &Comparison,
    calm: Option<&Comparison>,
    contenders: &[Contender<'_>],
    criteria: &[Criterion],
    runs: usize,
) -> Vec<String> {
    let mut cautions = Vec::new();
    if runs < FEW_RUNS {
        let each = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
        cautions
            .push(format!("Only {each} of each allocator: compare with --runs 5 or more before deciding."));
    }
    cautions.extend(criteria.iter().filter_map(floor_caution));
    cautions.extend(worst_caution(contenders));
    cautions.extend(interrupted_caution(comparison, calm, contenders, runs));
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
    if criterion.unit != "ns"
        || ["time", "throughput"].contains(&criterion.id)
        || floor.median < best.median * 0.5
    {
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
    calm: Option<&Comparison>,
    contenders: &[Contender<'_>],
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
    let Some(calm) = calm else { return Some(share) };
    let of = |one: &Contender<'_>| one.undisturbed.get(ALL_OPERATIONS)?.percentiles.get("p999").copied();
    let step = clock_step_ns(comparison);
    let figure = Figure { operation: ALL_OPERATIONS, name: "p999", step, of: &of };
    let without = weigh(Criterion::default(), calm, contenders, &figure, runs);
    if without.rows.len() < 2 {
        return Some(share);
    }
    Some(format!("{share} Without them, p99.9: {}", without.sentence))
}

#[cfg(test)]
mod tests;
