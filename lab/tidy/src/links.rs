//! Links in Markdown: each relative path must name a file, and each fragment a heading.

use crate::{Findings, tree};
use anyhow::{Context as _, Result};
use regex::Regex;
use std::path::{Path, PathBuf};

/// Checks every Markdown file of the repository.
pub fn check(root: &Path, files: &[PathBuf]) -> Result<Findings> {
    let link = Regex::new(r"\]\(([^)\s]+)\)")?;
    let mut findings = Findings::new();
    for file in files.iter().filter(|file| tree::has_extension(file, &["md"])) {
        let text =
            std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())?;
        for (index, line) in tree::prose_lines(&text) {
            for capture in link.captures_iter(line) {
                if let Some(fault) = fault_of(root, file, &text, &capture[1]) {
                    findings.push(format!("{}:{}: {fault}", file.display(), index + 1));
                }
            }
        }
    }
    Ok(findings)
}

fn fault_of(root: &Path, file: &Path, text: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
    let linked = file.parent().unwrap_or(Path::new("")).join(path);
    if !path.is_empty() && !root.join(&linked).exists() {
        return Some(format!("the link {target} names no file"));
    }
    if fragment.is_empty() {
        return None;
    }
    let other = if path.is_empty() {
        text.to_owned()
    } else {
        std::fs::read_to_string(root.join(&linked)).ok()?
    };
    let found =
        tree::prose_lines(&other).any(|(_, line)| line.starts_with('#') && slug(line) == fragment);
    (!found).then(|| format!("the link {target} names no heading"))
}

/// A heading's fragment: lower case, spaces as hyphens, without other punctuation.
fn slug(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_found() {
        let fault = |target: &str| {
            fault_of(Path::new("."), Path::new("a.md"), "# The Head, here\n", target)
        };
        assert_eq!(fault("https://example.org"), None);
        assert_eq!(fault("src/main.rs"), None);
        assert_eq!(fault("#the-head-here"), None);
        assert_eq!(fault("#other").as_deref(), Some("the link #other names no heading"));
        assert_eq!(fault("none.md").as_deref(), Some("the link none.md names no file"));
    }
}
