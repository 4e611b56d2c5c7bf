//! A thread's part of the plan: the data that all kinds of runs share.

use crate::causes::Detectors;
use crate::clock::Clock;
use crate::evict::Line;
use crate::system::{self, Usage};
use crate::wait::{Waiter, add, announce};
use keel_allocators::table::Table;
use keel_plan::{Control, Op, Orders, Record, Slot, ThreadState};
use std::sync::atomic::Ordering::Relaxed;

/// Everything that a thread needs; nothing of it is allocated later.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The allocator.
    pub table: &'a Table,
    /// The steps before the run.
    pub prologue: &'a [Op],
    /// The steps.
    pub steps: &'a [Op],
    /// The due time of each timed step, ns since the start; None at pace `max`.
    pub schedule: Option<&'a [u64]>,
    /// What is read between two calls: see [`crate::evict`].
    pub evicted: &'a [Line],
    /// One record for each timed step.
    pub records: *mut Record,
    /// All objects.
    pub slots: &'a [Slot],
    /// The states of all threads.
    pub states: &'a [ThreadState],
    /// The index of this thread's state.
    pub index: usize,
    /// For errors.
    pub control: &'a Control,
    /// How far ahead of the slowest thread this one may run, rows.
    pub skew: u32,
    /// Ticks at the run's start.
    pub origin: u64,
    /// How to wait.
    pub waiter: Waiter,
    /// The detectors that work on this machine.
    pub detectors: Detectors,
    /// How the plan is to be executed.
    pub orders: Orders,
}

impl Part<'_> {
    /// The first row at which the other threads must be checked; a single thread never waits.
    pub(crate) const fn first_limit(&self) -> u32 {
        if self.states.len() == 1 { u32::MAX } else { 0 }
    }

    /// Announces `row` as the next one and, from `limit` on, waits for the other threads. Returns
    /// whether it slept.
    #[inline(always)]
    pub(crate) fn keep_pace<C: Clock>(&self, row: u32, limit: &mut u32) -> bool {
        announce(&self.states[self.index], row);
        if row < *limit {
            return false;
        }
        let slept;
        (*limit, slept) = self.hold::<C>(row);
        slept
    }

    /// Waits until `row` is at most `skew` rows ahead of every other thread. Returns the new limit,
    /// and whether it slept.
    pub(crate) fn hold<C: Clock>(&self, row: u32) -> (u32, bool) {
        let from = C::now();
        let (limit, slept) = self.waiter.others(self.states, self.index, row, self.skew);
        if slept {
            add(&self.states[self.index].held_ticks, C::now().wrapping_sub(from));
        }
        (limit, slept)
    }
}

/// Counts the errors of the allocator.
pub struct Errors<'a>(pub(crate) &'a Control);

impl Errors<'_> {
    /// A block's contents or address are wrong.
    #[cold]
    pub fn corrupt(&self, row: u32) {
        if self.0.corrupt.fetch_add(1, Relaxed) == 0 {
            self.0.first_corrupt.store(u64::from(row), Relaxed);
        }
    }

    /// A call returned no memory.
    #[cold]
    pub(crate) fn refused(&self, row: u32) {
        if self.0.refused.fetch_add(1, Relaxed) == 0 {
            self.0.first_refused.store(u64::from(row), Relaxed);
        }
    }
}

/// The kernel's counters of a thread at the start of its part.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    usage: Usage,
    cpu_ns: u64,
}

impl Start {
    pub(crate) fn now() -> Start {
        Start { usage: system::thread_usage(), cpu_ns: system::thread_cpu_ns() }
    }

    /// Stores the increase since then in the thread's state.
    pub(crate) fn report(&self, state: &ThreadState) {
        let (now, first) = (system::thread_usage(), self.usage);
        state.cpu_ns.store(system::thread_cpu_ns() - self.cpu_ns, Relaxed);
        state.minor_faults.store(now.minor_faults - first.minor_faults, Relaxed);
        state.major_faults.store(now.major_faults - first.major_faults, Relaxed);
        state.voluntary_switches.store(now.voluntary_switches - first.voluntary_switches, Relaxed);
        state
            .involuntary_switches
            .store(now.involuntary_switches - first.involuntary_switches, Relaxed);
    }
}
