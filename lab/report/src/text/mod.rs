//! The figures as text: a chart and the verdict for the terminal, Markdown for a pull request.

mod chart;
mod markdown;
#[cfg(test)]
mod sample;

pub use chart::chart;
pub use markdown::{markdown, verdict};
