//! The result folder of `keel compare`.

use super::file_name;
use crate::commands::report::PAGE_FILE;
use crate::output;
use anyhow::{Context as _, Result, bail};
use keel_results::raw::{OPERATIONS_FILE, STACKS_FILE};
use keel_results::{PINNED_FILE, RESULTS_FILE};
use std::path::{Path, PathBuf};

/// The folder of the results. Results that are replaced remain until the new ones are complete.
pub struct ResultFolder {
    pub path: PathBuf,
    /// Where the new results are written: the same folder, or a new one beside it. It does not
    /// exist or is empty.
    pub written: PathBuf,
}

impl ResultFolder {
    pub fn named_after(journal: &Path) -> Result<ResultFolder> {
        let name = file_name(journal);
        let stem = name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or("journal");
        let path = output::free_folder(&format!("{stem}.comparison"))?;
        Ok(ResultFolder { written: path.clone(), path })
    }

    pub fn at(folder: &Path, force: bool) -> Result<ResultFolder> {
        let path = folder.to_path_buf();
        if !output::is_occupied(folder) {
            return Ok(ResultFolder { written: path.clone(), path });
        }
        if !folder.join(RESULTS_FILE).is_file() {
            bail!("{} exists and is not a result folder: choose another with -o", folder.display());
        }
        if !force {
            bail!(
                "{} already contains results: choose another folder with -o, or replace it with \
                 --force",
                folder.display()
            );
        }
        // The new results are written beside the folder itself, not beside a link to it.
        let path = folder.canonicalize().with_context(|| folder.display().to_string())?;
        let mut written = path.clone().into_os_string();
        written.push(format!(".new-{}", std::process::id()));
        Ok(ResultFolder { path, written: written.into() })
    }

    /// Puts the complete new results in the place of the old ones.
    pub fn finish(&self) -> Result<()> {
        if self.written != self.path {
            let failed = || {
                format!(
                    "cannot replace {}; the new results, and its other files if they were already \
                     moved, are in {}",
                    self.path.display(),
                    self.written.display()
                )
            };
            self.keep_others().with_context(failed)?;
            std::fs::remove_dir_all(&self.path).with_context(failed)?;
            std::fs::rename(&self.written, &self.path).with_context(failed)?;
        }
        Ok(())
    }

    /// Moves to the new results what neither belongs to the old ones nor was made from them: the
    /// page shows them, and the pinned memory contains numbers of their call stacks.
    fn keep_others(&self) -> std::io::Result<()> {
        let is_result = |name: &str| {
            let is_of_run = name.starts_with("run-") || name.starts_with("round-");
            [RESULTS_FILE, OPERATIONS_FILE, STACKS_FILE, PINNED_FILE, PAGE_FILE].contains(&name)
                || (is_of_run && name.ends_with(".parquet"))
        };
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(is_result) {
                std::fs::rename(entry.path(), self.written.join(entry.file_name()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    /// A folder of old results with these other files, and the place of the new results.
    fn replaced(parent: &Path, others: &[&str]) -> ResultFolder {
        let place = parent.join("results");
        std::fs::create_dir_all(place.join("plots")).unwrap();
        for name in [RESULTS_FILE].iter().chain(others) {
            std::fs::write(place.join(name), "old").unwrap();
        }
        let folder = ResultFolder::at(&place, true).unwrap();
        std::fs::create_dir(&folder.written).unwrap();
        std::fs::write(folder.written.join(RESULTS_FILE), "new").unwrap();
        folder
    }

    #[test]
    fn only_files_that_are_not_of_the_old_results_stay_in_the_folder() {
        let parent = tempfile::tempdir().unwrap();
        let old = ["run-keel-0.parquet", "pinned.json", "report.html"];
        let own = ["notes.txt", "plots/a.svg"];
        let folder = replaced(parent.path(), &[&old[..], &own].concat());
        folder.finish().unwrap();
        let place = &folder.path;
        assert_eq!(std::fs::read_to_string(place.join(RESULTS_FILE)).unwrap(), "new");
        assert_eq!(old.map(|name| place.join(name).exists()), [false; 3]);
        assert_eq!(own.map(|name| place.join(name).exists()), [true; 2]);
    }

    #[test]
    fn a_folder_that_cannot_be_replaced_states_where_its_other_files_are() {
        let parent = tempfile::tempdir().unwrap();
        let folder = replaced(parent.path(), &["plots/a.svg"]);
        // In its place is a folder with contents.
        std::fs::create_dir_all(folder.written.join("plots/b")).unwrap();
        let message = folder.finish().unwrap_err().to_string();
        let place = folder.written.display();
        let stated = format!("its other files if they were already moved, are in {place}");
        assert!(message.ends_with(&stated), "{message}");
        assert!(folder.path.join("plots/a.svg").exists());
    }
}
