//! The counts of a selection.

use crate::metric::{Kernel, Metric};
use keel_journal::Event;

/// Sums over the operations of a selection, and over the blocks that they allocate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub allocations: u64,
    pub frees: u64,
    pub bytes: u64,
    pub largest: u64,
    /// Live bytes of its blocks. At the end of the journal: the bytes that are never freed.
    pub live: u64,
    pub live_peak: u64,
    /// The row at which the peak was reached.
    pub peak_row: u64,
    pub faulting: u64,
    pub system_calls: u64,
}

impl Totals {
    /// An operation of the selection.
    pub fn count(&mut self, event: &Event, kernel: Kernel) {
        self.faulting += u64::from(kernel.faulted);
        self.system_calls += u64::from(kernel.called);
        if event.op.creates() {
            self.allocations += 1;
            self.bytes = self.bytes.saturating_add(event.size);
            self.largest = self.largest.max(event.size);
        } else {
            self.frees += 1;
        }
    }

    /// A block of the selection becomes live.
    pub fn create(&mut self, row: u64, size: u64) {
        self.live = self.live.saturating_add(size);
        if self.live > self.live_peak {
            self.live_peak = self.live;
            self.peak_row = row;
        }
    }

    /// A block of the selection is released.
    pub fn release(&mut self, size: u64) {
        self.live = self.live.saturating_sub(size);
    }

    pub fn value(&self, metric: Metric) -> u64 {
        match metric {
            Metric::Operations => self.allocations + self.frees,
            Metric::Allocations => self.allocations,
            Metric::Frees => self.frees,
            Metric::Bytes => self.bytes,
            Metric::LivePeak => self.live_peak,
            Metric::Largest => self.largest,
            Metric::NeverFreed => self.live,
            Metric::Faulting => self.faulting,
            Metric::SystemCalls => self.system_calls,
        }
    }
}
