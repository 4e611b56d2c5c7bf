//! `results.json`: reading and writing the summary of a result folder.

use crate::{Comparison, RESULTS_VERSION};
use std::path::{Path, PathBuf};

/// File name of the summary in a result folder.
pub const RESULTS_FILE: &str = "results.json";

/// Why a result folder could not be read or written, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// No such folder.
    #[error("{}: no such folder; `keel compare JOURNAL -o FOLDER` makes one", .0.display())]
    Missing(PathBuf),
    /// A folder or file that no comparison wrote.
    #[error(
        "{}: not a result folder (it has no {RESULTS_FILE}); `keel compare JOURNAL -o FOLDER` \
         makes one",
        .0.display()
    )]
    Foreign(PathBuf),
    /// The summary is not JSON of the expected form.
    #[error("{}: {detail}; run `keel compare` again", path.display())]
    Malformed {
        /// The summary.
        path: PathBuf,
        /// The JSON reader's message.
        detail: String,
    },
    /// Written by another version of Keel.
    #[error(
        "{}: result format {found}, but this keel reads format {RESULTS_VERSION}: run `keel \
         compare` again",
        path.display()
    )]
    Version {
        /// The summary.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The system reported an error.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The summary.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
}

impl Comparison {
    /// Reads `results.json` of a result folder.
    pub fn load(folder: &Path) -> Result<Comparison, FolderError> {
        if !folder.exists() {
            return Err(FolderError::Missing(folder.to_path_buf()));
        }
        let path = folder.join(RESULTS_FILE);
        if !path.is_file() {
            return Err(FolderError::Foreign(folder.to_path_buf()));
        }
        let text = std::fs::read_to_string(&path)
            .map_err(|cause| FolderError::Io { path: path.clone(), cause })?;
        let comparison: Comparison = serde_json::from_str(&text).map_err(|error| {
            FolderError::Malformed { path: path.clone(), detail: error.to_string() }
        })?;
        if comparison.version != RESULTS_VERSION {
            return Err(FolderError::Version { path, found: comparison.version });
        }
        Ok(comparison)
    }

    /// Writes `results.json` into a result folder that exists.
    pub fn save(&self, folder: &Path) -> Result<(), FolderError> {
        let path = folder.join(RESULTS_FILE);
        let text = serde_json::to_string(self).map_err(|error| FolderError::Malformed {
            path: path.clone(),
            detail: error.to_string(),
        })?;
        std::fs::write(&path, text).map_err(|cause| FolderError::Io { path, cause })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn a_saved_comparison_can_be_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let comparison = Comparison {
            version: RESULTS_VERSION,
            notes: vec!["more threads than cores".into()],
            ..Comparison::default()
        };
        comparison.save(folder.path()).unwrap();
        assert_eq!(Comparison::load(folder.path()).unwrap().notes, comparison.notes);
    }

    #[test]
    fn each_kind_of_wrong_folder_has_its_own_message() {
        let folder = tempfile::tempdir().unwrap();
        let text = |path: &Path| Comparison::load(path).err().unwrap().to_string();
        assert!(text(&folder.path().join("nowhere")).contains("no such folder"));
        assert!(text(folder.path()).contains("not a result folder"));
        std::fs::write(folder.path().join(RESULTS_FILE), "{\"version\": }").unwrap();
        assert!(text(folder.path()).contains("line 1"), "{}", text(folder.path()));
        std::fs::write(folder.path().join(RESULTS_FILE), "{\"version\": 999}").unwrap();
        assert!(text(folder.path()).contains("999"));
    }
}
