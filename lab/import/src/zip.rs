//! Reads the only file of a zip archive.

use std::io::{self, Read, Seek};
use zip::ZipArchive;
use zip::result::ZipError;

/// The first bytes of an archive: the signature of the header of its first file.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";

/// Calls `then` with the contents of the only file; folders do not count. `then` gets an error at
/// the end of the contents if their checksum is wrong.
pub(crate) fn with_file<T>(
    archive: impl Read + Seek,
    then: impl FnOnce(&mut dyn Read) -> T,
) -> io::Result<T> {
    let mut archive = ZipArchive::new(archive)?;
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

fn refused(what: &str) -> io::Error {
    let advice = "extract the text first: unzip -p FILE MEMBER | keel import - -o OUTPUT";
    let text = format!("this zip archive cannot be imported ({what}); {advice}");
    io::Error::new(io::ErrorKind::Unsupported, text)
}
