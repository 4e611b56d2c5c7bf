//! Lengths of files, sizes of the checkout, widths of lines, trailing space.

use crate::{Findings, tree};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

const MOST_LINES: usize = 600;
/// The width that `.clang-format` and `rustfmt.toml` also state.
const MOST_COLUMNS: usize = 100;
const SOURCES: [&str; 10] = ["c", "h", "cc", "cpp", "hpp", "rs", "js", "py", "sh", "bash"];

/// Source files that are too long.
pub fn lengths(root: &Path, files: &[PathBuf]) -> Result<Findings> {
    let mut findings = Findings::new();
    for file in files.iter().filter(|file| tree::has_extension(file, &SOURCES)) {
        let count = read(root, file)?.lines().count();
        if count > MOST_LINES {
            let file = file.display();
            findings.push(format!(
                "{file}: {count} lines, more than {MOST_LINES}: split it by what it does"
            ));
        }
    }
    Ok(findings)
}

/// The most bytes of all tracked files in a folder, or of a file.
const MOST_BYTES: [(&str, u64); 2] = [("", 10_700_000), ("bench/runs", 1_000_000)];
/// Documents that must stay short, with their most lines.
const SHORT: [(&str, usize); 2] = [("README.md", 150), ("CHANGELOG.md", 40)];

/// Folders with too many bytes, and documents that are too long.
pub fn sizes(root: &Path, files: &[PathBuf]) -> Result<Findings> {
    let mut findings = Findings::new();
    let mut sized = Vec::new();
    for file in files {
        let status = root.join(file).metadata().with_context(|| file.display().to_string())?;
        sized.push((file.as_path(), status.len()));
    }
    for (folder, most) in MOST_BYTES {
        findings.extend(check_bytes(folder, most, &sized));
    }
    for (file, most) in SHORT {
        let count = read(root, Path::new(file))?.lines().count();
        if count > most {
            findings.push(format!("{file}: {count} lines, more than {most}: move a part of it"));
        }
    }
    Ok(findings)
}

fn check_bytes(folder: &str, most: u64, files: &[(&Path, u64)]) -> Option<String> {
    let inside = files.iter().filter(|(file, _)| file.starts_with(folder));
    let bytes: u64 = inside.map(|(_, bytes)| bytes).sum();
    let name = if folder.is_empty() { "the checkout" } else { folder };
    (bytes > most).then(|| format!("{name}: {bytes} bytes, more than {most}"))
}

/// Folders whose lines may be wide: archives, and scripts that hold programs in other languages.
const WIDE: [&str; 2] = ["bench/runs", "tests/programs"];

/// Lines of sources and of Markdown prose that are too wide, and spaces at ends of lines.
pub fn columns(root: &Path, files: &[PathBuf]) -> Result<Findings> {
    let mut findings = check_formatters(root)?;
    for file in files.iter().filter(|file| !WIDE.iter().any(|folder| file.starts_with(folder))) {
        let name = file.display().to_string();
        if tree::has_extension(file, &SOURCES) {
            findings.extend(check_lines(&name, read(root, file)?.lines().enumerate()));
        } else if tree::has_extension(file, &["md"]) {
            let text = read(root, file)?;
            let prose = tree::prose_lines(&text).filter(|(_, line)| !may_be_wide(line));
            findings.extend(check_lines(&name, prose));
        }
    }
    Ok(findings)
}

fn read(root: &Path, file: &Path) -> Result<String> {
    std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())
}

/// Tables cannot be wrapped, nor can lines that hold a link or an image.
fn may_be_wide(line: &str) -> bool {
    line.trim_start().starts_with('|') || line.contains("](") || line.contains("://")
}

fn check_lines<'a>(name: &str, lines: impl Iterator<Item = (usize, &'a str)>) -> Findings {
    let mut findings = Findings::new();
    for (index, line) in lines {
        let columns = line.chars().count();
        if columns > MOST_COLUMNS && !line.contains("://") {
            findings
                .push(format!("{name}:{}: {columns} columns, more than {MOST_COLUMNS}", index + 1));
        }
        if line.ends_with([' ', '\t']) {
            findings.push(format!("{name}:{}: space at the end of the line", index + 1));
        }
    }
    findings
}

/// The formatters state the same width.
fn check_formatters(root: &Path) -> Result<Findings> {
    let mut findings = Findings::new();
    for (file, setting) in [
        (".clang-format", format!("ColumnLimit: {MOST_COLUMNS}")),
        ("rustfmt.toml", format!("max_width = {MOST_COLUMNS}")),
    ] {
        let text = read(root, Path::new(file))?;
        if !text.lines().any(|line| line.trim() == setting) {
            findings
                .push(format!("{file}: it must state `{setting}`, the width of every source file"));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    #[test]
    fn wide_lines_and_trailing_space_are_found() {
        let check = |text: &str| check_lines("a.c", text.lines().enumerate());
        assert!(check("int a;\n").is_empty());
        assert_eq!(check("int a; \n"), vec!["a.c:1: space at the end of the line"]);
        assert_eq!(check(&"x".repeat(101)), vec!["a.c:1: 101 columns, more than 100"]);
        assert!(check(&format!("// https://{}", "x".repeat(101))).is_empty());
    }

    #[test]
    fn folders_with_too_many_bytes_are_found() {
        let files = [(Path::new("a/b"), 7), (Path::new("c"), 4), (Path::new("ab"), 1)];
        assert_eq!(check_bytes("a", 7, &files), None);
        assert_eq!(check_bytes("a", 6, &files).unwrap(), "a: 7 bytes, more than 6");
        assert_eq!(check_bytes("", 11, &files).unwrap(), "the checkout: 12 bytes, more than 11");
    }

    #[test]
    fn tables_and_links_may_be_wide() {
        assert!(may_be_wide("| a | b |") && may_be_wide("see [the page](docs/page.md)"));
        assert!(!may_be_wide("plain prose"));
    }
}
