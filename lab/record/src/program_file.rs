//! Identifies the program files that processes run.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// A program file: device and inode.
pub type File = (u64, u64);

/// The program of an image that began with the program file `path`. The process may have executed
/// another one since.
pub fn program_of_image(pid: u32, path: &str) -> Option<File> {
    std::fs::metadata(path).ok().as_ref().map(file).or_else(|| program_of(pid))
}

/// The program that a process runs now.
pub fn program_of(pid: u32) -> Option<File> {
    std::fs::metadata(format!("/proc/{pid}/exe")).ok().as_ref().map(file)
}

/// Identifies a file.
pub fn file(metadata: &Metadata) -> File {
    (metadata.dev(), metadata.ino())
}
