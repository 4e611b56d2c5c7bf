//! Two comparisons of the same journal: the change of each figure.

use super::confidence::{CONFIDENCE, confidence, interval_of, unpaired_ratio};
use super::figures::{Figure, figures};
use super::pairs::ClockError;
use crate::{AllocatorResult, Comparison, Interval};

/// One figure of one allocator in two comparisons.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The allocator.
    pub allocator: String,
    /// See [`Figure::operation`].
    pub operation: String,
    /// See [`Figure::name`].
    pub figure: &'static str,
    /// Typical value before and after: ns, or bytes for `peak`.
    pub before: f64,
    /// See `before`.
    pub after: f64,
    /// after / before, with its 95 % interval; None where a side has fewer than two runs.
    pub ratio: Option<Interval>,
}

impl Difference {
    /// Whether the interval excludes 1.
    pub fn is_significant(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio.low > 1.0 || ratio.high < 1.0)
    }
}

/// The figures that both comparisons have, by allocator in the order of `after`.
pub fn differences(before: &Comparison, after: &Comparison) -> Vec<Difference> {
    let confidence = confidence(before).max(confidence(after));
    let mut found = Vec::new();
    for late in after.allocators.iter().filter(|result| !result.runs.is_empty()) {
        let same = |early: &&AllocatorResult| early.name == late.name && !early.runs.is_empty();
        let Some(early) = before.allocators.iter().find(same) else { continue };
        let early = figures(before, early);
        for b in figures(after, late) {
            let same = |a: &&Figure| a.operation == b.operation && a.name == b.name;
            if let Some(a) = early.iter().find(same) {
                found.extend(difference(&late.name, (a, &b), confidence));
            }
        }
    }
    found
}

fn difference(allocator: &str, (a, b): (&Figure, &Figure), confidence: f64) -> Option<Difference> {
    let (before, after) = (a.calm(), b.calm());
    let ratio =
        unpaired_ratio(&before, &after, confidence).map(|ratio| ClockError::of(a, b).apply(ratio));
    Some(Difference {
        allocator: allocator.to_owned(),
        operation: b.operation.clone(),
        figure: b.name,
        before: interval_of(&before, CONFIDENCE)?.value,
        after: interval_of(&after, CONFIDENCE)?.value,
        ratio,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::statistics::test_data::{comparison, result};

    #[test]
    fn a_difference_is_significant_when_it_exceeds_the_variation_of_runs() {
        let before =
            comparison(1, vec![result("one", &[100, 102, 98]), result("two", &[100, 103, 97])]);
        let after =
            comparison(1, vec![result("one", &[130, 133, 127]), result("two", &[101, 98, 104])]);
        let found = differences(&before, &after);
        let of = |name: &str| {
            found.iter().find(|one| one.allocator == name && one.figure == "p50").unwrap()
        };
        assert!(
            of("one").is_significant() && of("one").ratio.unwrap().low > 1.2,
            "{:?}",
            of("one")
        );
        assert!(!of("two").is_significant());
    }
}
