//! The interval of each figure, and the comparison of each pair of allocators in each figure.

use super::confidence::{CONFIDENCE, confidence, interval_of, paired_ratio};
use super::figures::{FEWEST_CALM, Figure, figures, frame_figures};
use crate::{AllocatorResult, Comparison, Interval, Paired};

/// Computes the intervals of each allocator and the pairs. In a pair, `a` comes before `b` in the
/// table.
pub fn conclude(comparison: &mut Comparison, floor: &str) {
    let all: Vec<Vec<Figure>> =
        comparison.allocators.iter().map(|result| figures(comparison, result)).collect();
    let contenders: Vec<usize> = (0..all.len())
        .filter(|&index| {
            let result = &comparison.allocators[index];
            result.name != floor && !result.runs.is_empty()
        })
        .collect();
    let confidence = confidence(comparison);
    let among = Among { contenders: contenders.len(), confidence };
    let mut pairs = Vec::new();
    for (place, &one) in contenders.iter().enumerate() {
        for &other in &contenders[place + 1..] {
            let names = (
                comparison.allocators[one].name.as_str(),
                comparison.allocators[other].name.as_str(),
            );
            for a in &all[one] {
                let same = |b: &&Figure| b.operation == a.operation && b.name == a.name;
                let pair = all[other].iter().find(same).and_then(|b| paired(names, a, b, among));
                pairs.extend(pair);
            }
        }
    }
    comparison.paired = pairs;
    for (result, figures) in comparison.allocators.iter_mut().zip(all) {
        for figure in figures {
            if let Some(interval) =
                widened(interval_of(&figure.calm(), confidence), figure.resolution)
            {
                let of_operation = result.intervals.entry(figure.operation).or_default();
                of_operation.insert(figure.name.to_owned(), interval);
            }
        }
    }
}

/// Adds the intervals and the pairs of the time inside the calls of a frame, all threads together
/// (operation [`crate::FRAME`]). They are computed from the runs and not stored in results. Nothing
/// is added without frames.
pub fn conclude_frames(comparison: &mut Comparison, floor: &str) {
    let confidence = confidence(comparison);
    let all: Vec<Vec<Figure>> = comparison.allocators.iter().map(frame_figures).collect();
    let contends = |(result, figures): &(&AllocatorResult, &Vec<Figure>)| {
        result.name != floor && !figures.is_empty()
    };
    let contenders: Vec<_> = comparison.allocators.iter().zip(&all).filter(contends).collect();
    let among = Among { contenders: contenders.len(), confidence };
    let mut pairs = Vec::new();
    for (place, (one, figures)) in contenders.iter().enumerate() {
        for (other, others) in &contenders[place + 1..] {
            for a in *figures {
                let b = others.iter().find(|b| b.name == a.name);
                pairs.extend(b.and_then(|b| paired((&one.name, &other.name), a, b, among)));
            }
        }
    }
    comparison.paired.extend(pairs);
    for (result, figures) in comparison.allocators.iter_mut().zip(all) {
        for figure in figures {
            if let Some(interval) = interval_of(&figure.calm(), confidence) {
                let of_operation = result.intervals.entry(figure.operation).or_default();
                of_operation.insert(figure.name.to_owned(), interval);
            }
        }
    }
}

/// Adds half a step of the clock on either side: a reading can differ that much from the true
/// value.
fn widened(interval: Option<Interval>, resolution: f64) -> Option<Interval> {
    let half = resolution / 2.0;
    interval.map(|Interval { value, low, high }| Interval {
        value,
        low: (low - half).max(0.0),
        high: high + half,
    })
}

/// The comparison to which a pair belongs.
#[derive(Clone, Copy)]
pub(super) struct Among {
    /// The allocators that are compared with each other.
    pub contenders: usize,
    /// See [`confidence`].
    pub confidence: f64,
}

/// The values of the rounds that ran both with an undisturbed processor; of all rounds that ran
/// both, if those are fewer than `FEWEST_CALM`.
fn common_rounds(a: &Figure, b: &Figure) -> Vec<(f64, f64)> {
    let both = a.values.iter().filter_map(|&(round, value)| {
        let &(_, other) = b.values.iter().find(|&&(other, _)| other == round)?;
        Some((a.is_calm(round) && b.is_calm(round), (value, other)))
    });
    let both: Vec<(bool, (f64, f64))> = both.collect();
    let calm = both.iter().filter(|(is_calm, _)| *is_calm).count();
    let takes_all = calm < FEWEST_CALM;
    both.into_iter().filter(|(is_calm, _)| takes_all || *is_calm).map(|(_, pair)| pair).collect()
}

/// The pair of two allocators in one figure; None if no round ran both.
pub(super) fn paired(
    (name_a, name_b): (&str, &str),
    a: &Figure,
    b: &Figure,
    among: Among,
) -> Option<Paired> {
    let both = common_rounds(a, b);
    let (values_a, values_b): (Vec<f64>, Vec<f64>) = both.iter().copied().unzip();
    let error = ClockError::of(a, b);
    let ratio = error.apply(paired_ratio(&values_a, &values_b, among.confidence)?);
    // Bonferroni: each allocator is compared with all others.
    let strict = 1.0 - (1.0 - among.confidence) / (among.contenders.max(2) - 1) as f64;
    let corrected = error.apply(paired_ratio(&values_a, &values_b, strict)?);
    let lower = match corrected {
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

/// The factor by which a ratio may be wrong because the clock moves in steps.
pub(super) struct ClockError(f64);

impl ClockError {
    pub(super) fn of(a: &Figure, b: &Figure) -> ClockError {
        let part = |figure: &Figure| match interval_of(&figure.calm(), CONFIDENCE) {
            Some(typical) => 1.0 + figure.resolution / 2.0 / typical.value,
            None => 1.0,
        };
        ClockError(part(a) * part(b))
    }

    pub(super) fn apply(&self, ratio: Interval) -> Interval {
        Interval { value: ratio.value, low: ratio.low / self.0, high: ratio.high * self.0 }
    }
}

/// The allocators that may be lowest in a figure: the one with the lowest typical value, and those
/// whose difference from it is not significant. A single name is a verdict. Empty without a pair of
/// two rounds or more.
pub fn leaders(comparison: &Comparison, operation: &str, figure: &str) -> Vec<String> {
    let typical =
        |result: &AllocatorResult| Some(result.intervals.get(operation)?.get(figure)?.value);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::statistics::test_data::{comparison, result};

    fn pair<'a>(comparison: &'a Comparison, figure: &str) -> &'a Paired {
        comparison
            .paired
            .iter()
            .find(|one| one.operation == "malloc" && one.figure == figure)
            .unwrap()
    }

    #[test]
    fn frames_are_paired_round_by_round() {
        let with_frames = |name: &str, ns: &[u64]| {
            let mut result = result(name, ns);
            for (run, &ns) in result.runs.iter_mut().zip(ns) {
                let mut frames = crate::FrameSums::default();
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
        let mut comparison = Comparison { allocators, ..Comparison::default() };
        conclude_frames(&mut comparison, "null");
        assert_eq!(leaders(&comparison, crate::FRAME, "mean"), ["one"]);
        let found = &comparison.paired;
        let names: Vec<&str> = found.iter().map(|pair| pair.figure.as_str()).collect();
        assert_eq!(names, ["mean", "p50", "p90", "worst"], "one of 100 frames exceeds p99");
        for pair in found {
            assert_eq!((pair.a.as_str(), pair.b.as_str(), pair.rounds), ("one", "two", 4));
            assert_eq!(pair.operation, crate::FRAME);
            assert!((pair.ratio.value - 2.0).abs() < 0.02 && pair.lower == "a", "{pair:?}");
        }
    }

    #[test]
    fn common_drift_does_not_hide_a_difference_but_the_step_of_the_clock_does() {
        let drifting = [200, 300, 260, 220, 280];
        let slower = drifting.map(|ticks| ticks + 20);
        let found = comparison(
            1,
            vec![result("one", &drifting), result("two", &slower), result("null", &[5])],
        );
        let p50 = pair(&found, "p50");
        assert_eq!(
            (p50.a.as_str(), p50.b.as_str(), p50.lower.as_str(), p50.rounds),
            ("one", "two", "a", 5)
        );
        assert!(p50.ratio.low > 1.05 && p50.ratio.high < 1.12, "{p50:?}");
        assert!(
            found.paired.iter().all(|pair| pair.a != "null" && pair.b != "null"),
            "the floor takes no part"
        );
        assert_eq!(leaders(&found, "malloc", "p50"), ["one"]);
        let coarse = comparison(26, vec![result("one", &drifting), result("two", &slower)]);
        assert_eq!(
            pair(&coarse, "p50").lower,
            "",
            "a difference of 20 ticks on a clock with steps of 26"
        );
        assert_eq!(pair(&coarse, "mean").lower, "a", "a mean over many calls has no steps");
    }

    #[test]
    fn rounds_with_a_slow_processor_do_not_count_if_five_others_remain() {
        // In the last round of one, and the first of two, a neighbour used the core.
        let of = |rounds: usize| {
            let (mut one, mut two) = (vec![200; rounds], vec![210; rounds]);
            (one[rounds - 1], two[0]) = (340, 357);
            let (mut one, mut two) = (result("one", &one), result("two", &two));
            one.runs[rounds - 1].interference = vec![crate::SLOW_PROCESSOR.to_owned()];
            two.runs[0].interference = vec![crate::SLOW_PROCESSOR.to_owned()];
            comparison(1, vec![one, two])
        };
        let found = of(7);
        let p50 = pair(&found, "p50");
        assert_eq!((p50.rounds, p50.lower.as_str()), (5, "a"));
        assert!(p50.ratio.low > 1.03 && p50.ratio.high < 1.07, "{p50:?}");
        let own = found.allocators[0].intervals["malloc"]["p50"];
        assert!((own.value - 200.0).abs() < 1.0, "{own:?}");
        let found = of(6);
        let p50 = pair(&found, "p50");
        assert_eq!((p50.rounds, p50.lower.as_str()), (6, ""), "only four are left");
    }

    #[test]
    fn slow_rounds_that_are_not_known_are_trimmed() {
        let mut two = [210, 211, 209, 210, 212, 208, 210, 211, 209, 210];
        let with = |two: &[u64]| comparison(1, vec![result("one", &[200; 10]), result("two", two)]);
        (two[3], two[8]) = (357, 357);
        let found = with(&two);
        let p50 = pair(&found, "p50");
        assert_eq!((p50.rounds, p50.lower.as_str()), (10, "a"));
        assert!(p50.ratio.low > 1.03 && p50.ratio.high < 1.08, "{p50:?}");
    }

    #[test]
    fn no_verdict_from_runs_that_disagree_or_from_one_round() {
        let found =
            comparison(1, vec![result("one", &[100, 140, 90]), result("two", &[120, 110, 130])]);
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
        assert!(
            !found.allocators[0].intervals["malloc"].contains_key("p99.9"),
            "one call exceeds it"
        );
    }
}
