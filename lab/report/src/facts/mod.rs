//! The data of the page: facts as JSON and counts as binary blocks, for `page/*.js` to draw.

mod blocks;
mod call_sites;
mod collect;
mod model;
mod pinned;
mod stacks;

pub use collect::part;
pub use model::{Facts, Part};
pub use stacks::Stacks;
