//! One step of a thread.

use crate::Plain;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Allocate `argument` bytes into `slot`.
    Malloc = 0,
    /// Free the object in `slot`.
    Free = 1,
    /// Like malloc, zeroed.
    Calloc = 2,
    /// Resize the object in `slot` to `argument` bytes; it stays in that slot, with a new tag.
    Realloc = 3,
    /// Like malloc, at a multiple of the alignment.
    Aligned = 4,
    /// Free with the requested size, `argument` bytes, as a hint.
    FreeSized = 5,
    /// Free with the alignment as a hint.
    FreeAligned = 6,
    /// Free with both.
    FreeAlignedSized = 7,
    /// Not timed: wait until the tag of `slot` is `argument`. Precedes a step that uses an object
    /// of another thread.
    Await = 8,
    /// Not timed: `argument` is the upper half of the next step's size. Precedes sizes of 4 GiB and
    /// more.
    High = 9,
}

/// A step in 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Op {
    /// Row of `operations.parquet`; for `Await` and `High` the row of the step they precede. Rises
    /// within a thread.
    pub row: u32,
    /// Index of the object's slot.
    pub slot: u32,
    /// See [`Kind`].
    pub argument: u32,
    kind: u8,
    align_log2: u8,
    /// 1 for a realloc of NULL: the slot's contents belong to a former object.
    fresh: u16,
}

const _: () = assert!(size_of::<Op>() == 16);

// SAFETY: integers only, no padding, every bit pattern is an Op.
unsafe impl Plain for Op {}

impl Op {
    /// A step; `align` is a power of two, or 0 for operations without an alignment.
    pub fn new(kind: Kind, row: u32, slot: u32, argument: u32, align: u64) -> Op {
        debug_assert!(align == 0 || align.is_power_of_two());
        let align_log2 = if align == 0 { 0 } else { align.trailing_zeros() as u8 };
        Op { row, slot, argument, kind: kind as u8, align_log2, fresh: 0 }
    }

    /// A realloc of NULL.
    pub fn fresh_realloc(row: u32, slot: u32, argument: u32) -> Op {
        Op { fresh: 1, ..Op::new(Kind::Realloc, row, slot, argument, 0) }
    }

    /// Whether it is a realloc of NULL.
    #[inline]
    pub fn is_fresh(self) -> bool {
        self.fresh != 0
    }

    /// What it does. Memory that no [`crate::PlanWriter`] wrote reads as a malloc.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.kind {
            1 => Kind::Free,
            2 => Kind::Calloc,
            3 => Kind::Realloc,
            4 => Kind::Aligned,
            5 => Kind::FreeSized,
            6 => Kind::FreeAligned,
            7 => Kind::FreeAlignedSized,
            8 => Kind::Await,
            9 => Kind::High,
            _ => Kind::Malloc,
        }
    }

    /// Whether the step is a call of the allocator, so that a [`crate::Record`] belongs to it.
    #[inline]
    pub fn is_timed(self) -> bool {
        self.kind <= Kind::FreeAlignedSized as u8
    }

    /// The requested alignment; 1 if there is none.
    #[inline]
    pub fn align(self) -> usize {
        1usize << (self.align_log2 & 63)
    }
}

/// The timed steps with their full sizes.
pub fn calls(steps: &[Op]) -> impl Iterator<Item = (Op, u64)> {
    let mut high = 0;
    steps.iter().filter_map(move |step| {
        if step.kind() == Kind::High {
            high = u64::from(step.argument) << 32;
            return None;
        }
        let size = std::mem::take(&mut high) | u64::from(step.argument);
        step.is_timed().then_some((*step, size))
    })
}

impl Kind {
    /// The kind that results count it as: all frees are [`Kind::Free`].
    #[inline]
    pub const fn class(self) -> Kind {
        match self {
            Kind::FreeSized | Kind::FreeAligned | Kind::FreeAlignedSized => Kind::Free,
            kind => kind,
        }
    }

    /// The name of the timed kinds in results, as in the journal.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Malloc => "malloc",
            Kind::Free => "free",
            Kind::Calloc => "calloc",
            Kind::Realloc => "realloc",
            Kind::Aligned => "aligned",
            Kind::FreeSized => "free_sized",
            Kind::FreeAligned => "free_aligned",
            Kind::FreeAlignedSized => "free_aligned_sized",
            Kind::Await => "await",
            Kind::High => "high",
        }
    }

    /// The [classes](Kind::class) of the timed kinds, by number.
    pub const TIMED: [Kind; 5] =
        [Kind::Malloc, Kind::Free, Kind::Calloc, Kind::Realloc, Kind::Aligned];
    /// The frees with hints, in the order of [`crate::Control::set_free_functions`].
    pub const HINTED: [Kind; 3] = [Kind::FreeSized, Kind::FreeAligned, Kind::FreeAlignedSized];
}
