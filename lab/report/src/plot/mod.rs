//! The page's views as still pictures, SVG or PNG, without a browser: for papers, CI and pull
//! requests.
//!
//! ```text
//! result folders -> Counted (as for the page)
//!   -> density, sizes, lifetimes | percentiles, memory | budget, lateness
//!   -> Scene -> SVG text, PNG bytes
//! ```

mod axes;
mod budget;
mod charts;
mod colour;
mod density;
mod entry;
mod image;
mod lateness;
mod options;
mod picture;
mod png;
mod scene;
mod svg;

pub use options::{Budget, Hue, PlotOptions, View};
pub use picture::{Picture, plot};
