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
    #[error("{path}, {place}: expected {expected}, found {found}. \
        {advice}", place = place(*line, *column))]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1, as in an editor.
        line: u64,
        /// The byte of the line where it begins, from 1, if it is a part of the line.
        column: Option<u64>,
        /// What would have been right.
        expected: String,
        /// What stands there.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// There was not one operation.
    #[error(
        "{path} holds no operation: a text journal has lines such as `a 2048 23101F264A0 \
        15888 542200`"
    )]
    Empty {
        /// The last input.
        path: PathBuf,
    },
    /// No line is of any form that is known.
    #[error(
        "{path}, line {line}: no known form of trace begins with {found}. Known are {known}; \
         `keel import --help` shows them, and --from NAME skips the guess"
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its first line that says something, from 1.
        line: u64,
        /// What stands there.
        found: String,
        /// The names of all forms.
        known: String,
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
    /// Byte of the line, from 1, if it is a part of the line.
    pub column: Option<u64>,
}

impl Fault {
    pub fn at(self, path: &std::path::Path, line: u64) -> Error {
        let Fault { expected, found, advice, column } = self;
        Error::Line { path: path.to_path_buf(), line, column, expected, found, advice }
    }
}

/// Why an operation did not get into the journal.
#[derive(Debug)]
pub(crate) enum Refusal {
    Line(Fault),
    Journal(Error),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal::Line(fault)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Journal(error)
    }
}

impl Refusal {
    pub fn at(self, path: &std::path::Path, line: u64) -> Error {
        match self {
            Refusal::Line(fault) => fault.at(path, line),
            Refusal::Journal(error) => error,
        }
    }
}

fn place(line: u64, column: Option<u64>) -> String {
    column.map_or_else(|| format!("line {line}"), |column| format!("line {line}, column {column}"))
}
