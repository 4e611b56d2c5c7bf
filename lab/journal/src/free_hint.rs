//! The arguments that a free passes besides the address, and the request that they must match.

/// The hint that a free passed. `free` passes no hint. `free_sized` and `operator delete(p, n)`
/// pass the size, `operator delete(p, align)` passes an alignment, and `free_aligned_sized` passes
/// both. The values of a correct hint are not stored here, because they are in the row that created
/// the object. Only the values of a wrong hint are stored here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FreeHint {
    /// The value of the column `free_hint` (`journal/FORMAT.md`).
    code: u8,
    align_log2: u8,
    size: u64,
}

const SIZE: u8 = 1;
const ALIGN: u8 = 2;
const WRONG: u8 = 4;

impl FreeHint {
    /// No hint: the free passed only the address.
    pub const NONE: FreeHint = FreeHint::correct(0);
    /// The requested size.
    pub const SIZE: FreeHint = FreeHint::correct(SIZE);
    /// The requested alignment.
    pub const ALIGN: FreeHint = FreeHint::correct(ALIGN);
    /// The requested size and alignment.
    pub const BOTH: FreeHint = FreeHint::correct(SIZE | ALIGN);

    const fn correct(code: u8) -> FreeHint {
        FreeHint { code, align_log2: 0, size: 0 }
    }

    /// Returns a hint that differs from the request. The alignment is a power of two. If both
    /// arguments are `None`, returns [`FreeHint::NONE`].
    pub fn wrong(size: Option<u64>, align: Option<u64>) -> FreeHint {
        let code = u8::from(size.is_some()) * SIZE + u8::from(align.is_some()) * ALIGN;
        if code == 0 {
            return FreeHint::NONE;
        }
        let align_log2 = align.unwrap_or(1).trailing_zeros() as u8;
        FreeHint { code: code + WRONG, align_log2, size: size.unwrap_or(0) }
    }

    /// Returns the hint with these values in the three columns, or `None` if no writer writes such
    /// values.
    pub(crate) fn from_file(code: u8, size: Option<u64>, align: Option<u64>) -> Option<FreeHint> {
        if align.is_some_and(|align| !align.is_power_of_two()) {
            return None;
        }
        let hint = match code {
            0..WRONG => FreeHint::correct(code),
            _ => FreeHint::wrong(size, align),
        };
        (hint.code == code && (code > WRONG || (size, align) == (None, None))).then_some(hint)
    }

    /// Returns the value of the column `free_hint`; 0 for no hint.
    pub(crate) const fn code(self) -> u8 {
        self.code
    }

    /// The size that was passed, if the hint is wrong.
    pub fn wrong_size(self) -> Option<u64> {
        (self.is_wrong() && self.has_size()).then_some(self.size)
    }

    /// The alignment that was passed, if the hint is wrong.
    pub fn wrong_align(self) -> Option<u64> {
        (self.is_wrong() && self.has_align()).then_some(1 << self.align_log2)
    }

    /// Returns true if a size was passed.
    pub const fn has_size(self) -> bool {
        self.code & SIZE != 0
    }

    /// Returns true if an alignment was passed.
    pub const fn has_align(self) -> bool {
        self.code & ALIGN != 0
    }

    /// Returns true if the hint differs from the request. This is a bug in the program.
    pub const fn is_wrong(self) -> bool {
        self.code & WRONG != 0
    }

    /// Returns the name of a free with this hint, in tables and JSON.
    pub const fn name(self) -> &'static str {
        match (self.has_size(), self.has_align()) {
            (false, false) => "free",
            (true, false) => "free_sized",
            (false, true) => "free_aligned",
            (true, true) => "free_aligned_sized",
        }
    }
}

/// The requested size and alignment of a block. They are in one word, because each live block has
/// one. The six top bits contain log2 of the alignment, or 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requested(u64);

const ALIGN_SHIFT: u32 = 58;

impl Requested {
    /// `align` is a power of two, or 0 for none. A size of 2^58 or more, which no allocator
    /// supports, is stored as 2^58 - 1.
    pub fn new(size: u64, align: u64) -> Requested {
        let align_log2 = if align > 1 { u64::from(align.trailing_zeros()) } else { 0 };
        Requested(size.min((1 << ALIGN_SHIFT) - 1) | align_log2 << ALIGN_SHIFT)
    }

    /// Returns the requested size in bytes.
    pub fn size(self) -> u64 {
        self.0 & ((1 << ALIGN_SHIFT) - 1)
    }

    /// Returns the requested alignment, if there was one.
    pub fn align(self) -> Option<u64> {
        let align_log2 = self.0 >> ALIGN_SHIFT;
        (align_log2 != 0).then_some(1 << align_log2)
    }

    /// Returns the hint of a free that passes these values for this block. If an alignment was
    /// requested, a free that passes the size must also pass the alignment. A free may pass the
    /// alignment alone.
    pub fn hint(self, size: Option<u64>, align: Option<u64>) -> FreeHint {
        let same_size = size.is_none_or(|size| Requested::new(size, 0).size() == self.size());
        match (size, align) {
            (None, None) => FreeHint::NONE,
            _ if !same_size || align != self.align() => FreeHint::wrong(size, align),
            (Some(_), None) => FreeHint::SIZE,
            (None, Some(_)) => FreeHint::ALIGN,
            (Some(_), Some(_)) => FreeHint::BOTH,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_has_values_only_where_it_differs_from_the_request() {
        let (plain, aligned) = (Requested::new(100, 0), Requested::new(100, 64));
        let wrong = FreeHint::wrong;
        for (requested, size, align, hint) in [
            (plain, None, None, FreeHint::NONE),
            (aligned, None, None, FreeHint::NONE),
            (plain, Some(100), None, FreeHint::SIZE),
            (plain, Some(0), None, wrong(Some(0), None)),
            (aligned, Some(100), Some(64), FreeHint::BOTH),
            (aligned, None, Some(64), FreeHint::ALIGN),
            (aligned, Some(100), Some(32), wrong(Some(100), Some(32))),
            // The alignment is missing.
            (aligned, Some(100), None, wrong(Some(100), None)),
            (plain, None, Some(64), wrong(None, Some(64))),
        ] {
            assert_eq!(requested.hint(size, align), hint, "{requested:?} {size:?} {align:?}");
        }
        let (size, align) =
            (wrong(Some(7), Some(32)).wrong_size(), wrong(None, Some(32)).wrong_align());
        assert_eq!((size, align), (Some(7), Some(32)));
        assert_eq!((FreeHint::BOTH.wrong_size(), wrong(None, None)), (None, FreeHint::NONE));
    }

    #[test]
    fn values_that_no_writer_writes_are_refused() {
        let read = |code, size, align| FreeHint::from_file(code, size, align);
        assert_eq!(read(3, None, None), Some(FreeHint::BOTH));
        assert_eq!(read(7, Some(0), Some(16)), Some(FreeHint::wrong(Some(0), Some(16))));
        for (code, size, align) in [
            (4, None, None),
            (8, None, None),
            (1, Some(5), None),
            (5, None, None),
            (5, Some(1), Some(2)),
            (6, None, Some(3)),
        ] {
            assert_eq!(read(code, size, align), None, "{code} {size:?} {align:?}");
        }
    }

    #[test]
    fn a_size_and_an_alignment_fit_into_a_word() {
        let largest = (1 << ALIGN_SHIFT) - 1;
        for (size, align) in [(0, None), (1, Some(8)), (largest, Some(1 << 63)), (largest, None)] {
            let requested = Requested::new(size, align.unwrap_or(0));
            assert_eq!((requested.size(), requested.align()), (size, align));
        }
        assert_eq!(Requested::new(u64::MAX, 0), Requested::new(largest, 0));
    }
}
