//! The allocation journal: types, streaming Parquet writer and reader.
//!
//! `journal/FORMAT.md` specifies the file. This crate knows nothing of how journals come to be or what they are for.

mod event;
mod metadata;

pub use event::{Event, Op};
pub use metadata::{FORMAT_VERSION, Mark, Metadata, Thread};
