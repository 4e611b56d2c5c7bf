//! Machine facts, the clock's frequency, and the statistics that tables and pages show.

mod machine;
mod statistics;
mod time;

pub use machine::machine;
pub use statistics::{QUANTILES, Spread, Summary, all_runs, median_run, summary, total_inside};
pub use time::{Frequency, rfc3339};
