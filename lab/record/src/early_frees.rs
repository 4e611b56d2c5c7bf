//! Frees whose time was read too early, so that they precede the allocation of their block.
//!
//! The recorder reads the time of a free without waiting for earlier loads (`journal/ring.h`,
//! ORDER). The times of allocations are exact, so before each allocation at an address there are as
//! many frees as earlier allocations. A free that finds no live object waits for the allocation. It
//! may release the object before its own; the free of that object is then displaced, and waits for
//! the next allocation.

use crate::ring::RawEvent;
use keel_journal::Origin;
use std::collections::VecDeque;

/// Number of releases that are remembered, the last of each group of addresses: a power of two.
const REMEMBERED: usize = 1024;
/// Represents a missing ring.
const NO_RING: usize = usize::MAX;

/// A release.
#[derive(Clone, Copy, Default)]
struct Release {
    address: u64,
    /// Ticks.
    time: u64,
    ring: usize,
}

/// A free of an address at which no object is live yet.
pub struct Waiting {
    pub ring: usize,
    /// Serial number of the thread.
    pub serial: u32,
    pub event: RawEvent,
    pub origin: Origin,
    /// A free of another thread has just released an object here, perhaps the one of this free.
    displaced: bool,
}

/// See the top of this file.
pub struct EarlyFrees {
    released: Vec<Release>,
    /// Nearly in the order of their times.
    waiting: VecDeque<Waiting>,
}

impl EarlyFrees {
    pub fn new() -> EarlyFrees {
        EarlyFrees { released: vec![Release::default(); REMEMBERED], waiting: VecDeque::new() }
    }

    /// The object at an address was released.
    pub fn released(&mut self, ring: usize, event: &RawEvent) {
        let RawEvent { address, time, .. } = *event;
        self.released[slot(address)] = Release { address, time, ring };
    }

    /// Keeps a free at whose address no object is live. `skew`: the largest error of times, ticks.
    pub fn wait(&mut self, ring: usize, serial: u32, event: RawEvent, origin: Origin, skew: u64) {
        let last = self.released[slot(event.address)];
        let near = event.time.saturating_sub(last.time) <= skew;
        let displaced = last.address == event.address && last.ring != ring && near;
        self.waiting.push_back(Waiting { ring, serial, event, origin, displaced });
    }

    /// Removes the free that waited for an allocation at `address`. It precedes the allocation
    /// (first value: its block was not recorded), or follows it (second value).
    pub fn at_allocation(
        &mut self,
        ring: usize,
        address: u64,
    ) -> (Option<Waiting>, Option<Waiting>) {
        let first = self.waiting.iter().position(|waiting| waiting.event.address == address);
        match first.and_then(|at| self.waiting.remove(at)) {
            // In its own ring, a free precedes its allocation only if it was displaced.
            Some(waiting) if waiting.ring == ring && !waiting.displaced => (Some(waiting), None),
            waiting => (None, waiting),
        }
    }

    /// A waiting free has released the object at this address. It may have displaced the next free,
    /// also of that ring, and those that still wait.
    pub fn displaced(&mut self, address: u64) {
        self.released[slot(address)].ring = NO_RING;
        let same = |other: &&mut Waiting| other.event.address == address;
        self.waiting.iter_mut().filter(same).for_each(|other| other.displaced = true);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Removes a free whose allocation has not appeared by `now`, ticks.
    pub fn expired(&mut self, now: u64, skew: u64) -> Option<Waiting> {
        let first = self.waiting.front()?;
        if first.event.time.saturating_add(skew) < now { self.waiting.pop_front() } else { None }
    }
}

const fn slot(address: u64) -> usize {
    (address >> 4) as usize % REMEMBERED
}
