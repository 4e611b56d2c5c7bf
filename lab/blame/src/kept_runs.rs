//! The runs of a result folder whose individual calls are stored.

use crate::error::BlameError;
use keel_results::{AllocatorResult, Comparison};
use std::path::Path;

/// An allocator, and the file of its median run.
pub(crate) type KeptRun<'a> = (&'a AllocatorResult, &'a str);

/// The median run of each allocator that has one.
pub(crate) fn kept_runs<'a>(
    comparison: &'a Comparison,
    folder: &Path,
) -> Result<Vec<KeptRun<'a>>, BlameError> {
    let run_of = |result: &'a AllocatorResult| {
        result.runs.get(result.median_run()?).and_then(|run| run.raw.as_deref())
    };
    let results = comparison.allocators.iter();
    let kept: Vec<KeptRun<'_>> =
        results.filter_map(|result| Some((result, run_of(result)?))).collect();
    match kept.is_empty() {
        true => Err(BlameError::NotKept(folder.to_path_buf())),
        false => Ok(kept),
    }
}
