//! One file per subcommand: its arguments, and `run`, which reads like a table of contents.

pub mod record;
pub mod report;
