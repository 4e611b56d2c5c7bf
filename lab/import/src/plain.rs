//! Numbers of a line in its plainest form, eight digits at a time.
//!
//! A field of up to sixteen digits is loaded as one word, its end is found in all bytes at once, and its digits are
//! joined two by two, four by four and eight by eight. So nothing branches on the number of digits, which nobody can
//! foresee. What is not in this form (other blanks, longer numbers, a prefix, the last bytes of a block) is left to
//! [`crate::text::Cursor`], which also says what is wrong with it.

/// Bytes that a field is loaded with.
const FIELD_BYTES: usize = 16;

/// Walks over text whose fields are separated by one blank and whose lines end in LF or CR LF.
pub(crate) struct Plain<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Plain<'a> {
    /// Behind the letter and the blank that begin a line; `None` if it does not begin so.
    #[inline]
    pub fn after_letter(bytes: &'a [u8]) -> Option<(u8, Plain<'a>)> {
        let [letter, b' ', ..] = *bytes else { return None };
        Some((letter, Plain { bytes, at: 2 }))
    }

    /// The field here as a decimal number, and the blank behind it.
    #[inline]
    pub fn decimal(&mut self) -> Option<u64> {
        let (text, digits) = self.field()?;
        let value = decimal(text, digits)?;
        self.at += digits;
        self.blank()?;
        Some(value)
    }

    /// The field here as a hexadecimal number without prefix, and the blank behind it.
    #[inline]
    pub fn hexadecimal(&mut self) -> Option<u64> {
        let (text, digits) = self.field()?;
        let value = hexadecimal(text, digits)?;
        self.at += digits;
        self.blank()?;
        Some(value)
    }

    /// The last field as a decimal number, and the line's end: the number, and the length of the line.
    #[inline]
    pub fn last_decimal(mut self) -> Option<(u64, usize)> {
        let (text, digits) = self.field()?;
        let value = decimal(text, digits)?;
        self.at += digits;
        self.at += usize::from(*self.bytes.get(self.at)? == b'\r');
        (*self.bytes.get(self.at)? == b'\n').then_some((value, self.at + 1))
    }

    #[inline]
    fn blank(&mut self) -> Option<()> {
        let blank = *self.bytes.get(self.at)? == b' ';
        self.at += 1;
        blank.then_some(())
    }

    /// Sixteen bytes from here on, and how many of them come before the first that is no visible character.
    #[inline]
    fn field(&self) -> Option<(u128, usize)> {
        let text = u128::from_le_bytes(*self.bytes.get(self.at..)?.first_chunk::<FIELD_BYTES>()?);
        // The lowest bit set is that of the first byte below '!'; those above it may be wrong.
        let ends = text.wrapping_sub(each(b'!')) & !text & each(0x80);
        let digits = (ends.trailing_zeros() / 8) as usize;
        (digits != 0).then_some((text, digits))
    }
}

/// A word with this byte everywhere.
const fn each(byte: u8) -> u128 {
    u128::from_ne_bytes([byte; FIELD_BYTES])
}

/// Moves the first `digits` bytes, 1 to 16, to the upper end; zeros come before them.
#[inline]
fn to_the_right(text: u128, digits: usize) -> u128 {
    text << (8 * (FIELD_BYTES - digits))
}

#[inline]
fn decimal(text: u128, digits: usize) -> Option<u64> {
    let values = to_the_right(text ^ each(b'0'), digits);
    // A byte above 9 reaches its upper bit, or had it before.
    if (values.wrapping_add(each(0x80 - 10)) | values) & each(0x80) != 0 {
        return None;
    }
    let low = eight_decimals((values >> 64) as u64);
    if digits <= 8 {
        return Some(low);
    }
    Some(eight_decimals(values as u64).wrapping_mul(100_000_000).wrapping_add(low))
}

/// Eight digits, one a byte, the first in the lowest.
#[inline]
fn eight_decimals(digits: u64) -> u64 {
    // Each step joins neighbours: the lower one's value times the weight, plus the upper one's.
    let pairs = digits.wrapping_mul(10 * 0x100 + 1) >> 8 & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100 * 0x1_0000 + 1) >> 16 & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000 * 0x1_0000_0000 + 1) >> 32
}

#[inline]
fn hexadecimal(text: u128, digits: usize) -> Option<u64> {
    let padding = each(b'0') >> (8 * (digits - 1)) >> 8;
    let text = to_the_right(text, digits) | padding;
    // Of bytes below 0x80: the upper bit of each that is at least `least`.
    let at_least = |text: u128, least: u8| text.wrapping_add(each(0x80 - least));
    let lower_case = text | each(0x20);
    let decimals = at_least(text, b'0') & !at_least(text, b'9' + 1);
    let letters = at_least(lower_case, b'a') & !at_least(lower_case, b'f' + 1);
    if (decimals | letters) & !text & each(0x80) != each(0x80) {
        return None;
    }
    // The letters are 1 to 6 in their lower four bits, and alone have bit 6.
    let values = (text & each(0x0f)) + (text >> 6 & each(1)) * 9;
    Some(eight_nibbles(values as u64) << 32 | eight_nibbles((values >> 64) as u64))
}

/// Eight hexadecimal digits, one a byte, the first in the lowest.
#[inline]
fn eight_nibbles(digits: u64) -> u64 {
    let pairs = (digits << 4 | digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs << 8 | pairs >> 16) & 0x0000_ffff_0000_ffff;
    (fours << 16 | fours >> 32) & 0xffff_ffff
}
