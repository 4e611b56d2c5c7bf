//! Bytes for the page: variable-length integers, deflated, in base64. Each block is in its own
//! `<script>` element, so that the browser decodes it only when it is first shown.

use base64::Engine as _;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write as _;

/// Level 6 makes the page 3 % smaller and takes twice as long.
const LEVEL: u32 = 4;

/// A growing sequence of bytes and of integers in LEB128.
#[derive(Default)]
pub struct Stream {
    bytes: Vec<u8>,
}

impl Stream {
    /// Appends an unsigned integer, seven bits a byte, low bits first.
    #[inline]
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Appends one byte.
    #[inline]
    pub fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// A named block of the page: zlib in base64.
pub struct Block {
    /// The element's id.
    pub id: String,
    /// Its text.
    pub text: String,
}

impl Block {
    /// Compresses `bytes` under a name.
    pub fn new(id: String, bytes: &[u8]) -> Block {
        let mut encoder =
            ZlibEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::new(LEVEL));
        // Writing into a Vec cannot fail. The browser would report an empty block as an error.
        let packed = encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default();
        Block { id, text: base64::engine::general_purpose::STANDARD.encode(packed) }
    }

    /// The element.
    pub fn html(&self) -> String {
        format!(
            "<script type=\"application/octet-stream\" id=\"{}\">{}</script>\n",
            self.id, self.text
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_block_inflates_to_its_bytes() {
        let mut stream = Stream::default();
        [0, 1, 127, 128, 300, u64::MAX].into_iter().for_each(|value| stream.varint(value));
        let bytes = stream.finish();
        assert_eq!(bytes[..6], [0, 1, 127, 0x80, 1, 0xac]);
        let block = Block::new("b".into(), &bytes);
        let packed = base64::engine::general_purpose::STANDARD.decode(&block.text).unwrap();
        let mut back = Vec::new();
        flate2::read::ZlibDecoder::new(packed.as_slice()).read_to_end(&mut back).unwrap();
        assert_eq!(back, bytes);
    }
}
