//! Machine facts, the clock's frequency, and the statistics that tables and pages show.

mod conclude;
mod confidence;
mod figures;
mod machine;
mod percentile;
mod statistics;
mod steadiness;
mod time;

pub use conclude::{Difference, conclude, differences, frame_pairs, leaders};
pub use confidence::{CONFIDENCE, interval_of, paired_ratio, student, unpaired_ratio};
pub use figures::{
    ALL_OPERATIONS, FRAME, Figure, PERCENTILES, RUN, bears, clock_step, figures, frame_figures, known_step,
};
pub use machine::{ProcessorTime, machine};
pub use percentile::percentile;
pub use statistics::{QUANTILES, Spread, Summary, all_runs, median_run, middle, summary, total_inside};
pub use steadiness::{AGREEMENT, SETTLED, unsettled, unsteadiness};
pub use time::{Frequency, rfc3339};
