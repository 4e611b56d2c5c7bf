//! Reads the numbers and texts of a capture file from the bytes that have arrived.

/// Why a record cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The rest of it has not arrived yet.
    Incomplete,
    /// It is not a valid record: what was expected.
    Broken(&'static str),
}

/// The bytes from the start of a record on.
pub(crate) struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes { bytes, at: 0 }
    }

    /// Number of bytes read.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn byte(&mut self) -> Result<u8, Stop> {
        let byte = *self.bytes.get(self.at).ok_or(Stop::Incomplete)?;
        self.at += 1;
        Ok(byte)
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Stop> {
        let end = self.at.checked_add(count).ok_or(Stop::Broken("a length"))?;
        let taken = self.bytes.get(self.at..end).ok_or(Stop::Incomplete)?;
        self.at = end;
        Ok(taken)
    }

    /// A 32-bit little-endian number.
    pub fn half_word(&mut self) -> Result<u32, Stop> {
        let bytes = self.take(4)?.try_into();
        bytes.map(u32::from_le_bytes).map_err(|_| Stop::Incomplete)
    }

    /// A 64-bit little-endian number.
    pub fn word(&mut self) -> Result<u64, Stop> {
        let bytes = self.take(8)?.try_into();
        bytes.map(u64::from_le_bytes).map_err(|_| Stop::Incomplete)
    }

    /// A number in groups of seven bits, the lowest first; the upper bit of a byte says that
    /// another follows.
    pub fn varint(&mut self) -> Result<u64, Stop> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Stop::Broken("a number of at most 64 bits"))
    }

    /// A signed number: its sign is the lowest bit.
    pub fn signed(&mut self) -> Result<i64, Stop> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A text that ends with a zero byte.
    pub fn text(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let length = memchr::memchr(0, rest).ok_or(Stop::Incomplete)?;
        self.at += length + 1;
        Ok(&rest[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_read_up_to_the_end() {
        let mut bytes = Bytes::new(&[0xac, 2, 3, 4, b'a', b'b', 0, 0x80]);
        assert_eq!(bytes.varint(), Ok(300));
        assert_eq!((bytes.signed(), bytes.signed()), (Ok(-2), Ok(2)));
        assert_eq!(bytes.text(), Ok(&b"ab"[..]));
        assert_eq!(bytes.varint(), Err(Stop::Incomplete));
        assert_eq!(
            Bytes::new(&[0xff; 11]).varint(),
            Err(Stop::Broken("a number of at most 64 bits"))
        );
        assert_eq!(Bytes::new(b"abc").text(), Err(Stop::Incomplete));
        assert_eq!(Bytes::new(b"abc").word(), Err(Stop::Incomplete));
    }
}
