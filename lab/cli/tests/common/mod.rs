//! Paths for the commands under test: the repository and the output of `make build`.
#![allow(dead_code, reason = "no test uses all of it")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap()
}

/// The folder of the built libraries and the player.
pub fn prefix() -> PathBuf {
    std::env::var_os("KEEL_PREFIX").map_or_else(|| root().join("build"), PathBuf::from)
}

/// The same; fails with a hint if the recorder is not built.
pub fn prefix_with_recorder() -> PathBuf {
    let prefix = prefix();
    let library = prefix.join("lib/libkeel_recorder.so");
    assert!(library.is_file(), "{} is missing: run `make build` first", library.display());
    prefix
}

/// Compiles a program.
pub fn compile_text(code: &str, program: &Path, flags: &[&str]) {
    let source = program.with_extension("c");
    std::fs::write(&source, code).unwrap();
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-O1", "-g", "-fno-builtin", "-pthread", "-o"]).arg(program).arg(&source);
    assert!(compiler.args(flags).status().unwrap().success());
}
