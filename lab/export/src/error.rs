//! What came of an export.

use keel_results::FolderError;
use keel_results::raw::RawError;

/// Why there is no export.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Its rows cannot be read.
    #[error(transparent)]
    Raw(#[from] RawError),
    /// The comparison has no such allocator.
    #[error("the comparison has no allocator `{name}`; it has {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Only the summary of the allocator's runs was kept.
    #[error("no rows were kept of {0}: compare again without `--raw none`")]
    NotKept(String),
    /// The output cannot be written.
    #[error("cannot write the export: {0}")]
    Output(#[from] std::io::Error),
    /// A library refused to encode; never seen.
    #[error("cannot encode the export: {0}")]
    Encode(String),
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Of which allocators, comma separated.
    pub allocator: String,
    /// How many lines, rows, calls or histograms, as the format has.
    pub lines: u64,
}
