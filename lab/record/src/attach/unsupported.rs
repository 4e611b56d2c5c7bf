//! Machines on which a process cannot be entered.

use crate::{Error, Options, Progress, Recorded};

/// Refuses: entering a process depends on the registers and system calls of x86-64.
///
/// # Errors
/// Always.
pub fn attach_with(
    pid: u32,
    _options: &Options,
    _report: &mut dyn FnMut(Progress),
) -> Result<Recorded, Error> {
    let reason = "it is only supported on x86-64; record the program from its start";
    Err(Error::Attach { pid, reason: reason.to_owned() })
}
