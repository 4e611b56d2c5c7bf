//! Compiles a journal to a plan, schedules interleaved runs of players, and writes a result folder.
//!
//! ```text
//! compare  compile the journal (two passes: count, write)
//!              -> plan in shared memory, operations.parquet
//!          for each run, in a shuffled order: a fresh player
//!              -> results in shared memory, samples of memory
//!          digest
//!              -> Run, run-<allocator>-<number>.parquet
//!          choose the run of each allocator whose rows are kept
//!              -> results.json
//! merge    results of single rounds, from any machines -> one comparison
//! ```

mod compare;
mod compile;
mod digest;
mod error;
mod holding;
mod merge;
mod options;
mod run;
mod sampler;
mod source;
mod timing;

pub use compare::{Outcome, Progress, Request, compare};
pub use compile::{Compiled, compile, replayed_rows};
pub use digest::Rows;
pub use error::Error;
pub use holding::{Held, Holding, Moment, Survivor};
pub use keel_plan::{CLASSES, ClockChoice, Eviction, LEVELS, Shares};
pub use merge::{Round as MergedRound, merge};
pub use options::{Keep, Options, Pace, Touch};
pub use run::{Player, RunFailure};
pub use sampler::Sampler;
pub use source::{Source, Sourced};
pub use timing::{Segment, Timing, TimingError};
