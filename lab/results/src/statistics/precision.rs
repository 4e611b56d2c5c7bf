//! Precision: whether a second comparison would give nearly the same values, and more rounds are
//! therefore not needed.
//!
//! Considered are the median of each frequent operation, the p99.9 of the main operation, and the
//! figure by which the page's advice is decided: the time in all calls, or that in a frame.

use super::confidence::{CONFIDENCE, confidence, interval_of};
use super::figures::{Figure, figures, frame_figures};
use crate::{ALL_OPERATIONS, AllocatorResult, Comparison, OPERATIONS, RUN};

/// The largest difference that two comparisons on one machine should show in a median.
pub const AGREEMENT: f64 = 0.03;
/// A median is precise when its interval over the runs extends at most this share to either side.
/// Two such medians differ by less than [`AGREEMENT`] in at least 19 of 20 cases: 1.96 * sqrt(2) *
/// error, where the error is 0.02 / 2.7, and 2.7 is about Student's t for this number of runs.
pub const PRECISION: f64 = 0.02;
/// The same for the p99.9 and the figure of the advice, where smaller differences do not matter for
/// a choice.
pub const TAIL_PRECISION: f64 = 0.05;
/// The fewest runs from which the variation can be estimated well enough to stop: with fewer, runs
/// that agree by chance would end the rounds too often.
const FEWEST: usize = 5;
/// Operations below this share of all calls need not be precise.
const RARE: f64 = 0.05;
/// An allocator for which such a figure is certainly this many times the lowest one need not have a
/// precise one: it is not a candidate for the lowest.
const NO_CANDIDATE: f64 = 1.5;
/// The percentile of the main operation.
const TAIL: &str = "p99.9";
/// Of many frames the p99 decides the advice, of few the worst one.
const OF_FRAMES: [&str; 2] = ["p99", "worst"];

/// A figure that is not precise.
#[derive(Clone, Debug, PartialEq)]
pub struct Imprecision {
    /// Its operation.
    pub operation: String,
    /// Its name.
    pub figure: &'static str,
    /// The longer side of its interval, as a share of the value.
    pub share: f64,
    /// The largest share of a precise one.
    limit: f64,
}

/// The figures of one allocator that must be precise.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    /// Medians of the frequent operations.
    pub medians: Vec<Figure>,
    /// The p99.9 of the main operation, if it has enough calls, and the figure of the advice. Empty
    /// for the floor.
    pub leading: Vec<Figure>,
}

/// The allocating operation with most calls in a run; malloc if several have as many.
pub fn main_operation(comparison: &Comparison) -> &'static str {
    let runs = || comparison.allocators.iter().flat_map(|result| &result.runs);
    let calls = |name: &str| {
        runs().filter_map(|run| Some(run.latency.get(name)?.0.len())).max().unwrap_or(0)
    };
    let allocating = OPERATIONS.into_iter().filter(|name| *name != "free" && calls(name) > 0);
    allocating.rev().max_by_key(|name| calls(name)).unwrap_or(OPERATIONS[0])
}

/// For each allocator, the figure that is farthest from being precise; None if all are precise, or
/// if there are not enough runs to know.
pub fn imprecise(comparison: &Comparison, floor: &str) -> Vec<Option<Imprecision>> {
    judge(&watched(comparison, floor), confidence(comparison))
}

/// The indices of the allocators that need more rounds: those with a figure that is not precise, or
/// with too few runs to know, and the one that joins them (see `joined`).
pub fn needing_rounds(comparison: &Comparison, floor: &str) -> Vec<usize> {
    let watched = watched(comparison, floor);
    let imprecise = judge(&watched, confidence(comparison));
    let needs_more = comparison.allocators.iter().zip(&imprecise).map(|(result, imprecise)| {
        result.failure.is_none() && (result.runs.len() < FEWEST || imprecise.is_some())
    });
    let members = joined(&watched, needs_more.collect());
    (0..members.len()).filter(|index| members[*index]).collect()
}

/// If only one allocator besides the floor needs a round, the lowest of the others joins it: a
/// round of one allocator has no ratio.
pub(super) fn joined(all: &[Watched], mut needs: Vec<bool>) -> Vec<bool> {
    let contenders = || (0..all.len()).filter(|index| !all[*index].leading.is_empty());
    let mut needing = contenders().filter(|index| needs[*index]);
    let (Some(one), None) = (needing.next(), needing.next()) else { return needs };
    // The figure of the advice, which is the last one, unless it is zero.
    let typical = |index: usize| {
        let mut figures = all[index].leading.iter().rev();
        figures.find_map(|figure| Some(interval_of(&figure.calm(), CONFIDENCE)?.value))
    };
    let others = contenders().filter(|index| *index != one);
    let others = others.filter_map(|index| Some((index, typical(index)?)));
    if let Some((lowest, _)) = others.min_by(|a, b| a.1.total_cmp(&b.1)) {
        needs[lowest] = true;
    }
    needs
}

fn watched(comparison: &Comparison, floor: &str) -> Vec<Watched> {
    let total: u64 = comparison.journal.operations.values().sum();
    let is_frequent = |operation: &str| {
        let count = comparison.journal.operations.get(operation).copied().unwrap_or(0);
        ![ALL_OPERATIONS, RUN].contains(&operation) && count as f64 >= RARE * total as f64
    };
    let main = main_operation(comparison);
    let of = |result: &AllocatorResult| {
        let mut watched = Watched::default();
        if result.failure.is_some() {
            return watched;
        }
        for figure in figures(comparison, result) {
            if figure.name == "p50" && is_frequent(&figure.operation) {
                watched.medians.push(figure);
            } else if figure.name == TAIL && figure.operation == main && result.name != floor {
                watched.leading.push(figure);
            }
        }
        if result.name != floor {
            watched.leading.extend(of_advice(comparison, result));
        }
        watched
    };
    comparison.allocators.iter().map(of).collect()
}

/// The figure by which the page advises: of a program with frames that of its frames, of others the
/// time in all calls.
fn of_advice(comparison: &Comparison, result: &AllocatorResult) -> Option<Figure> {
    let frames = frame_figures(result);
    let of_frames = OF_FRAMES.iter().find_map(|name| frames.iter().find(|one| one.name == *name));
    of_frames.cloned().or_else(|| {
        let mut all = figures(comparison, result).into_iter();
        all.find(|figure| figure.operation == ALL_OPERATIONS && figure.name == "mean")
    })
}

/// See [`imprecise`]. The clock's steps are left out: they are the same in every comparison.
pub(super) fn judge(all: &[Watched], confidence: f64) -> Vec<Option<Imprecision>> {
    let interval = |figure: &Figure| {
        let values = figure.calm();
        (values.len() >= FEWEST).then(|| interval_of(&values, confidence)).flatten()
    };
    let lowest = |figure: &Figure| {
        let same =
            |other: &&Figure| (&other.operation, other.name) == (&figure.operation, figure.name);
        let values = all.iter().flat_map(|one| one.leading.iter().find(same));
        values.filter_map(interval).map(|one| one.value).fold(f64::INFINITY, f64::min)
    };
    let extent = |figure: &Figure, limit: f64, leads: bool| {
        let interval = interval(figure)?;
        let share = interval.high / interval.value - 1.0;
        let is_candidate = !leads || interval.low <= NO_CANDIDATE * lowest(figure);
        let operation = figure.operation.clone();
        (share > limit && is_candidate).then_some(Imprecision {
            operation,
            figure: figure.name,
            share,
            limit,
        })
    };
    let worst = |one: &Watched| {
        let medians = one.medians.iter().filter_map(|figure| extent(figure, PRECISION, false));
        let leading = one.leading.iter();
        let leading = leading.filter_map(|figure| extent(figure, TAIL_PRECISION, true));
        medians.chain(leading).max_by(|a, b| (a.share / a.limit).total_cmp(&(b.share / b.limit)))
    };
    all.iter().map(worst).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::{Clock, FRAME, FrameSums, Histogram, Run};

    /// One run for each of `malloc`: 1000 mallocs that took that many ticks, and 5 callocs.
    fn result(name: &str, malloc: &[u64]) -> AllocatorResult {
        let counts = |ticks: u64, times: u64| {
            let mut counts = Histogram::default();
            counts.0.auto(true);
            counts.0.record_n(ticks, times).unwrap();
            counts
        };
        let runs = malloc.iter().enumerate().map(|(round, &ticks)| Run {
            round: round as u32,
            latency: [
                ("malloc".to_owned(), counts(ticks, 1000)),
                ("calloc".to_owned(), counts(100 * (round as u64 + 1), 5)),
            ]
            .into(),
            ..Run::default()
        });
        AllocatorResult {
            name: name.to_owned(),
            runs: runs.collect(),
            ..AllocatorResult::default()
        }
    }

    fn comparison(allocators: Vec<AllocatorResult>) -> Comparison {
        let mut comparison = Comparison {
            clock: Clock { ticks_per_ns: 1.0, step_ticks: 2, ..Clock::default() },
            allocators,
            ..Comparison::default()
        };
        comparison.journal.operations =
            [("malloc".to_owned(), 1000), ("calloc".to_owned(), 5)].into();
        comparison
    }

    #[test]
    fn medians_that_vary_are_imprecise_and_rare_operations_do_not_count() {
        let comparison = comparison(vec![
            result("steady", &[1000, 1002, 998, 1001, 1000]),
            result("varying", &[1000, 1100, 950, 1040, 990]),
            result("few", &[1000, 2000]),
            AllocatorResult {
                failure: Some("gone".to_owned()),
                ..result("failed", &[1000, 1100, 950, 1040, 990])
            },
        ]);
        assert_eq!(needing_rounds(&comparison, "null"), [1, 2], "few: its variation is not known");
        let found = imprecise(&comparison, "null");
        assert!(found[0].is_none() && found[2].is_none() && found[3].is_none(), "{found:?}");
        let varying = found[1].as_ref().unwrap();
        assert_eq!((varying.operation.as_str(), varying.figure), ("malloc", "p50"));
        assert!(varying.share > 0.05 && varying.share < 0.15, "{varying:?}");
    }

    /// One run for each of `tails`: the median is steady, and 1 % of the calls take that long.
    fn with_tails(name: &str, tails: &[u64]) -> AllocatorResult {
        let mut result = result(name, &[1000; 5]);
        for (run, &ticks) in result.runs.iter_mut().zip(tails) {
            let malloc = &mut run.latency.get_mut("malloc").unwrap().0;
            malloc.record_n(1000, 98_000).unwrap();
            malloc.record_n(ticks, 1000).unwrap();
        }
        result
    }

    #[test]
    fn the_tail_of_candidates_for_the_lowest_must_be_precise() {
        let varying = [20_000, 26_000, 18_000, 23_000, 21_000];
        let comparison = comparison(vec![
            with_tails("steady", &[20_000, 20_100, 19_900, 20_050, 20_000]),
            with_tails("varying", &varying),
            with_tails("far above", &varying.map(|ticks| 4 * ticks)),
            with_tails("null", &varying),
        ]);
        let found = imprecise(&comparison, "null");
        let names: Vec<_> = found.iter().map(|one| one.as_ref().map(|one| one.figure)).collect();
        assert_eq!(names, [None, Some("p99.9"), None, None]);
        assert_eq!(needing_rounds(&comparison, "null"), [0, 1], "the lowest joins a single one");
    }

    /// Runs with steady calls, whose frames take these times.
    fn with_frames(name: &str, frames: &[[u64; 2]]) -> AllocatorResult {
        let mut result = result(name, &[1000; 5]);
        for (run, [most, slow]) in result.runs.iter_mut().zip(frames) {
            let mut times = Histogram::default();
            times.0.auto(true);
            times.0.record_n(*most, 4000).unwrap();
            times.0.record_n(*slow, 100).unwrap();
            run.frames = Some(FrameSums { all_threads: times, ..FrameSums::default() });
        }
        result
    }

    #[test]
    fn the_figure_of_the_advice_must_be_precise() {
        // The time in all calls varies with rare calls that no other figure contains.
        let mut calls =
            comparison(vec![result("steady", &[1000; 5]), result("varying", &[1000; 5])]);
        for (run, total) in calls.allocators[1].runs.iter_mut().zip([1e6, 1.5e6, 2e6, 1.2e6, 1e6]) {
            run.inside_ns.insert("malloc".to_owned(), total);
        }
        calls.allocators[0].runs.iter_mut().for_each(|run| {
            run.inside_ns.insert("malloc".to_owned(), 1e6);
        });
        let found = imprecise(&calls, "null");
        assert!(found[0].is_none(), "{found:?}");
        let varying = found[1].as_ref().unwrap();
        assert_eq!((varying.operation.as_str(), varying.figure), (ALL_OPERATIONS, "mean"));

        let steady = [[100, 900]; 5];
        let varying = [[100, 900], [100, 1500], [100, 1100], [100, 700], [100, 900]];
        let frames =
            comparison(vec![with_frames("steady", &steady), with_frames("varying", &varying)]);
        let found = imprecise(&frames, "null");
        assert!(found[0].is_none(), "{found:?}");
        let varying = found[1].as_ref().unwrap();
        assert_eq!((varying.operation.as_str(), varying.figure), (FRAME, "p99"));
    }

    #[test]
    fn the_main_operation_is_the_allocating_one_with_most_calls() {
        let mut comparison = comparison(vec![result("one", &[1000])]);
        assert_eq!(main_operation(&comparison), "malloc");
        let run = &mut comparison.allocators[0].runs[0];
        for (name, calls) in [("free", 9000), ("calloc", 1001)] {
            run.latency.entry(name.to_owned()).or_default().0.record_n(9, calls).unwrap();
        }
        assert_eq!(main_operation(&comparison), "calloc");
        assert_eq!(main_operation(&Comparison::default()), "malloc");
    }
}
