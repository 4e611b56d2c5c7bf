//! Simulated experiments: how often the reported intervals contain the true value, although the
//! number of rounds depends on the values; how often one library under two names is called
//! different; and how often a library that is 3 % slower is found. `bench/blind` makes the last two
//! with real runs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::confidence::{CONFIDENCE, confidence, interval_of, paired_ratio};
use super::figures::Figure;
use super::pairs::{Among, paired};
use super::precision::{Watched, judge};
use super::test_data::{normal, uniform};
use crate::{Comparison, Interval};

const EXPERIMENTS: u32 = 10_000;

/// How the runs of an allocator vary, as a share of the value.
#[derive(Clone, Copy, Debug)]
enum Noise {
    Normal,
    /// Student's t with three degrees of freedom: a few runs are far off, on either side.
    HeavyTails,
    /// As a machine with neighbours: runs are slower now and then, never faster.
    Skewed,
}

impl Noise {
    /// A number with mean 0 and variance 1.
    fn next(self, state: &mut u64) -> f64 {
        match self {
            Noise::Normal => normal(state),
            Noise::HeavyTails => {
                let squares: f64 = (0..3).map(|_| normal(state).powi(2)).sum();
                normal(state) / squares.max(1e-9).sqrt()
            }
            Noise::Skewed => {
                0.5 * (-uniform(state).max(1e-300).ln() - 1.0) + 0.75f64.sqrt() * normal(state)
            }
        }
    }
}

/// What is simulated: the noise of p50, the noise of p99.9, and the rounds.
#[derive(Clone, Copy, Debug)]
struct Setting {
    noise: Noise,
    median: f64,
    tail: f64,
    rounds: (u32, u32),
    truth: Truth,
}

/// The true p50 and p99.9 of the two allocators.
type Truth = [[f64; 2]; 2];

const TRUTH: Truth = [[20.0, 400.0], [22.0, 500.0]];

/// A comparison of two allocators in rounds, as `lab/replay` makes it: the number of rounds is
/// decided by the same function.
fn experiment(setting: Setting, confidence: f64, state: &mut u64) -> Vec<Watched> {
    let Setting { noise, median, tail, rounds: (fewest, most), truth } = setting;
    let figure = |name| {
        let (operation, values) = ("malloc".to_owned(), Vec::new());
        Figure { operation, name, values, resolution: 0.0 }
    };
    let one = Watched { medians: vec![figure("p50")], leading: vec![figure("p99.9")] };
    let mut all = vec![one.clone(), one];
    for round in 0..most {
        let members: Vec<bool> = match round < fewest {
            true => vec![true; 2],
            false => judge(&all, confidence).iter().map(Option::is_some).collect(),
        };
        if !members.contains(&true) {
            break;
        }
        let drift = 0.02 * normal(state);
        for (place, one) in all.iter_mut().enumerate().filter(|(place, _)| members[*place]) {
            let mut value =
                |sd: f64, typical: f64| typical * (drift + sd * noise.next(state)).exp();
            one.medians[0].values.push((round, value(median, truth[place][0])));
            let found = value(tail, truth[place][1]);
            one.leading[0].values.push((round, found));
        }
    }
    all
}

/// The shares of intervals that contain the true value: those of p50, of p99.9, of the ratio of
/// both allocators' p50, and of p99.9. The drift is a part of what an allocator's own interval
/// covers, because it differs between the rounds.
fn coverage(setting: Setting, confidence: f64) -> [f64; 4] {
    let mut state = 17;
    let mut hits = [0u32; 4];
    for _ in 0..EXPERIMENTS {
        let all = experiment(setting, confidence, &mut state);
        let figures: Vec<[Vec<f64>; 2]> =
            all.iter().map(|one| [one.medians[0].plain(), one.leading[0].plain()]).collect();
        for figure in 0..2 {
            let (a, b) = (&figures[0][figure], &figures[1][figure]);
            let both = a.len().min(b.len());
            let own = interval_of(a, confidence).unwrap();
            let ratio = paired_ratio(&a[..both], &b[..both], confidence).unwrap();
            let (one, other) = (setting.truth[0][figure], setting.truth[1][figure]);
            let contains = |found: Interval, truth: f64| (found.low..=found.high).contains(&truth);
            hits[figure] += u32::from(contains(own, one));
            hits[2 + figure] += u32::from(contains(ratio, other / one));
        }
    }
    hits.map(|count| f64::from(count) / f64::from(EXPERIMENTS))
}

fn per_look() -> f64 {
    let mut comparison = Comparison::default();
    (comparison.settings.runs, comparison.settings.max_runs) = (5, 12);
    confidence(&comparison)
}

/// Settings in which the rounds end at different times: at once, in between, and at the limit.
fn settings() -> Vec<Setting> {
    let mut all = Vec::new();
    for noise in [Noise::Normal, Noise::HeavyTails, Noise::Skewed] {
        for (median, tail) in [(0.005, 0.02), (0.01, 0.06), (0.03, 0.01), (0.02, 0.3)] {
            all.push(Setting { noise, median, tail, rounds: (5, 12), truth: TRUTH });
        }
    }
    let (noise, median, tail) = (Noise::Normal, 0.035, 0.01);
    all.push(Setting { noise, median, tail, rounds: (5, 30), truth: TRUTH });
    all
}

#[test]
fn nineteen_of_twenty_intervals_contain_the_true_value_when_the_rounds_end_by_precision() {
    for setting in settings() {
        let found = coverage(setting, per_look());
        assert!(found.iter().all(|&share| share >= 0.95), "{setting:?}: {found:?}");
    }
}

/// The reason for the higher confidence: without it, the intervals would contain the true value
/// less often than stated.
#[test]
fn intervals_of_95_percent_would_contain_it_less_often() {
    let (noise, median, tail) = (Noise::Normal, 0.03, 0.01);
    let setting = Setting { noise, median, tail, rounds: (5, 12), truth: TRUTH };
    let least = coverage(setting, CONFIDENCE).into_iter().fold(1.0, f64::min);
    assert!(least < 0.945, "{least}");
}

/// The shares of comparisons that call the two allocators different in p50, and in p99.9.
fn different(setting: Setting) -> [f64; 2] {
    let mut state = 29;
    let mut found = [0u32; 2];
    let among = Among { contenders: 2, confidence: per_look() };
    for _ in 0..EXPERIMENTS {
        let all = experiment(setting, among.confidence, &mut state);
        let tails: Vec<&Figure> = all.iter().map(|one| &one.leading[0]).collect();
        let medians = paired(("a", "b"), &all[0].medians[0], &all[1].medians[0], among).unwrap();
        let tails = paired(("a", "b"), tails[0], tails[1], among).unwrap();
        for (count, pair) in found.iter_mut().zip([medians, tails]) {
            *count += u32::from(!pair.lower.is_empty());
        }
    }
    found.map(|count| f64::from(count) / f64::from(EXPERIMENTS))
}

#[test]
fn one_library_under_two_names_differs_in_at_most_one_of_twenty_comparisons() {
    for setting in settings().into_iter().step_by(2) {
        let found = different(Setting { truth: [TRUTH[0]; 2], ..setting });
        assert!(found.iter().all(|&share| share <= 0.05), "{setting:?}: {found:?}");
    }
}

/// With the noise of a quiet machine: 1 % from run to run (`bench/blind`).
#[test]
fn a_library_that_is_three_percent_slower_is_found_in_nine_of_ten_comparisons() {
    for noise in [Noise::Normal, Noise::HeavyTails, Noise::Skewed] {
        let slower = TRUTH[0].map(|value| 1.03 * value);
        let truth = [TRUTH[0], slower];
        let setting = Setting { noise, median: 0.01, tail: 0.01, rounds: (5, 12), truth };
        let found = different(setting);
        assert!(found.iter().all(|&share| share >= 0.9), "{setting:?}: {found:?}");
    }
}
