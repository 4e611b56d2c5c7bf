//! The page faults and system calls of each operation, in a replay.

use super::replay::{replay, single};
use crate::commands::check::counts_kernel;
use anyhow::{Result, bail};
use keel_check::{Budget, Kernel, Metric};
use keel_journal::Reader;
use keel_results::raw::RunReader;
use keel_results::{CAUSE_FAULT, CAUSE_SYSCALL, CAUSE_SYSCALL_UNKNOWN};
use std::path::Path;

/// What the kernel did for each row of the journal, and a note; None if no limit needs it. The run
/// with the fewest such operations counts. `folder` is for temporary files.
pub fn measure(
    budget: &Budget,
    (journal, reader): (&Path, &Reader),
    folder: &Path,
) -> Result<Option<(Vec<Kernel>, String)>> {
    if !counts_kernel(budget) {
        return Ok(None);
    }
    let Some(allocator) = budget.replay.allocator.as_ref().map(|name| name.0.as_str()) else {
        bail!(
            "limits of page faults and system calls are counted in a replay: name its allocator, \
             as in\n[replay]\nallocator = \"glibc\""
        );
    };
    let results = folder.join("kernel");
    let outcome = replay(journal, allocator, &["--serial", "--touch", "none"], &results)?;
    let one = single(&outcome.comparison, allocator)?;
    let mut runs = Vec::new();
    for file in one.runs.iter().filter_map(|run| run.raw.as_ref()) {
        runs.push(causes(&results.join(file))?);
    }
    let mut limits = budget.limits.iter().flat_map(|limited| &limited.limits);
    if limits.any(|(metric, _)| *metric == Metric::SystemCalls)
        && runs.iter().flatten().any(|cause| cause & CAUSE_SYSCALL_UNKNOWN != 0)
    {
        bail!("the system calls of {} cannot be counted on this machine", one.name);
    }
    let has = |cause: &&u8| **cause & (CAUSE_FAULT | CAUSE_SYSCALL) != 0;
    let Some(fewest) = runs.iter().min_by_key(|run| run.iter().filter(has).count()) else {
        bail!("no replay of {} was complete", one.name);
    };
    let rows: Vec<u64> = (0..reader.rows()).collect();
    let kernel = |row: Option<u64>| {
        let cause = row.and_then(|row| fewest.get(row as usize)).copied().unwrap_or(0);
        Kernel { faulted: cause & CAUSE_FAULT != 0, called: cause & CAUSE_SYSCALL != 0 }
    };
    let replayed = keel_replay::replayed_rows(reader, &rows)?;
    let note = format!(
        "page faults and system calls are those of {} in a replay on one thread (the fewest of {} \
         runs)",
        one.name,
        runs.len()
    );
    Ok(Some((replayed.into_iter().map(kernel).collect(), note)))
}

fn causes(file: &Path) -> Result<Vec<u8>> {
    let (mut reader, mut causes) = (RunReader::open(file)?, Vec::new());
    while let Some(rows) = reader.next_rows()? {
        causes.extend_from_slice(rows.cause);
    }
    Ok(causes)
}
