//! The verdict on a comparison: the opening of the page, of Markdown and of the terminal's report.

use super::advice::{Advice, Evidence, advice};
use super::cautions::{cautions, clock_step_ns};
use super::criteria::{Criterion, Figure};
use super::headline::headline;
use super::sentences::{WITHOUT_PREEMPTED, weigh};
use crate::figures::{AllocatorFigures, Matters};
use keel_results::{ALL_OPERATIONS, Comparison, FRAME, RUN, figure_label, main_operation};
use serde::Serialize;

/// The opening of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Which allocator to take; empty if fewer than two were compared in two rounds.
    pub advice: Advice,
    /// Why there is no advice; empty if there is one.
    pub headline: String,
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
        let parts = [self.advice.grade.as_str(), self.advice.more.as_str()];
        let known: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        known.join(" ")
    }
}

/// Compares the allocators. `calm` is the comparison without interrupted calls. The advice
/// considers only differences that matter.
pub fn judge(
    comparison: &Comparison,
    calm: Option<&Comparison>,
    allocators: &[AllocatorFigures],
    matters: Matters,
) -> Verdict {
    // The floor is in no comparison, so its runs, which may be fewer, limit no conclusion.
    let compared = allocators.iter().filter(|one| one.runs > 0 && !one.floor);
    let runs = compared.map(|one| one.runs).min().unwrap_or(0);
    let operation = main_operation(comparison);
    let evidence = Evidence { comparison, calm, allocators, runs };
    let advice = advice(&evidence, matters);
    let criteria = criteria(&evidence, operation, advice.frame_figure);
    let headline = headline(&criteria, runs);
    let cautions = cautions(comparison, calm, allocators, &criteria, operation, runs);
    Verdict { advice, headline, operation, criteria, cautions }
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
