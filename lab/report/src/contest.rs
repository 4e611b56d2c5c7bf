//! Who is lowest in a figure, as far as the runs bear it: what `results.json` holds of allocators compared in pairs,
//! round by round, by the places of allocators in the table.

use crate::operations::OPERATION_NAMES;
use crate::statistics::short;
use crate::summary::{ALL_OPERATIONS, PERCENTILES, figure_name};
use keel_results::{Comparison, FRAME, Histogram, Interval, RUN, conclude, frame_pairs, leaders};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// By operation (or `run`) and figure, those that may be lowest, the likeliest first; one alone is. Figures that were
/// compared in one round only are left out.
pub type Leaders = BTreeMap<String, BTreeMap<&'static str, Vec<usize>>>;

/// Figures of whole runs that are compared.
const RUN_FIGURES: [&str; 3] = ["peak", "throughput", "elapsed"];

/// What results do not hold: the pairs of frames; and what an older keel left out of them, or a test: intervals, other
/// pairs, the step of the clock.
pub fn complete(comparison: &mut Comparison, floor: &str) {
    complete_figures(comparison, floor);
    if comparison.paired.iter().all(|pair| pair.operation != FRAME) {
        let frames = frame_pairs(comparison, floor);
        comparison.paired.extend(frames);
    }
}

fn complete_figures(comparison: &mut Comparison, floor: &str) {
    comparison.clock.step_ticks = keel_results::known_step(comparison);
    if !comparison.paired.is_empty() || comparison.allocators.iter().any(|one| !one.intervals.is_empty()) {
        return;
    }
    for result in &mut comparison.allocators {
        // Runs stand in the order of execution, and each round ran every allocator once.
        for (round, run) in result.runs.iter_mut().enumerate() {
            run.round = round as u32;
            if run.inside_ns.is_empty() {
                let ns = |counts: &Histogram| {
                    counts.0.mean() * counts.0.len() as f64 / comparison.clock.ticks_per_ns
                };
                run.inside_ns = run.latency.iter().map(|(name, counts)| (name.clone(), ns(counts))).collect();
            }
        }
    }
    conclude(comparison, floor);
}

/// All that can be said.
pub fn all_leaders(comparison: &Comparison) -> Leaders {
    let latencies = PERCENTILES.map(|(name, _)| name).into_iter().chain(["mean", "worst"]);
    let latencies: Vec<&'static str> = latencies.collect();
    let mut found = Leaders::new();
    for operation in OPERATION_NAMES.into_iter().chain([ALL_OPERATIONS, RUN]) {
        let figures: &[&'static str] = if operation == RUN { &RUN_FIGURES } else { &latencies };
        for figure in figures {
            let best = lowest(comparison, operation, figure);
            if !best.is_empty() {
                found.entry(operation.to_owned()).or_default().insert(figure, best);
            }
        }
    }
    found
}

/// Those that may be lowest, the likeliest first; empty where the runs bear nothing.
pub fn lowest(comparison: &Comparison, operation: &str, figure: &str) -> Vec<usize> {
    let place = |name: &String| comparison.allocators.iter().position(|one| one.name == *name);
    leaders(comparison, operation, figure_name(figure)).iter().filter_map(place).collect()
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

/// The figure of `index` over that of `base`; None if they were not compared, or in one round only.
pub fn ratio(
    comparison: &Comparison,
    operation: &str,
    figure: &str,
    base: usize,
    index: usize,
) -> Option<Ratio> {
    let (base, other) = (&comparison.allocators[base].name, &comparison.allocators[index].name);
    let of_figure = |pair: &&keel_results::Paired| {
        pair.operation == operation && pair.figure == figure_name(figure) && pair.rounds > 1
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
pub mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use keel_results::{AllocatorResult, Run};

    /// A comparison of runs whose mallocs took so many ns.
    pub fn comparison(allocators: &[(&str, &[u64])]) -> Comparison {
        let run = |ns: &u64| {
            let mut malloc = Histogram::default();
            malloc.0.auto(true);
            malloc.0.record_n(*ns, 1000).unwrap();
            let inside_ns = [("malloc".to_owned(), (1000 * ns) as f64)].into();
            Run { latency: [("malloc".to_owned(), malloc)].into(), inside_ns, ..Run::default() }
        };
        let one = |(name, runs): &(&str, &[u64])| AllocatorResult {
            name: (*name).to_owned(),
            runs: runs.iter().map(run).collect(),
            ..AllocatorResult::default()
        };
        let mut comparison =
            Comparison { allocators: allocators.iter().map(one).collect(), ..Comparison::default() };
        comparison.clock.ticks_per_ns = 1.0;
        comparison.clock.step_ticks = 1;
        comparison.journal.operations.insert("malloc".to_owned(), 1000);
        complete(&mut comparison, "null");
        comparison
    }

    #[test]
    fn results_of_an_older_keel_are_completed_and_paired_by_the_order_of_runs() {
        // Runs drift by half; only round by round is the second slower in each.
        let found = comparison(&[("one", &[100, 150, 120]), ("two", &[111, 166, 133]), ("null", &[5, 5, 5])]);
        assert_eq!(lowest(&found, "malloc", "p50"), [0]);
        assert_eq!(all_leaders(&found)["malloc"]["mean"], [0]);
        assert!(!all_leaders(&found)["malloc"].contains_key("p9999"), "too few calls for it");
        let ratio = |base, index| super::ratio(&found, "malloc", "p50", base, index).unwrap();
        let (up, down) = (ratio(0, 1), ratio(1, 0));
        assert!((up.interval.value - 1.108).abs() < 0.002 && up.rounds == 3, "{up:?}");
        assert!((up.interval.low * down.interval.high - 1.0).abs() < 1e-9);
        assert!(super::ratio(&found, "malloc", "p50", 0, 2).is_none(), "the floor competes with nobody");
    }

    #[test]
    fn what_results_hold_is_not_computed_again() {
        let mut found = comparison(&[("one", &[100, 100]), ("two", &[900, 900])]);
        found.paired.iter_mut().for_each(|pair| pair.lower.clear());
        complete(&mut found, "null");
        assert_eq!(lowest(&found, "malloc", "p50"), [0, 1]);
    }

    #[test]
    fn one_round_bears_nothing() {
        let found = comparison(&[("one", &[100]), ("two", &[900])]);
        assert!(all_leaders(&found).is_empty());
        assert!(super::ratio(&found, "malloc", "p50", 0, 1).is_none());
    }
}
