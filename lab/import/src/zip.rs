//! Reads the only file of a zip archive.

use flate2::read::DeflateDecoder;
use std::io::{self, Read, Seek};
use zip::ZipArchive;
use zip::result::ZipError;

/// The first bytes of an archive: the signature of the header of its first file.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";

/// Calls `then` with the contents of the only file; folders do not count. `then` gets an error at
/// the end of the contents if their checksum is wrong. With `repair`, an archive without its
/// directory, which is at the end, is read up to where it was cut off.
pub(crate) fn with_file<T>(
    mut archive: impl Read + Seek,
    repair: bool,
    then: impl FnOnce(&mut dyn Read) -> T,
) -> io::Result<T> {
    let mut archive = match ZipArchive::new(&mut archive) {
        Ok(archive) => archive,
        Err(ZipError::InvalidArchive(_)) if repair => return with_cut_file(archive, then),
        Err(ZipError::InvalidArchive(what)) => {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "the zip archive was cut off or is damaged ({what}); --repair imports what is \
                     there"
                ),
            ));
        }
        Err(error) => return Err(error.into()),
    };
    let names = archive.file_names_raw().enumerate();
    let files = names.filter(|(_, name)| !name.ends_with(b"/")).map(|(index, _)| index);
    let files: Vec<usize> = files.collect();
    let [only] = files.as_slice() else {
        return Err(refused(&format!("it holds {} files", files.len())));
    };
    match archive.by_index(*only) {
        Ok(mut file) => Ok(then(&mut file)),
        Err(ZipError::UnsupportedArchive(what)) => Err(refused(what)),
        Err(error) => Err(error.into()),
    }
}

/// Bytes of the header before each file, without its name and extra fields.
const HEADER_BYTES: usize = 30;

/// Calls `then` with the contents of the first file, which the headers before the files describe.
fn with_cut_file<T>(
    mut archive: impl Read + Seek,
    then: impl FnOnce(&mut dyn Read) -> T,
) -> io::Result<T> {
    archive.rewind()?;
    loop {
        let mut header = [0; HEADER_BYTES];
        archive.read_exact(&mut header)?;
        if !header.starts_with(MAGIC) {
            return Err(refused("it was cut off before its first file"));
        }
        let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let (method, name_bytes, extra_bytes) = (half(8), half(26), half(28));
        let mut name = vec![0; usize::from(name_bytes)];
        archive.read_exact(&mut name)?;
        archive.seek_relative(i64::from(extra_bytes))?;
        match method {
            0 if name.ends_with(b"/") => {}
            8 => return Ok(then(&mut CutShort(DeflateDecoder::new(archive)))),
            _ => return Err(refused("it was cut off, and its file is not deflated")),
        }
    }
}

/// Ends with an error, even if the contents are complete, because their checksum is unknown.
struct CutShort<R>(R);

impl<R: Read> Read for CutShort<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }
}

fn refused(what: &str) -> io::Error {
    let advice = "extract the text first: unzip -p FILE MEMBER | keel import - -o OUTPUT";
    let text = format!("this zip archive cannot be imported ({what}); {advice}");
    io::Error::new(io::ErrorKind::Unsupported, text)
}
