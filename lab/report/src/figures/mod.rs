//! From the results of a comparison to its figures: for each allocator the median, the range and
//! the 95 % interval over runs, and for each figure the allocators that may be lowest.

mod allocator;
mod lowest;
mod matters;
#[cfg(test)]
pub mod sample;
mod spread;
mod summary;

pub use allocator::{
    AllocatorFigures, CALLS_ABOVE_1_MS, MEMORY_AT_END, figures, load, median_run, operations,
};
pub use lowest::{Leaders, Lowest, Ratio, all_leaders, complete, lowest, ratio};
pub use matters::Matters;
pub use spread::{Spread, power_of_ten, short};
pub use summary::{
    CURVE_POINTS_PER_NINE, FLOOR, NINES, OperationSummary, nines, summarize, undisturbed,
};
