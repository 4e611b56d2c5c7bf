//! What the checks that replay a journal have in common.

use super::super::compare::ForTry;
use anyhow::{Result, bail};
use keel_allocators::FLOOR;
use keel_replay::Outcome;
use keel_results::{AllocatorResult, Comparison};
use std::path::Path;

/// Runs of each allocator.
pub const RUNS: &str = "3";

/// Replays the journal [`RUNS`] times on the allocators, and keeps the single calls.
pub fn replay(
    journal: &Path,
    allocators: &str,
    options: &[&str],
    results: &Path,
) -> Result<Outcome> {
    let words = ["--raw", "all", "--no-repeat", "--no-throughput", "--no-usable-size"];
    let replay = ForTry::parse(&[&["-a", allocators, "-r", RUNS], &words[..], options].concat())?;
    let Some(known) = replay.allocators()? else { bail!("`{allocators}` cannot be replayed") };
    let Some(outcome) = replay.compare(journal, &known, results)? else {
        bail!("interrupted before the replay was complete");
    };
    Ok(outcome)
}

/// The result of a single allocator, beside that of the floor.
pub fn single<'a>(comparison: &'a Comparison, allocator: &str) -> Result<&'a AllocatorResult> {
    let Some(one) = comparison.allocators.iter().find(|one| one.name != FLOOR) else {
        bail!("`{allocator}` was not replayed");
    };
    match &one.failure {
        Some(failure) => bail!("{}: {failure}", one.name),
        None => Ok(one),
    }
}
