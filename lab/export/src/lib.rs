//! Exports results and journals to the formats of other tools.

mod chrome;
mod csv;
mod error;
mod hdr;
mod message;
mod partitions;
mod perfetto;
mod rows;
#[cfg(test)]
mod sample;
mod stacks;
mod suite;
mod summary;
mod table;
mod timeline;
mod trace;

pub use chrome::chrome;
pub use csv::csv;
pub use error::{ExportError, Written};
pub use hdr::hdr;
pub use keel_journal::TextForm as TraceForm;
pub use partitions::partitions;
pub use perfetto::{perfetto, perfetto_of_journal};
pub use stacks::{collapsed, firefox, pprof, speedscope};
pub use suite::suite_table;
pub use summary::summary;
pub use table::table;
pub use timeline::{SlowCall, Timeline, TimelineError};
pub use trace::{TraceError, WrittenTrace, trace, trace_events};
