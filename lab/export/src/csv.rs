//! The CSV of the Doom 3 blog's benchmark, which its scripts plot: a line for each block.

use keel_results::raw::{AgeReader, OPERATIONS_FILE, OperationReader, RawError, RunReader};
use keel_results::{AllocatorResult, Comparison, FolderError, Run};
use std::io::Write;
use std::path::Path;

const HEADER: &str = "replayAllocTimestamp,allocTime,allocSize,replayFreeTimestamp,freeTime";
/// Codes of the `op` column.
const FREE: u8 = 1;
const REALLOC: u8 = 3;

/// Why there is no CSV.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Its rows cannot be read.
    #[error(transparent)]
    Raw(#[from] RawError),
    /// The comparison has no such allocator.
    #[error("the comparison has no allocator `{name}`; it has {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Only the summary of the allocator's runs was kept.
    #[error("no rows were kept of {0}: compare again without `--raw none`")]
    NotKept(String),
    /// The output cannot be written.
    #[error("cannot write the CSV: {0}")]
    Output(#[from] std::io::Error),
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Of which allocator.
    pub allocator: String,
    /// How many blocks.
    pub lines: u64,
}

/// When a block was released, and how long that took.
#[derive(Clone, Copy, Default)]
struct Release {
    start: u64,
    ticks: u32,
}

/// Writes the kept run of `allocator` (the first that has one, if None) as CSV: a line for each block in the order of
/// their births, times in nanoseconds since the run's start. A block that was never freed has 0 and 0 for its free. A
/// realloc is the birth of its new block, with the time of the call, and the free of its old one, in 0 ns.
///
/// Memory: 16 bytes a row.
///
/// # Errors
/// See [`ExportError`].
pub fn csv(folder: &Path, allocator: Option<&str>, output: &mut dyn Write) -> Result<Written, ExportError> {
    let comparison = Comparison::load(folder)?;
    let (result, raw) = chosen(&comparison, allocator)?;
    let (operations, run) = (folder.join(OPERATIONS_FILE), folder.join(raw));
    let releases = releases(&operations, &run)?;
    let ns = |ticks: u32| (f64::from(ticks) / comparison.clock.ticks_per_ns).round() as u64;
    writeln!(output, "{HEADER}")?;
    let (mut row, mut lines) = (0, 0);
    zip(&operations, &run, &mut |op, size, _, start, ticks| {
        if op != FREE {
            let release = releases.get(row).copied().unwrap_or_default();
            writeln!(output, "{start},{},{size},{},{}", ns(ticks), release.start, ns(release.ticks))?;
            lines += 1;
        }
        row += 1;
        Ok(())
    })?;
    Ok(Written { allocator: result.name.clone(), lines })
}

/// The allocator asked for and the file of its kept run.
fn chosen<'a>(
    comparison: &'a Comparison,
    name: Option<&str>,
) -> Result<(&'a AllocatorResult, &'a str), ExportError> {
    fn kept(result: &AllocatorResult) -> Option<&str> {
        result.runs.iter().find_map(|run: &Run| run.raw.as_deref())
    }
    let Some(name) = name else {
        let found = comparison.allocators.iter().find_map(|result| Some((result, kept(result)?)));
        return found.ok_or_else(|| ExportError::NotKept("any allocator".to_owned()));
    };
    let Some(result) = comparison.allocators.iter().find(|result| result.name == name) else {
        let known: Vec<&str> = comparison.allocators.iter().map(|result| result.name.as_str()).collect();
        return Err(ExportError::Unknown { name: name.to_owned(), known: known.join(", ") });
    };
    kept(result).map(|raw| (result, raw)).ok_or_else(|| ExportError::NotKept(name.to_owned()))
}

/// For each row that creates a block, its release.
fn releases(operations: &Path, run: &Path) -> Result<Vec<Release>, ExportError> {
    let mut releases: Vec<Release> = Vec::new();
    zip(operations, run, &mut |op, _, age, start, ticks| {
        let row = releases.len();
        releases.push(Release::default());
        if age > 0
            && let Some(birth) = row.checked_sub(age as usize)
        {
            releases[birth] = Release { start, ticks: if op == REALLOC { 0 } else { ticks } };
        }
        Ok(())
    })?;
    Ok(releases)
}

/// Calls `each` with op, size, age, start and ticks of every row.
fn zip(
    operations: &Path,
    run: &Path,
    each: &mut dyn FnMut(u8, u64, u32, u64, u32) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let mut ages = AgeReader::open(operations)?;
    let mut operations = OperationReader::open(operations)?;
    let mut run = RunReader::open(run)?;
    // All three have the same rows in batches of the same size.
    while let (Some(operation), Some(age), Some(measured)) =
        (operations.next_rows()?, ages.next_rows()?, run.next_rows()?)
    {
        let operated = operation.op.iter().zip(operation.size).zip(age);
        let timed = measured.start.iter().zip(measured.ticks);
        for (((&op, &size), &age), (&start, &ticks)) in operated.zip(timed) {
            each(op, size, age, start, ticks)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use keel_results::raw::{OperationRows, OperationWriter, RunRows, RunWriter};
    use keel_results::{Clock, RESULTS_VERSION};

    /// malloc 64, malloc 32, free of the first, realloc of the second to 128, malloc 16 (never freed), free of the 128.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let mut operations = OperationWriter::create(&folder.path().join(OPERATIONS_FILE)).unwrap();
        let rows = OperationRows {
            op: &[0, 0, 1, 3, 0, 1],
            size: &[64, 32, 64, 128, 16, 128],
            thread: &[0, 1, 1, 0, 0, 0],
            frame: &[0; 6],
            time: &[10, 20, 30, 40, 50, 60],
        };
        operations.write_with_ages(rows, &[0, 0, 2, 2, 0, 2]).unwrap();
        operations.finish().unwrap();
        let mut run = RunWriter::create(&folder.path().join("run-keel-1.parquet")).unwrap();
        let start = [100, 200, 300, 400, 500, 600];
        run.write(RunRows { start: &start, ticks: &[52, 26, 78, 260, 27, 104], cause: &[0; 6] }).unwrap();
        run.finish().unwrap();
        let keel = AllocatorResult {
            name: "keel".to_owned(),
            runs: vec![Run::default(), Run { raw: Some("run-keel-1.parquet".to_owned()), ..Run::default() }],
            ..AllocatorResult::default()
        };
        let system = AllocatorResult {
            name: "system".to_owned(),
            runs: vec![Run::default()],
            ..AllocatorResult::default()
        };
        let comparison = Comparison {
            version: RESULTS_VERSION,
            clock: Clock { ticks_per_ns: 2.6, ..Clock::default() },
            allocators: vec![system, keel],
            ..Comparison::default()
        };
        comparison.save(folder.path()).unwrap();
        folder
    }

    #[test]
    fn a_line_for_each_block_in_the_order_of_births() {
        let folder = folder();
        let mut output = Vec::new();
        let written = csv(folder.path(), None, &mut output).unwrap();
        assert_eq!(written, Written { allocator: "keel".to_owned(), lines: 4 });
        insta::assert_snapshot!(String::from_utf8(output).unwrap(), @r"
        replayAllocTimestamp,allocTime,allocSize,replayFreeTimestamp,freeTime
        100,20,64,300,30
        200,10,32,400,0
        400,100,128,600,40
        500,10,16,0,0
        ");
    }

    #[test]
    fn what_cannot_be_exported_says_why() {
        let folder = folder();
        let error = csv(folder.path(), Some("mimalloc"), &mut Vec::new()).unwrap_err().to_string();
        assert_eq!(error, "the comparison has no allocator `mimalloc`; it has system, keel");
        let error = csv(folder.path(), Some("system"), &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("no rows were kept of system"), "{error}");
        let error = csv(&folder.path().join("absent"), None, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("no such folder"), "{error}");
    }
}
