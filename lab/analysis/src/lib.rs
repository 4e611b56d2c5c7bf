//! Pure functions from a journal to facts: operations, live set, lifetimes, sizes, frames.
