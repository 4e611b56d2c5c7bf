//! What `keel import` shares with the recorder needs Linux.

use crate::commands::NeedsLinux;
use anyhow::{Result, bail};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// `KL_LOG_MAGIC` of `journal/ring.h`.
const MAGIC: &[u8; 8] = b"KLSPOOL1";

/// Whether this file is a recording made through keel/recorder.h.
pub fn is_recording(path: &Path) -> bool {
    let mut magic = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *MAGIC
}

/// Fails.
pub fn import(_: &Path, _: &Path, _: &[String]) -> Result<String> {
    bail!(NeedsLinux("keel import of a recording through keel/recorder.h"))
}

/// Fails.
pub fn skip(_: &Path, _: &Path, _: &[String]) -> Result<String> {
    bail!(NeedsLinux("keel import --skip-module"))
}
