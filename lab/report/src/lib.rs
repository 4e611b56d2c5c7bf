//! Results to one self-contained HTML page.
//!
//! ```text
//! results.json ------------------> summary, statistics -> verdict --> facts (JSON) --+
//! operations.parquet --+-> operations -+                                             |
//! run-*.parquet -------+               +-> rows -> tiles, planes, sums -> blocks ----+-> page.html
//!                                                                  page/*.{html,css,js}
//! ```
//! Nothing here measures, prints or reads the environment. The page holds every call of one run of each allocator,
//! counted, and works offline.

mod blocks;
mod build;
mod contest;
mod encode;
mod hitch;
mod model;
mod operations;
mod page;
mod pairs;
mod planes;
mod plot;
mod rows;
mod statistics;
mod summary;
mod text;
mod tiles;
mod verdict;
mod words;

pub use build::{Options, Report, build};
pub use pairs::{Pair, PairRow, pair};
pub use plot::{Budget, Hue, Picture, PlotOptions, View, plot};
pub use text::{chart, markdown, verdict};

use std::path::PathBuf;

/// Why a page could not be made; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The folder or its summary is not as expected.
    #[error(transparent)]
    Folder(#[from] keel_results::FolderError),
    /// A file of raw rows is not as expected.
    #[error(transparent)]
    Raw(#[from] keel_results::raw::RawError),
    /// A run measured another number of operations than the folder holds.
    #[error(
        "{}: {found} rows, but operations.parquet has {expected}: the files are not of one comparison",
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
    #[error("{}: unknown operation {code}: use the keel that wrote it", path.display())]
    UnknownOperation {
        /// The file.
        path: PathBuf,
        /// The code.
        code: u8,
    },
    /// Two allocators that the comparison does not hold both.
    #[error("{0}")]
    Pair(String),
    /// What was asked of a picture cannot be drawn.
    #[error("{0}")]
    Plot(String),
    /// The summary cannot be true.
    #[error("{}: {detail}; run `keel compare` again", path.display())]
    Nonsense {
        /// The summary.
        path: PathBuf,
        /// What cannot be.
        detail: String,
    },
}
