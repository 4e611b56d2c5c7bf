//! Errors of journal files. Every message states the problem, its place, and the next step of the
//! user.

use std::io;
use std::path::PathBuf;

/// What to do if a journal cannot be read.
fn next_step(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => {
            "; check the path, or make a journal with `keel record` or `keel import`"
        }
        io::ErrorKind::IsADirectory => "; give a journal in it",
        io::ErrorKind::PermissionDenied => "; ask its owner for access, or copy it",
        _ => "",
    }
}

/// An error of the [`crate::Writer`] or the [`crate::Reader`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {cause}{}", next_step(cause.kind()))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The file is not a Parquet file.
    #[error("{path} is not a journal: {found}. {advice}")]
    NotParquet {
        /// The file.
        path: PathBuf,
        /// What the file seems to be.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// A Parquet file that was not written as a journal.
    #[error(
        "{path} is a Parquet file but not a journal: its footer has no `keel.journal` entry \
            (columns: {columns}). \
         A journal loses the entry when another tool rewrites it; use the file that `keel record` \
         or `keel import` wrote"
    )]
    NotJournal {
        /// The file.
        path: PathBuf,
        /// The columns found.
        columns: String,
    },
    /// The end of the file is missing.
    #[error(
        "{path} is cut short: {detail}. It was copied in part, or its writer was interrupted; \
         copy it again, or record or import it again"
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The evidence that the end is missing.
        detail: String,
    },
    /// The end of the file is missing, and [`crate::salvage`] can restore the journal.
    #[error(
        "{path} lacks its end: its writer was killed, or the file was cut off. Make a journal of \
         its contents: keel import {path} -o game.journal.parquet"
    )]
    Partial {
        /// The file.
        path: PathBuf,
    },
    /// Frames that the journal does not have.
    #[error(
        "the journal has no frames {asked}: its frames are 0 to {last}, and FIRST..LAST includes \
         both"
    )]
    NoFrame {
        /// The requested range.
        asked: String,
        /// The last frame.
        last: u64,
    },
    /// The writer's temporary file exists already.
    #[error(
        "{partial} exists: another keel is writing it, or one was killed. If it was killed, make \
         a journal of the file's contents (keel import {partial} -o OUTPUT) or remove it"
    )]
    Unfinished {
        /// The temporary file.
        partial: PathBuf,
    },
    /// Written by a later version of Keel.
    #[error(
        "{path} has journal format {version}, and this keel reads up to {known}: use a newer keel"
    )]
    Future {
        /// The file.
        path: PathBuf,
        /// The file's version.
        version: u64,
        /// The latest version that this crate can read.
        known: u32,
    },
    /// The rows are samples, and all operations are needed.
    #[error(
        "{path} has only samples of the operations (one per {sample_bytes} allocated bytes), and \
         this needs all of them: record without --sample. `keel info`, `keel blame` and `keel \
         export --to pprof` work with samples"
    )]
    Sampled {
        /// The file.
        path: PathBuf,
        /// The mean distance of samples.
        sample_bytes: u64,
    },
    /// Some bytes differ from the bytes that were written.
    #[error(
        "{path} is damaged: {place}: {detail}. Copy it again from its source, or record or import \
            it again"
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Footer, row group and byte range, or row.
        place: String,
        /// The problem.
        detail: String,
    },
    /// The file to be written cannot be created.
    #[error("cannot create {path}: {cause}; choose another place for the journal")]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Writing failed. [`crate::Writer::finish`] still saves the rows that were written before.
    #[error("cannot write {path}: {cause}; free some disk space, or choose another place")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Writing failed, and the file contains a valid journal of the first `rows` operations.
    #[error(
        "the journal was cut short: {cause}. {path} holds the first {rows} operations and is \
            valid, {lost} are lost; free some disk space and record or import it again"
    )]
    CutShort {
        /// The file.
        path: PathBuf,
        /// Operations saved.
        rows: u64,
        /// Operations lost.
        lost: u64,
        /// Why.
        cause: io::Error,
    },
    /// An event breaks a rule of the format. This is a bug of the caller.
    #[error("operation {row} cannot be written: {what}")]
    Invalid {
        /// The row that the event would have had, counted from 0.
        row: u64,
        /// The broken rule.
        what: String,
    },
    /// The Parquet library failed. This error has never occurred so far.
    #[error("cannot encode the journal: {0}")]
    Encode(String),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
