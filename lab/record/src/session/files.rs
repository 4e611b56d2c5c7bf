//! The files of a session, to which the recorded program can write too.

use crate::ring;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens a file of a session's folder, which may belong to another user: only a regular file that
/// belongs to the same user as the folder, and has no other name.
pub fn open_spool(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    let (metadata, folder) = (file.metadata()?, path.parent().map(std::fs::symlink_metadata));
    let is_same_user = folder.is_some_and(|folder| folder.is_ok_and(|f| f.uid() == metadata.uid()));
    if !metadata.is_file() || metadata.nlink() != 1 || !is_same_user {
        return Err(io::Error::other("it is no regular file of the session's user"));
    }
    Ok(file)
}

pub fn file_is_hole(file: &File) -> bool {
    file.metadata().map_or(true, |metadata| metadata.blocks() * 512 < ring::ring_offset(1))
}

/// Reserves room in a file, so that writing there through a mapping cannot fail.
pub fn reserve(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: a system call on a descriptor that we own.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), offset as i64, bytes as i64) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Gives back the memory of what was read from a file, at last so many bytes: the file grows for as
/// long as the recording. The positions of what follows stay.
pub fn release(mut file: &File, bytes: usize) {
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let read = file.stream_position().unwrap_or(0);
    if bytes > 0 {
        // SAFETY: a system call on a descriptor that we own. If it fails, the memory stays.
        unsafe { libc::fallocate(file.as_raw_fd(), how, 0, read as i64) };
    }
}
