//! The allocation journal: types, streaming Parquet writer and reader.
//!
//! `journal/FORMAT.md` specifies the file. This crate does not depend on the producers and the
//! users of journals. The module [`analysis`] computes facts from a journal.
//!
//! ```no_run
//! use keel_journal::{Metadata, Reader, Writer};
//! # fn example(event: keel_journal::Event) -> Result<(), keel_journal::Error> {
//! let mut writer = Writer::create("game.journal.parquet")?;
//! writer.push(&event)?;
//! writer.finish(Metadata::default())?;
//!
//! let reader = Reader::open("game.journal.parquet")?;
//! for batch in reader.batches() {
//!     for event in batch? { /* ... */ }
//! }
//! # Ok(()) }
//! ```

pub mod analysis;
mod caches;
mod chunk;
mod columns;
mod destination;
mod encoder;
mod encodings;
mod error;
mod event;
mod footer;
mod free_hint;
mod memory;
mod metadata;
mod place;
mod read_at;
mod reader;
mod row_group;
mod rules;
mod salvage;
mod sampling;
mod slice;
mod text_form;
mod writer;

pub use caches::{CACHE_LEVELS, Caches, Pauses, cache_sizes};
pub use destination::Destination;
pub use encoder::Options;
pub use error::{Error, Result};
pub use event::{Event, Op, Origin};
pub use free_hint::{FreeHint, Requested};
pub use memory::{Memory, MemorySample, OtherAllocator};
pub use metadata::{
    CALL, CALL_KINDS, CALLS_BEGIN, CALLS_END, FORMAT_VERSION, Mark, Metadata, Module, NamedCall,
    Stacks, Thread,
};
pub use place::Place;
pub use reader::{Batches, ColumnSize, Reader};
pub use rules::{Rules, Violation};
pub use salvage::{Salvaged, is_partial, salvage};
pub use sampling::{Estimate, Estimates, Sampling, Totals, totals};
pub use slice::{Selection, Sliced, frame_times, slice, slice_every};
pub use text_form::TextForm;
pub use writer::{Writer, Written};
