//! Calls, bytes and lifetimes of blocks by the stack that allocated them.

use crate::over_time::{OverTime, Parts};
use crate::profile::{Unit, ValueKind};
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

const CALLS: usize = 0;
const BYTES: usize = 1;
const PEAK: usize = 2;
const KEPT: usize = 3;
const KEPT_BLOCKS: usize = 4;
const CHURN: usize = 5;
const CHURN_BYTES: usize = 6;

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
}

impl Tally {
    pub fn new(parts: Parts, short_ns: u64) -> Tally {
        let values = OverTime::new(parts, REQUESTED.len());
        Tally { values, live: FxHashMap::default(), short_ns }
    }

    /// Block `number` is freed at `time`. Unknown blocks are ignored.
    pub fn release(&mut self, number: u64, time: u64) {
        let Some(block) = self.live.remove(&number) else { return };
        let values = self.values.row(block.stack, block.time);
        values[KEPT] = values[KEPT].saturating_sub(block.size);
        values[KEPT_BLOCKS] -= 1;
        if time.saturating_sub(block.time) <= self.short_ns {
            values[CHURN] += 1;
            values[CHURN_BYTES] = values[CHURN_BYTES].saturating_add(block.size);
        }
    }

    /// Block `number` is allocated.
    pub fn create(&mut self, number: u64, block: Block) {
        self.live.insert(number, block);
        let values = self.values.row(block.stack, block.time);
        values[CALLS] += 1;
        // The sum of the sizes in a journal may exceed the range of the type.
        values[BYTES] = values[BYTES].saturating_add(block.size);
        values[KEPT] = values[KEPT].saturating_add(block.size);
        values[KEPT_BLOCKS] += 1;
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
