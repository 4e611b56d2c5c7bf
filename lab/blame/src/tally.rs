//! Calls, bytes and lifetimes of blocks by the stack that allocated them.

use crate::over_time::{OverTime, Parts};
use crate::profile::{Unit, ValueKind};
use keel_journal::Sampling;
use rustc_hash::FxHashMap;

/// The values of [`crate::requested`].
pub const REQUESTED: [ValueKind; 7] = [
    ValueKind { name: "calls", title: "calls", unit: Unit::Count },
    ValueKind { name: "bytes", title: "bytes", unit: Unit::Bytes },
    ValueKind { name: "peak", title: "live at peak", unit: Unit::Bytes },
    ValueKind { name: "kept", title: "never freed", unit: Unit::Bytes },
    ValueKind { name: "kept-blocks", title: "blocks never freed", unit: Unit::Count },
    ValueKind { name: "churn", title: "short-lived", unit: Unit::Count },
    ValueKind { name: "churn-bytes", title: "bytes of short-lived", unit: Unit::Bytes },
];

/// For samples, these follow: the number of samples, and what belongs to the standard errors.
pub const SAMPLED: [ValueKind; 4] = [
    ValueKind { name: "samples", title: "samples", unit: Unit::Count },
    ValueKind { name: "calls-variance", title: "variance of calls", unit: Unit::Variance },
    ValueKind { name: "bytes-variance", title: "variance of bytes", unit: Unit::Variance },
    ValueKind { name: "kept-variance", title: "variance of never freed", unit: Unit::Variance },
];

const CALLS: usize = 0;
const BYTES: usize = 1;
const PEAK: usize = 2;
const KEPT: usize = 3;
const KEPT_BLOCKS: usize = 4;
const CHURN: usize = 5;
const CHURN_BYTES: usize = 6;
const SAMPLES: usize = 7;
const CALLS_VARIANCE: usize = 8;
const BYTES_VARIANCE: usize = 9;
const KEPT_VARIANCE: usize = 10;

/// The number of calls that one row stands for, and their bytes; for samples in parts of a call and
/// of a byte.
#[derive(Clone, Copy)]
pub(crate) struct Weight {
    pub calls: u64,
    pub bytes: u64,
}

/// Parts of a call, and of a byte.
const PARTS: f64 = 1024.0;

/// Weights the rows of a journal.
#[derive(Clone, Copy)]
pub(crate) struct Weights(pub Option<Sampling>);

impl Weights {
    pub fn of(self, size: u64) -> Weight {
        let Some(sampling) = self.0 else { return Weight { calls: 1, bytes: size } };
        let weight = sampling.weight(size) * PARTS;
        Weight { calls: weight.round() as u64, bytes: (weight * size as f64).round() as u64 }
    }

    /// Whole calls and bytes.
    pub fn whole(self, values: &mut [u64]) {
        if self.0.is_some() {
            let parts = values.iter_mut().take(REQUESTED.len());
            parts.for_each(|value| *value = (*value as f64 / PARTS).round() as u64);
        }
    }

    /// The variances of calls and bytes.
    fn variances(self, size: u64) -> Option<[u64; 2]> {
        let (variance, size) = (self.0?.variance(size), size as f64);
        Some([variance, variance * size * size].map(|value| value.round() as u64))
    }

    fn columns(self) -> usize {
        REQUESTED.len() + if self.0.is_some() { SAMPLED.len() } else { 0 }
    }
}

/// A live block.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub stack: u32,
    pub size: u64,
    /// When it was allocated, ns.
    pub time: u64,
}

/// Attributes blocks to the stacks that allocated them, at the time of the allocation.
pub(crate) struct Tally {
    pub values: OverTime<u64>,
    live: FxHashMap<u64, Block>,
    short_ns: u64,
    weights: Weights,
}

impl Tally {
    pub fn new(parts: Parts, short_ns: u64, weights: Weights) -> Tally {
        let values = OverTime::new(parts, weights.columns());
        Tally { values, live: FxHashMap::default(), short_ns, weights }
    }

    /// Block `number` is freed at `time`. Unknown blocks are ignored.
    pub fn release(&mut self, number: u64, time: u64) {
        let Some(block) = self.live.remove(&number) else { return };
        let values = self.values.row(block.stack, block.time);
        let weight = self.weights.of(block.size);
        values[KEPT] = values[KEPT].saturating_sub(weight.bytes);
        values[KEPT_BLOCKS] -= weight.calls;
        if time.saturating_sub(block.time) <= self.short_ns {
            values[CHURN] += weight.calls;
            values[CHURN_BYTES] = values[CHURN_BYTES].saturating_add(weight.bytes);
        }
        if let Some([_, bytes]) = self.weights.variances(block.size) {
            values[KEPT_VARIANCE] = values[KEPT_VARIANCE].saturating_sub(bytes);
        }
    }

    /// Block `number` is allocated.
    pub fn create(&mut self, number: u64, block: Block) {
        self.live.insert(number, block);
        let values = self.values.row(block.stack, block.time);
        let weight = self.weights.of(block.size);
        values[CALLS] += weight.calls;
        // The sum of the sizes in a journal may exceed the range of the type.
        values[BYTES] = values[BYTES].saturating_add(weight.bytes);
        values[KEPT] = values[KEPT].saturating_add(weight.bytes);
        values[KEPT_BLOCKS] += weight.calls;
        if let Some([calls, bytes]) = self.weights.variances(block.size) {
            values[SAMPLES] += 1;
            values[CALLS_VARIANCE] = values[CALLS_VARIANCE].saturating_add(calls);
            values[BYTES_VARIANCE] = values[BYTES_VARIANCE].saturating_add(bytes);
            values[KEPT_VARIANCE] = values[KEPT_VARIANCE].saturating_add(bytes);
        }
    }

    /// The program now has the most live bytes.
    pub fn note_peak(&mut self) {
        self.values.rows_mut().for_each(|values| values[PEAK] = values[KEPT]);
    }
}

/// Finds the row after which the most bytes are live.
#[derive(Default)]
pub(crate) struct PeakFinder {
    sizes: FxHashMap<u64, u64>,
    live: u64,
    peak: u64,
    row: u64,
    pub peak_row: u64,
}

impl PeakFinder {
    pub fn release(&mut self, number: u64) {
        self.live = self.live.saturating_sub(self.sizes.remove(&number).unwrap_or(0));
    }

    pub fn create(&mut self, number: u64, size: u64) {
        self.sizes.insert(number, size);
        self.live = self.live.saturating_add(size);
    }

    pub fn end_row(&mut self) {
        if self.live > self.peak {
            (self.peak, self.peak_row) = (self.live, self.row);
        }
        self.row += 1;
    }
}
