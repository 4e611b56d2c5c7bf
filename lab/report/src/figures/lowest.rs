//! The allocators that may be lowest in a figure, from the pairwise comparison in `results.json`.
//! Allocators are named by their index in the table.

use super::spread::short;
use keel_results::{
    ALL_OPERATIONS, AllocatorResult, Comparison, FRAME, Histogram, Interval, OPERATIONS,
    PERCENTILES, Paired, RUN, conclude, conclude_frames, figure_label, leaders,
};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// By operation (or `run`) and figure, the allocators that may be lowest; see [`Lowest::best`].
/// Figures that were compared in one round only are left out.
pub type Leaders = BTreeMap<String, BTreeMap<&'static str, Vec<usize>>>;

/// Figures of whole runs that are compared.
const RUN_FIGURES: [&str; 3] = ["peak", "throughput", "elapsed"];
/// An allocator at this multiple of the lowest value, or above, that the statistics still cannot
/// separate from it is undecided: to call it "may be lowest" would mislead.
const TOO_NOISY: f64 = 1.5;

/// Adds what results do not hold: the figures of frames; and, for results of an older keel or a
/// test, the intervals, the pairs and the step of the clock.
pub fn complete(comparison: &mut Comparison, floor: &str) {
    complete_figures(comparison, floor);
    if comparison.paired.iter().all(|pair| pair.operation != FRAME) {
        conclude_frames(comparison, floor);
    }
}

fn complete_figures(comparison: &mut Comparison, floor: &str) {
    comparison.clock.step_ticks = keel_results::known_step(comparison);
    if !comparison.paired.is_empty()
        || comparison.allocators.iter().any(|one| !one.intervals.is_empty())
    {
        return;
    }
    let ticks_per_ns = comparison.clock.ticks_per_ns;
    let ns = |counts: &Histogram| counts.0.mean() * counts.0.len() as f64 / ticks_per_ns;
    for result in &mut comparison.allocators {
        // Runs are in the order of execution, and each round ran every allocator once.
        for (round, run) in result.runs.iter_mut().enumerate() {
            run.round = round as u32;
            if run.inside_ns.is_empty() {
                let latencies = run.latency.iter();
                run.inside_ns =
                    latencies.map(|(name, counts)| (name.clone(), ns(counts))).collect();
            }
        }
    }
    conclude(comparison, floor);
}

/// [`Lowest::best`] of every operation and figure.
pub fn all_leaders(comparison: &Comparison) -> Leaders {
    let latencies = PERCENTILES.map(|one| one.column).into_iter().chain(["mean", "worst"]);
    let latencies: Vec<&'static str> = latencies.collect();
    let mut found = Leaders::new();
    for operation in OPERATIONS.into_iter().chain([ALL_OPERATIONS, RUN]) {
        let figures: &[&'static str] = if operation == RUN { &RUN_FIGURES } else { &latencies };
        for figure in figures {
            let best = lowest(comparison, operation, figure).best;
            if !best.is_empty() {
                found.entry(operation.to_owned()).or_default().insert(figure, best);
            }
        }
    }
    found
}

/// The allocators that the statistics do not set above the lowest one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lowest {
    /// Those that may be lowest, lowest typical value first; a single one is significantly lowest.
    /// Empty if nothing was compared in two rounds, or if only `noisy` ones compete with the first.
    pub best: Vec<usize>,
    /// Those whose values are far above the lowest and whose intervals still reach below it.
    pub noisy: Vec<usize>,
}

/// The allocators that may be lowest in a figure.
pub fn lowest(comparison: &Comparison, operation: &str, figure: &str) -> Lowest {
    let position = |name: &String| comparison.allocators.iter().position(|one| one.name == *name);
    let names = leaders(comparison, operation, figure_label(figure));
    let candidates: Vec<usize> = names.iter().filter_map(position).collect();
    let Some(&first) = candidates.first() else { return Lowest::default() };
    let far = |index: &usize| {
        let multiple = typical_multiple(comparison, operation, figure, first, *index);
        let ratio = ratio(comparison, operation, figure, first, *index);
        multiple.max(ratio.map_or(1.0, |ratio| ratio.interval.value)) >= TOO_NOISY
    };
    let (noisy, mut best): (Vec<usize>, Vec<usize>) = candidates.into_iter().partition(far);
    if best.len() == 1 && !noisy.is_empty() {
        best.clear();
    }
    Lowest { best, noisy }
}

/// The typical value of `index` over that of `base`; 1 if one of them is unknown.
fn typical_multiple(
    comparison: &Comparison,
    operation: &str,
    figure: &str,
    base: usize,
    index: usize,
) -> f64 {
    let typical = |one: &AllocatorResult| {
        Some(one.intervals.get(operation)?.get(figure_label(figure))?.value)
    };
    let [base, other] = [base, index].map(|index| typical(&comparison.allocators[index]));
    match (base, other) {
        (Some(base), Some(other)) if base > 0.0 => other / base,
        _ => 1.0,
    }
}

/// One figure of an allocator as a multiple of another's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The multiple, with its 95 % interval.
    pub interval: Interval,
    /// Rounds in which both ran.
    pub rounds: u32,
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Interval { value, low, high } = self.interval;
        [value, low, high].map(short).serialize(serializer)
    }
}

/// The figure of `index` over that of `base`; None if fewer than two rounds compared them.
pub fn ratio(
    comparison: &Comparison,
    operation: &str,
    figure: &str,
    base: usize,
    index: usize,
) -> Option<Ratio> {
    let [base, other] = [base, index].map(|index| &comparison.allocators[index].name);
    let of_figure = |pair: &&Paired| {
        pair.operation == operation && pair.figure == figure_label(figure) && pair.rounds > 1
    };
    comparison.paired.iter().filter(of_figure).find_map(|pair| {
        let Interval { value, low, high } = pair.ratio;
        let interval = if pair.a == *base && pair.b == *other {
            pair.ratio
        } else if pair.b == *base && pair.a == *other {
            Interval { value: 1.0 / value, low: 1.0 / high, high: 1.0 / low }
        } else {
            return None;
        };
        Some(Ratio { interval, rounds: pair.rounds })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::figures::sample::comparison;

    #[test]
    fn results_of_an_older_keel_are_completed_and_paired_by_the_order_of_runs() {
        // The runs drift by half; within each round the second is slower.
        let found = comparison(&[
            ("one", &[100, 150, 120]),
            ("two", &[111, 166, 133]),
            ("null", &[5, 5, 5]),
        ]);
        assert_eq!(lowest(&found, "malloc", "p50").best, [0]);
        assert_eq!(all_leaders(&found)["malloc"]["mean"], [0]);
        assert!(!all_leaders(&found)["malloc"].contains_key("p9999"), "too few calls for it");
        let ratio = |base, index| super::ratio(&found, "malloc", "p50", base, index).unwrap();
        let (up, down) = (ratio(0, 1), ratio(1, 0));
        assert!((up.interval.value - 1.108).abs() < 0.002 && up.rounds == 3, "{up:?}");
        assert!((up.interval.low * down.interval.high - 1.0).abs() < 1e-9);
        assert!(
            super::ratio(&found, "malloc", "p50", 0, 2).is_none(),
            "the floor does not compete"
        );
    }

    #[test]
    fn values_that_results_hold_are_not_computed_again() {
        let mut found = comparison(&[("one", &[100, 100]), ("two", &[109, 109])]);
        found.paired.iter_mut().for_each(|pair| pair.lower.clear());
        complete(&mut found, "null");
        assert_eq!(lowest(&found, "malloc", "p50").best, [0, 1]);
    }

    #[test]
    fn one_round_gives_no_leader() {
        let found = comparison(&[("one", &[100]), ("two", &[900])]);
        assert!(all_leaders(&found).is_empty());
        assert!(super::ratio(&found, "malloc", "p50", 0, 1).is_none());
    }

    #[test]
    fn a_multiple_of_the_lowest_value_is_too_noisy_and_never_lowest() {
        let noisy: (&str, &[u64]) = ("noisy", &[100, 9000, 120, 4000]);
        let steady: (&str, &[u64]) = ("steady", &[100, 101, 100, 102]);
        let found = lowest(&comparison(&[steady, noisy]), "malloc", "p50");
        assert_eq!(
            found,
            Lowest { best: vec![], noisy: vec![1] },
            "not even the lowest one is known"
        );
        let near: (&str, &[u64]) = ("near", &[101, 100, 102, 100]);
        let found = lowest(&comparison(&[steady, noisy, near]), "malloc", "p50");
        assert_eq!((found.best.len(), found.noisy.as_slice()), (2, [1].as_slice()), "{found:?}");
    }
}
