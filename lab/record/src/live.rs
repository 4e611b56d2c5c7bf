//! A live block, and one that a realloc releases.

use keel_journal::{Origin, Requested};

/// Represents an object of a module that is left out.
pub const SKIPPED: u64 = u64::MAX;

/// A live block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live {
    /// [`SKIPPED`] if it is not in the journal, 0 if its allocation was not recorded.
    pub object: u64,
    /// Its requested size and alignment.
    pub asked: Requested,
}

/// A realloc that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Realloc {
    /// Address of the released block.
    pub address: u64,
    /// The released block.
    pub old: Live,
    /// The time, ns.
    pub begin: u64,
    /// The frame.
    pub frame: u32,
    /// The caller.
    pub origin: Origin,
}
