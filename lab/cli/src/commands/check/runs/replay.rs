//! What the checks that replay a journal have in common.

use crate::commands::compare::ForTry;
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
    let words = ["-a", allocators, "-r", RUNS, "--raw", "all"];
    replayed(&parsed(&[&words[..], options].concat())?, journal, allocators, results)
}

/// Replays the journal once on a single allocator, without progress, for its figures.
pub fn replay_once(journal: &Path, allocator: &str, results: &Path) -> Result<Outcome> {
    let words = ["--allocator", allocator, "-r", "1", "--raw", "none"];
    replayed(&parsed(&words)?.silent(), journal, allocator, results)
}

/// Whether the allocator is known and usable; if not, stderr has the reason.
pub fn require(allocator: &str) -> Result<()> {
    match parsed(&["--allocator", allocator])?.allocators()? {
        Some(_) => Ok(()),
        None => bail!("`{allocator}` cannot be replayed"),
    }
}

fn parsed(words: &[&str]) -> Result<ForTry> {
    const LEAST: [&str; 3] = ["--no-repeat", "--no-throughput", "--no-usable-size"];
    ForTry::parse(&[words, &LEAST].concat())
}

fn replayed(replay: &ForTry, journal: &Path, allocators: &str, results: &Path) -> Result<Outcome> {
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
