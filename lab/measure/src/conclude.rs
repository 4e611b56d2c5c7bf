//! What the runs bear: an interval for every figure, and every pair of allocators compared in every figure.

use crate::confidence::{CONFIDENCE, interval_of, paired_ratio, unpaired_ratio};
use crate::figures::{Figure, figures, frame_figures};
use keel_results::{AllocatorResult, Comparison, Interval, Paired};

/// Fills in the intervals of each allocator, and the pairs. Of the pairs the first is the earlier in the table.
pub fn conclude(comparison: &mut Comparison, floor: &str) {
    let all: Vec<Vec<Figure>> =
        comparison.allocators.iter().map(|result| figures(comparison, result)).collect();
    let contenders: Vec<usize> = (0..all.len())
        .filter(|&index| {
            let result = &comparison.allocators[index];
            result.name != floor && !result.runs.is_empty()
        })
        .collect();
    let mut pairs = Vec::new();
    for (place, &one) in contenders.iter().enumerate() {
        for &other in &contenders[place + 1..] {
            let names =
                (comparison.allocators[one].name.as_str(), comparison.allocators[other].name.as_str());
            for a in &all[one] {
                let same = |b: &&Figure| b.operation == a.operation && b.name == a.name;
                let pair = all[other].iter().find(same).and_then(|b| paired(names, a, b, contenders.len()));
                pairs.extend(pair);
            }
        }
    }
    comparison.paired = pairs;
    for (result, figures) in comparison.allocators.iter_mut().zip(all) {
        for figure in figures {
            if let Some(interval) = widened(interval_of(&figure.plain(), CONFIDENCE), figure.resolution) {
                let of_operation = result.intervals.entry(figure.operation).or_default();
                of_operation.insert(figure.name.to_owned(), interval);
            }
        }
    }
}

/// The time inside calls of frames, all threads together, of each two allocators: operation [`crate::FRAME`]. Results
/// do not hold these pairs; runs hold what they are made of. Empty without frames.
pub fn frame_pairs(comparison: &Comparison, floor: &str) -> Vec<Paired> {
    let contends = |result: &&AllocatorResult| result.name != floor && !result.runs.is_empty();
    let contenders: Vec<(&str, Vec<Figure>)> = comparison
        .allocators
        .iter()
        .filter(contends)
        .map(|result| (result.name.as_str(), frame_figures(result)))
        .collect();
    let mut pairs = Vec::new();
    for (place, (one, figures)) in contenders.iter().enumerate() {
        for (other, others) in &contenders[place + 1..] {
            for a in figures {
                let b = others.iter().find(|b| b.name == a.name);
                pairs.extend(b.and_then(|b| paired((one, other), a, b, contenders.len())));
            }
        }
    }
    pairs
}

/// A value that the clock shows lies within half a step of the true one.
fn widened(interval: Option<Interval>, resolution: f64) -> Option<Interval> {
    let half = resolution / 2.0;
    interval.map(|Interval { value, low, high }| Interval {
        value,
        low: (low - half).max(0.0),
        high: high + half,
    })
}

fn paired((name_a, name_b): (&str, &str), a: &Figure, b: &Figure, contenders: usize) -> Option<Paired> {
    let both: Vec<(f64, f64)> = a
        .values
        .iter()
        .filter_map(|&(round, value)| {
            let other = b.values.iter().find(|&&(other, _)| other == round)?;
            Some((value, other.1))
        })
        .collect();
    let (values_a, values_b): (Vec<f64>, Vec<f64>) = both.iter().copied().unzip();
    let stretch = Stretch::of(a, b);
    let ratio = stretch.apply(paired_ratio(&values_a, &values_b, CONFIDENCE)?);
    // Each allocator meets all others, so a chance winner is that much likelier.
    let strict = 1.0 - (1.0 - CONFIDENCE) / (contenders.max(2) - 1) as f64;
    let certain = stretch.apply(paired_ratio(&values_a, &values_b, strict)?);
    let lower = match certain {
        _ if both.len() < 2 => "",
        Interval { low, .. } if low > 1.0 => "a",
        Interval { high, .. } if high < 1.0 => "b",
        _ => "",
    };
    Some(Paired {
        a: name_a.to_owned(),
        b: name_b.to_owned(),
        operation: a.operation.clone(),
        figure: a.name.to_owned(),
        rounds: both.len() as u32,
        ratio,
        lower: lower.to_owned(),
    })
}

/// By what factor a ratio may be wrong because the clock moves in steps.
struct Stretch(f64);

impl Stretch {
    fn of(a: &Figure, b: &Figure) -> Stretch {
        let part = |figure: &Figure| match interval_of(&figure.plain(), CONFIDENCE) {
            Some(typical) => 1.0 + figure.resolution / 2.0 / typical.value,
            None => 1.0,
        };
        Stretch(part(a) * part(b))
    }

    fn apply(&self, ratio: Interval) -> Interval {
        Interval { value: ratio.value, low: ratio.low / self.0, high: ratio.high * self.0 }
    }
}

/// Who is lowest in a figure: the one whose typical value is, and all that the data does not set above it. One alone is
/// a verdict. Empty where nothing was compared, or in one round only.
pub fn leaders(comparison: &Comparison, operation: &str, figure: &str) -> Vec<String> {
    let typical = |result: &AllocatorResult| Some(result.intervals.get(operation)?.get(figure)?.value);
    let pairs: Vec<&Paired> = comparison
        .paired
        .iter()
        .filter(|pair| pair.operation == operation && pair.figure == figure && pair.rounds > 1)
        .collect();
    let competes = |name: &str| pairs.iter().any(|pair| pair.a == name || pair.b == name);
    let mut values: Vec<(f64, &str)> = comparison
        .allocators
        .iter()
        .filter(|result| competes(&result.name))
        .filter_map(|result| Some((typical(result)?, result.name.as_str())))
        .collect();
    values.sort_by(|one, other| one.0.total_cmp(&other.0));
    let Some(&(_, best)) = values.first() else { return Vec::new() };
    let beaten = |name: &str| {
        pairs.iter().any(|pair| {
            (pair.a == best && pair.b == name && pair.lower == "a")
                || (pair.b == best && pair.a == name && pair.lower == "b")
        })
    };
    values.iter().filter(|(_, name)| !beaten(name)).map(|(_, name)| (*name).to_owned()).collect()
}

/// One figure of one allocator in two comparisons.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The allocator.
    pub allocator: String,
    /// See [`Figure`].
    pub operation: String,
    /// See [`Figure`].
    pub figure: &'static str,
    /// Typical value before and after: ns, or bytes for `peak`.
    pub before: f64,
    /// See `before`.
    pub after: f64,
    /// after / before, with its 95 % interval; None where a side has fewer than two runs.
    pub ratio: Option<Interval>,
}

impl Difference {
    /// Whether the interval excludes "the same".
    pub fn is_certain(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio.low > 1.0 || ratio.high < 1.0)
    }
}

/// Every figure that both comparisons have, allocator by allocator in the order of the later one.
pub fn differences(before: &Comparison, after: &Comparison) -> Vec<Difference> {
    let mut found = Vec::new();
    for late in after.allocators.iter().filter(|result| !result.runs.is_empty()) {
        let same = |early: &&AllocatorResult| early.name == late.name && !early.runs.is_empty();
        let Some(early) = before.allocators.iter().find(same) else { continue };
        let early = figures(before, early);
        for b in figures(after, late) {
            let same = |a: &&Figure| a.operation == b.operation && a.name == b.name;
            if let Some(a) = early.iter().find(same) {
                found.extend(difference(&late.name, a, &b));
            }
        }
    }
    found
}

fn difference(allocator: &str, a: &Figure, b: &Figure) -> Option<Difference> {
    let (before, after) = (a.plain(), b.plain());
    let ratio = unpaired_ratio(&before, &after, CONFIDENCE).map(|ratio| Stretch::of(a, b).apply(ratio));
    Some(Difference {
        allocator: allocator.to_owned(),
        operation: b.operation.clone(),
        figure: b.name,
        before: interval_of(&before, CONFIDENCE)?.value,
        after: interval_of(&after, CONFIDENCE)?.value,
        ratio,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use keel_results::{Clock, Histogram, Run};

    /// Runs whose mallocs took so many ticks each, 1000 of them.
    fn result(name: &str, ticks: &[u64]) -> AllocatorResult {
        let run = |(round, &ticks): (usize, &u64)| {
            let mut histogram = Histogram::default();
            histogram.0.auto(true);
            histogram.0.record_n(ticks, 1000).unwrap();
            Run {
                round: round as u32,
                elapsed_ns: 1000 * ticks,
                peak_rss_bytes: 4096,
                latency: [("malloc".to_owned(), histogram)].into(),
                inside_ns: [("malloc".to_owned(), (1000 * ticks) as f64)].into(),
                ..Run::default()
            }
        };
        let runs = ticks.iter().enumerate().map(run).collect();
        AllocatorResult { name: name.to_owned(), runs, ..AllocatorResult::default() }
    }

    fn comparison(step_ticks: u64, allocators: Vec<AllocatorResult>) -> Comparison {
        let mut comparison = Comparison {
            clock: Clock { ticks_per_ns: 1.0, step_ticks, ..Clock::default() },
            allocators,
            ..Comparison::default()
        };
        comparison.journal.operations.insert("malloc".to_owned(), 1000);
        conclude(&mut comparison, "null");
        comparison
    }

    fn pair<'a>(comparison: &'a Comparison, figure: &str) -> &'a Paired {
        comparison.paired.iter().find(|one| one.operation == "malloc" && one.figure == figure).unwrap()
    }

    #[test]
    fn frames_are_paired_round_by_round() {
        let with_frames = |name: &str, ns: &[u64]| {
            let mut result = result(name, ns);
            for (run, &ns) in result.runs.iter_mut().zip(ns) {
                let mut frames = keel_results::FrameSums::default();
                frames.all_threads.0.auto(true);
                frames.all_threads.0.record_n(ns, 100).unwrap();
                run.frames = Some(frames);
            }
            result
        };
        let allocators = vec![
            with_frames("one", &[100, 200, 300, 400]),
            with_frames("two", &[201, 399, 602, 801]),
            result("no frames", &[1, 1, 1, 1]),
            with_frames("null", &[1, 1, 1, 1]),
        ];
        let comparison = Comparison { allocators, ..Comparison::default() };
        let found = frame_pairs(&comparison, "null");
        let names: Vec<&str> = found.iter().map(|pair| pair.figure.as_str()).collect();
        assert_eq!(names, ["mean", "p50", "p90", "worst"], "of 100 frames one lies beyond p99");
        for pair in &found {
            assert_eq!((pair.a.as_str(), pair.b.as_str(), pair.rounds), ("one", "two", 4));
            assert_eq!(pair.operation, crate::FRAME);
            assert!((pair.ratio.value - 2.0).abs() < 0.02 && pair.lower == "a", "{pair:?}");
        }
    }

    #[test]
    fn what_drifts_alike_is_told_apart_and_what_the_clock_cannot_show_is_not() {
        let drifting = [200, 300, 260, 220, 280];
        let slower = drifting.map(|ticks| ticks + 20);
        let found =
            comparison(1, vec![result("one", &drifting), result("two", &slower), result("null", &[5])]);
        let p50 = pair(&found, "p50");
        assert_eq!((p50.a.as_str(), p50.b.as_str(), p50.lower.as_str(), p50.rounds), ("one", "two", "a", 5));
        assert!(p50.ratio.low > 1.05 && p50.ratio.high < 1.12, "{p50:?}");
        assert!(
            found.paired.iter().all(|pair| pair.a != "null" && pair.b != "null"),
            "the floor competes not"
        );
        assert_eq!(leaders(&found, "malloc", "p50"), ["one"]);
        let coarse = comparison(26, vec![result("one", &drifting), result("two", &slower)]);
        assert_eq!(pair(&coarse, "p50").lower, "", "20 ticks apart on a clock of 26");
        assert_eq!(pair(&coarse, "mean").lower, "a", "means are of many calls, so they have no steps");
    }

    #[test]
    fn runs_that_disagree_bear_no_verdict_and_one_round_never_does() {
        let found = comparison(1, vec![result("one", &[100, 140, 90]), result("two", &[120, 110, 130])]);
        assert_eq!(pair(&found, "p50").lower, "");
        assert_eq!(leaders(&found, "malloc", "p50"), ["one", "two"]);
        let once = comparison(1, vec![result("one", &[100]), result("two", &[200])]);
        assert_eq!((pair(&once, "p50").lower.as_str(), pair(&once, "p50").rounds), ("", 1));
    }

    #[test]
    fn an_interval_is_never_narrower_than_a_step_of_the_clock() {
        let found = comparison(26, vec![result("one", &[100, 100, 100])]);
        let p50 = found.allocators[0].intervals["malloc"]["p50"];
        assert_eq!((p50.low.round(), p50.value.round(), p50.high.round()), (87.0, 100.0, 113.0));
        assert!(!found.allocators[0].intervals["malloc"].contains_key("p99.9"), "one call lies beyond it");
    }

    #[test]
    fn two_comparisons_differ_where_their_runs_lie_apart() {
        let before = comparison(1, vec![result("one", &[100, 102, 98]), result("two", &[100, 103, 97])]);
        let after = comparison(1, vec![result("one", &[130, 133, 127]), result("two", &[101, 98, 104])]);
        let found = differences(&before, &after);
        let of = |name: &str| found.iter().find(|one| one.allocator == name && one.figure == "p50").unwrap();
        assert!(of("one").is_certain() && of("one").ratio.unwrap().low > 1.2, "{:?}", of("one"));
        assert!(!of("two").is_certain());
    }
}
