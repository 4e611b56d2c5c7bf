//! What can be done to an allocator. Plain data, so that a failing sequence can be printed, shrunk and kept.

/// One call. A `slot` names a place that holds at most one block; a call that makes a block frees what was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `malloc(size)` into the slot.
    Malloc {
        /// Where the block is kept.
        slot: usize,
        /// Bytes.
        size: usize,
    },
    /// `calloc(count, size)` into the slot.
    Calloc {
        /// Where the block is kept.
        slot: usize,
        /// Number of elements.
        count: usize,
        /// Bytes of an element.
        size: usize,
    },
    /// `realloc(slot's block or NULL, size)`; a size of 0 is taken as 1, for C leaves 0 open.
    Realloc {
        /// Whose block is resized.
        slot: usize,
        /// The new size in bytes.
        size: usize,
    },
    /// `posix_memalign` with an alignment of `8 << shift` bytes, or `aligned_alloc` with the size rounded up to it.
    Aligned {
        /// Where the block is kept.
        slot: usize,
        /// Bytes.
        size: usize,
        /// log2 of the alignment, less 3.
        shift: u32,
        /// `aligned_alloc` instead of `posix_memalign`.
        c11: bool,
    },
    /// `free` of the slot's block, or of NULL.
    Free {
        /// Whose block dies.
        slot: usize,
    },
    /// `malloc_usable_size`, and a use of all that it grants.
    Fill {
        /// Whose block is filled up.
        slot: usize,
    },
}
