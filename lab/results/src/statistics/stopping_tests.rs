//! Simulated experiments: how often the reported intervals contain the true value, although the
//! number of rounds depends on the values; how often one library under two names is called
//! different; and how often a library that is 3 % slower is found. `bench/blind` makes the last two
//! with real runs.
//!
//! On a virtual machine another guest may use the other hardware thread of the core: then all of a
//! run is slower. The instrument sees most of these runs ([`crate::Run::loop_ns`]), not all: both
//! cases are simulated.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::confidence::{CONFIDENCE, confidence, interval_of};
use super::figures::Figure;
use super::pairs::{Among, paired};
use super::precision::{Watched, joined, judge};
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

/// Another guest on the core, which makes a run 1.6 times as long.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    /// The share of slow runs.
    share: f64,
    /// The mean number of successive slow runs; 1 if each run is slow independently.
    length: f64,
    /// Whether the instrument sees which runs are slow, so that they are repeated.
    is_seen: bool,
}

const ALONE: Neighbour = Neighbour { share: 0.0, length: 1.0, is_seen: true };
const SLOWDOWN: f64 = 1.6;

impl Neighbour {
    /// Whether the next run is slow.
    fn next(self, was_slow: bool, state: &mut u64) -> bool {
        let random = uniform(state);
        match (self.length > 1.0, was_slow) {
            (false, _) => random < self.share,
            (true, true) => random >= 1.0 / self.length,
            (true, false) => random < self.share / (1.0 - self.share) / self.length,
        }
    }
}

/// The repeats of slow runs, within the limits of `lab/replay`.
#[derive(Default)]
struct Repeats {
    was_slow: bool,
    planned: u32,
    made: u32,
    failed: u32,
}

impl Repeats {
    /// Whether the run that counts is slow.
    fn run(&mut self, neighbour: Neighbour, state: &mut u64) -> bool {
        self.planned += 1;
        let mut play = || {
            self.was_slow = neighbour.next(self.was_slow, state);
            self.was_slow
        };
        let mut is_slow = play();
        for _ in 0..3 {
            if !is_slow || !neighbour.is_seen || self.failed >= 6 || 2 * self.made >= self.planned {
                break;
            }
            self.made += 1;
            self.planned += 1;
            is_slow = play();
            self.failed = if is_slow { self.failed + 1 } else { 0 };
        }
        is_slow
    }
}

/// What is simulated: the noise of p50, the noise of p99.9, and the rounds.
#[derive(Clone, Copy, Debug)]
struct Setting {
    noise: Noise,
    neighbour: Neighbour,
    median: f64,
    tail: f64,
    rounds: (u32, u32),
    truth: Truth,
}

/// The true p50 and p99.9 of the two allocators.
type Truth = [[f64; 2]; 2];

const TRUTH: Truth = [[20.0, 400.0], [22.0, 500.0]];

/// The noise of a quiet machine: 1 % from run to run (`bench/blind`).
const QUIET: Setting = Setting {
    noise: Noise::Normal,
    neighbour: ALONE,
    median: 0.01,
    tail: 0.01,
    rounds: (5, 12),
    truth: TRUTH,
};

/// A comparison of two allocators in rounds, as `lab/replay` makes it: the number of rounds is
/// decided by the same function.
fn experiment(setting: Setting, confidence: f64, state: &mut u64) -> Vec<Watched> {
    let Setting { noise, neighbour, median, tail, rounds: (fewest, most), truth } = setting;
    let figure = |name| {
        let (operation, values) = ("malloc".to_owned(), Vec::new());
        Figure { operation, name, values, resolution: 0.0, slow: Vec::new() }
    };
    let one = Watched { medians: vec![figure("p50")], leading: vec![figure("p99.9")] };
    let mut all = vec![one.clone(), one];
    let mut repeats = Repeats { was_slow: uniform(state) < neighbour.share, ..Repeats::default() };
    for round in 0..most {
        let members: Vec<bool> = match round < fewest {
            true => vec![true; 2],
            false => {
                let imprecise = judge(&all, confidence);
                joined(&all, imprecise.iter().map(Option::is_some).collect())
            }
        };
        if !members.contains(&true) {
            break;
        }
        let drift = 0.02 * normal(state);
        for (place, one) in all.iter_mut().enumerate().filter(|(place, _)| members[*place]) {
            let is_slow = repeats.run(neighbour, state);
            let factor = if is_slow { SLOWDOWN } else { 1.0 };
            let figures = [(&mut one.medians[0], median), (&mut one.leading[0], tail)];
            for ((figure, sd), typical) in figures.into_iter().zip(truth[place]) {
                let value = factor * typical * (drift + sd * noise.next(state)).exp();
                figure.values.push((round, value));
                figure.slow.extend((is_slow && neighbour.is_seen).then_some(round));
            }
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
    let among = Among { contenders: 2, confidence };
    for _ in 0..EXPERIMENTS {
        let all = experiment(setting, confidence, &mut state);
        let figures = |place: usize| [&all[place].medians[0], &all[place].leading[0]];
        for (figure, (a, b)) in figures(0).into_iter().zip(figures(1)).enumerate() {
            let own = interval_of(&a.calm(), confidence).unwrap();
            let ratio = paired(("a", "b"), a, b, among).unwrap().ratio;
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
            all.push(Setting { noise, median, tail, ..QUIET });
        }
    }
    let (noise, median, tail) = (Noise::Normal, 0.035, 0.01);
    all.push(Setting { noise, median, tail, rounds: (5, 30), ..QUIET });
    all
}

#[test]
fn nineteen_of_twenty_intervals_contain_the_true_value_when_the_rounds_end_by_precision() {
    for setting in settings() {
        let found = coverage(setting, per_look());
        assert!(found.iter().all(|&share| share >= 0.95), "{setting:?}: {found:?}");
    }
}

/// A neighbour on the core: of 10 to 50 % of the runs, independently and in bursts.
fn neighbours(is_seen: bool) -> impl Iterator<Item = Setting> {
    let shares = [0.1, 0.3, 0.5].into_iter();
    let cases = shares.flat_map(|share| [1.0, 4.0].map(|length| (share, length)));
    cases.map(move |(share, length)| Setting {
        neighbour: Neighbour { share, length, is_seen },
        ..QUIET
    })
}

/// An allocator's own interval contains its true value only if enough runs were not slow.
#[test]
fn nineteen_of_twenty_ratios_are_contained_beside_a_neighbour() {
    for setting in neighbours(true).chain(neighbours(false)) {
        let [p50, _, ratios @ ..] = coverage(setting, per_look());
        assert!(ratios.iter().all(|&share| share >= 0.95), "{setting:?}: {ratios:?}");
        let Neighbour { share, length, is_seen } = setting.neighbour;
        if is_seen && length == 1.0 && share <= 0.3 {
            assert!(p50 >= 0.95, "{setting:?}: {p50}");
        }
    }
}

/// The reason for the higher confidence: without it, the intervals would contain the true value
/// less often than stated.
#[test]
fn intervals_of_95_percent_would_contain_it_less_often() {
    let (noise, median, tail) = (Noise::Normal, 0.03, 0.01);
    let setting = Setting { noise, median, tail, ..QUIET };
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
    let beside = neighbours(true).chain(neighbours(false));
    for setting in settings().into_iter().step_by(2).chain(beside) {
        let found = different(Setting { truth: [TRUTH[0]; 2], ..setting });
        assert!(found.iter().all(|&share| share <= 0.05), "{setting:?}: {found:?}");
    }
}

#[test]
fn a_library_that_is_three_percent_slower_is_found_in_nine_of_ten_comparisons() {
    for noise in [Noise::Normal, Noise::HeavyTails, Noise::Skewed] {
        let slower = TRUTH[0].map(|value| 1.03 * value);
        let truth = [TRUTH[0], slower];
        let setting = Setting { noise, truth, ..QUIET };
        let found = different(setting);
        assert!(found.iter().all(|&share| share >= 0.9), "{setting:?}: {found:?}");
    }
}

/// The share of comparisons in which a library that is 3 % slower is found, the lower of p50 and
/// p99.9.
fn power(setting: Setting) -> f64 {
    let slower = TRUTH[0].map(|value| 1.03 * value);
    different(Setting { truth: [TRUTH[0], slower], ..setting }).into_iter().fold(1.0, f64::min)
}

/// Slow runs that are seen are repeated, and their rounds do not count. Without that, such a
/// library is hardly ever found.
#[test]
fn three_percent_are_found_beside_a_neighbour_that_is_seen() {
    for setting in neighbours(true) {
        let found = power(setting);
        let wanted = if setting.neighbour.share <= 0.3 { 0.9 } else { 0.8 };
        assert!(found >= wanted, "{setting:?}: {found}");
    }
}

/// Trimming finds it if few runs are slow: the plain t interval does in 16 % of these comparisons.
#[test]
fn three_percent_are_often_found_beside_a_neighbour_that_is_seldom_there_and_not_seen() {
    let neighbour = Neighbour { share: 0.1, length: 1.0, is_seen: false };
    let found = power(Setting { neighbour, ..QUIET });
    assert!(found >= 0.75, "{found}");
}
