//! The blocks that are live when the rows begin, in a recording that starts late.

use keel_journal::{Event, Op, Origin};
use rustc_hash::FxHashMap;

/// A block that was allocated before the first row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number among all blocks since the recording began.
    pub object: u64,
    /// The operation that allocated it; never a realloc.
    pub op: Op,
    /// Requested bytes.
    pub size: u64,
    /// Requested alignment; 0 if none.
    pub align: u64,
    /// Serial number of the thread that allocated it.
    pub thread: u32,
    /// The caller.
    pub origin: Origin,
}

/// The live blocks.
#[derive(Clone, Default)]
pub struct Early {
    blocks: FxHashMap<u64, Block>,
}

impl Early {
    /// Applies a row that is not written.
    pub fn take(&mut self, row: &Event, origin: Origin, thread: u32) {
        self.release(row.released);
        if row.created == 0 {
            return;
        }
        let op = match row.op {
            Op::Calloc | Op::Aligned => row.op,
            _ => Op::Malloc,
        };
        let Event { size, align, created: object, .. } = *row;
        self.blocks.insert(object, Block { object, op, size, align, thread, origin });
    }

    /// The object was released; 0 and unknown objects are ignored.
    pub fn release(&mut self, object: u64) {
        self.blocks.remove(&object);
    }

    /// The threads of the remaining blocks.
    pub fn threads(&self) -> impl Iterator<Item = u32> {
        self.blocks.values().map(|block| block.thread)
    }

    /// The callers of the remaining blocks.
    pub fn origins(&mut self) -> impl Iterator<Item = &mut Origin> {
        self.blocks.values_mut().map(|block| &mut block.origin)
    }

    /// The remaining blocks, in the order of their allocation.
    pub fn into_blocks(self) -> Vec<Block> {
        let mut blocks: Vec<Block> = self.blocks.into_values().collect();
        blocks.sort_unstable_by_key(|block| block.object);
        blocks
    }
}
