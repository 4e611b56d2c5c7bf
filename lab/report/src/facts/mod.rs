//! The data of the page: facts as JSON and counts as binary blocks, for `page/*.js` to draw.

mod blocks;
mod call_sites;
mod collect;
mod model;

pub use call_sites::call_sites;
pub use collect::part;
pub use model::{Facts, Part};
