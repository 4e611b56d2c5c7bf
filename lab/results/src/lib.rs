//! Plain, versioned data of a comparison: what was measured, and no logic of measuring or drawing.
//!
//! A result folder holds
//! - `results.json`: one [`Comparison`];
//! - `operations.parquet`: one row for each replayed operation in journal order (`op` u8, `size` u64 (for a free,
//!   of the block it frees), `thread` u32, `frame` u32, `time` u64 ns, never decreasing, `age` u32: rows since the
//!   one that created the block released here, 0 if none is, or one from before the recording), written once, shared
//!   by all runs;
//! - `run-<allocator>-<number>.parquet`: for each kept run, one row for each row of `operations.parquet`
//!   (`start` u64 ns since the run's start, `ticks` u32 inside the call, `cause` u8 bit set).
//!
//! [`Comparison::load`] and [`Comparison::save`] handle the first, [`raw`] streams the others.

mod cause;
mod comparison;
mod facts;
mod folder;
mod histogram;
pub mod raw;

pub use cause::*;
pub use comparison::*;
pub use facts::*;
pub use folder::{FolderError, RESULTS_FILE};
pub use histogram::Histogram;
