//! Lengths of files, widths of lines, trailing space.

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
    fn tables_and_links_may_be_wide() {
        assert!(may_be_wide("| a | b |") && may_be_wide("see [the page](docs/page.md)"));
        assert!(!may_be_wide("plain prose"));
    }
}
