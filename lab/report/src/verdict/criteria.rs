//! One figure of all allocators, ranked.
//!
//! An allocator is called lowest only if the pairwise comparison, round by round, sets it below
//! every other at 95 % confidence, corrected for the number of allocators
//! (`docs/decisions/0052-statistics.md`).

use crate::figures::{AllocatorFigures, Lowest, Ratio, Spread, lowest, ratio};
use keel_results::Comparison;
use serde::Serialize;

/// Fewer runs than this do not show whether the assumptions of the statistics hold: sentences on
/// them are hedged.
pub const FEW_RUNS: usize = 4;
/// A ratio below this may be significant and is still irrelevant for a choice.
pub const SLIGHT: f64 = 1.005;

/// One figure of all allocators.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Criterion {
    /// `time`, `throughput`, `p50`, `p999`, `p9999`, `memory`.
    pub id: &'static str,
    /// Its heading, which names the operation.
    pub title: String,
    /// Its meaning, one line.
    pub meaning: String,
    /// `ns` or `bytes`.
    pub unit: &'static str,
    /// The conclusion.
    pub sentence: String,
    /// The conclusion for a list of all criteria: the allocators that may be lowest, and how far
    /// that is known. Empty strings if fewer than two rounds were run.
    pub answer: [String; 2],
    /// Index of the allocator and its figure, lowest median first.
    pub rows: Vec<(usize, Spread)>,
    /// The allocators that may be lowest; a single one is significantly lowest. Empty if the runs
    /// support no conclusion.
    pub best: Vec<usize>,
    /// The allocators whose intervals are too wide to decide.
    pub noisy: Vec<usize>,
    /// The figure of each of `rows` over that of the first of `best`.
    pub ratios: Vec<Option<Ratio>>,
    /// The same figure of the floor.
    pub floor: Option<Spread>,
}

/// A figure in the results and in the allocators' figures.
pub struct Figure<'a> {
    /// The operation, or `run`.
    pub operation: &'a str,
    /// The identifier of the figure.
    pub name: &'a str,
    /// The step of the clock, ns; 0 if it is irrelevant.
    pub step: f64,
    /// The figure of one allocator.
    pub of: &'a dyn Fn(&AllocatorFigures) -> Option<Spread>,
}

impl Criterion {
    /// Fills in the rows, the lowest allocators and the ratios.
    pub fn rank(
        mut self,
        comparison: &Comparison,
        allocators: &[AllocatorFigures],
        figure: &Figure<'_>,
    ) -> Criterion {
        for (index, allocator) in allocators.iter().enumerate() {
            match (figure.of)(allocator) {
                Some(spread) if allocator.floor => self.floor = Some(spread),
                Some(spread) => self.rows.push((index, spread)),
                None => {}
            }
        }
        self.rows.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
        Lowest { best: self.best, noisy: self.noisy } =
            lowest(comparison, figure.operation, figure.name);
        if let Some(best) = self.best.first().copied() {
            let over = |(index, _): &(usize, Spread)| {
                ratio(comparison, figure.operation, figure.name, best, *index)
            };
            self.ratios = self.rows.iter().map(over).collect();
        }
        let alone = self.best.len() == 1;
        let slightly =
            |ratio: &Option<Ratio>| ratio.is_some_and(|ratio| ratio.interval.value < SLIGHT);
        let near = self.rows.iter().zip(&self.ratios).filter(|(_, ratio)| alone && slightly(ratio));
        let near: Vec<usize> = near.map(|(row, _)| row.0).collect();
        self.best.extend(near);
        self
    }

    /// The allocators that may be lowest, lowest median first; and the others without noisy ones.
    pub fn parted<'a>(&self, allocators: &'a [AllocatorFigures]) -> (Vec<&'a str>, Vec<&'a str>) {
        let known = self.rows.iter().filter(|row| !self.noisy.contains(&row.0));
        let (best, above): (Vec<_>, Vec<_>) = known.partition(|row| self.best.contains(&row.0));
        let names = |rows: Vec<&(usize, Spread)>| {
            rows.iter().map(|row| allocators[row.0].name.as_str()).collect::<Vec<&str>>()
        };
        (names(best), names(above))
    }

    /// Whether those that may be lowest are known to be less than half a percent apart.
    pub fn slight(&self) -> bool {
        let placed =
            self.rows.iter().zip(&self.ratios).filter(|(row, _)| self.best.contains(&row.0));
        self.best.len() > 1
            && placed.filter_map(|(_, ratio)| *ratio).all(|Ratio { interval, .. }| {
                interval.value < SLIGHT && (interval.low > 1.0 || interval.high < SLIGHT)
            })
    }

    /// The lowest of the allocators above the only lowest one.
    pub fn next(&self) -> Option<(usize, Ratio)> {
        let next =
            self.rows.iter().zip(&self.ratios).filter(|(row, _)| !self.best.contains(&row.0));
        next.filter_map(|(row, ratio)| Some((row.0, (*ratio)?)))
            .min_by(|a, b| a.1.interval.value.total_cmp(&b.1.interval.value))
    }
}
