//! The CSV format of the Doom 3 blog's benchmark, which its scripts plot: a line for each block.

use crate::rows::{chosen, each_call};
use crate::{ExportError, Written};
use keel_results::Comparison;
use std::io::Write;
use std::path::Path;

const HEADER: &str = "replayAllocTimestamp,allocTime,allocSize,replayFreeTimestamp,freeTime";
/// Codes of the `op` column.
const FREE: u8 = 1;
const REALLOC: u8 = 3;

/// When a block was freed, and how long that took.
#[derive(Clone, Copy, Default)]
struct Free {
    start: u64,
    ticks: u32,
}

/// Writes the kept run of `allocator` as CSV (None: the first allocator that has one): a line for
/// each block in the order of allocation, times in nanoseconds since the start of the run. The free
/// of a block that was never freed is 0 and 0. A realloc is the allocation of its new block, with
/// the time of the call, and the free of its old block, in 0 ns.
///
/// Memory: 16 bytes per row.
///
/// # Errors
/// See [`ExportError`].
pub fn csv(
    folder: &Path,
    allocator: Option<&str>,
    output: &mut dyn Write,
) -> Result<Written, ExportError> {
    let comparison = Comparison::load(folder)?;
    let (result, raw) = chosen(&comparison, allocator)?;
    let frees = frees(folder, raw)?;
    let ns = |ticks: u32| (f64::from(ticks) / comparison.clock.ticks_per_ns).round() as u64;
    writeln!(output, "{HEADER}")?;
    let (mut row, mut lines) = (0, 0);
    each_call(folder, raw, &mut |call| {
        if call.op != FREE {
            let freed = frees.get(row).copied().unwrap_or_default();
            let (start, time, size) = (call.start, ns(call.ticks), call.size);
            writeln!(output, "{start},{time},{size},{},{}", freed.start, ns(freed.ticks))?;
            lines += 1;
        }
        row += 1;
        Ok(())
    })?;
    Ok(Written { allocator: result.name.clone(), lines })
}

/// The free of each row that allocates a block.
fn frees(folder: &Path, raw: &str) -> Result<Vec<Free>, ExportError> {
    let mut frees: Vec<Free> = Vec::new();
    each_call(folder, raw, &mut |call| {
        let row = frees.len();
        frees.push(Free::default());
        if call.age > 0
            && let Some(allocation) = row.checked_sub(call.age as usize)
        {
            let ticks = if call.op == REALLOC { 0 } else { call.ticks };
            frees[allocation] = Free { start: call.start, ticks };
        }
        Ok(())
    })?;
    Ok(frees)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::sample::folder;

    #[test]
    fn a_line_for_each_block_in_the_order_of_allocation() {
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
    fn refusals_state_the_reason() {
        let folder = folder();
        let error = csv(folder.path(), Some("mimalloc"), &mut Vec::new()).unwrap_err().to_string();
        assert_eq!(error, "the comparison has no allocator `mimalloc`; it has system, keel");
        let error = csv(folder.path(), Some("system"), &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("no rows were kept of system"), "{error}");
        let error =
            csv(&folder.path().join("absent"), None, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("no such folder"), "{error}");
    }
}
