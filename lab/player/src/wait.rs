//! Waiting, outside of all timed windows: a short spin, then sleeps, so that a machine with fewer
//! processors than threads makes progress.

use crate::clock::Clock;
use crate::system;
use keel_plan::{Slot, ThreadState};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The kernel cannot sleep for less than about this time.
const SHORTEST_SLEEP_NS: u64 = 20_000;
const LONGEST_SLEEP_NS: u64 = 1_000_000;
/// The time before an operation is due that is spent spinning, because sleeps end late.
const WAKE_EARLY_NS: u64 = 80_000;

/// How a thread waits on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// Ticks per nanosecond.
    pub ticks_per_ns: f64,
    /// Spins before sleeping: more if every thread can have a processor of its own.
    pub spins: u32,
}

impl Waiter {
    /// Waits until the object `tag` is in the slot. Returns whether it slept.
    pub fn object(self, slot: &Slot, tag: u32) -> bool {
        for _ in 0..self.spins {
            if slot.tag.load(Acquire) == tag {
                return false;
            }
            std::hint::spin_loop();
        }
        let mut sleep = SHORTEST_SLEEP_NS;
        while slot.tag.load(Acquire) != tag {
            system::sleep_exactly_ns(sleep);
            sleep = (sleep * 2).min(LONGEST_SLEEP_NS);
        }
        true
    }

    /// Waits until `row` is within `skew` rows of every other thread's next step. Returns the limit
    /// below which no wait is needed, and whether it slept.
    pub fn others(
        self,
        others: &[ThreadState],
        own_index: usize,
        row: u32,
        skew: u32,
    ) -> (u32, bool) {
        let (mut slept, mut spins) = (false, 0);
        loop {
            let slowest = others
                .iter()
                .enumerate()
                .filter(|&(index, _)| index != own_index)
                .map(|(_, state)| state.next_row.load(Acquire))
                .min();
            let limit = slowest.unwrap_or(u32::MAX).saturating_add(skew);
            if row < limit || limit == u32::MAX {
                return (limit, slept);
            }
            spins += 1;
            if spins * 16 < self.spins {
                std::hint::spin_loop();
                continue;
            }
            // All threads together execute about twenty million rows a second.
            let ahead = u64::from(row - limit);
            system::sleep_exactly_ns((ahead * 50).clamp(SHORTEST_SLEEP_NS, LONGEST_SLEEP_NS));
            slept = true;
        }
    }

    /// Waits until the clock shows `due` ticks. Returns whether it slept.
    pub fn time<C: Clock>(self, due: u64) -> bool {
        let mut slept = false;
        loop {
            let now = C::now();
            if now >= due {
                return slept;
            }
            let ns = ((due - now) as f64 / self.ticks_per_ns) as u64;
            if ns > WAKE_EARLY_NS + SHORTEST_SLEEP_NS {
                system::sleep_exactly_ns(ns - WAKE_EARLY_NS);
                slept = true;
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// Announces this thread's next row, with release order.
#[inline(always)]
pub fn announce(state: &ThreadState, row: u32) {
    state.next_row.store(row, std::sync::atomic::Ordering::Release);
}

/// Adds to a counter that only its own thread writes.
pub fn add(counter: &std::sync::atomic::AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed) + amount, Relaxed);
}
