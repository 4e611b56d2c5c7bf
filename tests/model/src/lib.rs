//! A shadow model of `malloc`: it executes random operations on an allocator library and reports
//! broken guarantees: no overlap, alignment, zeroes from `calloc`, contents kept by `realloc` and
//! until `free`.
//!
//! [`Library`] is an allocator loaded from a file, [`Operation`] is a call, and [`Model`] executes
//! calls and keeps the expected state. The property tests in `tests/` generate operations and
//! shrink failing sequences.

mod library;
mod model;
mod operation;
mod pattern;

pub use library::{Library, LibraryError};
pub use model::{Broken, Model};
pub use operation::Operation;
