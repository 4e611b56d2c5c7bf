//! `#include "..."` between our own C files: downward only, and no file reaches itself.

use crate::graph::{self, Graph};
use crate::layers::Layers;
use crate::{Findings, tree};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// Folders that the build puts on the include path.
const ROOTS: [&str; 5] =
    ["", "in_process", "in_process/include", "in_process/allocator", "journal"];

/// Checks every C and C++ file of the product.
pub fn check(root: &Path, files: &[PathBuf], layers: &Layers) -> Result<Findings> {
    let mut findings = Findings::new();
    let mut graph = Graph::new();
    for file in files.iter().filter(|file| of_product(file)) {
        let text =
            std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())?;
        for (line, target) in included(&text) {
            let Some(target) = resolve(root, file, target) else {
                findings.push(format!(
                    "{}:{line}: \"{target}\" is not on the include path",
                    file.display()
                ));
                continue;
            };
            if target.extension().is_some_and(|e| e == "c") {
                findings.push(format!("{}:{line}: includes a .c file", file.display()));
            }
            if let Some(objection) = layers.objection(file, &target) {
                findings.push(format!("{objection} (line {line})"));
            }
            graph
                .entry(file.display().to_string())
                .or_default()
                .insert(target.display().to_string());
        }
    }
    findings.extend(
        graph::cycles(&graph).into_iter().map(|c| format!("include cycle: {}", c.join(" -> "))),
    );
    Ok(findings)
}

fn of_product(file: &Path) -> bool {
    (file.starts_with("in_process") || file.starts_with("journal"))
        && tree::has_extension(file, &["c", "h", "cc", "cpp", "hpp"])
}

/// The quoted includes of a file with their line numbers.
fn included(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        let name = rest.trim_start().strip_prefix('"')?.split('"').next()?;
        Some((index + 1, name))
    })
}

fn resolve(root: &Path, file: &Path, target: &str) -> Option<PathBuf> {
    let beside = file.parent().map(|folder| folder.join(target));
    let candidates =
        beside.into_iter().chain(ROOTS.iter().map(|folder| Path::new(folder).join(target)));
    candidates.map(|path| normalised(&path)).find(|path| root.join(path).is_file())
}

/// `a/b/../c` as `a/c`; the path is relative and stays inside the repository.
fn normalised(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                result.pop();
            }
            std::path::Component::CurDir => {}
            other => result.push(other),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quoted_includes_are_read() {
        let text = "#include <stdio.h>\n  # include \"base/bits.h\"\nint x; // #include \"no.h\"\n";
        assert_eq!(included(text).collect::<Vec<_>>(), vec![(2, "base/bits.h")]);
    }

    #[test]
    fn parent_folders_are_resolved() {
        assert_eq!(normalised(Path::new("a/b/../c/./d.h")), PathBuf::from("a/c/d.h"));
    }
}
