//! What the figures bear, in plain words.
//!
//! An allocator is called lowest only where the comparison of each two allocators, round by round, sets it below
//! every other at 95 % confidence, corrected for the number of allocators (`docs/decisions/0052-statistics.md`). What
//! cannot be told apart is said to be so. With fewer than [`FEW_RUNS`] rounds nobody can see whether the runs are of
//! the kind that the statistics suppose, so the words are hedged.

use crate::contest::{Ratio, lowest, ratio};
use crate::operations::OPERATION_NAMES;
use crate::statistics::Spread;
use crate::summary::{ALL_OPERATIONS, OperationSummary, figure_name};
use crate::words;
use keel_results::{CAUSE_INTERRUPTED, Comparison, Interval, RUN};
use serde::Serialize;
use std::collections::BTreeMap;

/// The name of the allocator that does nothing.
pub const FLOOR: &str = "null";
/// Fewer runs than this cannot carry a claim.
pub const FEW_RUNS: usize = 4;
/// Its name and meaning everywhere.
const THROUGHPUT: &str = "Throughput (ns/op)";
const THROUGHPUT_MEANING: &str = "time an operation in runs that do not time each call";
/// More names than this are not listed in a headline.
const NAMES: usize = 5;
/// A lead smaller than this may be certain and is yet no reason to choose anything.
pub const SLIGHT: f64 = 1.005;

/// The page's opening.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// One sentence or two.
    pub headline: String,
    /// Who is oftenest among those that may be lowest, a sentence; empty if that would be many.
    pub overall: String,
    /// Whose percentiles are weighed: of the operations that make blocks the one that the program calls most.
    pub operation: &'static str,
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
    /// Its heading, which names the operation.
    pub title: String,
    /// What it is, a line.
    pub meaning: String,
    /// `ns` or `bytes`.
    pub unit: &'static str,
    /// What can be said.
    pub sentence: String,
    /// The same for a list of all criteria: who may be lowest, and how that is known. Empty of less than two rounds.
    pub answer: [String; 2],
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

/// What the page, the table and the words speak of first: the operation that makes most blocks, malloc of two alike.
fn main_operation(contenders: &[Contender<'_>]) -> &'static str {
    let calls = |name: &str| {
        let counts = contenders.iter().filter_map(|one| Some(one.operations.get(name)?.count));
        counts.max().unwrap_or(0)
    };
    let making = OPERATION_NAMES.into_iter().filter(|name| *name != "free" && calls(name) > 0);
    making.rev().max_by_key(|name| calls(name)).unwrap_or(OPERATION_NAMES[1])
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
    let operation = main_operation(contenders);
    let criteria = criteria(comparison, contenders, operation, runs);
    let headline = headline(&criteria, contenders, operation, runs);
    let overall = overall(&criteria, contenders);
    let cautions = cautions(comparison, calm, contenders, &criteria, operation, runs);
    Verdict { headline, overall, operation, criteria, cautions }
}

fn clock_step_ns(comparison: &Comparison) -> f64 {
    comparison.clock.step_ticks as f64 / comparison.clock.ticks_per_ns.max(1e-9)
}

fn criteria(
    comparison: &Comparison,
    contenders: &[Contender<'_>],
    operation: &'static str,
    runs: usize,
) -> Vec<Criterion> {
    let step = clock_step_ns(comparison);
    let percentile = |name: &'static str, meaning: &str| {
        let of = move |one: &Contender<'_>| one.operations.get(operation)?.percentiles.get(name).copied();
        let figure = Figure { operation, name, step, of: &of };
        let (title, meaning) = (format!("{operation} {}", figure_name(name)), meaning.to_owned());
        let new = Criterion { id: name, title, meaning, unit: "ns", ..Criterion::default() };
        weigh(new, comparison, contenders, &figure, runs)
    };
    let whole = |id, title: &str, meaning: &str, unit, figure: &Figure<'_>| {
        let (title, meaning) = (title.to_owned(), meaning.to_owned());
        weigh(
            Criterion { id, title, meaning, unit, ..Criterion::default() },
            comparison,
            contenders,
            figure,
            runs,
        )
    };
    let of_run = |name, of| Figure { operation: RUN, name, step: 0.0, of };
    let total = |one: &Contender<'_>| Some(one.operations.get(ALL_OPERATIONS)?.total);
    let time = Figure { operation: ALL_OPERATIONS, name: "mean", step: 0.0, of: &total };
    let throughput = |one: &Contender<'_>| one.figures.get("throughput").copied();
    let peak = |one: &Contender<'_>| one.figures.get("peak").copied();
    let found = [
        percentile("p50", &format!("the typical one: half of all {operation} calls take longer")),
        percentile("p999", &format!("one {operation} in 1,000 takes longer")),
        percentile("p9999", &format!("one {operation} in 10,000 takes longer")),
        whole("time", "Time in all calls", "of every operation, a run's calls added up", "ns", &time),
        whole("throughput", THROUGHPUT, THROUGHPUT_MEANING, "ns", &of_run("throughput", &throughput)),
        whole("memory", "Peak memory", "most resident memory at any moment", "bytes", &of_run("peak", &peak)),
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
    criterion.answer = answer(&criterion, contenders, runs);
    criterion
}

impl Criterion {
    /// Who may be lowest, the lowest median first; and who is not.
    fn parted<'a>(&self, contenders: &[Contender<'a>]) -> (Vec<&'a str>, Vec<&'a str>) {
        let (best, above): (Vec<_>, Vec<_>) = self.rows.iter().partition(|row| self.best.contains(&row.0));
        let names = |rows: Vec<&(usize, Spread)>| rows.iter().map(|row| contenders[row.0].name).collect();
        (names(best), names(above))
    }

    /// Whether those that may be lowest are known to lie next to each other, or a lead is certain and next to nothing.
    fn slight(&self) -> bool {
        let placed = self.rows.iter().zip(&self.ratios).filter(|(row, _)| self.best.contains(&row.0));
        self.best.len() > 1
            && placed.filter_map(|(_, ratio)| *ratio).all(|Ratio { interval, .. }| {
                interval.value < SLIGHT && (interval.low > 1.0 || interval.high < SLIGHT)
            })
    }

    /// The one that comes nearest to the only lowest.
    fn next(&self) -> Option<(usize, Ratio)> {
        let next = self.rows.iter().zip(&self.ratios).filter(|(row, _)| !self.best.contains(&row.0));
        next.filter_map(|(row, ratio)| Some((row.0, (*ratio)?)))
            .min_by(|a, b| a.1.interval.value.total_cmp(&b.1.interval.value))
    }
}

/// `step`: what the clock cannot tell apart.
fn sentence(criterion: &Criterion, contenders: &[Contender<'_>], runs: usize, step: f64) -> String {
    if criterion.rows.len() < 2 {
        return "Nothing to compare with.".into();
    }
    if runs < 2 {
        let first = contenders[criterion.rows[0].0].name;
        return format!("{first} is lowest in the only run; how far runs scatter is not known.");
    }
    let (names, above) = criterion.parted(contenders);
    if criterion.best.len() == 1 {
        let hedge = if runs < FEW_RUNS { " in these few rounds" } else { "" };
        let lead = criterion.next().map_or(String::new(), |(index, ratio)| {
            let less = less(&ratio.interval);
            format!(": {less} {}, the next, over {} rounds", contenders[index].name, ratio.rounds)
        });
        return format!("{} is below all others{hedge}{lead}.", names[0]);
    }
    let medians =
        || criterion.rows.iter().filter(|row| criterion.best.contains(&row.0)).map(|row| row.1.median);
    let apart = medians().fold(0.0, f64::max) - medians().fold(f64::INFINITY, f64::min);
    let why = if criterion.slight() {
        "it is less than half a percent"
    } else if step > 0.0 && (0.0..=step).contains(&apart) {
        "they are closer than the clock can tell"
    } else {
        "their runs scatter more than they differ"
    };
    match names.as_slice() {
        [first, rest @ ..] if !above.is_empty() && rest.len() > 2 => {
            let (others, higher) = (rest.len(), words::list(&above));
            format!("No clear difference between {first} and {others} others: {why}. Higher: {higher}.")
        }
        [_, ..] if !above.is_empty() => {
            format!("No clear difference between {}: {why}.", words::list(&names))
        }
        _ => format!("No clear difference: {why}."),
    }
}

/// The sentence for a list of all criteria, in which there is no room for intervals.
fn answer(criterion: &Criterion, contenders: &[Contender<'_>], runs: usize) -> [String; 2] {
    if criterion.rows.len() < 2 || runs < 2 || criterion.best.is_empty() {
        return [String::new(), String::new()];
    }
    let (names, above) = criterion.parted(contenders);
    if criterion.best.len() == 1 {
        let hedge = if runs < FEW_RUNS { format!(", as it seems from {runs} rounds") } else { String::new() };
        let lead = criterion.next().map_or(String::new(), |(index, ratio)| {
            format!("{} than {}, the next{hedge}", how_much_less(&ratio.interval).0, contenders[index].name)
        });
        return [names[0].to_owned(), lead];
    }
    let why =
        if criterion.slight() { "less than half a percent apart" } else { "not separated by these runs" };
    let who = match above.as_slice() {
        [] => return ["any of them".into(), why.to_owned()],
        few if few.len() < names.len() && names.len() > NAMES => format!("any but {}", words::either(few)),
        _ => words::either(&names),
    };
    [who, why.to_owned()]
}

/// How much less 1 is than a ratio: `12 % less (95 %: 8 to 15 %) than`.
fn less(ratio: &Interval) -> String {
    let (value, interval) = how_much_less(ratio);
    format!("{value} ({interval}) than")
}

/// How much less 1 is than a ratio, and the same of its interval: `12 % less`, `95 %: 8 to 15 %`.
fn how_much_less(ratio: &Interval) -> (String, String) {
    let Interval { value, low, high } = *ratio;
    if value >= 1.95 {
        return (format!("{value:.1} times less"), format!("95 %: {low:.1} to {high:.1}"));
    }
    let percent = |ratio: f64| (1.0 - 1.0 / ratio) * 100.0;
    let digits = usize::from(percent(low) < 1.95);
    let [value, low, high] = [value, low, high].map(percent);
    (format!("{value:.digits$} % less"), format!("95 %: {low:.digits$} to {high:.digits$} %"))
}

/// Winners first, grouped; then the question that most come with, the tail, if no one won it.
fn headline(criteria: &[Criterion], contenders: &[Contender<'_>], operation: &str, runs: usize) -> String {
    let compared = criteria.iter().map(|criterion| criterion.rows.len()).max().unwrap_or(0);
    if compared < 2 {
        return "One allocator was measured: there is nothing to compare it with.".into();
    }
    if runs < 2 {
        return "One run of each allocator: enough to look at, too little for a verdict.".into();
    }
    let mut won: Vec<(usize, Vec<&Criterion>)> = Vec::new();
    for criterion in criteria {
        let [winner] = criterion.best.as_slice() else { continue };
        match won.iter_mut().find(|(index, _)| index == winner) {
            Some((_, prizes)) => prizes.push(criterion),
            None => won.push((*winner, vec![criterion])),
        }
    }
    won.sort_by_key(|(_, prizes)| std::cmp::Reverse(prizes.len()));
    let verb = if runs < FEW_RUNS { "seems to have" } else { "has" };
    let clauses = won
        .iter()
        .map(|(index, found)| format!("{} {verb} {}", contenders[*index].name, prizes(found, operation)));
    let clauses: Vec<String> = clauses.collect();
    let said = match clauses.is_empty() {
        true => "No allocator alone is lowest in anything that was measured.".to_owned(),
        false => format!("{}.", clauses.join("; ")),
    };
    let tail = criteria.iter().find(|criterion| criterion.id == "p999").or(criteria.first());
    match tail.filter(|criterion| criterion.best.len() != 1) {
        Some(criterion) => format!("{said} {}", undecided(criterion, contenders, runs)),
        None => said,
    }
}

/// `the lowest malloc p50 and p99.9, and the least peak memory`.
fn prizes(won: &[&Criterion], operation: &str) -> String {
    let prize = |criterion: &&Criterion| match criterion.id {
        "time" => Some("the least time in all calls"),
        "throughput" => Some("the best throughput"),
        "memory" => Some("the least peak memory"),
        _ => None,
    };
    let others: Vec<&str> = won.iter().filter_map(prize).collect();
    let percentiles = won.iter().filter(|criterion| prize(criterion).is_none());
    let percentiles: Vec<&str> = percentiles.map(|criterion| figure_name(criterion.id)).collect();
    let lowest = format!("the lowest {operation} {}", words::list(&percentiles));
    match (percentiles.len(), others.is_empty()) {
        (0, _) => words::list(&others),
        (_, true) => lowest,
        (1, false) => words::list(&[&[lowest.as_str()], others.as_slice()].concat()),
        _ => format!("{lowest}, and {}", words::list(&others)),
    }
}

/// Who cannot be told from the likeliest; many names would not help.
fn undecided(criterion: &Criterion, contenders: &[Contender<'_>], runs: usize) -> String {
    let title = &criterion.title;
    let name = |index: &usize| contenders[*index].name;
    let few = if runs < FEW_RUNS { format!("{runs} ") } else { String::new() };
    let not_separated = format!("these {few}runs do not separate");
    match criterion.best.as_slice() {
        all if all.is_empty() || all.len() == criterion.rows.len() => {
            format!("In {title} these {few}runs do not say which is lowest.")
        }
        [first, others @ ..] if others.len() < NAMES => {
            let others: Vec<&str> = others.iter().map(name).collect();
            format!("In {title} {not_separated} {} from {}.", name(first), words::list(&others))
        }
        [first, others @ ..] => {
            format!("In {title} {not_separated} {} from {} others.", name(first), others.len())
        }
        [] => String::new(),
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
    let (names, all) = (words::list(&names), weighed.len());
    let often = match (most, all) {
        (2, 2) => "in both".to_owned(),
        _ if most == all => format!("in all {all}"),
        _ => format!("in {most} of the {all}"),
    };
    format!("Oftenest among the best: {names}, {often} figures that tell allocators apart.")
}

fn cautions(
    comparison: &Comparison,
    calm: Option<&Comparison>,
    contenders: &[Contender<'_>],
    criteria: &[Criterion],
    operation: &str,
    runs: usize,
) -> Vec<String> {
    let mut cautions = Vec::new();
    if runs < FEW_RUNS {
        let each = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
        cautions
            .push(format!("Only {each} of each allocator: compare with --runs 5 or more before deciding."));
    }
    cautions.extend(criteria.iter().filter_map(floor_caution));
    cautions.extend(worst_caution(contenders, operation));
    cautions.extend(interrupted_caution(comparison, calm, contenders, operation, runs));
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
    let (title, floor) = (&criterion.title, words::duration(floor.median));
    let best = words::duration(best.median);
    Some(format!("With no allocator at all {title} is already {floor} (the best allocator's: {best})."))
}

/// The longest call of a run on a shared machine is seldom the allocator's.
fn worst_caution(contenders: &[Contender<'_>], operation: &str) -> Option<String> {
    let worst = |one: &Contender<'_>| Some(one.operations.get(operation)?.worst);
    let floor = contenders.iter().find(|one| one.name == FLOOR).and_then(worst)?;
    let best = contenders.iter().filter(|one| one.name != FLOOR).filter_map(worst);
    let best = best.min_by(|a, b| a.median.total_cmp(&b.median))?;
    (floor.high >= best.median * 0.5).then(|| {
        format!(
            "The worst {operation} tells little here: with no allocator at all, one of {} was seen. \
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
        "{percent:.0} % of the calls above their operation's p99.9 were interrupted (preempted, or put to sleep at a \
         lock): their length tells of the machine as much as of the allocator."
    );
    let Some(calm) = calm else { return Some(share) };
    let of = |one: &Contender<'_>| one.undisturbed.get(operation)?.percentiles.get("p999").copied();
    let step = clock_step_ns(comparison);
    let figure = Figure { operation, name: "p999", step, of: &of };
    let without = weigh(Criterion::default(), calm, contenders, &figure, runs);
    if without.rows.len() < 2 {
        return Some(share);
    }
    Some(format!("{share} Without them, {operation} p99.9: {}", without.sentence))
}

#[cfg(test)]
mod tests;
