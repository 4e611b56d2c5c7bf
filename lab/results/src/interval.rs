//! Intervals and pairs, as stored in `results.json`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An estimate with its confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// The interval's ends, `low <= value <= high`.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

/// Two allocators compared in one figure, paired by round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Paired {
    /// Names of the two.
    pub a: String,
    /// See `a`.
    pub b: String,
    /// Operation (`malloc`, ..., `all`), or `run` for figures of the whole run.
    pub operation: String,
    /// `p50` ... `p99.999`, `mean`, `worst`; of a run `elapsed`, `throughput`, `peak`.
    pub figure: String,
    /// Rounds whose ratios the interval contains: those in which both ran with an undisturbed
    /// processor, or all in which both ran, if those are fewer than five.
    pub rounds: u32,
    /// b's figure over a's: the (trimmed) geometric mean of the rounds' ratios, with its 95 %
    /// interval.
    pub ratio: Interval,
    /// `a` or `b` if that one is significantly lower, else empty. Significant means that the
    /// interval excludes 1 after correction for the number of allocators, and that the clock can
    /// show the difference.
    pub lower: String,
}

/// The 95 % intervals of an allocator's figures over its runs, by operation and figure.
pub type Intervals = BTreeMap<String, BTreeMap<String, Interval>>;
