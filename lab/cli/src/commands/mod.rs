//! One file for each subcommand: its arguments, and `run`, which lists its steps.

pub mod allocators;
pub mod attach;
pub mod bench;
pub mod blame;
pub mod capture;
pub mod check;
pub mod compare;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod import;
pub mod info;
pub mod manual;
pub mod plot;
pub mod record;
pub mod report;
pub mod slice;
pub mod time;
pub mod r#try;
pub mod watch;
