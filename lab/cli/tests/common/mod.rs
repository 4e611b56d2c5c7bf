//! Paths for the commands under test: the repository and the output of `make build`.
#![allow(dead_code, reason = "no test uses all of it")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};
use std::process::Command;

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

/// keel, with the built recorder.
pub fn keel() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keel"));
    command.env("KEEL_PREFIX", prefix_with_recorder()).env_remove("LD_PRELOAD");
    command
}

/// Runs `keel check` in the folder: its exit code, stdout, and stderr.
pub fn check(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = keel().current_dir(folder).arg("check").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A folder with a program.
pub fn folder_with(program: &str, code: &str, flags: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    compile_text(code, &folder.path().join(program), flags);
    folder
}

/// Compiles a program.
pub fn compile_text(code: &str, program: &Path, flags: &[&str]) {
    let source = program.with_extension("c");
    std::fs::write(&source, code).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-fno-builtin", "-pthread", "-o"]).arg(program).arg(&source);
    assert!(compiler.args(flags).status().unwrap().success());
}
