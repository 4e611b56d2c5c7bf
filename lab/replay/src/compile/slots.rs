//! Assigns slots to objects. See the section on slots in `keel_plan`.

use std::collections::VecDeque;

/// The most freed slots that a thread keeps for itself; further ones are shared.
pub const OWN: usize = 256;

pub struct Slots {
    /// Freed by the thread itself and reusable by it at once. The slot freed last is reused first,
    /// because its cache line is warm.
    own: Vec<Vec<u32>>,
    /// (slot, row of its free), in order of rows: reusable by every thread `skew` rows later.
    shared: VecDeque<(u32, u32)>,
    keep: usize,
    skew: u32,
    used: u32,
}

impl Slots {
    /// `keep` is the most slots that a thread keeps for itself.
    pub fn new(skew: u32, keep: usize) -> Slots {
        Slots { own: Vec::new(), shared: VecDeque::new(), keep, skew, used: 0 }
    }

    /// A slot for an object that `thread` allocates at `row`.
    pub fn take(&mut self, thread: u32, row: u32) -> u32 {
        if let Some(slot) = self.own.get_mut(thread as usize).and_then(Vec::pop) {
            return slot;
        }
        if let Some(&(slot, freed)) = self.shared.front()
            && u64::from(freed) + u64::from(self.skew) <= u64::from(row)
        {
            self.shared.pop_front();
            return slot;
        }
        self.used += 1;
        self.used - 1
    }

    /// Returns the slot of an object that `thread` freed at `row`.
    pub fn release(&mut self, thread: u32, slot: u32, row: u32) {
        let thread = thread as usize;
        if self.own.len() <= thread {
            self.own.resize(thread + 1, Vec::new());
        }
        if self.own[thread].len() < self.keep {
            self.own[thread].push(slot);
        } else {
            self.shared.push_back((slot, row));
        }
    }

    /// The number of slots.
    pub fn used(&self) -> u32 {
        self.used
    }
}
