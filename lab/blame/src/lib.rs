//! Attributes the operations, the memory and the measured time of a program to call sites.
//!
//! | module | contents |
//! | --- | --- |
//! | `debug_files` | finds the object file and the debug information of a module |
//! | `frame` | a named call |
//! | `symbols` | the functions and lines of a return address |
//! | `wrapper` | functions that allocate for their callers, such as those of `std` |
//! | `requests` | calls, bytes and lifetimes by call stack, from a journal |
//! | `measured` | time and slow calls by call stack, from a result folder |
//! | `profile` | call stacks with names and the values of each |
//! | `sites` | the sum of all stacks that have the same call site |

mod debug_files;
mod error;
mod frame;
mod measured;
mod profile;
mod requests;
mod sites;
mod symbols;
mod wrapper;

pub use debug_files::{DebugFolders, ModuleState};
pub use error::BlameError;
pub use frame::Frame;
pub use measured::{Limits, MEASURED, measured};
pub use profile::{Column, Profile, Sample, Unit, ValueKind};
pub use requests::{REQUESTED, requested};
pub use sites::{Place, Site, Sites, sites};
pub use symbols::Symbols;
