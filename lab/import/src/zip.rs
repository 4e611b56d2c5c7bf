//! Reads the only member of a zip archive from start to end, without seeking.

use std::io::{self, BufReader, Read};

/// The first bytes of an archive: the signature of the header of its first member.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";
const DESCRIPTOR: &[u8] = b"PK\x07\x08";
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// Flags of a member: encrypted; its sizes and checksum follow its data.
const ENCRYPTED: u16 = 1;
const SIZES_FOLLOW: u16 = 8;

type Raw = BufReader<Box<dyn Read + Send>>;

/// Reads the bytes of the only member. A second member and a wrong checksum are errors.
pub(crate) struct Member {
    body: Body,
    sum: flate2::Crc,
    /// CRC-32 of the bytes, unless it follows them.
    expected: Option<u32>,
}

enum Body {
    Stored(io::Take<Raw>),
    Deflated(flate2::bufread::DeflateDecoder<Raw>),
    Ended,
}

impl Member {
    /// Reads the header.
    pub fn open(input: Box<dyn Read + Send>) -> io::Result<Member> {
        let mut raw = BufReader::with_capacity(1 << 16, input);
        let mut header = [0; 30];
        raw.read_exact(&mut header)?;
        let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let long = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (flags, method) = (short(6), short(8));
        io::copy(
            &mut raw.by_ref().take(u64::from(short(26)) + u64::from(short(28))),
            &mut io::sink(),
        )?;
        let body = match method {
            _ if flags & ENCRYPTED != 0 => return Err(refused("its member is encrypted")),
            DEFLATED => Body::Deflated(flate2::bufread::DeflateDecoder::new(raw)),
            STORED if flags & SIZES_FOLLOW == 0 => Body::Stored(raw.take(u64::from(long(18)))),
            _ => return Err(refused("its member uses an unsupported compression method")),
        };
        let expected = (flags & SIZES_FOLLOW == 0).then(|| long(14));
        Ok(Member { body, sum: flate2::Crc::new(), expected })
    }

    /// Checks after the last byte that the member is complete and the only one.
    fn end(&mut self) -> io::Result<()> {
        let (missing, mut raw) = match std::mem::replace(&mut self.body, Body::Ended) {
            Body::Stored(take) => (take.limit(), take.into_inner()),
            Body::Deflated(decoder) => (0, decoder.into_inner()),
            Body::Ended => return Ok(()),
        };
        if missing > 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the zip archive is truncated",
            ));
        }
        let mut next = peek(&mut raw)?;
        if next == DESCRIPTOR {
            let mut descriptor = [0; 8];
            raw.read_exact(&mut descriptor)?;
            let [_, _, _, _, sum @ ..] = descriptor;
            self.expected = Some(u32::from_le_bytes(sum));
            // The two sizes have 32 bits each, or 64 in large archives.
            raw.read_exact(&mut descriptor)?;
            next = peek(&mut raw)?;
            if !next.starts_with(b"PK") {
                raw.read_exact(&mut descriptor)?;
                next = peek(&mut raw)?;
            }
        }
        if self.expected.is_some_and(|expected| expected != self.sum.sum()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the checksum of the zip archive is wrong",
            ));
        }
        if next == MAGIC {
            return Err(refused("it has more than one member"));
        }
        Ok(())
    }
}

/// The next four bytes, without consuming them; fewer at the end.
fn peek(raw: &mut Raw) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    raw.by_ref().take(4).read_to_end(&mut bytes)?;
    let rest = std::mem::replace(raw, BufReader::new(Box::new(io::empty())));
    *raw = BufReader::new(Box::new(io::Cursor::new(bytes.clone()).chain(rest)));
    Ok(bytes)
}

fn refused(what: &str) -> io::Error {
    let advice = "extract the text first: unzip -p FILE MEMBER | keel import - -o OUTPUT";
    io::Error::new(io::ErrorKind::Unsupported, format!("it is a zip archive and {what}; {advice}"))
}

impl Read for Member {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.body {
            Body::Stored(take) => take.read(buffer)?,
            Body::Deflated(decoder) => decoder.read(buffer)?,
            Body::Ended => 0,
        };
        self.sum.update(&buffer[..count]);
        if count == 0 && !buffer.is_empty() {
            self.end()?;
        }
        Ok(count)
    }
}
