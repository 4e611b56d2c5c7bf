//! The data of the page: facts as JSON and counts as binary blocks, for `page/*.js` to draw.

mod blocks;
mod collect;
mod model;

pub use collect::part;
pub use model::{Facts, Part};
