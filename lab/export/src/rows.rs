//! The kept rows of a result folder, for formats with a line for each call.

use crate::ExportError;
use keel_results::raw::{AgeReader, OPERATIONS_FILE, OperationReader, RunReader};
use keel_results::{AllocatorResult, Comparison, Run};
use std::path::{Path, PathBuf};

/// Names of the operations, by the codes of the files.
pub(crate) const OPERATIONS: [&str; 7] = {
    let [malloc, free, calloc, realloc, aligned] = keel_results::OPERATIONS;
    [malloc, free, calloc, realloc, aligned, "foreign_free", "foreign_realloc"]
};

/// One timed call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub op: u8,
    pub size: u64,
    pub thread: u32,
    pub frame: u32,
    /// Rows since the allocation of the block that the call frees; 0 for none.
    pub age: u32,
    /// ns since the start of the run.
    pub start: u64,
    pub ticks: u32,
    pub cause: u8,
}

/// The allocator `name` and the file of its kept run; without a name, the first allocator that has
/// a kept run.
pub(crate) fn chosen<'a>(
    comparison: &'a Comparison,
    name: Option<&str>,
) -> Result<(&'a AllocatorResult, &'a str), ExportError> {
    let Some(name) = name else {
        let found = comparison.allocators.iter().find_map(|result| Some((result, kept(result)?)));
        return found.ok_or_else(|| ExportError::NotKept("any allocator".to_owned()));
    };
    let Some(result) = comparison.allocators.iter().find(|result| result.name == name) else {
        let known: Vec<&str> =
            comparison.allocators.iter().map(|result| result.name.as_str()).collect();
        return Err(ExportError::Unknown { name: name.to_owned(), known: known.join(", ") });
    };
    kept(result).map(|raw| (result, raw)).ok_or_else(|| ExportError::NotKept(name.to_owned()))
}

/// All allocators with kept runs, or the allocator `name`.
pub(crate) fn all_kept<'a>(
    comparison: &'a Comparison,
    name: Option<&str>,
) -> Result<Vec<(&'a AllocatorResult, &'a str)>, ExportError> {
    let first = chosen(comparison, name)?;
    if name.is_some() {
        return Ok(vec![first]);
    }
    Ok(comparison.allocators.iter().filter_map(|result| Some((result, kept(result)?))).collect())
}

fn kept(result: &AllocatorResult) -> Option<&str> {
    result.runs.iter().find_map(|run: &Run| run.raw.as_deref())
}

/// Calls `each` with every row of a kept run, in the order of the journal.
pub(crate) fn each_call(
    folder: &Path,
    raw: &str,
    each: &mut dyn FnMut(Call) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let operations: PathBuf = folder.join(OPERATIONS_FILE);
    let mut ages = AgeReader::open(&operations)?;
    let mut operations = OperationReader::open(&operations)?;
    let mut run = RunReader::open(&folder.join(raw))?;
    // All three files have the same rows, in batches of the same size.
    while let (Some(operation), Some(age), Some(measured)) =
        (operations.next_rows()?, ages.next_rows()?, run.next_rows()?)
    {
        let what = operation
            .op
            .iter()
            .zip(operation.size)
            .zip(operation.thread)
            .zip(operation.frame)
            .zip(age);
        let when = measured.start.iter().zip(measured.ticks).zip(measured.cause);
        for (((((&op, &size), &thread), &frame), &age), ((&start, &ticks), &cause)) in
            what.zip(when)
        {
            each(Call { op, size, thread, frame, age, start, ticks, cause })?;
        }
    }
    Ok(())
}
