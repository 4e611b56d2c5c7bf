//! The prologue of a trace that was cut from a longer one: the blocks that were live at its start
//! come first, as allocations at its first time.

use crate::{Error, Result, Sink};
use keel_journal::{Event, Origin, Writer};

/// Forwards events, and counts those of the prologue.
pub struct Opening {
    writer: Writer,
    first: Option<u64>,
    blocks: u64,
    is_open: bool,
    origin: Origin,
}

impl Opening {
    /// `counted`: whether the prologue is counted.
    pub fn new(writer: Writer, counted: bool) -> Opening {
        Opening { writer, first: None, blocks: 0, is_open: counted, origin: Origin::UNKNOWN }
    }

    /// Returns the inner sink, and the number of blocks of the prologue.
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
        self.writer.push_from(event, self.origin).map_err(Error::from)
    }

    fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
    }
}
