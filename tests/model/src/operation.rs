//! Calls of an allocator, as plain data, so that a failing sequence can be printed, shrunk and
//! stored.

/// One call. A `slot` holds at most one block; a call that allocates a block frees the former one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `malloc(size)` into the slot.
    Malloc {
        /// The slot of the block.
        slot: usize,
        /// Bytes.
        size: usize,
    },
    /// `calloc(count, size)` into the slot.
    Calloc {
        /// The slot of the block.
        slot: usize,
        /// Number of elements.
        count: usize,
        /// Bytes of an element.
        size: usize,
    },
    /// `realloc(slot's block or NULL, size)`; a size of 0 is replaced by 1, because C does not
    /// define 0.
    Realloc {
        /// The slot of the resized block.
        slot: usize,
        /// The new size in bytes.
        size: usize,
    },
    /// `posix_memalign` with an alignment of `8 << shift` bytes, or `aligned_alloc` with the size
    /// rounded up to it.
    Aligned {
        /// The slot of the block.
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
        /// The slot of the freed block.
        slot: usize,
    },
    /// `malloc_usable_size`, and a write to all usable bytes.
    Fill {
        /// The slot of the filled block.
        slot: usize,
    },
}
