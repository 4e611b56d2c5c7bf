//! From the raw rows of a result folder to exact counts of calls: over time and latency (tiles),
//! over size and latency or lifetime (planes), and the time inside calls of each frame (sums).

mod comparison;
mod operations;
mod planes;
mod run;
mod schedule;
mod threads;
mod tiles;

pub use comparison::{Counted, Described, Options, in_parallel};
pub use operations::{Operations, WINDOW_NS};
pub use planes::{LIFETIME_STEPS, LIFETIME_STEPS_PER_OCTAVE};
pub use run::{CountedRun, LATENESS_COLUMNS, Sums};
pub use threads::{LANES, Lane};
pub use tiles::{
    FINEST_COLUMNS, LATENCY_ROWS, ROWS_PER_OCTAVE, TileCell, Tiles, cause_index, size_step,
};
