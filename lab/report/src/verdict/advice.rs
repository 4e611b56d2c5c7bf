//! The advice that opens a report: whether the choice of allocator matters for this program, which
//! allocator to take, what it gains and what it costs.
//!
//! Every allocator is compared with the C library's malloc, which a program gets without a choice
//! (or with the first allocator, if the C library's was not measured). A difference counts if it is
//! significant and if it matters: see [`Matters`]. An allocator whose runs vary so much that it
//! might be better by that much makes the advice "the runs vary too much". Calls that were only
//! preempted are left out: their length shows how busy the machine was. A call that was preempted
//! while the kernel worked for it, for example at a page fault, counts: that work is part of the
//! allocator's price, and a long fault is seldom not preempted on a busy machine.

use super::criteria::FEW_RUNS;
use crate::figures::{AllocatorFigures, Matters, Spread, ratio};
use crate::words::{bytes, duration, list};
use keel_results::{ALL_OPERATIONS, Comparison, FRAME, Interval, RUN, figure_label};
use serde::Serialize;
use std::collections::BTreeMap;

/// The time of a frame at 60 Hz.
const FRAME_NS: f64 = 1e9 / 60.0;
/// A single frame is compared only if it can be late: its threshold is this multiple of that of all
/// frames.
const WORST_FRAME: f64 = 10.0;
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
    /// The runs vary too much for a conclusion; it may save so many ns.
    Unknown(f64),
}

/// A figure in which a gain may matter.
#[derive(Clone, Copy)]
struct Stake {
    operation: &'static str,
    figure: &'static str,
    /// The least share of the base's value that matters.
    share: f64,
    /// The least gain that matters, ns.
    least: f64,
}

/// The figures on which an advice is based.
pub struct Evidence<'a> {
    /// All runs.
    pub comparison: &'a Comparison,
    /// The same without interrupted calls, if some were interrupted.
    pub calm: Option<&'a Comparison>,
    /// The figures of both.
    pub allocators: &'a [AllocatorFigures],
    /// The fewest runs of any allocator.
    pub runs: usize,
}

struct Choice<'a> {
    all: &'a Evidence<'a>,
    matters: Matters,
    base: usize,
}

/// The advice on a comparison.
pub fn advice(evidence: &Evidence<'_>, matters: Matters) -> Advice {
    let allocators = evidence.allocators;
    let competing = |one: &AllocatorFigures| !one.floor && !one.operations.is_empty();
    let others = allocators.iter().filter(|one| competing(one)).count();
    let base = allocators
        .iter()
        .position(|one| one.name == C_LIBRARY && competing(one))
        .or_else(|| allocators.iter().position(competing));
    match base {
        Some(base) if others > 1 && evidence.runs > 1 => {
            Choice { all: evidence, matters, base }.advice()
        }
        _ => Advice::default(),
    }
}

impl Choice<'_> {
    fn advice(&self) -> Advice {
        let mut unknown: BTreeMap<usize, (Stake, f64)> = BTreeMap::new();
        for stake in self.stakes() {
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
            for (index, gain) in gains {
                if let Gain::Unknown(up_to) = gain {
                    unknown.entry(index).or_insert((stake, up_to));
                }
            }
        }
        if unknown.is_empty() { self.stay() } else { self.undecided(&unknown) }
    }

    /// The figures to judge by, most important first. A program with frames is judged by them, a
    /// program without by the time in all calls.
    fn stakes(&self) -> Vec<Stake> {
        let of_frame = |figure, factor: f64| Stake {
            operation: FRAME,
            figure,
            share: 0.0,
            least: factor * self.matters.frame * FRAME_NS,
        };
        // Many frames have a p99; of few, the worst one counts.
        let frames = [of_frame("p99", 1.0), of_frame("worst", WORST_FRAME), of_frame("mean", 1.0)];
        let known = |stake: &Stake| self.value(stake, self.base).is_some();
        let has_tail = known(&frames[0]);
        let frames = frames.into_iter().filter(|one| known(one));
        let frames: Vec<Stake> = frames.filter(|one| one.figure != "worst" || !has_tail).collect();
        if frames.is_empty() { vec![self.time()] } else { frames }
    }

    /// The time in all calls.
    fn time(&self) -> Stake {
        let least = self.matters.program * self.all.comparison.journal.duration_ns as f64;
        Stake { operation: ALL_OPERATIONS, figure: "mean", share: self.matters.time, least }
    }

    fn others(&self) -> impl Iterator<Item = usize> + '_ {
        let allocators = self.all.allocators;
        let competes = |index: &usize| {
            let one = &allocators[*index];
            *index != self.base && !one.floor && !one.operations.is_empty()
        };
        (0..allocators.len()).filter(competes)
    }

    fn name(&self, index: usize) -> &str {
        &self.all.allocators[index].name
    }

    fn names(&self, indices: &[usize]) -> String {
        list(&indices.iter().map(|index| self.name(*index)).collect::<Vec<_>>())
    }

    /// The median over the runs; of the time in all calls the total.
    fn value(&self, stake: &Stake, index: usize) -> Option<f64> {
        let one = &self.all.allocators[index];
        let median = |spread: &Spread| spread.median;
        if stake.operation == FRAME {
            let calm = !one.undisturbed_frames.is_empty();
            let frames = if calm { &one.undisturbed_frames } else { &one.frames };
            return frames.get(stake.figure).map(median);
        }
        let calm = !one.undisturbed.is_empty();
        let operations = if calm { &one.undisturbed } else { &one.operations };
        operations.get(stake.operation).map(|summary| median(&summary.total))
    }

    /// The pairs of a stake are those without interrupted calls, if frames or calls have them.
    fn pairs(&self, operation: &str) -> &Comparison {
        let known = |calm: &&Comparison| calm.paired.iter().any(|pair| pair.operation == operation);
        self.all.calm.filter(known).unwrap_or(self.all.comparison)
    }

    fn gain(&self, stake: &Stake, index: usize) -> Gain {
        let values = [self.base, index].map(|index| self.value(stake, index));
        let [Some(base), Some(value)] = values else { return Gain::Nothing };
        let Some(ratio) = self.ratio(stake, self.base, index) else { return Gain::Nothing };
        let least = stake.least.max(stake.share * base);
        let most = base - ratio.low.min(1.0) * base;
        if most < least {
            Gain::Nothing
        } else if self.is_lower(stake, index, self.base) {
            if base - value >= least { Gain::Saves(base - value) } else { Gain::Nothing }
        } else {
            Gain::Unknown(most)
        }
    }

    /// The figure of `index` over that of `base`.
    fn ratio(&self, stake: &Stake, base: usize, index: usize) -> Option<Interval> {
        let pairs = self.pairs(stake.operation);
        Some(ratio(pairs, stake.operation, stake.figure, base, index)?.interval)
    }

    /// Whether the figure of `one` is significantly lower than that of `other`.
    fn is_lower(&self, stake: &Stake, one: usize, other: usize) -> bool {
        let (one, other) = (self.name(one), self.name(other));
        self.pairs(stake.operation).paired.iter().any(|pair| {
            pair.operation == stake.operation
                && pair.figure == figure_label(stake.figure)
                && ((pair.a == one && pair.b == other && pair.lower == "a")
                    || (pair.b == one && pair.a == other && pair.lower == "b"))
        })
    }

    fn take(&self, stake: &Stake, index: usize) -> Advice {
        let [name, base] = [index, self.base].map(|index| self.name(index));
        let gain = if stake.operation == FRAME {
            self.frames_saved(stake, index)
        } else {
            format!("it saves {}", self.time_difference(stake, index, self.base))
        };
        let sentence = format!("Take {name} instead of {base}: {gain}, {}.", self.price(index));
        let rivals = || self.others().filter(|other| *other != index);
        let (as_good, rest): (Vec<usize>, Vec<usize>) =
            rivals().partition(|other| self.is_as_good(stake, index, *other));
        // Those that save time, too, and that the runs do not set above it.
        let similar = |other: &usize| {
            matches!(self.gain(stake, *other), Gain::Saves(_))
                && !self.is_lower(stake, index, *other)
        };
        let similar: Vec<usize> = rest.into_iter().filter(similar).collect();
        let percent = format!("{:.0} %", 100.0 * self.matters.time);
        let as_good = match as_good.len() {
            0 => String::new(),
            1 => format!("{} is as good: it differs by less than {percent}.", self.names(&as_good)),
            _ => {
                format!("{} are as good: they differ by less than {percent}.", self.names(&as_good))
            }
        };
        let similar = match similar.len() {
            0 => String::new(),
            1 => format!("{} is not significantly slower.", self.names(&similar)),
            _ => format!("{} are not significantly slower.", self.names(&similar)),
        };
        Advice { sentence, more: self.completed([as_good, similar, self.avoid().0]) }
    }

    /// Whether `other` is known to be within the least share that matters of `index`.
    fn is_as_good(&self, stake: &Stake, index: usize, other: usize) -> bool {
        let found = self.ratio(stake, index, other);
        found.is_some_and(|ratio| ratio.high < 1.0 + self.matters.time)
    }

    fn frames_saved(&self, stake: &Stake, index: usize) -> String {
        let [with, before] =
            [index, self.base].map(|at| duration(self.value(stake, at).unwrap_or(0.0)));
        match stake.figure {
            "mean" => format!("a frame spends {with} in calls on average instead of {before}"),
            "worst" => format!("the worst frame spends {with} in calls instead of {before}"),
            _ => format!(
                "the slowest 1 % of the frames spend {with} or more in calls instead of {before}"
            ),
        }
    }

    /// By how much more time `more` takes in calls than `less`.
    fn time_difference(&self, stake: &Stake, less: usize, more: usize) -> String {
        let [less, more] = [less, more].map(|at| self.value(stake, at).unwrap_or(0.0));
        self.time_share(more - less, more)
    }

    /// `306 ms per minute in calls (0.51 % of the recorded time)`, or the share of `all` if the
    /// journal has no times.
    fn time_share(&self, ns: f64, all: f64) -> String {
        let recorded = self.all.comparison.journal.duration_ns as f64;
        if recorded == 0.0 {
            return format!("{:.0} % of the time in calls", 100.0 * ns / all);
        }
        format!(
            "{} per minute in calls ({})",
            duration(ns / recorded * MINUTE_NS),
            percent(ns / recorded, "of the recorded time")
        )
    }

    /// What an allocator costs in memory, after `for` or `with`.
    fn price(&self, index: usize) -> String {
        let peak = |index: usize| Some(self.all.allocators[index].figures.get("peak")?.median);
        let [Some(own), Some(base)] = [peak(index), peak(self.base)] else {
            return "its memory was not measured".to_owned();
        };
        let share = (own - base).abs() / base.max(1.0);
        if base == 0.0 || share < self.matters.memory {
            return "with about the same peak memory".to_owned();
        }
        let (what, word) = (bytes((own - base).abs()), if own > base { "more" } else { "less" });
        let preposition = if own > base { "for" } else { "with" };
        format!("{preposition} {what} ({:.0} %) {word} peak memory", 100.0 * share)
    }

    fn stay(&self) -> Advice {
        let base = self.name(self.base);
        let (avoid, worse) = self.avoid();
        let similar = self.others().count() - worse;
        let sentence = if similar == 0 {
            let verb = if base == C_LIBRARY { "Stay with" } else { "Take" };
            format!("{verb} {base}: no other allocator saves time that matters.")
        } else {
            let choice = match worse {
                0 => "The choice of allocator".to_owned(),
                _ => format!("The choice among {} of the allocators", similar + 1),
            };
            format!(
                "{choice} hardly matters for this program: {}, and no other allocator saves \
                 enough of that to matter.",
                self.spends()
            )
        };
        let leaner = self.others().filter(|index| self.is_leaner(*index)).min_by(|a, b| {
            let peak =
                |index: usize| self.all.allocators[index].figures.get("peak").map(|s| s.median);
            peak(*a).unwrap_or(f64::MAX).total_cmp(&peak(*b).unwrap_or(f64::MAX))
        });
        let leaner = leaner.map_or_else(String::new, |index| {
            format!("If memory matters, take {}: it runs {}.", self.name(index), self.price(index))
        });
        Advice { sentence, more: self.completed([avoid, leaner]) }
    }

    /// What the calls take with the base.
    fn spends(&self) -> String {
        let stake = self.stakes().pop().unwrap_or_else(|| self.time());
        let value = self.value(&stake, self.base).unwrap_or(0.0);
        let base = self.name(self.base);
        if stake.operation == FRAME {
            let share = percent(value / FRAME_NS, "of a frame at 60 Hz");
            return format!(
                "with {base} a frame spends {} in calls on average ({share})",
                duration(value)
            );
        }
        if self.all.comparison.journal.duration_ns == 0 {
            return format!("all calls take {} with {base}", duration(value));
        }
        format!("{base} spends {}", self.time_share(value, value))
    }

    /// The allocators that are worse than the base by more than what matters, how much, and their
    /// number.
    fn avoid(&self) -> (String, usize) {
        for stake in self.stakes() {
            let mut worse: Vec<(usize, f64)> =
                self.others().filter_map(|at| Some((at, self.loss(&stake, at)?))).collect();
            worse.sort_by(|a, b| a.1.total_cmp(&b.1));
            let ([(_, least), ..], [.., (_, most)]) = (worse.as_slice(), worse.as_slice()) else {
                continue;
            };
            let names: Vec<usize> = worse.iter().map(|one| one.0).collect();
            let range = match worse.len() {
                1 => duration(*most),
                _ => format!("{} to {}", duration(*least), duration(*most)),
            };
            let what = match (stake.operation, stake.figure) {
                (FRAME, "mean") => "a frame spends {} in calls on average",
                (FRAME, "worst") => "the worst frame spends {} in calls",
                (FRAME, _) => "the slowest 1 % of the frames spend {} or more in calls",
                _ => "all calls take {}",
            };
            let base = duration(self.value(&stake, self.base).unwrap_or(0.0));
            let (what, all) = (what.replace("{}", &range), self.names(&names));
            let text = format!("Avoid {all}: {what} ({}: {base}).", self.name(self.base));
            return (text, names.len());
        }
        (String::new(), 0)
    }

    /// The value of an allocator that is certainly worse than the base by what matters.
    fn loss(&self, stake: &Stake, index: usize) -> Option<f64> {
        let base = self.value(stake, self.base)?;
        let value = self.value(stake, index)?;
        let certain = (self.ratio(stake, self.base, index)?.low - 1.0) * base;
        let matters = certain >= stake.least.max(stake.share * base);
        (matters && self.is_lower(stake, self.base, index)).then_some(value)
    }

    fn is_leaner(&self, index: usize) -> bool {
        let ratio = ratio(self.all.comparison, RUN, "peak", self.base, index);
        ratio.is_some_and(|ratio| ratio.interval.high <= 1.0 - self.matters.memory)
    }

    fn undecided(&self, unknown: &BTreeMap<usize, (Stake, f64)>) -> Advice {
        let indices: Vec<usize> = unknown.keys().copied().collect();
        let others = if unknown.len() == 1 { "whether" } else { "whether one of" };
        let names = self.names(&indices);
        let sentence = format!(
            "The runs vary too much to show {others} {names} serves this program better than {}.",
            self.name(self.base)
        );
        let most = unknown.values().max_by(|a, b| a.1.total_cmp(&b.1));
        let bound = most.map_or_else(String::new, |(stake, ns)| match stake.operation {
            FRAME => format!("At best, a frame spends {} less in calls.", duration(*ns)),
            _ => {
                let all = self.value(stake, self.base).unwrap_or(0.0);
                format!("At best, it saves {}.", self.time_share(*ns, all))
            }
        });
        Advice { sentence, more: self.completed([bound, self.avoid().0, self.remedy()]) }
    }

    /// How to obtain a decision.
    fn remedy(&self) -> String {
        let runs = || self.all.comparison.allocators.iter().flat_map(|result| &result.runs);
        let busy = |run: &&keel_results::Run| {
            run.interference.iter().any(|word| word == keel_results::OTHER_PROGRAMS)
        };
        let (busy, all) = (runs().filter(busy).count(), runs().count());
        if 2 * busy > all {
            return format!(
                "Other programs used the processors during {busy} of {all} runs: repeat the \
                 comparison on an idle machine."
            );
        }
        let more = 20.max(2 * self.all.runs);
        format!("Repeat the comparison on a quiet machine, or with --runs {more}.")
    }

    /// The sentences that are not empty, and the limits of all of them.
    fn completed<const N: usize>(&self, sentences: [String; N]) -> String {
        let mut sentences: Vec<String> =
            sentences.into_iter().filter(|sentence| !sentence.is_empty()).collect();
        if self.all.runs < FEW_RUNS {
            sentences.push(format!("This advice is based on only {} runs.", self.all.runs));
        }
        sentences.join(" ")
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
