//! Errors of a comparison as a whole. The failure of one allocator is part of its result.

use std::path::PathBuf;

/// Rows are numbered in 32 bits, and one number means none.
const MOST_ROWS: u32 = u32::MAX - 1;

/// Why there is no comparison, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] keel_journal::Error),
    /// The journal is readable but breaks a rule.
    #[error("row {row} of the journal: {what}; `keel info --verify` lists all errors")]
    Invalid {
        /// Row, from 0.
        row: u64,
        /// The broken rule.
        what: String,
    },
    /// None of the requested allocators can be loaded.
    #[error("none of the allocators can be used: {0}; `keel allocators` lists the available ones")]
    NoneUsable(String),
    /// The journal has no operation to replay.
    #[error("the journal contains no operation that can be replayed")]
    Empty,
    /// More rows than a plan can number.
    #[error(
        "the journal has more than {MOST_ROWS} operations: record a shorter period (`keel record \
         --max-events`)"
    )]
    TooLong,
    /// Shared memory was refused, mostly because there is too little memory.
    #[error(transparent)]
    Shared(#[from] keel_plan::SharedError),
    /// The result folder cannot be written.
    #[error(transparent)]
    Raw(#[from] keel_results::raw::RawError),
    /// The summary cannot be written.
    #[error(transparent)]
    Folder(#[from] keel_results::FolderError),
    /// The result folder cannot be made, moved or removed.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The user stopped the comparison before any run was finished; no folder remains.
    #[error("stopped before the first run was finished; nothing was written")]
    Stopped,
}

impl Error {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |cause| Error::Io { path, cause }
    }
}
