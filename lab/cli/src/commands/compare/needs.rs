//! The memory and the disk space that a comparison needs, stated before it starts.

use crate::{format, output};
use anyhow::{Result, bail};
use keel_replay::{Keep, Options, Pace};
use std::path::Path;

/// Shorter journals need nothing worth a message.
const LONG: u64 = 10_000_000;

/// Bytes of memory for an operation: a step of the plan and a record; at a recorded pace also a
/// time.
const STEP_AND_RECORD: u64 = 32;
const TIME: u64 = 8;

/// Bytes on the disk for an operation in `operations.parquet`, and in the rows of a run: what real
/// journals took at most, rounded up.
const OPERATION: u64 = 4;
const ROW: u64 = 8;

/// Runs of an allocator whose rows are on the disk at a time, if those of one are kept: three, and
/// that of the current round.
const RUNS_AT_A_TIME: u64 = 4;

/// What a comparison needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of memory.
    memory: u64,
    /// The most bytes on the disk at a time.
    disk: u64,
}

impl Needs {
    /// Of a comparison of `allocators` (with the null allocator) on a journal of `operations`.
    pub fn of(operations: u64, allocators: usize, options: &Options) -> Needs {
        let rounds = u64::from(options.max_runs.max(options.runs));
        let runs = match options.keep {
            Keep::None => 0,
            Keep::Median => rounds.min(RUNS_AT_A_TIME),
            Keep::All => rounds,
        };
        let time = if options.pace == Pace::Max { 0 } else { TIME };
        Needs {
            memory: operations.saturating_mul(STEP_AND_RECORD + time),
            disk: operations.saturating_mul(OPERATION + ROW * runs * allocators as u64),
        }
    }

    /// A sentence.
    fn text(self, operations: u64) -> String {
        format!(
            "{} operations need {} of memory and up to {} of disk space",
            format::count(operations),
            format::bytes(self.memory),
            format::bytes(self.disk)
        )
    }

    /// Whether `free` bytes of disk space are too few. Then the sentence says what to do.
    fn refusal(self, operations: u64, free: u64, folder: &Path) -> Option<String> {
        (self.disk > free).then(|| {
            format!(
                "{}, but {} has only {}: use --raw none, fewer allocators, or `keel slice --every`",
                self.text(operations),
                folder.display(),
                format::bytes(free)
            )
        })
    }
}

/// States what a long comparison needs.
///
/// # Errors
/// The disk of the result folder has not enough free space.
pub fn state(operations: u64, allocators: usize, options: &Options, folder: &Path) -> Result<()> {
    if operations < LONG {
        return Ok(());
    }
    let needs = Needs::of(operations, allocators, options);
    let absolute = std::path::absolute(folder)?;
    let existing = absolute.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/"));
    if let Some(free) = output::free_bytes(existing)
        && let Some(refusal) = needs.refusal(operations, free, existing)
    {
        bail!(refusal);
    }
    say!("{}", needs.text(operations));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(runs: u32, keep: Keep, pace: Pace) -> Needs {
        Needs::of(
            100_000_000,
            10,
            &Options { runs, max_runs: runs, keep, pace, ..Options::default() },
        )
    }

    #[test]
    fn disk_space_does_not_grow_with_the_rounds_unless_all_rows_are_kept() {
        let median = needs(5, Keep::Median, Pace::Max);
        assert_eq!(median, needs(12, Keep::Median, Pace::Times(1.0)).without_times());
        assert!(needs(12, Keep::All, Pace::Max).disk > 2 * median.disk);
        assert_eq!(needs(12, Keep::None, Pace::Max).disk, 400_000_000);
    }

    #[test]
    fn a_full_disk_is_refused_before_the_start() {
        let needs = needs(5, Keep::Median, Pace::Max);
        assert_eq!(needs.refusal(100_000_000, needs.disk, Path::new("/")), None);
        let said = needs.refusal(100_000_000, needs.disk - 1, Path::new("/disk"));
        let said = said.unwrap_or_default();
        assert!(said.contains("/disk has only") && said.contains("--raw none"), "{said}");
        assert!(said.starts_with("100,000,000 operations need 2.98 GiB of memory"), "{said}");
        assert!(output::free_bytes(Path::new("/")).is_some());
    }

    impl Needs {
        fn without_times(self) -> Needs {
            Needs { memory: self.memory / 40 * 32, ..self }
        }
    }
}
