//! The advice to stay with the allocator of the program.

use super::{Advice, Choice, Stake};
use crate::figures::ratio;
use crate::verdict::price::{calls_above, memory_price, peak};
use crate::verdict::sentences::NAMES;
use crate::words::{duration, lower_by, percent_of, short_percent};
use keel_results::{FRAME, RUN};

impl Choice<'_> {
    /// `unknown`: the settings of the base whose runs vary too much for a conclusion.
    pub(super) fn stay(&self, unknown: &[usize]) -> Advice {
        let base = self.name(self.base);
        let (avoid, worse) = self.avoid();
        let verb = if self.keeps() { "Stay with" } else { "Use" };
        let sentence = format!("{verb} {base}: no other allocator saves enough time to matter.");
        let hardly = "The choice of allocator hardly matters for this program";
        let grade = match worse.as_slice() {
            [] => format!("{hardly}."),
            all if all.len() == self.rivals().count() => format!(
                "The choice of allocator matters for this program: all others are clearly slower \
                 than {base}."
            ),
            few if few.len() <= NAMES => {
                format!(
                    "{hardly}. But some allocators are clearly slower than {base}: {}.",
                    self.names(few)
                )
            }
            many => {
                format!("{hardly}. But {} allocators are clearly slower than {base}.", many.len())
            }
        };
        let sentences = [
            self.spends(),
            self.fastest(),
            self.unknown_settings(unknown),
            avoid,
            self.leaner(&worse),
            calls_above(self.all.allocators, self.base, self.base),
            self.measuring(None),
        ];
        Advice {
            grade,
            sentence,
            more: self.completed(sentences),
            has_unknown_setting: !unknown.is_empty(),
            ..Advice::default()
        }
    }

    fn unknown_settings(&self, unknown: &[usize]) -> String {
        let names = self.names(unknown);
        match unknown.len() {
            0 => String::new(),
            1 => format!(
                "It is not known whether the setting {names} saves time: its runs vary too much."
            ),
            _ => format!(
                "It is not known whether the settings {names} save time: their runs vary too much."
            ),
        }
    }

    /// The stake of which the advice to stay speaks.
    fn usual(&self) -> Stake {
        self.stakes().pop().unwrap_or_else(|| self.time())
    }

    /// What the calls take with the base, a sentence.
    fn spends(&self) -> String {
        let (stake, base) = (self.usual(), self.name(self.base));
        let value = self.value(&stake, self.base).unwrap_or(0.0);
        if stake.operation == FRAME {
            let length = self.frame_ns;
            let frame = format!("of a frame of {}", duration(length));
            let share = percent_of(value / length, &frame);
            let time = duration(value);
            return format!("With {base}, the calls of an average frame take {time} ({share}).");
        }
        let time = self.per_minute(value);
        let time = time.unwrap_or_else(|| format!("{} in a run", duration(value)));
        format!("With {base}, allocation calls take {time}.")
    }

    /// The allocator with the lowest median, if it is below that of the base.
    fn fastest(&self) -> String {
        let stake = self.usual();
        let value = |index: usize| self.value(&stake, index).unwrap_or(f64::MAX);
        let base = value(self.base);
        let fastest = self.others().min_by(|a, b| value(*a).total_cmp(&value(*b)));
        let Some(index) = fastest.filter(|index| value(*index) < base && base < f64::MAX) else {
            return String::new();
        };
        let saved = base - value(index);
        let of_frame = || format!("{} in an average frame", duration(saved));
        let time = match stake.operation {
            FRAME => of_frame(),
            _ => self.per_minute(saved).unwrap_or_else(|| duration(saved)),
        };
        let limit = match stake.operation {
            FRAME => {
                format!(" Savings below {} % of a frame do not matter.", 100.0 * self.matters.frame)
            }
            _ if self.all.comparison.journal.duration_ns == 0 => String::new(),
            _ => format!(
                " Savings below {} % of the recorded time do not matter.",
                100.0 * self.matters.program
            ),
        };
        let share = lower_by(saved / base);
        let name = match self.setting(index) {
            Some(_) => format!("The setting {}", self.name(index)),
            None => self.name(index).to_owned(),
        };
        let base = self.name(self.base);
        format!(
            "{name} has the lowest median: {share} less time in calls than {base}. This would save \
             {time}.{limit}"
        )
    }

    /// The allocator with the least peak memory, if it has clearly less than the base. Allocators
    /// that are `worse` in time are left out.
    fn leaner(&self, worse: &[usize]) -> String {
        let memory = |index: usize| peak(&self.all.allocators[index]).unwrap_or(f64::MAX);
        let leaner = self.others().filter(|index| self.is_leaner(*index) && !worse.contains(index));
        let Some(index) = leaner.min_by(|a, b| memory(*a).total_cmp(&memory(*b))) else {
            let known = peak(&self.all.allocators[self.base]).is_some_and(|value| value > 0.0);
            let base = self.name(self.base);
            let least = format!(
                "Among the allocators that are not clearly slower than {base}, none needs clearly \
                 less peak memory."
            );
            return if known { least } else { String::new() };
        };
        let price = memory_price(self.all.allocators, index, self.base, self.matters.memory);
        let stake = self.usual();
        let [own, base] = [index, self.base].map(|at| self.value(&stake, at).unwrap_or(0.0));
        let slower = match own - base > self.matters.time * base {
            true => format!(", but calls take {} more time", short_percent(own / base - 1.0)),
            false => String::new(),
        };
        let step = match self.setting(index) {
            Some(setting) => format!("set {setting}"),
            None => format!("use {}", self.name(index)),
        };
        format!("If memory matters, {step}: {price}{slower}.")
    }

    fn is_leaner(&self, index: usize) -> bool {
        let ratio = ratio(self.all.comparison, RUN, "peak", self.base, index);
        ratio.is_some_and(|ratio| ratio.interval.high <= 1.0 - self.matters.memory)
    }
}
