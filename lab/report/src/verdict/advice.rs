//! The advice that opens a report: whether the choice of allocator matters for this program, which
//! allocator to take, what it gains and what it costs.
//!
//! Every allocator is compared with the C library's malloc, which a program gets without a choice
//! (or with the first allocator, if the C library's was not measured). A difference counts if it is
//! significant and if it matters: see the constants. An allocator whose runs vary so much that it
//! might be better by that much makes the advice "too noisy to tell".

use super::criteria::FEW_RUNS;
use crate::figures::{AllocatorFigures, ratio};
use crate::words::{bytes, duration, list};
use keel_results::{ALL_OPERATIONS, Comparison, FRAME, RUN, figure_label};
use serde::Serialize;

/// A saving matters from this share of the time in all calls ...
const TIME_SHARE: f64 = 0.05;
/// ... if it is also this share of the recorded time.
const PROGRAM_SHARE: f64 = 0.001;
/// A saving in each frame, or in the slowest hundredth of them, matters from this share of the time
/// of a frame.
const FRAME_SHARE: f64 = 0.01;
/// The time of a frame at 60 Hz.
const FRAME_NS: f64 = 1e9 / 60.0;
/// A difference in peak memory matters from this share.
const MEMORY_SHARE: f64 = 0.05;
const MINUTE_NS: f64 = 60e9;
/// The allocator that a program gets without a choice.
const C_LIBRARY: &str = "glibc";

/// One sentence, and what follows from it. Empty if there is nothing to compare.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Advice {
    /// What to do, with its gain and its price.
    pub sentence: String,
    /// Further sentences; may be empty.
    pub more: String,
}

/// What an allocator gains over the base in one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Gain {
    /// So many ns, which matter.
    Saves(f64),
    /// Nothing that matters.
    Nothing,
    /// The runs vary too much for a conclusion.
    Unknown,
}

/// A figure in which a gain may matter.
#[derive(Clone, Copy)]
struct Stake {
    operation: &'static str,
    figure: &'static str,
    of: fn(&AllocatorFigures) -> Option<f64>,
    /// The least share of the base's value that matters.
    share: f64,
    /// The least gain that matters, ns.
    least: f64,
}

struct Choice<'a> {
    comparison: &'a Comparison,
    allocators: &'a [AllocatorFigures],
    base: usize,
    runs: usize,
}

/// The advice on a comparison of `runs` rounds.
pub fn advice(comparison: &Comparison, allocators: &[AllocatorFigures], runs: usize) -> Advice {
    let competing = |one: &AllocatorFigures| !one.floor && !one.operations.is_empty();
    let others = allocators.iter().filter(|one| competing(one)).count();
    let base = allocators
        .iter()
        .position(|one| one.name == C_LIBRARY && competing(one))
        .or_else(|| allocators.iter().position(competing));
    match base {
        Some(base) if others > 1 && runs > 1 => {
            Choice { comparison, allocators, base, runs }.advice()
        }
        _ => Advice::default(),
    }
}

impl Choice<'_> {
    fn advice(&self) -> Advice {
        // A program with frames is judged by them first.
        let stakes = [self.frames(), Some(self.time())];
        let mut unknown: Vec<usize> = Vec::new();
        for stake in stakes.into_iter().flatten() {
            let gains = self.others().map(|index| (index, self.gain(&stake, index)));
            let gains: Vec<(usize, Gain)> = gains.collect();
            let saves = |(index, gain): &(usize, Gain)| match gain {
                Gain::Saves(saved) => Some((*index, *saved)),
                _ => None,
            };
            let most = gains.iter().filter_map(saves).max_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((index, _)) = most {
                return self.take(&stake, index);
            }
            unknown.extend(gains.iter().filter(|one| one.1 == Gain::Unknown).map(|one| one.0));
        }
        unknown.sort_unstable();
        unknown.dedup();
        if unknown.is_empty() { self.stay() } else { self.undecided(&unknown) }
    }

    fn others(&self) -> impl Iterator<Item = usize> + '_ {
        let competes = |index: &usize| {
            *index != self.base && !self.allocators[*index].floor && self.ran(*index)
        };
        (0..self.allocators.len()).filter(competes)
    }

    fn ran(&self, index: usize) -> bool {
        !self.allocators[index].operations.is_empty()
    }

    fn name(&self, index: usize) -> &str {
        &self.allocators[index].name
    }

    /// The time in the calls of a frame, if there are frames: that of the slowest hundredth, or the
    /// mean of a few frames.
    fn frames(&self) -> Option<Stake> {
        let tail = |one: &AllocatorFigures| Some(one.frames.get("p99")?.median);
        let mean = |one: &AllocatorFigures| Some(one.frames.get("mean")?.median);
        let base = &self.allocators[self.base];
        let stake = Stake {
            operation: FRAME,
            figure: "p99",
            of: tail,
            share: 0.0,
            least: FRAME_SHARE * FRAME_NS,
        };
        match (tail(base), mean(base)) {
            (Some(_), _) => Some(stake),
            (None, Some(_)) => Some(Stake { figure: "mean", of: mean, ..stake }),
            _ => None,
        }
    }

    /// The time in all calls.
    fn time(&self) -> Stake {
        let of = |one: &AllocatorFigures| Some(one.operations.get(ALL_OPERATIONS)?.total.median);
        let least = PROGRAM_SHARE * self.comparison.journal.duration_ns as f64;
        Stake { operation: ALL_OPERATIONS, figure: "mean", of, share: TIME_SHARE, least }
    }

    fn gain(&self, stake: &Stake, index: usize) -> Gain {
        let values = [self.base, index].map(|index| (stake.of)(&self.allocators[index]));
        let [Some(base), Some(value)] = values else { return Gain::Nothing };
        let Some(ratio) = self.ratio(stake.operation, stake.figure, index) else {
            return Gain::Nothing;
        };
        let least = stake.least.max(stake.share * base);
        let lowest = ratio.low.min(1.0) * base;
        if base - lowest < least {
            Gain::Nothing
        } else if self.is_lower(stake, index) {
            if base - value >= least { Gain::Saves(base - value) } else { Gain::Nothing }
        } else {
            Gain::Unknown
        }
    }

    /// The figure of an allocator over that of the base.
    fn ratio(&self, operation: &str, figure: &str, index: usize) -> Option<keel_results::Interval> {
        Some(ratio(self.comparison, operation, figure, self.base, index)?.interval)
    }

    /// Whether the figure is significantly lower than that of the base.
    fn is_lower(&self, stake: &Stake, index: usize) -> bool {
        let (base, other) = (self.name(self.base), self.name(index));
        self.comparison.paired.iter().any(|pair| {
            pair.operation == stake.operation
                && pair.figure == figure_label(stake.figure)
                && ((pair.a == other && pair.b == base && pair.lower == "a")
                    || (pair.b == other && pair.a == base && pair.lower == "b"))
        })
    }

    fn take(&self, stake: &Stake, index: usize) -> Advice {
        let [name, base] = [index, self.base].map(|index| self.name(index));
        let gain = if stake.operation == FRAME {
            self.frames_saved(stake, index)
        } else {
            self.time_saved(stake, index)
        };
        let sentence = format!("Take {name} instead of {base}: {gain}, {}.", self.price(index));
        let equal: Vec<&str> = self
            .others()
            .filter(|other| *other != index && self.is_as_good(stake, index, *other))
            .map(|other| self.name(other))
            .collect();
        let more = match equal.len() {
            0 => String::new(),
            1 => format!("{} is as good: it differs by less than 5 %.", list(&equal)),
            _ => format!("{} are as good: they differ by less than 5 %.", list(&equal)),
        };
        Advice { sentence, more: self.hedged(more) }
    }

    /// Whether `other` is known to be within 5 % of `index`.
    fn is_as_good(&self, stake: &Stake, index: usize, other: usize) -> bool {
        let found = ratio(self.comparison, stake.operation, stake.figure, index, other);
        found.is_some_and(|found| found.interval.high < 1.0 + TIME_SHARE)
    }

    fn frames_saved(&self, stake: &Stake, index: usize) -> String {
        let [with, before] =
            [index, self.base].map(|at| duration((stake.of)(&self.allocators[at]).unwrap_or(0.0)));
        match stake.figure {
            "mean" => {
                format!("a frame spends {with} in calls on average instead of {before}")
            }
            _ => format!(
                "the slowest 1 % of the frames spend {with} or more in calls instead of {before}"
            ),
        }
    }

    fn time_saved(&self, stake: &Stake, index: usize) -> String {
        format!("it saves {}", self.time_difference(stake, index, self.base))
    }

    /// How much longer than with the base the calls take.
    fn longer(&self, index: usize) -> String {
        let stake = self.time();
        if self.comparison.journal.duration_ns > 0 {
            return format!("{} more", self.time_difference(&stake, self.base, index));
        }
        let [base, own] =
            [self.base, index].map(|at| (stake.of)(&self.allocators[at]).unwrap_or(0.0));
        format!("{:.1} times as long in calls", own / base)
    }

    /// By how much more time `more` takes in calls than `less`.
    fn time_difference(&self, stake: &Stake, less: usize, more: usize) -> String {
        let [less, more] = [less, more].map(|at| (stake.of)(&self.allocators[at]).unwrap_or(0.0));
        let recorded = self.comparison.journal.duration_ns as f64;
        if recorded == 0.0 {
            return format!("{:.0} % of the time in calls", 100.0 * (more - less) / more);
        }
        format!(
            "{} per minute in calls ({})",
            duration((more - less) / recorded * MINUTE_NS),
            percent((more - less) / recorded, "of the recorded time")
        )
    }

    /// What an allocator costs in memory, after `for` or `with`.
    fn price(&self, index: usize) -> String {
        let peak = |index: usize| Some(self.allocators[index].figures.get("peak")?.median);
        let [Some(own), Some(base)] = [peak(index), peak(self.base)] else {
            return "its memory was not measured".to_owned();
        };
        let share = (own - base).abs() / base.max(1.0);
        if base == 0.0 || share < MEMORY_SHARE {
            return "with about the same peak memory".to_owned();
        }
        let (what, word) = (bytes((own - base).abs()), if own > base { "more" } else { "less" });
        let preposition = if own > base { "for" } else { "with" };
        format!("{preposition} {what} ({:.0} %) {word} peak memory", 100.0 * share)
    }

    fn stay(&self) -> Advice {
        let base = self.name(self.base);
        let slowest = self.others().filter_map(|index| Some((index, self.extra(index)?)));
        let sentence = match slowest.max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((index, _)) => {
                let verb = if base == C_LIBRARY { "Stay with" } else { "Take" };
                format!(
                    "{verb} {base}: no other allocator saves time that matters, and {} takes {}.",
                    self.name(index),
                    self.longer(index)
                )
            }
            None => format!(
                "The choice of allocator hardly matters for this program: {}.",
                self.spends()
            ),
        };
        let leaner = self.others().filter(|index| self.is_leaner(*index)).min_by(|a, b| {
            let peak = |index: usize| self.allocators[index].figures.get("peak").map(|s| s.median);
            peak(*a).unwrap_or(f64::MAX).total_cmp(&peak(*b).unwrap_or(f64::MAX))
        });
        let more = leaner.map_or_else(String::new, |index| {
            format!("If memory matters, take {}: it runs {}.", self.name(index), self.price(index))
        });
        Advice { sentence, more: self.hedged(more) }
    }

    /// What the calls take with the base.
    fn spends(&self) -> String {
        let total = (self.time().of)(&self.allocators[self.base]).unwrap_or(0.0);
        let recorded = self.comparison.journal.duration_ns as f64;
        if recorded == 0.0 {
            return "no other allocator saves 5 % of the time in calls".to_owned();
        }
        format!(
            "its calls take {} per minute ({}) with {}, and no other allocator saves enough of \
             that to matter",
            duration(total / recorded * MINUTE_NS),
            percent(total / recorded, "of the recorded time"),
            self.name(self.base)
        )
    }

    /// How much longer the calls take than with the base, ns, if that is certain and matters.
    fn extra(&self, index: usize) -> Option<f64> {
        let stake = self.time();
        let base = (stake.of)(&self.allocators[self.base])?;
        let ratio = self.ratio(stake.operation, stake.figure, index)?;
        let certain = (ratio.low - 1.0) * base;
        (certain >= stake.least.max(stake.share * base)).then_some(certain)
    }

    fn is_leaner(&self, index: usize) -> bool {
        let ratio = self.ratio(RUN, "peak", index);
        ratio.is_some_and(|ratio| ratio.high <= 1.0 - MEMORY_SHARE)
    }

    fn undecided(&self, unknown: &[usize]) -> Advice {
        let names: Vec<&str> = unknown.iter().map(|index| self.name(*index)).collect();
        let base = self.name(self.base);
        Advice {
            sentence: format!(
                "It is too noisy to tell whether another allocator serves this program better \
                 than {base}."
            ),
            more: format!(
                "The runs of {} vary too much: repeat the comparison on a quiet machine, or with \
                 --runs 20.",
                list(&names)
            ),
        }
    }

    fn hedged(&self, text: String) -> String {
        if self.runs >= FEW_RUNS {
            return text;
        }
        let few = format!("This advice is based on only {} runs.", self.runs);
        [text, few].join(" ").trim_start().to_owned()
    }
}

/// `1.3 % of the recorded time`.
fn percent(share: f64, of: &str) -> String {
    match 100.0 * share {
        value if value < 0.01 => format!("less than 0.01 % {of}"),
        value if value < 1.0 => format!("{value:.2} % {of}"),
        value => format!("{value:.1} % {of}"),
    }
}

#[cfg(test)]
#[path = "advice_tests.rs"]
mod tests;
