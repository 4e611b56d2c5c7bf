//! Finds allocations that overlap a live block: a fault of the traced allocator.

use crate::forms::Record;
use std::collections::BTreeMap;

/// Two blocks that overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Address and bytes of the new block.
    pub new: (u64, u64),
    /// Address and bytes of the live block.
    pub live: (u64, u64),
    /// The line of the live block, from 1.
    pub line: u64,
}

/// The live blocks by address.
#[derive(Default)]
pub(crate) struct Overlaps {
    live: BTreeMap<u64, Block>,
    count: u64,
}

#[derive(Clone, Copy)]
struct Block {
    bytes: u64,
    line: u64,
}

impl Overlaps {
    /// Applies a record; returns the live block that its new one overlaps, if there is one.
    pub fn check(&mut self, record: &Record, line: u64) -> Option<Overlap> {
        if record.old != 0 {
            self.live.remove(&record.old);
        }
        if record.new == 0 {
            return None;
        }
        let new = (record.new, record.size);
        let end = record.new.saturating_add(record.size.max(1));
        // Live blocks do not overlap each other, so the last one that begins before the end is the
        // only candidate, unless an earlier overlap was reported.
        let found = self.live.range(..end).next_back().map(|(address, block)| (*address, *block));
        let found = found
            .filter(|(address, block)| address.saturating_add(block.bytes.max(1)) > record.new);
        self.live.insert(record.new, Block { bytes: record.size, line });
        let (address, block) = found?;
        self.count += 1;
        Some(Overlap { new, live: (address, block.bytes), line: block.line })
    }

    /// The number of overlaps.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_journal::Op;

    #[test]
    fn only_live_blocks_overlap() {
        let mut overlaps = Overlaps::default();
        let malloc = |new, size| Record { new, size, ..Record::default() };
        let free = |old| Record { op: Op::Free, old, ..Record::default() };
        assert_eq!(overlaps.check(&malloc(100, 10), 1), None);
        assert_eq!(overlaps.check(&malloc(110, 10), 2), None);
        assert_eq!(overlaps.check(&malloc(90, 10), 3), None);
        let overlap = overlaps.check(&malloc(115, 1), 4);
        assert_eq!(overlap, Some(Overlap { new: (115, 1), live: (110, 10), line: 2 }));
        assert_eq!(overlaps.check(&free(115), 5), None);
        assert_eq!(overlaps.check(&free(110), 6), None);
        assert_eq!(overlaps.check(&malloc(115, 5), 7), None);
        assert!(overlaps.check(&malloc(114, 2), 8).is_some_and(|overlap| overlap.line == 7));
        assert!(overlaps.check(&malloc(100, 0), 9).is_some_and(|overlap| overlap.line == 1));
        assert_eq!(overlaps.count(), 3);
    }
}
