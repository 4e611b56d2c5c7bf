//! The compiled replay plan and the results of its execution: two pieces of shared memory. Replay
//! writes the plan and reads the results; the player reads the plan and writes the results.
//!
//! Both are memory files (`memfd`), not files on a disk: write-back cannot make a page of the
//! result arrays fault again while the clock runs, and no file remains after a crash.
//!
//! ```text
//! plan      Header | Thread per thread | Op ... thread by thread, its prologue first |
//!           schedule: one u64 (ns) per timed Op, if paced
//! results   Control | ThreadState per thread | empty pairs: u32 ... |
//!           Record ... one per timed Op, in their order
//! ```
//!
//! **Slots.** A live object is identified by the index of its [`Slot`]. A slot is reused after its
//! object has been freed, so that the number of slots is bounded by the live objects and not by the
//! length of the journal. The plan determines the thread that may reuse it, and the player needs no
//! check: the thread that freed the object may do so at any later row, and any other thread from
//! `skew` rows on, because no thread runs further ahead of the slowest than that.
//!
//! **Prologue.** A recording that begins late starts with the blocks that were live then. Each
//! thread allocates its own before the run, without a clock and without a row. The run begins after
//! all prologues.
//!
//! **Skew.** At pace `max` each thread runs as fast as it can, but never more than [`Header::skew`]
//! rows ahead of the slowest running thread. Therefore the set of live objects, and with it the
//! memory, stays close to that of the recorded program.

mod eviction;
mod op;
mod plan;
mod results;
mod script;
mod shared;

pub use eviction::{CLASSES, Eviction, LEVELS, Shares};
pub use op::{Kind, Op, calls};
pub use plan::{Header, Plan, PlanShape, PlanWriter, Thread, ThreadShape};
pub use results::{
    CAUSE_FAULT, CAUSE_FOLLOWS_DETECTOR, CAUSE_INTERRUPT, CAUSE_INTERRUPTED,
    CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT, CAUSE_SYSCALL, CAUSE_SYSCALL_UNKNOWN, ClockChoice,
    Control, EMPTY_PAIRS, Orders, Record, Results, SELF_TESTS, STORED_LINES, SelfTest, State,
    ThreadState,
};
pub use script::{Call, Reading, Script, Step};
pub use shared::{Plain, SharedError, SharedMemory};

use std::sync::atomic::{AtomicPtr, AtomicU32};

/// The row of prologue steps, which have no row in `operations.parquet`.
pub const PROLOGUE_ROW: u32 = u32::MAX - 1;

/// How far a thread may run ahead of the slowest, in rows of the journal.
pub const SKEW_ROWS: u32 = 1 << 14;

/// The player's storage of a live object. Private to the player; its size is part of the plan's
/// arithmetic.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    /// The block, or null if the allocator returned none.
    pub block: AtomicPtr<u8>,
    /// 1 + the row that allocated the object; [`Kind::Await`] waits for it. Stored last, with
    /// release order.
    pub tag: AtomicU32,
    /// Requested bytes, capped at `u32::MAX`.
    pub size: AtomicU32,
}
