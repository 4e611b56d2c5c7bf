//! Why nothing can be attributed.

use keel_results::FolderError;
use keel_results::raw::RawError;
use std::path::PathBuf;

/// Why nothing can be attributed to call sites, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum BlameError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] keel_journal::Error),
    /// The result folder cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The rows of a result folder cannot be read.
    #[error(transparent)]
    Raw(#[from] RawError),
    /// The journal was recorded without call stacks.
    #[error(
        "{}: no call stacks were recorded: record again with `keel record --stacks 16`",
        .0.display()
    )]
    NoStacks(PathBuf),
    /// The results are those of a journal without call stacks, or of an older version.
    #[error(
        "{}: the results have no call stacks: record with `keel record --stacks 16`, then run \
         `keel compare` on that journal",
        .0.display()
    )]
    NoStacksInResults(PathBuf),
    /// The file of the stacks is damaged.
    #[error("{}: {detail}; run `keel compare` again", path.display())]
    Stacks {
        /// The file.
        path: PathBuf,
        /// The reader's message.
        detail: String,
    },
    /// No allocator has measured rows.
    #[error("{}: no rows were kept: compare again without `--raw none`", .0.display())]
    NotKept(PathBuf),
}
