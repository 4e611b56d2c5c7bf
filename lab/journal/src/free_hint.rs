//! What a free tells of its block beside the address, and what that must agree with.

/// What a free told: nothing as `free` does, the size as `free_sized` or `operator delete(p, n)`, an alignment as
/// `operator delete(p, align)`, or both as `free_aligned_sized`. Its values are those that the block was asked for
/// with, which the row of its birth has; only where they are not, they are here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Told {
    /// As in the column `told` of a journal file (`journal/FORMAT.md`).
    code: u8,
    align_log2: u8,
    size: u64,
}

const SIZE: u8 = 1;
const ALIGN: u8 = 2;
const DIFFERS: u8 = 4;

impl Told {
    /// The address alone.
    pub const NOTHING: Told = Told::true_one(0);
    /// The size that was asked for.
    pub const SIZE: Told = Told::true_one(SIZE);
    /// The alignment that was asked for.
    pub const ALIGN: Told = Told::true_one(ALIGN);
    /// Both.
    pub const BOTH: Told = Told::true_one(SIZE | ALIGN);

    const fn true_one(code: u8) -> Told {
        Told { code, align_log2: 0, size: 0 }
    }

    /// Something, and not what the block was asked for with; the alignment is a power of two. Nothing, if neither is
    /// told.
    pub fn wrongly(size: Option<u64>, align: Option<u64>) -> Told {
        let code = u8::from(size.is_some()) * SIZE + u8::from(align.is_some()) * ALIGN;
        if code == 0 {
            return Told::NOTHING;
        }
        let align_log2 = align.unwrap_or(1).trailing_zeros() as u8;
        Told { code: code + DIFFERS, align_log2, size: size.unwrap_or(0) }
    }

    /// What has this number in the file and these values beside it, if anything has.
    pub(crate) fn from_file(code: u8, size: Option<u64>, align: Option<u64>) -> Option<Told> {
        if align.is_some_and(|align| !align.is_power_of_two()) {
            return None;
        }
        let told = match code {
            0..DIFFERS => Told::true_one(code),
            _ => Told::wrongly(size, align),
        };
        (told.code == code && (code > DIFFERS || (size, align) == (None, None))).then_some(told)
    }

    /// Its number in the file; 0 for nothing.
    pub(crate) const fn code(self) -> u8 {
        self.code
    }

    /// The size that was told, where that or the alignment is wrong.
    pub fn wrong_size(self) -> Option<u64> {
        (self.differs() && self.has_size()).then_some(self.size)
    }

    /// The alignment that was told, where that or the size is wrong.
    pub fn wrong_align(self) -> Option<u64> {
        (self.differs() && self.has_align()).then_some(1 << self.align_log2)
    }

    /// Whether a size was told.
    pub const fn has_size(self) -> bool {
        self.code & SIZE != 0
    }

    /// Whether an alignment was told.
    pub const fn has_align(self) -> bool {
        self.code & ALIGN != 0
    }

    /// Whether what was told is not what the block was asked for with: the program is wrong.
    pub const fn differs(self) -> bool {
        self.code & DIFFERS != 0
    }

    /// The name of a free that tells this, in tables and JSON.
    pub const fn name(self) -> &'static str {
        match (self.has_size(), self.has_align()) {
            (false, false) => "free",
            (true, false) => "free_sized",
            (false, true) => "free_aligned",
            (true, true) => "free_aligned_sized",
        }
    }
}

/// What a block was asked for with, in a word, since there are as many as the program has live blocks: the size, and in
/// the top bits log2 of the alignment, 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked(u64);

const ALIGN_SHIFT: u32 = 58;

impl Asked {
    /// `align` is a power of two, or 0 for none. A size beyond 2^58, which no allocator has, is cut to that.
    pub fn new(size: u64, align: u64) -> Asked {
        let align_log2 = if align > 1 { u64::from(align.trailing_zeros()) } else { 0 };
        Asked(size.min((1 << ALIGN_SHIFT) - 1) | align_log2 << ALIGN_SHIFT)
    }

    /// Bytes.
    pub fn size(self) -> u64 {
        self.0 & ((1 << ALIGN_SHIFT) - 1)
    }

    /// The alignment, if one was asked for.
    pub fn align(self) -> Option<u64> {
        let align_log2 = self.0 >> ALIGN_SHIFT;
        (align_log2 != 0).then_some(1 << align_log2)
    }

    /// What a free tells of this block with these values. Whoever tells a size must tell the alignment too, if there is
    /// one; an alignment may be told alone.
    pub fn told(self, size: Option<u64>, align: Option<u64>) -> Told {
        let same_size = size.is_none_or(|size| Asked::new(size, 0).size() == self.size());
        match (size, align) {
            (None, None) => Told::NOTHING,
            _ if !same_size || align != self.align() => Told::wrongly(size, align),
            (Some(_), None) => Told::SIZE,
            (None, Some(_)) => Told::ALIGN,
            (Some(_), Some(_)) => Told::BOTH,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_shows_where_it_is_not_what_was_asked_for() {
        let (plain, aligned) = (Asked::new(100, 0), Asked::new(100, 64));
        let wrongly = |size, align| Told::wrongly(size, align);
        for (asked, size, align, told) in [
            (plain, None, None, Told::NOTHING),
            (aligned, None, None, Told::NOTHING),
            (plain, Some(100), None, Told::SIZE),
            (plain, Some(0), None, wrongly(Some(0), None)),
            (aligned, Some(100), Some(64), Told::BOTH),
            (aligned, None, Some(64), Told::ALIGN),
            (aligned, Some(100), Some(32), wrongly(Some(100), Some(32))),
            // The alignment is missing.
            (aligned, Some(100), None, wrongly(Some(100), None)),
            (plain, None, Some(64), wrongly(None, Some(64))),
        ] {
            assert_eq!(asked.told(size, align), told, "{asked:?} {size:?} {align:?}");
        }
        assert_eq!(
            (wrongly(Some(7), Some(32)).wrong_size(), wrongly(None, Some(32)).wrong_align()),
            (Some(7), Some(32))
        );
        assert_eq!((Told::BOTH.wrong_size(), wrongly(None, None)), (None, Told::NOTHING));
    }

    #[test]
    fn only_what_a_writer_writes_is_read() {
        let told = |code, size, align| Told::from_file(code, size, align);
        assert_eq!(told(3, None, None), Some(Told::BOTH));
        assert_eq!(told(7, Some(0), Some(16)), Some(Told::wrongly(Some(0), Some(16))));
        for (code, size, align) in [
            (4, None, None),
            (8, None, None),
            (1, Some(5), None),
            (5, None, None),
            (5, Some(1), Some(2)),
            (6, None, Some(3)),
        ] {
            assert_eq!(told(code, size, align), None, "{code} {size:?} {align:?}");
        }
    }

    #[test]
    fn a_size_and_an_alignment_fit_into_a_word() {
        let largest = (1 << ALIGN_SHIFT) - 1;
        for (size, align) in [(0, None), (1, Some(8)), (largest, Some(1 << 63)), (largest, None)] {
            let asked = Asked::new(size, align.unwrap_or(0));
            assert_eq!((asked.size(), asked.align()), (size, align));
        }
        assert_eq!(Asked::new(u64::MAX, 0), Asked::new(largest, 0));
    }
}
