//! From a result folder to one self-contained HTML page, to still pictures, and to text.
//!
//! The folders, bottom first; a folder uses only folders above its line:
//!
//! ```text
//! encode   bytes of the page's binary blocks
//! figures  results.json        -> figures of each allocator over its runs
//! counts   operations.parquet,
//!          run-*.parquet       -> exact counts of calls: tiles, planes, sums
//! verdict  figures             -> sentences: lowest, hitches, pairs
//! facts    figures, counts,
//!          verdict             -> the JSON and the binary blocks of the page
//! page     facts, page/*.{html,css,js}    -> report.html
//! plot     figures, counts     -> SVG, PNG
//! text     figures, verdict    -> Markdown, terminal
//! ```
//!
//! Nothing here measures, prints or reads the environment. The page counts every call of one run of
//! each allocator and works offline.

mod counts;
mod encode;
mod error;
mod facts;
mod figures;
mod page;
mod plot;
mod suite;
mod text;
mod verdict;
mod words;

pub use error::ReportError;
pub use figures::Matters;
pub use page::{Options, Report, build, build_with_symbols};
pub use plot::{Budget, Hue, Picture, PlotOptions, View, plot};
pub use suite::{Published, suite_headline, suite_markdown, suite_page, suite_site};
pub use text::{chart, markdown, verdict};
pub use verdict::{Pair, PairRow, pair, same_calls};
