//! Which of the allocators that save time is advised, and what is said about the others.

use super::{Choice, Stake};
use crate::figures::FLOOR;
use crate::verdict::criteria::Criterion;
use crate::verdict::price::peak;
use crate::verdict::sentences::undecided;
use crate::words::{bytes, duration, list, lower_by, short_percent};

/// The least part of the time in calls that the cost of measuring must have to be worth a sentence.
pub(in crate::verdict) const MEASURING: f64 = 0.25;

impl Choice<'_> {
    pub(super) fn memory(&self, index: usize) -> f64 {
        peak(&self.all.allocators[index]).unwrap_or(f64::MAX)
    }

    /// The allocator to take: of those that may be lowest and save time, the one with the lowest
    /// median; or one with less memory, if their difference is less than what matters to a program
    /// that uses the base. A setting of the base that is as good is taken before any of them.
    pub(super) fn pick(&self, stake: &Stake, ranked: &Criterion, saving: &[(usize, f64)]) -> usize {
        let saves = |index: &usize| saving.iter().any(|one| one.0 == *index);
        let lowest: Vec<usize> = ranked.best.iter().copied().filter(saves).collect();
        let may_be_lowest = |index: usize| lowest.contains(&index);
        let first = self
            .lowest(stake, &lowest)
            .or_else(|| self.lowest(stake, &saving.iter().map(|one| one.0).collect::<Vec<_>>()))
            .unwrap_or(self.base);
        let near = |index: &usize| self.above(stake, *index, first) <= self.matters.time;
        let leanest = lowest
            .iter()
            .copied()
            .filter(near)
            .min_by(|a, b| self.memory(*a).total_cmp(&self.memory(*b)))
            .unwrap_or(first);
        let picked = if self.clearly_leaner(leanest, first) { leanest } else { first };
        let settings = saving.iter().map(|one| one.0).filter(|index| {
            self.setting(*index).is_some()
                && (may_be_lowest(*index) && near(index)
                    || self.is_slightly_slower(stake, first, *index))
                && !self.is_dear(*index, picked)
        });
        self.lowest(stake, &settings.collect::<Vec<_>>()).unwrap_or(picked)
    }

    /// Whether a setting needs so much more memory than the base that an allocator with clearly
    /// less is worth a new library.
    fn is_dear(&self, setting: usize, allocator: usize) -> bool {
        self.clearly_leaner(self.base, setting) && self.clearly_leaner(allocator, setting)
    }

    fn lowest(&self, stake: &Stake, of: &[usize]) -> Option<usize> {
        let value = |index: usize| self.value(stake, index).unwrap_or(f64::MAX);
        of.iter().copied().min_by(|a, b| value(*a).total_cmp(&value(*b)))
    }

    /// How much higher the median of `index` is than that of `other`, as a share of the base's.
    fn above(&self, stake: &Stake, index: usize, other: usize) -> f64 {
        let [own, other, base] =
            [index, other, self.base].map(|at| self.value(stake, at).unwrap_or(f64::MAX));
        (own - other) / base
    }

    pub(super) fn clearly_leaner(&self, index: usize, other: usize) -> bool {
        self.memory(index) <= self.memory(other) * (1.0 - self.matters.memory)
    }

    /// The others that may be lowest, the same as in the table and the answers, and why `index` is
    /// named before them.
    pub(super) fn equals(
        &self,
        stake: &Stake,
        index: usize,
        ranked: &Criterion,
        saving: &[(usize, f64)],
    ) -> String {
        let (names, _) = ranked.parted(self.all.allocators);
        let own = self.name(index);
        let others: Vec<&str> = names.iter().copied().filter(|name| *name != own).collect();
        if others.is_empty() || !names.contains(&own) {
            return String::new();
        }
        let equal = format!("{} may be just as good (no significant difference).", list(&others));
        let first = self.lowest(stake, &ranked.best).unwrap_or(index);
        let leanest =
            ranked.best.iter().copied().min_by(|a, b| self.memory(*a).total_cmp(&self.memory(*b)));
        let leanest = leanest.unwrap_or(index);
        let is_certain = saving.iter().any(|one| one.0 == first);
        let why = match (first == index, leanest == index) {
            (true, true) => format!("{own} has the lowest median and needs the least memory."),
            (true, false) => format!("{own} has the lowest median."),
            (false, _) if !is_certain => format!(
                "{own} is named because it certainly saves time over {}, and {}, whose median is \
                 lower by {}, perhaps not.",
                self.name(self.base),
                self.name(first),
                self.of_base(self.above(stake, index, first)),
            ),
            (false, _) => format!(
                "{own} is named because it needs {} less memory than {}, whose median is lower by \
                 only {}.",
                bytes(self.memory(first) - self.memory(index)),
                self.name(first),
                self.of_base(self.above(stake, index, first)),
            ),
        };
        let is_third = leanest != index && leanest != first;
        let leaner = match is_third && self.clearly_leaner(leanest, index) {
            true => format!(
                " {} needs {} less memory than {own}, but its median is higher by {}.",
                self.name(leanest),
                bytes(self.memory(index) - self.memory(leanest)),
                self.of_base(self.above(stake, leanest, index)),
            ),
            false => String::new(),
        };
        format!("{equal} Of these, {why}{leaner}")
    }

    /// `3.2 % of glibc's`
    fn of_base(&self, share: f64) -> String {
        format!("{} of {}'s", short_percent(share), self.name(self.base))
    }

    /// Those that are significantly slower, but by less than what matters.
    pub(super) fn slightly_slower(
        &self,
        stake: &Stake,
        index: usize,
        ranked: &Criterion,
    ) -> String {
        let near = |other: &usize| {
            *other != index
                && !ranked.best.contains(other)
                && self.is_slightly_slower(stake, index, *other)
        };
        let near: Vec<usize> = self.others().filter(near).collect();
        if near.is_empty() {
            return String::new();
        }
        let verb = if near.len() == 1 { "is" } else { "are" };
        let percent = 100.0 * self.matters.time;
        format!("{} {verb} slower, but by less than {percent:.0} %.", self.names(&near))
    }

    /// Whether `other` is significantly slower than `index`, but by less than what matters.
    fn is_slightly_slower(&self, stake: &Stake, index: usize, other: usize) -> bool {
        let ratio = self.ratio(stake, index, other);
        ratio.is_some_and(|ratio| ratio.low >= 1.0 && ratio.high < 1.0 + self.matters.time)
    }

    pub(super) fn too_noisy(&self, index: usize, ranked: &Criterion) -> String {
        let noisy: Vec<&str> = self
            .others()
            .filter(|other| *other != index && ranked.noisy.contains(other))
            .map(|other| self.name(other))
            .collect();
        if noisy.is_empty() { String::new() } else { undecided(&noisy, "slower") }
    }

    /// The value of the allocator that does nothing: no other one can have a lower one.
    pub(super) fn floor(&self, stake: &Stake) -> Option<f64> {
        let floor = self.all.allocators.iter().position(|one| one.name == FLOOR)?;
        self.value(stake, floor)
    }

    /// How much of the time in calls is the cost of measuring, if that is a large part. It is the
    /// same for all allocators, so it hides a part of their difference.
    /// `advised`: the allocator whose saving the headline states.
    pub(super) fn measuring(&self, advised: Option<usize>) -> String {
        let stake = self.time();
        let (Some(floor), Some(base)) = (self.floor(&stake), self.value(&stake, self.base)) else {
            return String::new();
        };
        let calls: u64 = self.all.comparison.journal.operations.values().sum();
        // With few rounds, the cost of measuring can exceed what contains it.
        if floor < MEASURING * base || floor >= base || calls == 0 {
            return String::new();
        }
        let without = advised.and_then(|index| Some((index, self.value(&stake, index)?)));
        let without = without.filter(|(_, own)| *own < base);
        let difference = match without {
            Some((index, own)) => format!(
                "the calls take {} less time with {}",
                lower_by(((base - own) / (base - floor)).min(1.0)),
                self.name(index)
            ),
            None => {
                let rest = base - floor;
                let rest = self.per_minute(rest).unwrap_or_else(|| duration(rest));
                format!("they take {rest}, and no allocator can save more than that")
            }
        };
        format!(
            "All times contain the cost of measuring, {} a call, which is {} of the time in calls \
             with {}. Without it, {difference}.",
            duration(floor / calls as f64),
            short_percent(floor / base),
            self.name(self.base)
        )
    }
}
