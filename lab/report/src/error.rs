//! Why a report cannot be made.

use std::path::PathBuf;

/// Why a page, picture or text could not be made; the message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The folder or its summary cannot be read.
    #[error(transparent)]
    Folder(#[from] keel_results::FolderError),
    /// A file of raw rows cannot be read.
    #[error(transparent)]
    Raw(#[from] keel_results::raw::RawError),
    /// The number of rows of a run differs from the number of operations.
    #[error(
        "{}: {found} rows, but operations.parquet has {expected}: the files are not of one \
         comparison",
        path.display()
    )]
    RowCount {
        /// The run's file.
        path: PathBuf,
        /// Its rows.
        found: u64,
        /// The rows of the operations.
        expected: u64,
    },
    /// An operation that this version does not know.
    #[error("{}: unknown operation {code}: use the version of keel that wrote it", path.display())]
    UnknownOperation {
        /// The file.
        path: PathBuf,
        /// The code.
        code: u8,
    },
    /// The two allocators of a pair are not both in the comparison.
    #[error("{0}")]
    Pair(String),
    /// The call stacks cannot be read.
    #[error(transparent)]
    CallSites(keel_blame::BlameError),
    /// The requested picture cannot be drawn.
    #[error("{0}")]
    Plot(String),
    /// The summary contradicts itself.
    #[error("{}: {detail}; run `keel compare` again", path.display())]
    Nonsense {
        /// The summary.
        path: PathBuf,
        /// The contradiction.
        detail: String,
    },
}
