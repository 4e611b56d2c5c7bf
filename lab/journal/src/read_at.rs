//! Reads at an offset, on each system.

use std::fs::File;
use std::io;

/// Fills `bytes` with those at `offset`. The position of the file stays as it was.
#[cfg(unix)]
pub(crate) fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

/// Fills `bytes` with those at `offset`. The position of the file stays as it was, which Windows'
/// own function does not promise.
#[cfg(not(unix))]
pub(crate) fn read_exact_at(mut file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let position = file.stream_position()?;
    file.seek(SeekFrom::Start(offset))?;
    let read = file.read_exact(bytes);
    file.seek(SeekFrom::Start(position))?;
    read
}
