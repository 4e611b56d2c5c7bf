//! What can be changed, in the order of effect: the code that makes the expensive calls, a setting
//! of the program's allocator, another allocator. Each has its gain and its price.

use super::alternatives::MEASURING;
use super::{Choice, Evidence, Gain, Matters, Stake, choice};
use crate::figures::CALLS_ABOVE_1_MS;
use crate::verdict::price::memory_prices;
use crate::verdict::sentences::in_frame;
use crate::words::{duration, lower_by};
use keel_results::FRAME;
use serde::Serialize;

/// More code or more allocators than this are not proposed.
const MOST_OF_A_KIND: usize = 2;

/// A change, with its gain and its price.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// `code`, `setting` or `allocator`.
    pub kind: &'static str,
    /// What to change.
    pub what: String,
    /// The share of the time in calls that it saves, and the time.
    pub gain: String,
    /// What it costs: memory, processor time, work.
    pub price: String,
    /// The saved share of the time in calls, by which changes are ordered.
    #[serde(skip)]
    pub share: f64,
}

/// What the calls of a line of the program take with the base.
#[derive(Clone, Debug, PartialEq)]
pub struct CodeCost {
    /// `function (file:line)`.
    pub place: String,
    /// The object file, if it has no name for the function; else empty.
    pub unnamed_in: String,
    /// The time in its calls in a run, ns.
    pub ns: f64,
    /// Its calls.
    pub calls: u64,
    /// Whether they only free.
    pub frees: bool,
    /// The part of `ns` that is the cost of measuring: the time of the null allocator, ns.
    pub measuring_ns: f64,
    /// By allocator, the share of its calls in the time of all calls; NaN if that is not known.
    pub shares: Vec<f64>,
}

/// The costs with the time in all calls that the other sentences state, the median of the runs. The
/// calls of lines are known of one run, which may have taken more or less.
pub fn in_median(evidence: &Evidence<'_>, code: &[CodeCost]) -> Vec<CodeCost> {
    let all: f64 = code.iter().map(|one| one.ns).sum();
    let median = choice(evidence, Matters::default())
        .and_then(|choice| choice.value(&choice.time(), choice.base));
    let factor = median.filter(|_| all > 0.0).map_or(1.0, |median| median / all);
    let scaled = |one: &CodeCost| CodeCost { ns: one.ns * factor, ..one.clone() };
    code.iter().map(scaled).collect()
}

/// The changes that matter. `code`: the lines of the program that take most time in calls, longest
/// first. `advised`: the allocator that the advice names, which comes before other ones.
pub fn changes(
    evidence: &Evidence<'_>,
    matters: Matters,
    code: &[CodeCost],
    advised: Option<usize>,
) -> Vec<Change> {
    let Some(choice) = choice(evidence, matters) else { return Vec::new() };
    let mut found = choice.other_allocators(advised);
    let all: f64 = code.iter().map(|one| one.ns).sum();
    let code = code.iter().filter_map(|one| choice.other_code(one, all, advised));
    found.extend(code.take(MOST_OF_A_KIND));
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found
}

impl Choice<'_> {
    fn other_allocators(&self, advised: Option<usize>) -> Vec<Change> {
        let of = |stake: &Stake| {
            let found = self.others().filter_map(|index| Some((index, self.other(stake, index)?)));
            found.collect::<Vec<_>>()
        };
        let found = self.stakes().iter().map(of).find(|found| !found.is_empty());
        let mut found = found.unwrap_or_default();
        found.sort_by(|a, b| b.1.share.total_cmp(&a.1.share));
        // The other ones are alternatives to the advised one, and no further changes.
        let first = found.iter().position(|one| advised == Some(one.0));
        if let Some(first) = first {
            found[..=first].rotate_right(1);
        }
        let most = found.first().map_or(0.0, |one| one.1.share);
        let mut kept = [0; 2];
        let mut changes = Vec::new();
        for (_, mut one) in found {
            let count = &mut kept[usize::from(one.kind == "setting")];
            *count += 1;
            if *count > MOST_OF_A_KIND {
                continue;
            }
            if !changes.is_empty() {
                // A setting that saves less than another library does.
                let only = if one.kind == "setting" && one.share < most { "only " } else { "" };
                let what = format!("{}{}", one.what[..1].to_lowercase(), &one.what[1..]);
                one.what = format!("Or {only}{what}");
                one.share = one.share.min(most);
            }
            changes.push(one);
        }
        changes
    }

    /// The change to another allocator or setting, if it saves time.
    fn other(&self, stake: &Stake, index: usize) -> Option<Change> {
        let Gain::Saves(saved) = self.gain(stake, index) else { return None };
        // The same percentage as in the headline.
        let ratio = self.ratio(stake, index, self.base).map(|ratio| ratio.value);
        let share = 1.0 - 1.0 / ratio.filter(|ratio| *ratio > 1.0)?;
        let time = match stake.operation {
            FRAME => format!("{} {}", duration(saved), in_frame(stake.figure)),
            _ => self.per_minute(saved).unwrap_or_else(|| duration(saved)),
        };
        let setting = self.setting(index);
        Some(Change {
            kind: if setting.is_some() { "setting" } else { "allocator" },
            what: match (setting, self.keeps()) {
                (Some(setting), true) => format!("Set {setting}"),
                _ => self.step(index),
            },
            gain: format!("{} less time in calls: {time}", lower_by(share)),
            price: self.price(index),
            share,
        })
    }

    /// The work, memory, the processor time of the allocator's own threads, and more long calls.
    pub(super) fn price(&self, index: usize) -> String {
        let allocators = self.all.allocators;
        let memory = memory_prices(allocators, index, self.base, self.matters.memory);
        let work = match self.setting(index) {
            Some(_) => "an environment variable",
            None => "link or preload it, the code stays as it is",
        };
        let used = allocators[index].figures.get("background").map_or(0.0, |one| one.median);
        // Of a recording, this share of processor time is below what a run measures exactly.
        const HARDLY_ANY: f64 = 0.001;
        let recorded = self.all.comparison.journal.duration_ns as f64;
        let time = match used {
            0.0 => "no processor time beside the calls".to_owned(),
            used if used < HARDLY_ANY * recorded => {
                "hardly any processor time beside the calls".to_owned()
            }
            used => {
                let used = self.per_minute(used).unwrap_or_else(|| duration(used));
                format!("its own threads use {used} of processor time")
            }
        };
        let above = |index: usize| allocators[index].figures.get(CALLS_ABOVE_1_MS);
        let long = [index, self.base].map(|index| above(index).map_or(0.0, |one| one.median));
        let [own, base] = long.map(|calls| calls.round() as u64);
        match own > base {
            true => {
                let calls = if own == 1 { "call" } else { "calls" };
                let long = format!("in a run, {own} {calls} above 1 ms instead of {base}");
                format!("{work}; {memory}; {time}; {long}")
            }
            false => format!("{work}; {memory}; {time}"),
        }
    }

    /// The code, if its calls take so long that it matters. `all`: the time of all code in the same
    /// run, ns.
    fn other_code(&self, code: &CodeCost, all: f64, advised: Option<usize>) -> Option<Change> {
        let stake = self.time();
        // The program itself does not measure, so it saves no more than the rest.
        let saved = (code.ns - code.measuring_ns).max(0.0);
        if saved < stake.least.max(stake.share * all) || all <= 0.0 {
            return None;
        }
        let share = code.ns / all;
        let time = self.per_minute(saved).unwrap_or_else(|| duration(saved));
        let without = match code.measuring_ns < MEASURING * code.ns {
            true => "",
            false => " without the cost of measuring",
        };
        Some(Change {
            kind: "code",
            what: match code.frees {
                true => format!("Free fewer blocks in {}", code.place),
                false => format!("Allocate less in {}", code.place),
            },
            gain: format!(
                "up to {} less time in calls: {time}{without}{}",
                lower_by(share),
                advised.map_or_else(String::new, |index| self.remains(code, index))
            ),
            price: "work on the program; no memory, no processor time".to_owned(),
            share,
        })
    }

    /// What the code costs once the advised allocator is used.
    fn remains(&self, code: &CodeCost, advised: usize) -> String {
        let stake = self.time();
        let share = code.shares.get(advised).copied().filter(|share| !share.is_nan());
        let [Some(share), Some(all)] = [share, self.value(&stake, advised)] else {
            return String::new();
        };
        let saved = share * all - code.measuring_ns;
        let name = self.name(advised);
        match saved < stake.least {
            true => format!("; with {name}, too little to matter"),
            false => {
                let saved = self.per_minute(saved).unwrap_or_else(|| duration(saved));
                format!("; with {name}, {saved}")
            }
        }
    }
}
