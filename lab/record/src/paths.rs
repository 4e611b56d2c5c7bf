//! The names of a recording's journals.
//!
//! A program that a process executes begins with an empty heap, so each program image has its own
//! journal. The image that requested the most bytes gets the name that the user gave. The others
//! get the number of the image in the order of execution: `NAME.image-1.journal.parquet`.

use crate::Options;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// `<name>.<pid>.journal.parquet`, or without children the name that the user gave. A pid that was
/// used before in this recording gets a number as well.
pub fn of_process(options: &Options, pid: u32, uses: u32) -> PathBuf {
    if !options.follow_children {
        return options.output.clone();
    }
    let number = if uses == 0 { String::new() } else { format!("-{}", uses + 1) };
    insert(&options.output, &format!("{pid}{number}"))
}

/// The journal of one of the images of a process, from 0, while the process runs.
pub fn of_image(process: &Path, image: u32) -> PathBuf {
    if image == 0 { process.to_path_buf() } else { of_other_image(process, image) }
}

/// The same for an image that does not have the process's name.
pub fn of_other_image(process: &Path, image: u32) -> PathBuf {
    insert(process, &format!("image-{}", image + 1))
}

/// The journal with this number, from 1, of a recording that waits.
pub fn of_write(output: &Path, number: u32) -> PathBuf {
    if number <= 1 { output.to_path_buf() } else { insert(output, &number.to_string()) }
}

/// Inserts a part before `.journal.parquet`.
fn insert(path: &Path, part: &str) -> PathBuf {
    // A name need not be UTF-8.
    let name = path.file_name().unwrap_or_default().as_bytes();
    let stem = name.strip_suffix(b".parquet").unwrap_or(name);
    let stem = stem.strip_suffix(b".journal").unwrap_or(stem);
    let mut whole = OsStr::from_bytes(stem).to_owned();
    whole.push(format!(".{part}.journal.parquet"));
    path.with_file_name(whole)
}
