//! A block that lives, and one that is given up for another.

use keel_journal::{Origin, Requested};

/// Stands for an object of a module that is left out.
pub const SKIPPED: u64 = u64::MAX;

/// A block that lives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live {
    /// [`SKIPPED`] for one that the journal does not have, 0 for one whose birth was not seen.
    pub object: u64,
    /// What it was asked for with.
    pub asked: Requested,
}

/// A realloc under way.
pub struct Realloc {
    /// Of the block given up.
    pub address: u64,
    /// That block.
    pub old: Live,
    /// When, ns.
    pub begin: u64,
    /// In which frame.
    pub frame: u32,
    /// By whom.
    pub origin: Origin,
}
