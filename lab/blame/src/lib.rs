//! Attributes the operations, the memory and the measured time of a program to call sites.
//!
//! | module | contents |
//! | --- | --- |
//! | `debug_files` | finds the object file and the debug information of a module |
//! | `frame` | a named call |
//! | `functions` | whether an object file has a function |
//! | `symbols` | the functions and lines of a return address |
//! | `tail_calls` | functions that left by a jump, and are in no stack |
//! | `wrapper` | functions that allocate for their callers, such as those of `std` |
//! | `over_time` | values by call stack and by part of the recorded time |
//! | `tally` | calls, bytes and lifetimes of blocks by call stack |
//! | `profile` | call stacks with names and the values of each |
//! | `requests` | the tally of a journal |
//! | `recorded` | the stacks and the tally of a result folder |
//! | `measured` | time and slow calls by call stack, from a result folder |
//! | `kept_runs` | the runs of a result folder whose calls are stored |
//! | `compared` | what the same calls took on each allocator |
//! | `explained` | the tally and the times of a result folder, for a page |
//! | `pinned` | the call stacks whose live blocks keep memory resident |
//! | `tree` | all stacks as a tree of limited size |
//! | `sites` | the sum of all stacks that have the same call site |

mod compared;
mod debug_files;
mod error;
mod explained;
mod frame;
mod functions;
mod kept_runs;
mod measured;
mod over_time;
mod pinned;
mod profile;
mod recorded;
mod requests;
mod sites;
mod symbols;
mod tail_calls;
mod tally;
mod tree;
mod wrapper;

pub use debug_files::{DebugFolders, ModuleState};
pub use error::BlameError;
pub use explained::{Explained, explained, requested_of_results};
pub use frame::Frame;
pub use measured::{Limits, MEASURED, measured};
pub use pinned::{LiveBlock, Memory, PINNED, Shares, has_stacks_of, pinned, pinned_of_results};
pub use profile::{Column, Profile, Sample, Unit, ValueKind};
pub use requests::{requested, requested_over_time};
pub use sites::{Place, Site, Sites, sites};
pub use symbols::Symbols;
pub use tally::REQUESTED;
pub use tree::{CallNode, CallTree};
