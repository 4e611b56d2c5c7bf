//! One heap operation of a program.

use crate::FreeHint;

/// The operation that the program called.
///
/// The numeric values are those of the `op` column of a journal file (`journal/FORMAT.md`). They
/// never change meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// `malloc(size)`, and C++ `operator new` if the operator was recorded.
    Malloc = 0,
    /// `free(object)`, and every free with a hint: see [`Event::free_hint`].
    Free = 1,
    /// `calloc`; `size` is the product of its arguments.
    Calloc = 2,
    /// `realloc(released, size) -> created`. `released` is 0 for `realloc(NULL, size)`.
    Realloc = 3,
    /// `posix_memalign`, `aligned_alloc`, `memalign`, `valloc`, `pvalloc`, aligned `operator new`;
    /// `align` is set.
    Aligned = 4,
    /// A free of a block whose allocation was not recorded. The row names no object, and the free
    /// is not replayed.
    ForeignFree = 5,
    /// A realloc of a block whose allocation was not recorded. The row creates an object, so the
    /// realloc is replayed as a malloc.
    ForeignRealloc = 6,
}

/// One row of a journal.
///
/// An *object* is one lifetime of one block: from the call that returned it to the call that
/// released it. Objects are numbered 1, 2, 3 ... in the order of their creating rows. A number is
/// never reused, and addresses are not stored.
///
/// Invariants of every journal that Keel writes, verified by `keel info --verify`:
/// - rows are sorted by `time`; `begin <= time`;
/// - `created != 0` exactly for the operations that return a block, and equals 1 + the number of
///   earlier creations;
/// - only a `Free` has a hint;
/// - `released != 0` exactly for `Free` and for a `Realloc` of a non-NULL block. An earlier row
///   created this object, and no other row releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// ns since the start of the recording. The time of an allocation is taken after the call, the
    /// time of a free before the call.
    pub time: u64,
    /// The time at which the call began, ns since the start. It differs from `time` only for
    /// `Realloc`, which releases its old block at `begin`.
    pub begin: u64,
    /// Index into [`crate::Metadata::threads`], numbered by first appearance.
    pub thread: u32,
    /// The operation.
    pub op: Op,
    /// Requested bytes; 0 for frees.
    pub size: u64,
    /// Requested alignment in bytes (a power of two); 0 if the operation has none.
    pub align: u64,
    /// The object that this operation creates; 0 if none.
    pub created: u64,
    /// The object that this operation releases; 0 if none.
    pub released: u64,
    /// Index of the operation's frame: the number of frame marks at or before `begin`.
    pub frame: u32,
    /// The hint of a free; [`FreeHint::NONE`] for other operations.
    pub free_hint: FreeHint,
}

impl Event {
    /// Returns an operation of the first thread at this time, with all other fields 0. It is meant
    /// for `Event { size, ..Event::at(time, op) }`.
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
            free_hint: FreeHint::NONE,
        }
    }
}

/// The place in the program that called an operation. Most readers do not need it, so it is not
/// part of [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Index into [`crate::Metadata::modules`]: the object file that made the call;
    /// [`Origin::NONE`] if unknown.
    pub module: u32,
    /// Index into the nodes of [`crate::Metadata::stacks`]; [`Origin::NONE`] if no call site was
    /// recorded.
    pub stack: u32,
}

impl Origin {
    /// Represents a missing index.
    pub const NONE: u32 = u32::MAX;
    /// Neither module nor stack is known.
    pub const UNKNOWN: Origin = Origin { module: Origin::NONE, stack: Origin::NONE };
}

impl Op {
    /// All operations, in the order of their numbers in the file.
    pub const ALL: [Op; 7] = [
        Op::Malloc,
        Op::Free,
        Op::Calloc,
        Op::Realloc,
        Op::Aligned,
        Op::ForeignFree,
        Op::ForeignRealloc,
    ];

    /// Returns the operation with this number in the file, if there is one.
    pub fn from_code(code: u8) -> Option<Op> {
        Op::ALL.get(usize::from(code)).copied()
    }

    /// Returns the name that is used in tables, in JSON and on the command line.
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

    /// Returns true if the operation returns a block.
    pub const fn creates(self) -> bool {
        !matches!(self, Op::Free | Op::ForeignFree)
    }
}
