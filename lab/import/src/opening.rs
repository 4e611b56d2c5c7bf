//! The beginning of a trace that was cut out of a longer one: the blocks that lived there come
//! first, as allocations at its first moment.

use crate::{Result, Sink};
use keel_journal::{Event, Writer};

/// Passes events on, and counts those of the opening.
pub struct Opening {
    writer: Writer,
    first: Option<u64>,
    blocks: u64,
    is_open: bool,
}

impl Opening {
    /// `counted`: whether there is one to be counted.
    pub fn new(writer: Writer, counted: bool) -> Opening {
        Opening { writer, first: None, blocks: 0, is_open: counted }
    }

    /// What was written to, and how many blocks the opening had.
    pub fn into_parts(self) -> (Writer, u64) {
        (self.writer, self.blocks)
    }

    #[cold]
    fn count(&mut self, event: &Event) {
        let first = *self.first.get_or_insert(event.time);
        self.is_open = event.time == first && event.op.creates() && event.released == 0;
        self.blocks += u64::from(self.is_open);
    }
}

impl Sink for Opening {
    #[inline(always)]
    fn push(&mut self, event: &Event) -> Result<()> {
        if self.is_open {
            self.count(event);
        }
        Sink::push(&mut self.writer, event)
    }
}
