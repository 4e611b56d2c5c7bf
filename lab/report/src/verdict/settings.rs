//! Rows that are the base with other settings: they need no other library.

use super::{Choice, Evidence, Matters, Stake, choice};
use crate::verdict::criteria::Criterion;
use crate::words::{bytes, list};
use keel_allocators::program_variable;
use serde::Serialize;

/// A row that is the base with other settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Index of the row.
    pub index: usize,
    /// What to set: `GLIBC_TUNABLES=...`.
    pub text: String,
}

/// The rows that are the base with other settings.
pub fn settings(evidence: &Evidence<'_>) -> Vec<Setting> {
    let Some(choice) = choice(evidence, Matters::default()) else { return Vec::new() };
    let text = |index| Some(Setting { index, text: choice.setting(index)? });
    choice.others().filter_map(text).collect()
}

impl Choice<'_> {
    /// What must be set, `GLIBC_TUNABLES=...`, if this row is the base with other settings.
    pub(super) fn setting(&self, index: usize) -> Option<String> {
        let rest = self.name(index).strip_prefix(self.name(self.base))?;
        let environment = |index: usize| &self.all.comparison.allocators[index].environment;
        let new = environment(index).iter().filter(|one| !environment(self.base).contains(one));
        let new: Vec<String> =
            new.map(|(name, value)| format!("{}={value}", program_variable(name))).collect();
        (rest.starts_with(['-', ':']) && !new.is_empty()).then(|| new.join(" "))
    }

    /// What to do to get this row, a clause.
    pub(super) fn step(&self, index: usize) -> String {
        let base = self.name(self.base);
        match (self.setting(index), self.keeps()) {
            (Some(setting), true) => format!("Set {setting} (stay with {base})"),
            (Some(setting), false) => format!("Use {base} and set {setting}"),
            (None, _) => format!("Use {}", self.name(index)),
        }
    }

    /// The allocators that are as good as the advised setting `index`, or better by less than what
    /// matters.
    pub(super) fn libraries(&self, index: usize, ranked: &Criterion) -> String {
        let is_library = |other: &usize| self.setting(*other).is_none() && *other != self.base;
        let best: Vec<usize> = ranked.best.iter().copied().filter(is_library).collect();
        if best.is_empty() {
            return String::new();
        }
        let names = list(&best.iter().map(|other| self.name(*other)).collect::<Vec<_>>());
        let (is, need) = if best.len() == 1 { ("is", "needs") } else { ("are", "need") };
        let equal = match ranked.best.contains(&index) {
            true => format!(
                "{names} may be just as good (no significant difference), but {need} another \
                 library."
            ),
            false => format!(
                "{names} {is} faster, but by less than {:.0} %, and {need} another library.",
                100.0 * self.matters.time
            ),
        };
        let leanest = best.into_iter().min_by(|a, b| self.memory(*a).total_cmp(&self.memory(*b)));
        match leanest.filter(|leanest| self.clearly_leaner(*leanest, index)) {
            Some(leanest) => format!(
                "{equal} {} needs {} less memory than the setting.",
                self.name(leanest),
                bytes(self.memory(index) - self.memory(leanest))
            ),
            None => equal,
        }
    }

    /// The setting of the base that may be as good as the candidate of an open decision, a
    /// sentence.
    pub(super) fn setting_like(&self, stake: &Stake, candidate: usize) -> String {
        /// Medians that are no farther apart are equal here.
        const NEAR: f64 = 1.2;
        let value = |index: usize| self.value(stake, index).unwrap_or(f64::MAX);
        let is_near = |index: &usize| {
            self.setting(*index).is_some() && value(*index) <= NEAR * value(candidate)
        };
        let near = self.others().filter(|index| *index != candidate && is_near(index));
        let best = near.min_by(|a, b| value(*a).total_cmp(&value(*b)));
        best.map_or_else(String::new, |index| {
            let name = self.name(index);
            format!("The setting {name} may save about as much, and needs no other library.")
        })
    }
}
