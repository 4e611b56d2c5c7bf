//! Executes a compiled plan under one allocator in a process of its own.
//!
//! ```text
//! main            prepare everything, park the threads, load the allocator, let go, join
//!   prologue      each thread makes the blocks that lived when the recording began   (no clock)
//!   thread        for each step of its part of the plan:
//!     hold        wait while too far ahead of the slowest thread           (reported apart)
//!     pace        wait until the step is due                               (paces 1x, Nx, compressed)
//!     await       wait until another thread has made the object            (reported apart)
//!     call        arm · clock · malloc or free, touch · clock · look       (the record)
//!     cause       what the witnesses say; if it was slow, page faults and switches too
//! ```
//!
//! While the clock runs the player allocates nothing: its own global allocator is a bump pointer on a mapping of its
//! own ([`bump`]), the plan and the results are shared memory whose pages are all present, and threads wait parked
//! before the allocator is loaded. What the allocator under test sees is the journal's calls and nothing else.

mod account;
pub mod bump;
pub mod clock;
pub mod examine;
pub mod interruption;
pub mod kernel_calls;
pub mod null;
pub mod own;
pub mod own_calls;
pub mod perform;
mod prologue;
pub mod self_test;
pub mod target;
pub mod telling;
pub mod threads;
pub mod timing;
pub mod touch;
pub mod tripwire;
mod unclocked;
mod verify;
pub mod wait;
pub mod witness;

/// How threads wait on this machine: where each of `alive` threads can have a processor of its own, they may spin.
pub fn wait_settings(ticks_per_ns: f64, alive: usize) -> wait::Waiter {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    wait::Waiter { ticks_per_ns, spins: if alive <= processors { 4000 } else { 200 } }
}
