//! The data of a comparison, and the statistics on it.
//!
//! A result folder holds
//! - `results.json`: one [`Comparison`];
//! - `operations.parquet`: one row for each replayed operation in journal order, shared by all
//!   runs: `op` u8; `size` u64 (for a free, of the block it frees); `thread` u32; `frame` u32;
//!   `time` u64 ns, never decreasing; `age` u32, the distance in rows to the row that allocated the
//!   block freed here (0 if the row frees nothing, or a block from before the recording). If the
//!   journal had call stacks, also `stack` u32, an index into the nodes of `stacks.json`;
//! - `stacks.json`, only if the journal had call stacks: `modules` and `stacks` of its metadata;
//! - `run-<allocator>-<number>.parquet`: for each kept run, one row for each row of
//!   `operations.parquet`: `start` u64 ns since the run's start; `ticks` u32 inside the call;
//!   `cause` u8, a bit set.
//!
//! [`Comparison::load`] and [`Comparison::save`] handle the first file, [`raw`] streams the others.
//!
//! | module | contents |
//! | --- | --- |
//! | `comparison`, `run`, `instrument`, `interval`, `cause`, `histogram` | the data |
//! | `folder`, [`raw`] | reading and writing a result folder |
//! | `names`, [`text`] | the names of operations and percentiles; numbers as text |
//! | `statistics` | percentiles, intervals, pairs, precision |
//! | `suite` | the data of `keel bench --suite`, its folder, its means |
//! | `machine`, `time` | facts of this machine, the clock's frequency, dates |

mod cause;
mod comparison;
mod folder;
mod histogram;
mod instrument;
mod interval;
mod machine;
mod names;
mod pinned;
pub mod raw;
mod run;
mod statistics;
mod suite;
pub mod text;
mod time;

pub use cause::*;
pub use comparison::*;
pub use folder::{FolderError, RESULTS_FILE};
pub use histogram::Histogram;
pub use instrument::*;
pub use interval::*;
pub use machine::{ProcessorTime, machine};
pub use names::*;
pub use pinned::{PINNED_FILE, Pinned, PinnedMemory};
pub use run::*;
pub use statistics::*;
pub use suite::*;
pub use time::{Frequency, rfc3339};
