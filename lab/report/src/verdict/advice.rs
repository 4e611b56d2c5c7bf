//! The advice that opens a report: whether the choice of allocator matters for this program, which
//! allocator to take, what it gains and what it costs.
//!
//! Every allocator is compared with the one that the program used, by its journal. If the journal
//! does not say, or that one was not measured, it is the C library's malloc, which a program gets
//! without a choice (or the first allocator, if the C library's was not measured). A difference
//! counts if it is significant and if it matters: see [`Matters`]. An allocator whose runs vary so
//! much that it might be better by that much makes the advice "the runs vary too much". Calls that
//! were only preempted are left out: their length shows how busy the machine was. A call that was
//! preempted while the kernel worked for it, for example at a page fault, counts: that work is part
//! of the allocator's price, and a long fault is seldom not preempted on a busy machine.

use super::criteria::{Criterion, FEW_RUNS, Figure};
use super::price::{background, calls_above, memory_price};
use super::sentences::in_frame;
use super::used::{Used, not_measured, used};
use crate::figures::{AllocatorFigures, Matters, Spread, ratio};
use crate::words::{duration, list, lower_by, percent_of};
use keel_allocators::C_LIBRARY;
use keel_results::{ALL_OPERATIONS, Comparison, FRAME, Interval, figure_label};
use serde::Serialize;
use std::collections::BTreeMap;

/// The time of a frame if the recording has only one mark: 60 Hz.
const FRAME_NS: f64 = 1e9 / 60.0;
/// A single frame is compared only if it can be late: its threshold is this multiple of that of all
/// frames.
const WORST_FRAME: f64 = 10.0;
/// The choice matters much if it saves this multiple of the least that matters.
const MUCH: f64 = 10.0;
/// And a little below this multiple.
const A_LITTLE: f64 = 3.0;
const MINUTE_NS: f64 = 60e9;
/// What all calls of a run must save at least. The start of a process alone varies by more.
const LEAST_NS: f64 = 100e3;
/// A recording of at least so long says what the program does in a minute.
const EXTRAPOLATED_NS: f64 = 10e9;

#[path = "alternatives.rs"]
mod alternatives;
#[path = "changes.rs"]
mod changes;
#[path = "settings.rs"]
mod settings;
#[path = "stay.rs"]
mod stay;
#[path = "undecided.rs"]
mod undecided;

pub(super) use alternatives::MEASURING;
pub use changes::{Change, CodeCost, changes, in_median};
pub use settings::{Setting, settings};

/// What to do, and why. Empty if there is nothing to compare.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Advice {
    /// Whether the choice of allocator matters, a sentence.
    pub grade: String,
    /// What to do, with its gain and its price.
    pub sentence: String,
    /// Further statements, of one or more sentences each; may be empty.
    pub more: Vec<String>,
    /// Index of the advised allocator; None if none is advised.
    pub other: Option<usize>,
    /// Index of the candidate whose saving is uncertain: the one with the lowest median.
    pub uncertain: Option<usize>,
    /// Whether the runs vary too much for a decision.
    #[serde(skip)]
    pub is_undecided: bool,
    /// Whether it is not known if a setting of the base saves time.
    #[serde(skip)]
    pub has_unknown_setting: bool,
    /// The figure of frames that decided; None if the program has no frames.
    #[serde(skip)]
    pub frame_figure: Option<&'static str>,
}

impl Advice {
    /// The further statements as one text.
    pub fn text(&self) -> String {
        self.more.join(" ")
    }
}

/// What an allocator gains over the base in one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Gain {
    /// Saves this many ns, which matter.
    Saves(f64),
    /// Nothing that matters.
    Nothing,
    /// The runs vary too much for a conclusion; it may save this many ns.
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
    used: Used<'a>,
    /// The usual length of a recorded frame.
    frame_ns: f64,
}

/// The advice on a comparison.
pub fn advice(evidence: &Evidence<'_>, matters: Matters) -> Advice {
    let Some(choice) = choice(evidence, matters) else { return Advice::default() };
    let advice = choice.advice();
    match not_measured(&evidence.comparison.journal, choice.used) {
        None => advice,
        Some(sentence) => Advice {
            grade: "It is not known whether another allocator is better for this program."
                .to_owned(),
            more: std::iter::once(format!("Among the measured ones: {}", advice.sentence))
                .chain(advice.more)
                .collect(),
            sentence,
            ..advice
        },
    }
}

/// What can be chosen; None if there is nothing to compare.
fn choice<'a>(evidence: &'a Evidence<'a>, matters: Matters) -> Option<Choice<'a>> {
    let others = evidence.allocators.iter().filter(|one| competes(one)).count();
    let base = base_of(evidence).filter(|_| others > 1 && evidence.runs > 1)?;
    let used = used(evidence.comparison, evidence.allocators);
    let frame_ns = usual_frame_ns(&evidence.comparison.journal.frames);
    Some(Choice { all: evidence, matters, base, used, frame_ns })
}

fn competes(one: &AllocatorFigures) -> bool {
    !one.floor && !one.operations.is_empty()
}

/// Half of the time between the marks is in frames that are no longer. So marks that follow each
/// other at once, such as those of two windows, do not count as usual frames.
fn usual_frame_ns(marks: &[u64]) -> f64 {
    let mut lengths: Vec<u64> = marks.windows(2).map(|two| two[1].saturating_sub(two[0])).collect();
    lengths.sort_unstable();
    let all: u64 = lengths.iter().sum();
    let mut before = 0;
    let reaches_half = |length: &&u64| {
        before += **length;
        2 * before >= all && before > 0
    };
    lengths.iter().find(reaches_half).map_or(FRAME_NS, |length| *length as f64)
}

/// The allocator that all others are compared with: that of the program, if it was measured. It is
/// known also where the runs are too few for an advice.
pub fn base_of(evidence: &Evidence<'_>) -> Option<usize> {
    let allocators = evidence.allocators;
    match used(evidence.comparison, allocators) {
        Used::Measured(index) => Some(index),
        _ => {
            let c_library =
                allocators.iter().position(|one| one.name == C_LIBRARY && competes(one));
            c_library.or_else(|| allocators.iter().position(competes))
        }
    }
}

impl Choice<'_> {
    fn advice(&self) -> Advice {
        let stakes = self.stakes();
        let is_setting = |index: &usize| self.setting(*index).is_some();
        let mut unknown: BTreeMap<usize, (Stake, f64)> = BTreeMap::new();
        let mut is_contested_by_setting = false;
        for stake in &stakes {
            let mut saving: Vec<(usize, f64)> = Vec::new();
            for index in self.others() {
                match self.gain(stake, index) {
                    Gain::Saves(saved) => saving.push((index, saved)),
                    Gain::Unknown(up_to) => {
                        unknown.entry(index).or_insert((*stake, up_to));
                    }
                    Gain::Nothing => {}
                }
            }
            let ranked = self.ranked(stake);
            // An allocator is not recommended while another one, whose runs vary, may be lowest.
            let saves = |index: &usize| saving.iter().any(|one| one.0 == *index);
            let lowest = ranked.rows.first().map(|row| row.0);
            let may_be_lowest = ranked.best.iter().copied().chain(lowest);
            let contesting: Vec<usize> = match ranked.best.iter().any(saves) {
                true => Vec::new(),
                false => may_be_lowest.filter(|index| unknown.contains_key(index)).collect(),
            };
            if !saving.is_empty() && contesting.is_empty() {
                return decided_by(stake, self.take(stake, &ranked, &saving));
            }
            is_contested_by_setting |= !saving.is_empty() && contesting.iter().any(is_setting);
        }
        // A setting of the base is no other allocator: if only its runs vary, and no allocator
        // saves time, the choice of allocator is decided.
        let settings: Vec<usize> = unknown.keys().copied().filter(is_setting).collect();
        unknown.retain(|index, _| is_contested_by_setting || !is_setting(index));
        let advice =
            if unknown.is_empty() { self.stay(&settings) } else { self.undecided(&unknown) };
        decided_by(&stakes[0], advice)
    }

    /// The figures to judge by, most important first. A program with frames is judged by them, a
    /// program without by the time in all calls.
    fn stakes(&self) -> Vec<Stake> {
        let of_frame = |figure, factor: f64| Stake {
            operation: FRAME,
            figure,
            share: 0.0,
            least: factor * self.matters.frame * self.frame_ns,
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
        let share = self.matters.program * self.all.comparison.journal.duration_ns as f64;
        let least = share.max(LEAST_NS);
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

    /// The others without the settings of the base.
    fn rivals(&self) -> impl Iterator<Item = usize> + '_ {
        self.others().filter(|index| self.setting(*index).is_none())
    }

    fn name(&self, index: usize) -> &str {
        &self.all.allocators[index].name
    }

    /// Whether the base is the allocator that the program has without a change.
    fn keeps(&self) -> bool {
        match self.used {
            Used::Measured(index) => index == self.base,
            Used::Unknown => self.name(self.base) == C_LIBRARY,
            Used::Other(..) => false,
        }
    }

    /// The base where it is mentioned first: `jemalloc, which the program used`.
    fn base_introduced(&self) -> String {
        match self.used {
            Used::Measured(_) if self.name(self.base) != C_LIBRARY => {
                format!("{}, which the program used", self.name(self.base))
            }
            _ => self.name(self.base).to_owned(),
        }
    }

    fn names(&self, indices: &[usize]) -> String {
        list(&indices.iter().map(|index| self.name(*index)).collect::<Vec<_>>())
    }

    /// The median over the runs; of the time in all calls the total.
    fn value(&self, stake: &Stake, index: usize) -> Option<f64> {
        self.spread(stake, &self.all.allocators[index]).map(|spread| spread.median)
    }

    fn spread(&self, stake: &Stake, one: &AllocatorFigures) -> Option<Spread> {
        if stake.operation == FRAME {
            let calm = !one.undisturbed_frames.is_empty();
            let frames = if calm { &one.undisturbed_frames } else { &one.frames };
            return frames.get(stake.figure).copied();
        }
        let calm = !one.undisturbed.is_empty();
        let operations = if calm { &one.undisturbed } else { &one.operations };
        operations.get(stake.operation).map(|summary| summary.total)
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
        let most = self.floor(stake).map_or(most, |floor| most.min((base - floor).max(0.0)));
        if most < least || value >= base {
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

    fn take(&self, stake: &Stake, ranked: &Criterion, saving: &[(usize, f64)]) -> Advice {
        let index = self.pick(stake, ranked, saving);
        let saved = saving.iter().find(|one| one.0 == index).map_or(0.0, |one| one.1);
        let price = memory_price(self.all.allocators, index, self.base, self.matters.memory);
        let (less, amount) = self.saving(stake, index, saved);
        let sentence = format!("{}: {less}, and {price}.", self.step(index));
        let setting = self.setting(index);
        let what = match setting {
            Some(_) => format!("A setting of {}", self.name(self.base)),
            None => "The choice of allocator".to_owned(),
        };
        let degree = match saved / stake.least {
            much if much >= MUCH && much.is_finite() => "matters much",
            little if little < A_LITTLE => "matters a little",
            _ => "matters",
        };
        let sentences = [
            amount,
            match setting {
                Some(_) => self.libraries(index, ranked),
                None => self.equals(stake, index, ranked, saving),
            },
            self.slightly_slower(stake, index, ranked),
            self.too_noisy(index, ranked),
            self.avoid().0,
            background(&self.all.allocators[index], self.name(self.base), self.saved_in_run(index)),
            calls_above(self.all.allocators, self.base, index),
            self.measuring(Some(index)),
        ];
        Advice {
            grade: format!("{what} {degree} for this program."),
            sentence,
            more: self.completed(sentences),
            other: Some(index),
            ..Advice::default()
        }
    }

    /// What the calls of a whole run save over the base.
    fn saved_in_run(&self, index: usize) -> f64 {
        let [base, own] = [self.base, index].map(|at| self.value(&self.time(), at));
        base.unwrap_or(0.0) - own.unwrap_or(0.0)
    }

    /// The allocators ranked as the table and the answers show them.
    fn ranked(&self, stake: &Stake) -> Criterion {
        let at = |one: &AllocatorFigures| self.spread(stake, one);
        let figure = Figure { operation: stake.operation, name: stake.figure, step: 0.0, of: &at };
        let pairs = self.pairs(stake.operation);
        Criterion::default().rank(pairs, self.all.allocators, &figure)
    }

    /// `allocation calls take 51 % less time than with glibc`, and the amount as a sentence. The
    /// percentage is that of the answers and of the criterion: the mean of the ratios in the rounds
    /// that count, trimmed from eight rounds on.
    fn saving(&self, stake: &Stake, index: usize, saved: f64) -> (String, String) {
        let setting = self.setting(index);
        let base = match setting {
            Some(_) => "without it".to_owned(),
            None => format!("with {}", self.base_introduced()),
        };
        let [with, before] = [index, self.base].map(|at| self.value(stake, at).unwrap_or(0.0));
        let ratio = self.ratio(stake, index, self.base).map(|ratio| ratio.value);
        let share = 1.0 - 1.0 / ratio.filter(|ratio| *ratio > 1.0).unwrap_or(before / with);
        let less = format!("allocation calls take {} less time than {base}", lower_by(share));
        if stake.operation != FRAME {
            let time = self.per_minute(saved);
            let who = if setting.is_some() { "The setting" } else { self.name(index) };
            return (less, time.map_or_else(String::new, |time| format!("{who} saves {time}.")));
        }
        let [with, before] = [with, before].map(duration);
        let what = match stake.figure {
            "mean" => "The calls of an average frame take",
            "worst" => "The calls of the worst frame take",
            _ => "In 99 % of the frames, the calls take at most",
        };
        let amount = format!(
            "{what} {with} instead of {before} (medians of the runs). The difference above, {}, is \
             the mean over the rounds, so these two times can give a slightly different one.",
            lower_by(share)
        );
        (format!("{less} {}", in_frame(stake.figure)), amount)
    }

    /// `306 ms per minute (0.51 % of the recorded time)`, of a short recording `306 µs (0.51 % of
    /// the recorded 60.0 ms)`; None if the journal has no times.
    fn per_minute(&self, ns: f64) -> Option<String> {
        let journal = &self.all.comparison.journal;
        let recorded = journal.duration_ns as f64;
        let share = ns / recorded;
        // So the share can exceed 100 %.
        let together = if journal.threads > 1 { ", all threads together" } else { "" };
        (recorded > 0.0).then(|| match self.is_extrapolated() {
            true => {
                let time = duration(share * MINUTE_NS);
                let whole = format!("of the recorded time{together}");
                format!("{time} per minute ({})", percent_of(share, &whole))
            }
            false => {
                let whole = format!("of the recorded {}{together}", duration(recorded));
                format!("{} ({})", duration(ns), percent_of(share, &whole))
            }
        })
    }

    /// Times are given for a minute of the program.
    fn is_extrapolated(&self) -> bool {
        self.all.comparison.journal.duration_ns as f64 >= EXTRAPOLATED_NS
    }

    /// The allocators that are worse than the base by more than what matters, in a sentence that
    /// says by how much, and their indices.
    fn avoid(&self) -> (String, Vec<usize>) {
        for stake in self.stakes() {
            let mut worse: Vec<(usize, f64)> =
                self.rivals().filter_map(|at| Some((at, self.loss(&stake, at)?))).collect();
            worse.sort_by(|a, b| a.1.total_cmp(&b.1));
            let ([(_, least), ..], [.., (_, most)]) = (worse.as_slice(), worse.as_slice()) else {
                continue;
            };
            let names: Vec<usize> = worse.iter().map(|one| one.0).collect();
            let shown = |ns: f64| self.shown(&stake, ns);
            let range = match worse.len() {
                1 => shown(*most),
                _ => format!("{} to {}", shown(*least), shown(*most)),
            };
            let what = match (stake.operation, stake.figure) {
                (FRAME, "mean") => "the calls of an average frame take {}",
                (FRAME, "worst") => "the calls of the worst frame take {}",
                (FRAME, _) => "the calls of a slow frame (p99) take {}",
                _ if self.all.comparison.journal.duration_ns == 0 => "all calls take {}",
                _ if !self.is_extrapolated() => "allocation calls take {}",
                _ => "allocation calls take {} per minute",
            };
            let base = shown(self.value(&stake, self.base).unwrap_or(0.0));
            let (what, all) = (what.replace("{}", &range), self.names(&names));
            let name = self.name(self.base);
            let runs = if stake.operation == FRAME { "; medians of the runs" } else { "" };
            let text = format!("Avoid {all}: {what} (with {name}: {base}{runs}).");
            return (text, names);
        }
        (String::new(), Vec::new())
    }

    /// A value as the sentences show it: the time in all calls in a minute of the program, or of a
    /// short recording in all of it.
    fn shown(&self, stake: &Stake, ns: f64) -> String {
        let recorded = self.all.comparison.journal.duration_ns as f64;
        match stake.operation == FRAME || !self.is_extrapolated() {
            true => duration(ns),
            false => duration(ns / recorded * MINUTE_NS),
        }
    }

    /// The value of an allocator that is certainly worse than the base by what matters.
    fn loss(&self, stake: &Stake, index: usize) -> Option<f64> {
        let base = self.value(stake, self.base)?;
        let value = self.value(stake, index)?;
        let certain = (self.ratio(stake, self.base, index)?.low - 1.0) * base;
        let matters = certain >= stake.least.max(stake.share * base);
        (matters && self.is_lower(stake, self.base, index)).then_some(value)
    }

    /// The sentences that are not empty, and the limits of all of them.
    fn completed<const N: usize>(&self, sentences: [String; N]) -> Vec<String> {
        let mut sentences: Vec<String> =
            sentences.into_iter().filter(|sentence| !sentence.is_empty()).collect();
        if self.all.runs < FEW_RUNS {
            sentences.push(format!("This advice is based on only {} runs.", self.all.runs));
        }
        sentences
    }
}

fn decided_by(stake: &Stake, advice: Advice) -> Advice {
    Advice { frame_figure: (stake.operation == FRAME).then_some(stake.figure), ..advice }
}

#[cfg(test)]
#[path = "advice_tests.rs"]
mod tests;
