//! Where the commands under test find what `make build` has built.
#![allow(dead_code, reason = "each user needs a part of it")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap()
}

/// The built libraries and the player.
pub fn prefix() -> PathBuf {
    std::env::var_os("KEEL_PREFIX").map_or_else(|| root().join("build"), PathBuf::from)
}

/// The same, with a word to who has not built the recorder yet.
pub fn prefix_with_recorder() -> PathBuf {
    let prefix = prefix();
    let library = prefix.join("lib/libkeel_recorder.so");
    assert!(library.is_file(), "{} is missing: run `make build` first", library.display());
    prefix
}
