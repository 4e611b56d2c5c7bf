//! Lengths: files that have grown too long to hold in mind, lines too long to read.

use crate::{Findings, tree};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

const MOST_LINES: usize = 600;
const MOST_COLUMNS: usize = 120;
const SOURCES: [&str; 8] = ["c", "h", "cc", "cpp", "hpp", "rs", "js", "py"];

/// Checks every source file of the repository.
pub fn check(root: &Path, files: &[PathBuf]) -> Result<Findings> {
    let mut findings = Findings::new();
    for file in files.iter().filter(|file| tree::has_extension(file, &SOURCES)) {
        let text = std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())?;
        findings.extend(check_text(&file.display().to_string(), &text));
    }
    Ok(findings)
}

fn check_text(name: &str, text: &str) -> Findings {
    let mut findings = Findings::new();
    let count = text.lines().count();
    if count > MOST_LINES {
        findings.push(format!("{name}: {count} lines, more than {MOST_LINES}: split it by what it does"));
    }
    for (index, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        if columns > MOST_COLUMNS {
            findings.push(format!("{name}:{}: {columns} columns, more than {MOST_COLUMNS}", index + 1));
        }
        if line.ends_with([' ', '\t']) {
            findings.push(format!("{name}:{}: space at the end of the line", index + 1));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_long_files_and_trailing_space_are_found() {
        assert!(check_text("a.c", "int a;\n").is_empty());
        assert_eq!(check_text("a.c", "int a; \n"), vec!["a.c:1: space at the end of the line"]);
        assert_eq!(check_text("a.c", &"x".repeat(121)), vec!["a.c:1: 121 columns, more than 120"]);
        assert_eq!(check_text("a.c", &"\n".repeat(601)).len(), 1);
    }
}
