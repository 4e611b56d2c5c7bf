//! Errors before the program starts. Every message names the problem, its place, and what to do
//! next.

use std::io;
use std::path::PathBuf;

/// The program cannot be recorded; it was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such program.
    #[error("cannot find the program {0}: give its path, or a name that is in PATH")]
    NotFound(String),
    /// It exists and cannot be executed.
    #[error("{} cannot be executed: {reason}", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The recorder cannot be loaded into it.
    #[error("{} cannot be recorded: {reason}", path.display())]
    NotRecordable {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The journal's file cannot be written.
    #[error("{0}")]
    Journal(keel_journal::Error),
    /// The shared memory cannot be set up.
    #[error("cannot set up the recording in {}: {cause}; name another folder with \
        --spool", path.display())]
    Session {
        /// Folder or file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The recorder cannot enter a running process.
    #[error("cannot attach to process {pid}: {reason}")]
    Attach {
        /// The process.
        pid: u32,
        /// Why.
        reason: String,
    },
    /// The program cannot be started.
    #[error("cannot start {}: {cause}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}
