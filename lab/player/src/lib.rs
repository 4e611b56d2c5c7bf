//! Executes a compiled plan under one allocator in a separate process.
//!
//! ```text
//! main        prepare everything, park the threads, load the allocator, release the threads, join
//!   prologue  each thread allocates the blocks that were live when the recording began (no clock)
//!   thread    for each step of its part of the plan:
//!     hold    wait while too far ahead of the slowest thread         (reported separately)
//!     evict   read other memory until the step is due                (--between)
//!     pace    wait until the step is due                             (paces 1x, Nx, compressed)
//!     await   wait until another thread has allocated the object     (reported separately)
//!     call    arm · clock · malloc or free, touch · clock · observe  (the record)
//!     cause   read the detectors; for slow calls also page faults and switches
//! ```
//!
//! The modules, from the bottom: [`system`], [`clock`] and [`wait`]; the detectors
//! [`interruption`], [`interrupt_probe`] and [`kernel_calls`], together [`causes`]; [`part`] and
//! `step`, which all kinds of runs share; the kinds `clocked`, `unclocked` and `usable_sizes`;
//! [`perform`], which chooses one; [`threads`]. [`stores`] measures what the clock does not
//! contain.
//!
//! While the clock runs, the player allocates nothing: its global allocator is a bump pointer on
//! its own mapping ([`bump`]), all pages of the plan and the results are present, and the threads
//! are parked before the allocator is loaded. The allocator under test receives the journal's calls
//! and no others.

pub mod bump;
pub mod causes;
pub mod clock;
pub mod clocked;
pub mod evict;
pub mod examine;
pub mod free_hints;
pub mod holding;
pub mod inline_syscalls;
pub mod interrupt_probe;
pub mod interruption;
pub mod kernel_calls;
pub mod null;
pub mod part;
pub mod perform;
mod preload_version;
mod prologue;
pub mod self_test;
pub mod speed;
mod step;
pub mod stores;
pub mod system;
pub mod target;
pub mod threads;
pub mod timing;
pub mod touch;
mod unclocked;
mod usable_sizes;
mod verify;
pub mod wait;

/// How threads wait on this machine: they spin if each of `alive` threads can have a processor of
/// its own.
pub fn wait_settings(ticks_per_ns: f64, alive: usize) -> wait::Waiter {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    wait::Waiter { ticks_per_ns, spins: if alive <= processors { 4000 } else { 200 } }
}
