//! A shadow model of `malloc`: it performs random operations on an allocator library and says when the library breaks
//! a promise. No overlap, alignment, zeroes from `calloc`, contents kept by `realloc` and until `free`.
//!
//! [`Library`] is an allocator loaded from a file; [`Operation`] is what can be done to it; [`Model`] does it and
//! remembers what must hold. The property tests in `tests/` generate operations and shrink those that fail.

mod library;
mod model;
mod operation;
mod pattern;

pub use library::{Library, LibraryError};
pub use model::{Broken, Model};
pub use operation::Operation;
