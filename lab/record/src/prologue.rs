//! The blocks that live before rows are wanted: what a recording that starts late begins with.

use keel_journal::{Event, Op, Origin};
use rustc_hash::FxHashMap;

/// A block whose birth lies before the first row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number among all blocks since the recording began.
    pub object: u64,
    /// How it was made; never a realloc.
    pub op: Op,
    /// Bytes asked for.
    pub size: u64,
    /// Alignment asked for; 0 if none.
    pub align: u64,
    /// Serial number of the thread that made it.
    pub thread: u32,
    /// Where.
    pub origin: Origin,
}

/// The blocks that live.
#[derive(Default)]
pub struct Early {
    blocks: FxHashMap<u64, Block>,
}

impl Early {
    /// Takes a row that is not written.
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

    /// The object lives no more; 0 and unknown ones are passed over.
    pub fn release(&mut self, object: u64) {
        self.blocks.remove(&object);
    }

    /// Those that are left, in the order of their births.
    pub fn into_blocks(self) -> Vec<Block> {
        let mut blocks: Vec<Block> = self.blocks.into_values().collect();
        blocks.sort_unstable_by_key(|block| block.object);
        blocks
    }
}
