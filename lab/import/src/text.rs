//! Reads the fields of a line of text; faults have their position in the line.

use crate::error::Fault;

/// Reads one line without its line break.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    advice: &'static str,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of `line`; `advice` is a part of every fault.
    #[inline]
    pub fn new(line: &'a [u8], advice: &'static str) -> Cursor<'a> {
        Cursor { bytes: line, at: 0, advice }
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Number of bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The rest of the line.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Skips bytes, up to the end of the line.
    pub fn skip(&mut self, count: usize) {
        self.at = self.at.saturating_add(count).min(self.bytes.len());
    }

    #[inline]
    pub fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// The letter that begins the line; `None` for a blank line or a comment.
    #[inline]
    pub fn letter(&mut self) -> Option<u8> {
        self.skip_blanks();
        let letter = self.peek().filter(|letter| *letter != b'#')?;
        self.at += 1;
        Some(letter)
    }

    /// Skips `text` if it is next; returns whether it was.
    #[inline]
    pub fn takes(&mut self, text: &[u8]) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Skips `text`, or returns a fault.
    pub fn expect(&mut self, text: &'static str) -> Result<(), Fault> {
        if self.takes(text.as_bytes()) { Ok(()) } else { Err(self.fault(&format!("`{text}`"))) }
    }

    /// Letters, digits and underscores; may be empty.
    pub fn word(&mut self) -> &'a [u8] {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            self.at += 1;
        }
        &self.bytes[start..self.at]
    }

    /// The bytes before the next blank; may be empty.
    pub fn token(&mut self) -> &'a [u8] {
        self.skip_blanks();
        let start = self.at;
        while !matches!(self.peek(), None | Some(b' ' | b'\t' | b'\r')) {
            self.at += 1;
        }
        &self.bytes[start..self.at]
    }

    /// Moves to the next field, which must follow a blank.
    #[inline]
    fn field(&mut self, what: &'static str) -> Result<usize, Fault> {
        let before = self.at;
        self.skip_blanks();
        if self.at == before { Err(self.fault_at(before, what)) } else { Ok(self.at) }
    }

    /// The next field as a decimal number below 2^63.
    #[inline]
    pub fn decimal(&mut self, what: &'static str) -> Result<u64, Fault> {
        let start = self.field(what)?;
        let value = self.digits();
        if !self.at_field_end() {
            Err(self.fault_at(start, what))
        } else {
            self.fitting(start, value, what)
        }
    }

    /// A decimal number below 2^63 at this position.
    pub fn decimal_here(&mut self, what: &'static str) -> Result<u64, Fault> {
        let start = self.at;
        let value = self.digits();
        self.fitting(start, value, what)
    }

    #[inline]
    fn digits(&mut self) -> u64 {
        let mut value = 0_u64;
        while let Some(digit) =
            self.peek().map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10)
        {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
        value
    }

    /// Nineteen digits always fit into 64 bits, but a journal's numbers have only 63.
    #[inline]
    fn fitting(&self, start: usize, value: u64, what: &'static str) -> Result<u64, Fault> {
        let digits = self.at - start;
        if digits == 0 || digits > 18 && !fits(&self.bytes[start..self.at]) {
            return Err(self.fault_at(start, what));
        }
        Ok(value)
    }

    /// The next field as a hexadecimal number, with or without `0x`.
    #[inline]
    pub fn hexadecimal(&mut self, what: &'static str) -> Result<u64, Fault> {
        let start = self.field(what)?;
        let value = self.hexadecimal_digits(start, what)?;
        if self.at_field_end() { Ok(value) } else { Err(self.fault_at(start, what)) }
    }

    /// A hexadecimal number at this position, with or without `0x`. `(nil)` and `NULL`, which some
    /// C libraries print, are 0.
    pub fn hexadecimal_here(&mut self, what: &'static str) -> Result<u64, Fault> {
        if self.takes(b"(nil)") || self.takes(b"NULL") {
            return Ok(0);
        }
        self.hexadecimal_digits(self.at, what)
    }

    /// The next field as a hexadecimal number below 2^63: a size.
    pub fn hexadecimal_size(&mut self, what: &'static str) -> Result<u64, Fault> {
        let start = {
            self.skip_blanks();
            self.at
        };
        let value = self.hexadecimal_digits(start, what)?;
        if value >> 63 != 0 || !self.at_field_end() {
            Err(self.fault_at(start, what))
        } else {
            Ok(value)
        }
    }

    #[inline]
    fn hexadecimal_digits(&mut self, start: usize, what: &'static str) -> Result<u64, Fault> {
        if self.rest().starts_with(b"0x") || self.rest().starts_with(b"0X") {
            self.at += 2;
        }
        let first_digit = self.at;
        let mut value = 0_u64;
        let mut overflow = 0;
        while let Some(digit) =
            self.peek().map(|byte| HEXADECIMAL[usize::from(byte)]).filter(|digit| *digit < 16)
        {
            overflow |= value >> 60;
            value = value << 4 | u64::from(digit);
            self.at += 1;
        }
        if self.at == first_digit || overflow != 0 {
            Err(self.fault_at(start, what))
        } else {
            Ok(value)
        }
    }

    #[inline]
    pub fn at_field_end(&self) -> bool {
        matches!(self.peek(), None | Some(b' ' | b'\t' | b'\r'))
    }

    /// Checks that only blanks follow.
    #[inline]
    pub fn end(&mut self) -> Result<(), Fault> {
        self.skip_blanks();
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(self.fault_at(self.at, "the end of the line"))
        }
    }

    /// A fault at this position.
    #[cold]
    pub fn fault(&self, what: &str) -> Fault {
        self.fault_at(self.at, what)
    }

    /// A fault that begins at byte `start` of the line.
    #[cold]
    pub fn fault_at(&self, start: usize, what: &str) -> Fault {
        let line = self.bytes.strip_suffix(b"\r").unwrap_or(self.bytes);
        let start = start.min(line.len());
        let rest = &line[start..];
        let blanks = rest.len() - rest.trim_ascii_start().len();
        Fault {
            expected: what.to_owned(),
            found: quote(rest),
            advice: self.advice,
            column: Some(start as u64 + blanks as u64 + 1),
        }
    }
}

/// The beginning of a part of a line, in a printable form.
pub(crate) fn quote(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let text = bytes.trim_ascii_start();
    match text.len() {
        0 => "the end of the line".to_owned(),
        1..=SHOWN => format!("`{}`", text.escape_ascii()),
        _ => format!("`{}...`", text[..SHOWN].escape_ascii()),
    }
}

/// What tools put before texts.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text or line without the byte order marks before it.
pub(crate) fn without_byte_order_marks(mut line: &[u8]) -> &[u8] {
    while let Some(rest) = line.strip_prefix(BYTE_ORDER_MARK) {
        line = rest;
    }
    line
}

/// Whether this run of digits is below 2^63.
fn fits(digits: &[u8]) -> bool {
    let value = digits.iter().try_fold(0_i64, |value, digit| {
        value.checked_mul(10)?.checked_add(i64::from(digit - b'0'))
    });
    value.is_some()
}

const HEXADECIMAL: [u8; 256] = {
    let mut table = [255; 256];
    let mut digit = 0;
    while digit < 16 {
        let letters = b"0123456789abcdef0123456789ABCDEF";
        table[letters[digit] as usize] = digit as u8;
        table[letters[digit + 16] as usize] = digit as u8;
        digit += 1;
    }
    table
};
