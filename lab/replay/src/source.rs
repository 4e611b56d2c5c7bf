//! The source of operations: a journal file, or a list in tests.

use crate::Error;
use keel_journal::{Event, Metadata, Origin, Reader};

/// Operations that can be read repeatedly from the beginning.
pub trait Source {
    /// Calls `each` with every event in order and its stack ([`Origin::stack`]); stops at the first
    /// error.
    fn for_each(&self, each: &mut dyn FnMut(&Event, u32) -> Result<(), Error>)
    -> Result<(), Error>;
    /// The metadata of the journal.
    fn metadata(&self) -> &Metadata;
    /// Number of events.
    fn rows(&self) -> u64;
}

impl Source for Reader {
    fn for_each(
        &self,
        each: &mut dyn FnMut(&Event, u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut batches, mut events) = (self.batches(), Vec::new());
        if self.metadata().stacks.is_empty() {
            while batches.next_into(&mut events)? {
                events.iter().try_for_each(|event| each(event, Origin::NONE))?;
            }
            return Ok(());
        }
        let mut origins = Vec::new();
        while batches.next_with_origins(&mut events, &mut origins)? {
            for (event, origin) in events.iter().zip(&origins) {
                each(event, origin.stack)?;
            }
        }
        Ok(())
    }

    fn metadata(&self) -> &Metadata {
        Reader::metadata(self)
    }

    fn rows(&self) -> u64 {
        Reader::rows(self)
    }
}

/// Events in memory.
#[derive(Clone, Debug, Default)]
pub struct Sourced {
    /// See [`Source::metadata`].
    pub metadata: Metadata,
    /// The events.
    pub events: Vec<Event>,
}

impl Source for Sourced {
    fn for_each(
        &self,
        each: &mut dyn FnMut(&Event, u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.events.iter().try_for_each(|event| each(event, Origin::NONE))
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn rows(&self) -> u64 {
        self.events.len() as u64
    }
}
