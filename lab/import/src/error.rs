//! Errors of an input: the line, what was expected there, and what to do.

use std::io;
use std::path::PathBuf;

/// An import failed. No output file is left then.
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
    /// The kind of the input is recognised but not supported.
    #[error("{path}: {found}; {advice}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The kind of the file.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// A line that cannot be read, or that contradicts earlier lines.
    #[error("{path}, {place}: expected {expected}, found {found}. \
        {advice}", place = place(*line, *column))]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: u64,
        /// The first byte of the faulty part of the line, from 1; `None` for the whole line.
        column: Option<u64>,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// A record of a binary file that cannot be read, or that contradicts earlier records.
    #[error("{path}, byte {offset}: expected {expected}, found {found}. {advice}")]
    Record {
        /// The file.
        path: PathBuf,
        /// Where the record begins in the decompressed file.
        offset: u64,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// The input has no operation.
    #[error(
        "{path} contains no operations: a text journal has lines such as `a 2048 23101F264A0 \
        15888 542200`"
    )]
    Empty {
        /// The last input.
        path: PathBuf,
    },
    /// No line has a known form.
    #[error(
        "{path}, line {line}: no known trace format begins with {found}. The formats are {known}; \
         `keel import --help` describes them. If you know the format, use --from FORMAT"
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its first line that is not blank or a comment, from 1.
        line: u64,
        /// What was found.
        found: String,
        /// The names of all forms.
        known: String,
    },
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] keel_journal::Error),
}

/// The result of an import.
pub type Result<T> = std::result::Result<T, Error>;

/// A fault in a line, without the file and the number of the line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub expected: String,
    pub found: String,
    pub advice: &'static str,
    /// The first byte of the faulty part of the line, from 1; `None` for the whole line.
    pub column: Option<u64>,
}

impl Fault {
    pub fn at(self, path: &std::path::Path, line: u64) -> Error {
        let Fault { expected, found, advice, column } = self;
        Error::Line { path: path.to_path_buf(), line, column, expected, found, advice }
    }

    /// The fault of a record of a binary file.
    pub fn at_byte(self, path: &std::path::Path, offset: u64) -> Error {
        let Fault { expected, found, advice, .. } = self;
        Error::Record { path: path.to_path_buf(), offset, expected, found, advice }
    }
}

/// The reason why an operation was not written to the journal.
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

    /// The refusal of a record of a binary file.
    pub fn at_byte(self, path: &std::path::Path, offset: u64) -> Error {
        match self {
            Refusal::Line(fault) => fault.at_byte(path, offset),
            Refusal::Journal(error) => error,
        }
    }
}

fn place(line: u64, column: Option<u64>) -> String {
    column.map_or_else(|| format!("line {line}"), |column| format!("line {line}, column {column}"))
}
