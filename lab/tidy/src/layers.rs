//! The order of the folders, from the file `LAYERS`.

use anyhow::{Context as _, Result, bail};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::Findings;

/// Each named folder with its height: the number of layers below it.
pub struct Layers {
    heights: HashMap<PathBuf, usize>,
}

impl Layers {
    /// Reads the file; fails on a folder named twice.
    pub fn read(path: &Path) -> Result<Layers> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Layers::parse(&text)
    }

    /// One layer a line, bottom first; `#` begins a comment.
    pub fn parse(text: &str) -> Result<Layers> {
        let mut heights = HashMap::new();
        for (height, line) in
            text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()).enumerate()
        {
            for folder in line.split_whitespace() {
                if heights.insert(PathBuf::from(folder), height).is_some() {
                    bail!("LAYERS names {folder} twice");
                }
            }
        }
        Ok(Layers { heights })
    }

    /// The named folder that holds this file: the longest that is a prefix of its path.
    pub fn folder_of(&self, file: &Path) -> Option<&Path> {
        let parents = file.ancestors().skip(1);
        parents.filter_map(|p| self.heights.get_key_value(p)).map(|(k, _)| k.as_path()).next()
    }

    /// Why the file `from` may not use the file `to`, or None if it may.
    pub fn objection(&self, from: &Path, to: &Path) -> Option<String> {
        let (lower, upper) = (self.folder_of(to)?, self.folder_of(from)?);
        if lower == upper || self.heights[lower] < self.heights[upper] {
            return None;
        }
        let how = if self.heights[lower] == self.heights[upper] { "beside" } else { "above" };
        Some(format!(
            "{} may not use {}: it is {how} {}",
            from.display(),
            lower.display(),
            upper.display()
        ))
    }

    /// Folders with C or Rust sources of the product that are in no layer.
    pub fn unnamed(&self, files: &[PathBuf]) -> Findings {
        let of_product = |f: &&PathBuf| f.starts_with("in_process") || f.starts_with("lab");
        let sources = files.iter().filter(|f| crate::tree::has_extension(f, &["c", "h", "rs"]));
        let mut folders: Vec<String> = sources
            .filter(of_product)
            .filter(|f| !f.starts_with("lab/peers") && self.folder_of(f).is_none())
            .filter_map(|f| Some(format!("{} is in no line of LAYERS", f.parent()?.display())))
            .collect();
        folders.dedup();
        folders
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    #[test]
    fn upward_and_sideways_use_is_refused_downward_is_not() {
        let layers = Layers::parse("# order\nbase\nos net\napi\n").unwrap();
        let objection = |from: &str, to: &str| layers.objection(Path::new(from), Path::new(to));
        assert_eq!(objection("api/a.c", "base/b.h"), None);
        assert_eq!(objection("os/a.c", "os/b.h"), None);
        assert_eq!(
            objection("base/b.c", "api/a.h").unwrap(),
            "base/b.c may not use api: it is above base"
        );
        assert_eq!(
            objection("os/b.c", "net/a.h").unwrap(),
            "os/b.c may not use net: it is beside os"
        );
    }

    #[test]
    fn the_longest_folder_counts() {
        let layers = Layers::parse("in/include\nin\n").unwrap();
        assert_eq!(
            layers.folder_of(Path::new("in/include/keel/keel.h")),
            Some(Path::new("in/include"))
        );
    }

    #[test]
    fn a_folder_named_twice_is_an_error() {
        assert!(Layers::parse("a\nb a\n").is_err());
    }
}
