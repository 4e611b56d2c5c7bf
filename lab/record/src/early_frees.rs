//! Frees whose time was read too early, so that they come before the birth of their block.
//!
//! The recorder reads the time of a free without waiting for earlier loads (`journal/ring.h`, ORDER). Births are exact,
//! so as many frees of an address as it had births come before the next birth, and every free finds a life to end: a
//! free that finds none waits for the birth. It may end the life before its own; then the free that would have ended
//! that one was robbed of it, and waits for the next birth.

use crate::ring::RawEvent;
use keel_journal::Origin;
use std::collections::VecDeque;

/// So many releases are remembered, the last of each group of addresses: a power of two.
const REMEMBERED: usize = 1024;
/// Stands for a ring that there is not.
const NO_RING: usize = usize::MAX;

/// The end of a life.
#[derive(Clone, Copy, Default)]
struct Release {
    address: u64,
    /// Ticks.
    time: u64,
    ring: usize,
}

/// A free of an address where nothing lives yet.
pub struct Waiting {
    pub ring: usize,
    /// Of the thread.
    pub serial: u32,
    pub event: RawEvent,
    pub origin: Origin,
    /// Another's free has ended a life here just before, perhaps this one's.
    robbed: bool,
}

/// See the head of this file.
pub struct EarlyFrees {
    released: Vec<Release>,
    /// In the order of their times, or nearly.
    waiting: VecDeque<Waiting>,
}

impl EarlyFrees {
    pub fn new() -> EarlyFrees {
        EarlyFrees { released: vec![Release::default(); REMEMBERED], waiting: VecDeque::new() }
    }

    pub fn clear(&mut self) {
        *self = EarlyFrees::new();
    }

    /// Something has ended the life at an address.
    pub fn ended(&mut self, ring: usize, event: &RawEvent) {
        let RawEvent { address, time, .. } = *event;
        self.released[place(address)] = Release { address, time, ring };
    }

    /// Nothing lives where this event frees. `skew`: how far times may be wrong, ticks.
    pub fn wait(&mut self, ring: usize, serial: u32, event: RawEvent, origin: Origin, skew: u64) {
        let last = self.released[place(event.address)];
        let near = event.time.saturating_sub(last.time) <= skew;
        let robbed = last.address == event.address && last.ring != ring && near;
        self.waiting.push_back(Waiting { ring, serial, event, origin, robbed });
    }

    /// Who has waited for a birth: the one to put before it, whose block nobody has seen, or the one to put after it.
    pub fn at_birth(&mut self, ring: usize, address: u64) -> (Option<Waiting>, Option<Waiting>) {
        let first = self.waiting.iter().position(|waiting| waiting.event.address == address);
        match first.and_then(|at| self.waiting.remove(at)) {
            // In its own ring a free comes before its birth only if it was robbed of another.
            Some(waiting) if waiting.ring == ring && !waiting.robbed => (Some(waiting), None),
            waiting => (None, waiting),
        }
    }

    /// One who had waited has ended the life at this address. Whoever comes next, from that ring too, may have been
    /// robbed by it, and so may those who still wait.
    pub fn robbed(&mut self, address: u64) {
        self.released[place(address)].ring = NO_RING;
        let same = |other: &&mut Waiting| other.event.address == address;
        self.waiting.iter_mut().filter(same).for_each(|other| other.robbed = true);
    }

    #[inline]
    pub fn nobody_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    /// One who has waited in vain by `now`, ticks.
    pub fn given_up(&mut self, now: u64, skew: u64) -> Option<Waiting> {
        let first = self.waiting.front()?;
        if first.event.time.saturating_add(skew) < now { self.waiting.pop_front() } else { None }
    }
}

const fn place(address: u64) -> usize {
    (address >> 4) as usize % REMEMBERED
}
