//! The files that belong to the repository.

use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every file that git tracks, relative to the root, sorted.
pub fn tracked_files(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z"])
        .output()
        .context("git is needed to list the repository's files")?;
    ensure!(output.status.success(), "git ls-files failed in {}", root.display());
    let text = String::from_utf8_lossy(&output.stdout);
    let files = text.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    Ok(files.filter(|file| root.join(file).is_file()).collect())
}

/// Whether the file's extension is one of these.
pub fn has_extension(file: &Path, extensions: &[&str]) -> bool {
    file.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|e| extensions.contains(&e))
}

/// The lines of a Markdown text that are outside of fenced code, with their indexes.
pub fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}
