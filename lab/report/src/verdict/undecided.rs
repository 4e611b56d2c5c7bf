//! The advice if the runs vary too much for a decision.

use super::{Advice, Choice, FEW_RUNS, Stake};
use crate::verdict::cautions::remedy;
use crate::verdict::price::calls_above;
use crate::verdict::sentences::{NAMES, in_frame};
use crate::words::{WIDEST, duration};
use keel_results::FRAME;
use std::collections::BTreeMap;

impl Choice<'_> {
    pub(super) fn undecided(&self, unknown: &BTreeMap<usize, (Stake, f64)>) -> Advice {
        let indices: Vec<usize> = unknown.keys().copied().collect();
        let is_rival = |index: &usize| self.setting(*index).is_none();
        let rivals: Vec<usize> = indices.iter().copied().filter(is_rival).collect();
        let (who, unnamed) = match indices.as_slice() {
            _ if rivals.len() > 1 && rivals.len() == self.rivals().count() => {
                ("another allocator is".to_owned(), String::new())
            }
            few if few.len() <= NAMES => {
                (format!("{} is", self.names(few).replace(" and ", " or ")), String::new())
            }
            _ => (
                format!("{} of the other allocators are", rivals.len()),
                format!("These {} are {}.", rivals.len(), self.names(&rivals)),
            ),
        };
        let base = self.name(self.base);
        // What the program has now needs no proof.
        let it = match self.keeps() {
            true => format!("Stay with {base} for now: it"),
            false => "It".to_owned(),
        };
        let sentence =
            format!("{it} is not known whether {who} better than {base} for this program.");
        // The candidate has the lowest median. The one that may save most is often only the one
        // whose runs vary most.
        let value = |(index, (stake, _)): &(&usize, &(Stake, f64))| {
            let [own, base] = [**index, self.base].map(|at| self.value(stake, at));
            own.zip(base).map_or(f64::MAX, |(own, base)| own / base)
        };
        let most = unknown.iter().min_by(|a, b| value(a).total_cmp(&value(b)));
        let bound = most
            .map_or_else(String::new, |(index, (stake, most))| self.bounds(stake, *index, *most));
        let price = most.map_or_else(String::new, |(index, _)| {
            format!("The price of {}: {}.", self.name(*index), self.price(*index))
        });
        let sentences = [
            unnamed,
            bound,
            price,
            most.map_or_else(String::new, |(index, (stake, _))| self.setting_like(stake, *index)),
            self.avoid().0,
            remedy(self.all.comparison, self.all.runs),
            calls_above(self.all.allocators, self.base, self.base),
        ];
        Advice {
            grade: match self.all.runs < FEW_RUNS {
                true => format!("{} runs are too few for a decision.", self.all.runs),
                false => "The runs vary too much for a decision.".to_owned(),
            },
            sentence,
            more: sentences.into_iter().filter(|sentence| !sentence.is_empty()).collect(),
            uncertain: most.map(|(index, _)| *index),
            is_undecided: true,
            ..Advice::default()
        }
    }

    /// What a row may save, `most` at best, or cost, a sentence.
    fn bounds(&self, stake: &Stake, index: usize, most: f64) -> String {
        let base = self.value(stake, self.base).unwrap_or(0.0);
        let ratio = self.ratio(stake, self.base, index).map_or(1.0, |ratio| ratio.high);
        let [most, least] = [most, ((1.0 - ratio) * base).abs()].map(|ns| self.shown(stake, ns));
        let recorded = self.all.comparison.journal.duration_ns;
        let of = match stake.operation {
            FRAME => in_frame(stake.figure).to_owned(),
            _ if recorded == 0 => "in a run".to_owned(),
            _ if self.is_extrapolated() => "per minute".to_owned(),
            _ => format!("of the recorded {}", duration(recorded as f64)),
        };
        let (name, base) = (self.name(index), self.name(self.base));
        match ratio {
            WIDEST.. => format!(
                "{name} may save up to {most} {of} (95 % interval). The runs do not limit what it \
                 may cost."
            ),
            1.0.. => {
                format!("{name} may save up to {most} {of}, or cost up to {least} (95 % interval).")
            }
            _ => format!(
                "{name} saves {least} to {most} {of} (95 % interval), if it alone is compared with \
                 {base}."
            ),
        }
    }
}
