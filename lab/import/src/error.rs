//! What can be wrong with an input: which line, what was expected there, what to do.

use std::io;
use std::path::PathBuf;

/// Why an import failed. Nothing is left at the output's place then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input cannot be opened or read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The input is of a kind that is recognised but not imported.
    #[error("{path}: {found}; {advice}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// A line that cannot be read or that contradicts what came before.
    #[error("{path}, line {line}: expected {expected}, found {found}. {advice}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1, as in an editor.
        line: u64,
        /// What would have been right.
        expected: String,
        /// What stands there.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// There was not one operation.
    #[error("{path} holds no operation: a text journal has lines such as `a 2048 23101F264A0 15888 542200`")]
    Empty {
        /// The last input.
        path: PathBuf,
    },
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] keel_journal::Error),
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

/// A fault in a line, before the file and the number of the line are known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub expected: String,
    pub found: String,
    pub advice: &'static str,
}

impl Fault {
    pub fn at(self, path: &std::path::Path, line: u64) -> Error {
        let Fault { expected, found, advice } = self;
        Error::Line { path: path.to_path_buf(), line, expected, found, advice }
    }
}
