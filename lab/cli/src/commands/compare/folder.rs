//! The result folder of `keel compare`.

use super::file_name;
use crate::output;
use anyhow::{Context as _, Result, bail};
use keel_results::RESULTS_FILE;
use keel_results::raw::{OPERATIONS_FILE, STACKS_FILE};
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
                    "cannot replace {}; the new results are {}",
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

    /// Moves what no comparison writes to the new results.
    fn keep_others(&self) -> std::io::Result<()> {
        let is_result = |name: &str| {
            let is_of_run = name.starts_with("run-") || name.starts_with("round-");
            [RESULTS_FILE, OPERATIONS_FILE, STACKS_FILE, "report.html"].contains(&name)
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

    #[test]
    fn files_that_no_comparison_writes_stay_in_the_folder() {
        let parent = tempfile::tempdir().unwrap();
        let place = parent.path().join("results");
        std::fs::create_dir_all(place.join("plots")).unwrap();
        for name in [RESULTS_FILE, "run-keel-0.parquet", "notes.txt", "plots/a.svg"] {
            std::fs::write(place.join(name), "old").unwrap();
        }
        let folder = ResultFolder::at(&place, true).unwrap();
        std::fs::create_dir(&folder.written).unwrap();
        std::fs::write(folder.written.join(RESULTS_FILE), "new").unwrap();
        folder.finish().unwrap();
        assert_eq!(std::fs::read_to_string(place.join(RESULTS_FILE)).unwrap(), "new");
        let stays = ["run-keel-0.parquet", "notes.txt", "plots/a.svg"];
        assert_eq!(stays.map(|name| place.join(name).exists()), [false, true, true]);
    }
}
