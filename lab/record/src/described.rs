//! The stacks that each ring has described recently, as its threads know them.
//!
//! A ring has a table of names (`KL_RING_STACKS` in journal/ring.h). A thread describes a stack
//! that is not in the table, and puts its name there, in place of another one. So the descriptions
//! in a ring's events show what is in its table, and only those stacks can be named by later events
//! of the ring without a new description.

use crate::ring::RING_STACKS;
use rustc_hash::FxHashSet;

/// The tables of all rings.
#[derive(Clone, Default)]
pub struct Described {
    rings: Vec<Vec<u64>>,
}

impl Described {
    /// The ring describes a stack.
    pub fn add(&mut self, ring: usize, name: u64) {
        if self.rings.len() <= ring {
            self.rings.resize_with(ring + 1, Vec::new);
        }
        let table = &mut self.rings[ring];
        table.resize(RING_STACKS, 0);
        table[name as usize % RING_STACKS] = name;
    }

    /// Whether the ring has described the stack recently.
    pub fn has(&self, ring: usize, name: u64) -> bool {
        let table = self.rings.get(ring);
        table.and_then(|table| table.get(name as usize % RING_STACKS)) == Some(&name)
    }

    /// All names.
    pub fn names(&self) -> FxHashSet<u64> {
        self.rings.iter().flatten().copied().collect()
    }
}
