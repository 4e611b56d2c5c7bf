//! The verdict on a comparison: the opening of the page, of Markdown and of the terminal's report.

use super::advice::{
    self, Advice, Change, CodeCost, Evidence, MEASURING, Setting, advice, changes, in_median,
    settings,
};
use super::cautions::{cautions, clock_step_ns};
use super::criteria::{Criterion, Figure};
use super::headline::headline;
use super::sentences::{WITHOUT_PREEMPTED, weigh};
use super::unseen::unseen;
use crate::figures::{AllocatorFigures, Matters};
use crate::words::{duration, list, percent_of};
use keel_results::text::count;
use keel_results::{ALL_OPERATIONS, Comparison, FRAME, RUN, figure_label, main_operation};
use serde::Serialize;

/// The opening of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Which allocator to take; empty if fewer than two were compared in two rounds.
    pub advice: Advice,
    /// Why there is no advice; empty if there is one.
    pub headline: String,
    /// The line of the program whose calls take longest, a sentence; empty without call stacks.
    pub code: String,
    /// Index of the allocator that the others are compared with: the one that the program used, if
    /// it is known. None if there is nothing to compare.
    pub base: Option<usize>,
    /// The rows that are this allocator with other settings.
    pub settings: Vec<Setting>,
    /// What the recording and the replay cannot or do not show, one sentence each.
    pub unseen: Vec<String>,
    /// What to change, in the order of effect.
    pub changes: Vec<Change>,
    /// Why there is nothing to change, or not more; may be empty.
    pub changes_note: String,
    /// The operation whose percentiles are compared: the allocating one with most calls.
    pub operation: &'static str,
    /// The compared figures, each with its conclusion.
    pub criteria: Vec<Criterion>,
    /// The limits of the verdict, one sentence each.
    pub cautions: Vec<String>,
}

impl Verdict {
    /// The first sentence: the advice, or what is known without one.
    pub fn first_sentence(&self) -> &str {
        if self.advice.sentence.is_empty() { &self.headline } else { &self.advice.sentence }
    }

    /// The sentences after it.
    pub fn next_sentences(&self) -> String {
        let text = self.advice.text();
        let known = [self.advice.grade.as_str(), &text].into_iter().filter(|part| !part.is_empty());
        let known: Vec<&str> = known.collect();
        known.join(" ")
    }
}

/// The fewest runs of any allocator but the floor, which is in no comparison, so that its runs,
/// which may be fewer, limit no conclusion.
fn fewest_runs(allocators: &[AllocatorFigures]) -> usize {
    let compared = allocators.iter().filter(|one| one.runs > 0 && !one.floor);
    compared.map(|one| one.runs).min().unwrap_or(0)
}

/// The allocator that the others are compared with: the one that the program used, if it is known.
pub fn base_of(comparison: &Comparison, allocators: &[AllocatorFigures]) -> Option<usize> {
    let runs = fewest_runs(allocators);
    advice::base_of(&Evidence { comparison, calm: None, allocators, runs })
}

/// Compares the allocators. `calm` is the comparison without interrupted calls. `code`: the lines
/// of the program whose calls take most time with the base, longest first; None if the journal has
/// no call stacks. The advice considers only differences that matter.
pub fn judge(
    comparison: &Comparison,
    calm: Option<&Comparison>,
    allocators: &[AllocatorFigures],
    matters: Matters,
    code: Option<&[CodeCost]>,
) -> Verdict {
    let runs = fewest_runs(allocators);
    let operation = main_operation(comparison);
    let evidence = Evidence { comparison, calm, allocators, runs };
    let advice = advice(&evidence, matters);
    let code = code.map(|code| in_median(&evidence, code));
    let mut changes =
        changes(&evidence, matters, code.as_deref().unwrap_or_default(), advice.other);
    // While the decision is open, the table names no allocator either.
    changes.retain(|one| one.kind == "code" || !advice.is_undecided);
    let index = advice::base_of(&evidence);
    let base = index.map_or("", |base| allocators[base].name.as_str());
    let settings = settings(&evidence);
    let unseen = unseen(comparison, allocators, index);
    let criteria = criteria(&evidence, operation, advice.frame_figure);
    let headline = headline(&criteria, runs);
    let cautions = cautions(comparison, calm, allocators, &criteria, operation, runs);
    Verdict {
        changes_note: changes_note(
            comparison,
            &advice,
            &changes,
            [!settings.is_empty(), code.is_some()],
        ),
        code: code.map_or_else(String::new, |code| code_sentence(&code, base)),
        advice,
        headline,
        operation,
        base: index,
        settings,
        unseen,
        changes,
        criteria,
        cautions,
    }
}

/// `Most of it comes from load (level.c:12): 41 % ...`
fn code_sentence(code: &[CodeCost], base: &str) -> String {
    let all: f64 = code.iter().map(|one| one.ns).sum();
    let Some(first) = code.first().filter(|first| first.ns > 0.0 && all > 0.0) else {
        return String::new();
    };
    let CodeCost { place, unnamed_in, ns, calls, measuring_ns, .. } = first;
    let calls = match calls {
        1 => "its call takes".to_owned(),
        calls => format!("its {} calls take", count(*calls)),
    };
    let unnamed = match unnamed_in.as_str() {
        "" => String::new(),
        file => format!(" The debug symbols of {file} would give its name."),
    };
    let measuring = match *measuring_ns < MEASURING * ns {
        true => String::new(),
        false => format!(", of which {} is the cost of measuring", duration(measuring_ns.min(*ns))),
    };
    format!(
        "The most expensive line is {place}: {calls} {}{measuring} ({}).{unnamed}",
        duration(*ns),
        percent_of(ns / all, &format!("of the time in calls with {base}"))
    )
}

fn changes_note(
    comparison: &Comparison,
    advice: &Advice,
    changes: &[Change],
    [has_settings, has_stacks]: [bool; 2],
) -> String {
    if advice.sentence.is_empty() {
        return String::new();
    }
    let mut measured = vec!["no other allocator"];
    if has_settings && !advice.has_unknown_setting {
        measured.push("no measured setting");
    }
    if has_stacks {
        measured.push("no single line of the program");
    }
    let nothing = match (changes.is_empty(), advice.is_undecided) {
        (false, _) | (true, true) => String::new(),
        (true, false) => {
            format!("Nothing to gain: {} saves enough time to matter.", list(&measured))
        }
    };
    let mut runs = comparison.allocators.iter().flat_map(|one| &one.runs);
    let stacks = match (has_stacks, runs.any(|run| run.raw.is_some())) {
        (true, _) => "",
        (false, true) => {
            "The recording has no call stacks, so no line of the program can be named: record with \
             --stacks 16."
        }
        (false, false) => {
            "The results contain no single calls, so no line of the program can be named: compare \
             without --raw none."
        }
    };
    [nothing.as_str(), stacks].join(" ").trim().to_owned()
}

/// `frame_figure`: the figure of frames on which the advice is based.
fn criteria(
    evidence: &Evidence<'_>,
    operation: &'static str,
    frame_figure: Option<&'static str>,
) -> Vec<Criterion> {
    let Evidence { comparison, calm, allocators, runs } = *evidence;
    let step = clock_step_ns(comparison);
    let new = |id: &'static str,
               title: String,
               meaning: String,
               unit: &'static str,
               figure: &Figure<'_>| {
        let criterion = Criterion { id, title, meaning, unit, ..Criterion::default() };
        weigh(criterion, comparison, allocators, figure, runs)
    };
    let percentile = |name: &'static str, meaning: String| {
        let of =
            |one: &AllocatorFigures| one.operations.get(operation)?.percentiles.get(name).copied();
        let figure = Figure { operation, name, step, of: &of };
        new(name, format!("{operation} {}", figure_label(name)), meaning, "ns", &figure)
    };
    let whole = |id, title: &str, meaning: &str, unit, figure: &Figure<'_>| {
        new(id, title.to_owned(), meaning.to_owned(), unit, figure)
    };
    let of_run = |name, of| Figure { operation: RUN, name, step: 0.0, of };
    let throughput = |one: &AllocatorFigures| one.figures.get("throughput").copied();
    let peak = |one: &AllocatorFigures| one.figures.get("peak").copied();
    let throughput = of_run("throughput", &throughput);
    let untimed = "elapsed time divided by the number of operations, from separate runs without \
                   timing of single calls";
    let mut found = vec![
        percentile("p50", format!("half of all {operation} calls take at most this long")),
        percentile("p999", format!("99.9 % of {operation} calls take at most this long")),
        percentile("p9999", format!("99.99 % of {operation} calls take at most this long")),
        whole("throughput", "Time per operation", untimed, "ns", &throughput),
        whole(
            "memory",
            "Peak memory",
            "the largest resident memory during a run",
            "bytes",
            &of_run("peak", &peak),
        ),
    ];
    found.splice(3..3, uninterrupted(evidence, calm.unwrap_or(comparison), frame_figure));
    // A figure that is zero everywhere was not measured.
    let measured =
        |criterion: &Criterion| criterion.rows.iter().any(|(_, spread)| spread.high > 0.0);
    found.into_iter().filter(measured).collect()
}

/// The time in all calls, and in those of a frame. Interrupted calls are left out where they are
/// known: they would measure how busy the machine was.
fn uninterrupted(
    evidence: &Evidence<'_>,
    calm: &Comparison,
    frame_figure: Option<&'static str>,
) -> [Criterion; 2] {
    let Evidence { allocators, runs, .. } = *evidence;
    let is_calm = evidence.calm.is_some();
    let without = if is_calm { WITHOUT_PREEMPTED } else { "" };
    let total = |one: &AllocatorFigures| {
        let operations = if is_calm { &one.undisturbed } else { &one.operations };
        Some(operations.get(ALL_OPERATIONS)?.total)
    };
    let time = Figure { operation: ALL_OPERATIONS, name: "mean", step: 0.0, of: &total };
    let frames = |one: &AllocatorFigures, name: &str| {
        let frames = if is_calm { &one.undisturbed_frames } else { &one.frames };
        frames.get(name).copied()
    };
    // Many frames have a p99; of few, the worst one is shown.
    let has_tail = allocators.iter().any(|one| frames(one, "p99").is_some());
    let usual = if has_tail { "p99" } else { "worst" };
    let name = frame_figure.unwrap_or(usual);
    let (title, which) = match name {
        "mean" => ("Average frame: time in calls", "the average time that a frame spends in calls"),
        "p99" => (
            "Slow frame (p99): time in calls",
            "99 % of the frames spend at most this long in calls",
        ),
        _ => ("Worst frame: time in calls", "no frame spends longer than this in calls"),
    };
    let of = |one: &AllocatorFigures| frames(one, name);
    let frame = Figure { operation: FRAME, name, step: 0.0, of: &of };
    let new = |id, title: &str, meaning: String, figure: &Figure<'_>| {
        let title = title.to_owned();
        let criterion = Criterion { id, title, meaning, unit: "ns", ..Criterion::default() };
        weigh(criterion, calm, allocators, figure, runs)
    };
    let all = format!("the sum of the durations of all calls in a run{without}");
    let each = format!("{which}{without}");
    [new("time", "Time in all calls", all, &time), new("frame", title, each, &frame)]
}
