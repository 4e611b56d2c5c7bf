//! Results to other tools' formats.

mod csv;

pub use csv::{ExportError, Written, csv};
