//! The table of allocators that the player can drive.

pub mod table;
