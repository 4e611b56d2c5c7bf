//! The HTML page: builds the facts of each result folder and puts them, the scripts and the styles
//! of `page/` into one file.

mod build;
mod html;

pub use crate::counts::Options;
pub use build::{Report, build, build_with_symbols};
