//! The parts of a check that run something: the program, or replays of its journal.

pub mod gates;
pub mod kernel;
mod replay;
pub mod worst;

use super::{Arguments, Recording};
use crate::commands::record;
use anyhow::{Result, bail};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Records the program. The exit status of a failed program is not an error here.
/// `calls`: with the calls that may wait.
pub fn recorded(arguments: &Arguments, journal: PathBuf, calls: bool) -> Result<Recording> {
    let Arguments { command, stacks, python_objects, .. } = arguments;
    let with = record::With {
        stacks: *stacks,
        python_objects: *python_objects,
        calls,
        temporary: arguments.output.is_none(),
    };
    let recorded = record::record_for_try(command, with, || Ok(journal))?;
    if recorded.signal.is_some() || recorded.still_runs {
        bail!("interrupted: the recording is not complete, so nothing is checked");
    }
    if !record::is_complete(&recorded) {
        bail!("the recording is not complete, so nothing is checked");
    }
    // Of the last program that allocates; or, if none does, which is a result too, of the last one.
    let journals = recorded.journals.iter().filter(|one| one.path.is_some());
    let last = journals.max_by_key(|one| one.operations > 0);
    let Some(journal) = last.and_then(|one| one.path.clone()) else {
        bail!("nothing was recorded, so nothing can be checked");
    };
    let failure = (!recorded.status.success()).then(|| how_it_failed(recorded.status));
    Ok(Recording { journal, failure })
}

fn how_it_failed(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it exited with {code}"),
        (None, signal) => format!("signal {} ended it", signal.unwrap_or(0)),
    }
}
