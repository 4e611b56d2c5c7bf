//! The compiled replay plan and the results of its execution: two pieces of shared memory, the contract between replay
//! (which fills the first and reads the second) and player (which does the reverse).
//!
//! Both live in memory files (`memfd`), not on a disk: no write-back makes a page of the result arrays fault again
//! while the clock runs, and nothing is left behind whatever dies.
//!
//! ```text
//! plan      Header | Thread per thread | Op ... thread by thread, its prologue first |
//!           schedule: one u64 (ns) per timed Op, if paced
//! results   Control | ThreadState per thread | empty pairs: u32 ... | Record ... one per timed Op, in their order
//! ```
//!
//! **Slots.** A live object is known by the index of its [`Slot`]. A slot is used again once its object has been
//! freed, so that slots are bounded by the live objects and not by the length of the journal. Who may use it again
//! is settled when the plan is made, so that the player needs no check: the thread that freed the object at any
//! later row, or any thread from `skew` rows on, because no thread runs further ahead of the slowest than that.
//!
//! **Prologue.** A recording that begins late starts with the blocks that lived then. Each thread makes its own before
//! the run, without a clock and in no row, and none begins the run before all are done.
//!
//! **Skew.** At pace `max` threads run free, each as fast as it can, but never more than [`Header::skew`] rows
//! ahead of the slowest thread that is not yet done. So the set of live objects, and with it the memory, stays
//! close to that of the recorded program.

mod op;
mod plan;
mod results;
mod script;
mod shared;

pub use op::{Kind, Op, calls};
pub use plan::{Header, Plan, PlanShape, PlanWriter, Thread, ThreadShape};
pub use results::{
    CAUSE_FAULT, CAUSE_INTERRUPT, CAUSE_INTERRUPTED, CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT, CAUSE_SYSCALL,
    CAUSE_SYSCALL_UNKNOWN, ClockChoice, Control, EMPTY_PAIRS, Orders, Record, Results, SELF_TESTS, SelfTest,
    State, ThreadState,
};
pub use script::{Call, Reading, Script, Step};
pub use shared::{Plain, SharedError, SharedMemory};

use std::sync::atomic::{AtomicPtr, AtomicU32};

/// The row of the steps of a prologue, which stand in no row of `operations.parquet`.
pub const PROLOGUE_ROW: u32 = u32::MAX - 1;

/// How far a thread may run ahead of the slowest, in rows of the journal.
pub const SKEW_ROWS: u32 = 1 << 14;

/// Where the player keeps a live object. Private to the player; its size is part of the plan's arithmetic.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    /// The block, or null if the allocator gave none.
    pub block: AtomicPtr<u8>,
    /// 1 + the row that created the object; what [`Kind::Await`] waits for. Stored last, with release order.
    pub tag: AtomicU32,
    /// Bytes asked for, capped at `u32::MAX`.
    pub size: AtomicU32,
}
