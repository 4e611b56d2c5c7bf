//! The outcome of an export.

use keel_results::FolderError;
use keel_results::raw::RawError;

/// Why an export failed.
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
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// Only the summary of the allocator's runs was kept.
    #[error("no rows were kept of {0}: compare again without `--raw none`")]
    NotKept(String),
    /// The output cannot be written.
    #[error("cannot write the export")]
    Output(#[from] std::io::Error),
    /// A library failed to encode.
    #[error("cannot encode the export: {0}")]
    Encode(String),
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The allocators, comma separated.
    pub allocator: String,
    /// Number of lines, rows, calls or histograms, depending on the format.
    pub lines: u64,
}
