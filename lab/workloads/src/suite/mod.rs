//! The suite: whole programs on several allocators, one process for each run.
//!
//! ```text
//! catalogue   the programs of the installation  ->  Case, ...
//! session     rounds of Case x Entrant, interleaved, continued where they stopped
//! process     one run under the overseer, which measures all its processes
//! extra       the runs beside it: with each call timed, and with system calls counted
//! interference  watches the machine; disturbed runs are repeated
//! ```

mod catalogue;
mod extra;
mod interference;
mod process;
mod session;

pub use catalogue::{Case, Catalogue, Kind, SUITES};
pub use process::{Entrant, Runner};
pub use session::{Progress, Session};
