//! One operation of a program on its heap.

use crate::Told;

/// What the program asked of its allocator.
///
/// The numeric values are those of the `op` column of a journal file (`journal/FORMAT.md`); they never change meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// `malloc(size)`, and C++ `operator new` where it was seen as such.
    Malloc = 0,
    /// `free(object)`, and every release that tells more than that: see [`Event::told`].
    Free = 1,
    /// `calloc`; `size` is the product of its arguments.
    Calloc = 2,
    /// `realloc(released, size) -> created`. `released` is 0 for `realloc(NULL, size)`.
    Realloc = 3,
    /// `posix_memalign`, `aligned_alloc`, `memalign`, `valloc`, `pvalloc`, aligned `operator new`; `align` is set.
    Aligned = 4,
    /// A free of a block whose birth the recorder did not see. It names no object and is not replayed.
    ForeignFree = 5,
    /// A realloc of a block whose birth the recorder did not see; it creates an object, so it replays as a malloc.
    ForeignRealloc = 6,
}

/// One row of a journal.
///
/// An *object* is one life of one block: from the call that returned it to the call that released it. Objects are
/// numbered 1, 2, 3 ... in the order of their creating rows, so an id is never reused, and addresses are not needed.
///
/// Invariants, held by every journal that Keel writes and verified by `keel info --verify`:
/// - rows are sorted by `time`; `begin <= time`;
/// - `created != 0` exactly for the operations that return a block, and equals 1 + the number of earlier creations;
/// - only a `Free` tells anything;
/// - `released != 0` exactly for `Free` and for a `Realloc` of a non-NULL block; it was created by an earlier row
///   and is released once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When the object was born (after the call returned), or for a free when it was given up (before the call), in
    /// nanoseconds since the start of the recording.
    pub time: u64,
    /// When the call began, ns. Differs from `time` only for `Realloc`, whose old block is given up here.
    pub begin: u64,
    /// Index into [`crate::Metadata::threads`], numbered by first appearance.
    pub thread: u32,
    /// The operation.
    pub op: Op,
    /// Bytes asked for; 0 for frees.
    pub size: u64,
    /// Alignment asked for in bytes (a power of two); 0 where the operation names none.
    pub align: u64,
    /// The object that this operation creates; 0 if none.
    pub created: u64,
    /// The object that this operation releases; 0 if none.
    pub released: u64,
    /// Index of the frame in which the operation fell: the number of frame marks at or before `begin`.
    pub frame: u32,
    /// What a free told of its block; nothing for other operations.
    pub told: Told,
}

impl Event {
    /// An operation of the first thread at this moment with nothing else in it, as in
    /// `Event { size, ..Event::at(time, op) }`.
    #[inline]
    pub const fn at(time: u64, op: Op) -> Event {
        Event {
            time,
            begin: time,
            thread: 0,
            op,
            size: 0,
            align: 0,
            created: 0,
            released: 0,
            frame: 0,
            told: Told::NOTHING,
        }
    }
}

/// Where in the program an operation was called. Most uses of a journal need none of it, so it is kept beside
/// [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Index into [`crate::Metadata::modules`]: the object file that made the call; [`Origin::NONE`] if unknown.
    pub module: u32,
    /// Index into the nodes of [`crate::Metadata::stacks`]; [`Origin::NONE`] where no call site was recorded.
    pub stack: u32,
}

impl Origin {
    /// Stands for an index that there is not.
    pub const NONE: u32 = u32::MAX;
    /// Nothing is known.
    pub const UNKNOWN: Origin = Origin { module: Origin::NONE, stack: Origin::NONE };
}

impl Op {
    /// Every operation, by its number in the file.
    pub const ALL: [Op; 7] =
        [Op::Malloc, Op::Free, Op::Calloc, Op::Realloc, Op::Aligned, Op::ForeignFree, Op::ForeignRealloc];

    /// The operation with this number in the file, if there is one.
    pub fn from_code(code: u8) -> Option<Op> {
        Op::ALL.get(usize::from(code)).copied()
    }

    /// The name used in tables, JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Malloc => "malloc",
            Op::Free => "free",
            Op::Calloc => "calloc",
            Op::Realloc => "realloc",
            Op::Aligned => "aligned",
            Op::ForeignFree => "foreign_free",
            Op::ForeignRealloc => "foreign_realloc",
        }
    }

    /// Whether the operation returns a block.
    pub const fn creates(self) -> bool {
        !matches!(self, Op::Free | Op::ForeignFree)
    }
}
