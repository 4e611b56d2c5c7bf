//! The statistics that tables and pages show.

mod confidence;
mod decided;
mod differences;
mod figures;
mod pairs;
mod percentile;
mod precision;
#[cfg(test)]
mod stopping_tests;
mod summary;
#[cfg(test)]
mod test_data;

pub use confidence::{CONFIDENCE, confidence, interval_of, paired_ratio, student, unpaired_ratio};
pub use decided::undecided;
pub use differences::{Difference, differences};
pub use figures::{Figure, clock_step, figures, frame_figures, known_step, supports_percentile};
pub use pairs::{conclude, conclude_frames, leaders};
pub use percentile::percentile;
pub use precision::{
    AGREEMENT, Imprecision, PRECISION, TAIL_PRECISION, imprecise, main_operation, needing_rounds,
};
pub use summary::{Spread, Summary, all_runs, median, median_run, summary, total_inside};
