//! Fast parsing of the numbers of a plain line, eight digits at a time.
//!
//! The ends of all fields are found in all bytes of the line at once, so that no field depends on
//! the one before it. Digits are combined in pairs, then in fours, then in eights. The code
//! branches on whether there are more than eight digits, not on their number, which is not
//! predictable. Faults are collected and checked once per line. Any other line (other blanks,
//! longer numbers, a prefix, more than 64 bytes, the last bytes of a block) is left to
//! [`crate::text::Cursor`], which also reports the fault.

/// Bytes of text that are searched for the ends of fields, half of them at a time.
const LINE_BYTES: usize = 64;
/// Bytes of text that must be readable: a field that begins in the last searched byte is loaded as
/// two words.
const TEXT_BYTES: usize = LINE_BYTES + 16;
const HALF: usize = LINE_BYTES / 2;

/// Walks over a line whose fields are separated by one blank and which ends in LF or CR LF.
pub(crate) struct Plain<'a> {
    text: &'a [u8; TEXT_BYTES],
    /// Bit n: byte n is not a visible character. 0 for bytes passed or not searched yet.
    ends: u64,
    /// Start of the next field.
    at: usize,
    /// Not 0 after a fault; returned numbers are then meaningless.
    wrong: u64,
}

impl<'a> Plain<'a> {
    /// Starts after the letter and the blank that begin a line; `None` if the line does not begin
    /// with them.
    #[inline]
    pub fn after_letter(bytes: &'a [u8]) -> Option<(u8, Plain<'a>)> {
        let text = bytes.first_chunk::<TEXT_BYTES>()?;
        let [letter, b' ', ..] = *text else { return None };
        Some((letter, Plain { text, ends: ends(text, 0) & !3, at: 2, wrong: 0 }))
    }

    /// Reads the field here as a decimal number, and the blank after it.
    #[inline]
    pub fn decimal(&mut self) -> u64 {
        let (start, digits) = self.field();
        self.blank();
        self.decimal_of(start, digits)
    }

    /// Reads the field here as a hexadecimal number without prefix, and the blank after it.
    #[inline(always)]
    pub fn hexadecimal(&mut self) -> u64 {
        let (start, digits) = self.field();
        self.blank();
        let more = digits.wrapping_sub(8);
        match digits {
            1..=8 => self.eight_nibbles(to_the_right(self.word(start), digits) | padding(digits)),
            9..=16 => {
                let upper = to_the_right(self.word(start), more) | padding(more);
                self.eight_nibbles(upper) << 32 | self.eight_nibbles(self.word(start + more))
            }
            _ => self.refuse(),
        }
    }

    /// Reads the last field as a decimal number, and the end of the line. Returns the number and
    /// the length of the line; `None` after a fault.
    #[inline]
    pub fn last_decimal(mut self) -> Option<(u64, usize)> {
        let (start, digits) = self.field();
        let value = self.decimal_of(start, digits);
        let end = self.at - 1;
        let end = end + usize::from(self.text[end] == b'\r');
        (self.wrong == 0 && self.text[end] == b'\n').then_some((value, end + 1))
    }

    /// The start of the field here, and the number of bytes before the first that is not a visible
    /// character.
    #[inline]
    fn field(&mut self) -> (usize, usize) {
        if self.ends == 0 {
            self.look_further();
        }
        let (start, end) = (self.at, self.ends.trailing_zeros() as usize);
        self.ends &= self.ends.wrapping_sub(1);
        self.at = end + 1;
        // Without an end, `end` is 64, which is too long for a number, or not the expected end.
        (start, end.wrapping_sub(start))
    }

    #[inline(never)]
    fn look_further(&mut self) {
        let ahead = u64::MAX.checked_shl(self.at as u32).unwrap_or(0);
        self.ends = ends(self.text, HALF) << HALF & ahead;
    }

    /// Checks that the byte after the last field is a blank.
    #[inline]
    fn blank(&mut self) {
        self.wrong |= u64::from(self.text[self.at - 1] ^ b' ');
    }

    #[cold]
    fn refuse(&mut self) -> u64 {
        self.wrong = u64::MAX;
        0
    }

    #[inline]
    fn word(&self, start: usize) -> u64 {
        let bytes = self.text.get(start..).and_then(|text| text.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    #[inline(always)]
    fn decimal_of(&mut self, start: usize, digits: usize) -> u64 {
        let zeros = each(b'0');
        let more = digits.wrapping_sub(8);
        match digits {
            1..=8 => self.eight_decimals(to_the_right(self.word(start) ^ zeros, digits)),
            9..=16 => {
                let upper = self.eight_decimals(to_the_right(self.word(start) ^ zeros, more));
                let lower = self.eight_decimals(self.word(start + more) ^ zeros);
                upper.wrapping_mul(100_000_000).wrapping_add(lower)
            }
            _ => self.refuse(),
        }
    }

    /// The number of eight digits, one per byte, the first in the lowest.
    #[inline]
    fn eight_decimals(&mut self, digits: u64) -> u64 {
        // A byte above 9 sets its upper bit here, or had it before.
        self.wrong |= (digits.wrapping_add(each(0x80 - 10)) | digits) & each(0x80);
        // Each step combines neighbours: the lower value times the weight, plus the upper value.
        let pairs = digits.wrapping_mul(10 * 0x100 + 1) >> 8 & 0x00ff_00ff_00ff_00ff;
        let fours = pairs.wrapping_mul(100 * 0x1_0000 + 1) >> 16 & 0x0000_ffff_0000_ffff;
        fours.wrapping_mul(10_000 * 0x1_0000_0000 + 1) >> 32
    }

    /// The number of eight hexadecimal digits of text, the first in the lowest byte.
    #[inline]
    fn eight_nibbles(&mut self, text: u64) -> u64 {
        // For bytes below 0x80: sets the upper bit of each byte that is at least `least`.
        let at_least = |text: u64, least: u8| text.wrapping_add(each(0x80 - least));
        let lower_case = text | each(0x20);
        let decimals = at_least(text, b'0') & !at_least(text, b'9' + 1);
        let letters = at_least(lower_case, b'a') & !at_least(lower_case, b'f' + 1);
        self.wrong |= !((decimals | letters) & !text) & each(0x80);
        // The lower four bits of letters are 1 to 6, and only letters have bit 6.
        let digits = (text & each(0x0f)).wrapping_add((text >> 6 & each(1)).wrapping_mul(9));
        let pairs = (digits << 4 | digits >> 8) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs << 8 | pairs >> 16) & 0x0000_ffff_0000_ffff;
        (fours << 16 | fours >> 32) & 0xffff_ffff
    }
}

/// Bit n of the result: byte `from` + n is not a visible character. For 32 bytes.
#[inline]
fn ends(text: &[u8; TEXT_BYTES], from: usize) -> u64 {
    let (words, _) = text[from..from + HALF].as_chunks();
    words.iter().rev().fold(0, |found, word| {
        let word = u64::from_le_bytes(*word);
        let visible = (word & each(0x7f)).wrapping_add(each(0x80 - b'!')) | word;
        // Moves the eight upper bits next to each other.
        let bits = ((!visible & each(0x80)) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        found << 8 | bits
    })
}

/// A word with this byte in every position.
const fn each(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Moves the first `digits` bytes, 1 to 8, to the upper end, and fills with zeros.
#[inline]
const fn to_the_right(text: u64, digits: usize) -> u64 {
    text << ((64 - 8 * digits) & 63)
}

/// The characters `0` that pad `digits` characters, 1 to 8, to eight.
#[inline]
const fn padding(digits: usize) -> u64 {
    each(b'0') >> ((8 * (digits - 1)) & 63) >> 8
}
