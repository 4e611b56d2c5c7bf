//! One file per subcommand: its arguments, and `run`, which reads like a table of contents.

pub mod allocators;
pub mod attempt;
pub mod bench;
pub mod capture;
pub mod compare;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod import;
mod import_own;
pub mod info;
pub mod plot;
pub mod record;
pub mod report;
pub mod time;
