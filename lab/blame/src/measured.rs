//! What the calls of each call stack took on an allocator, from a result folder.

use crate::debug_files::DebugFolders;
use crate::error::BlameError;
use crate::profile::{Column, Profile, Unit, ValueKind, named};
use keel_journal::{Module, Stacks};
use keel_results::raw::{OPERATIONS_FILE, OperationReader, RunReader, STACKS_FILE, StackReader};
use keel_results::{AllocatorResult, CAUSE_FAULT, CAUSE_INTERRUPTED, CAUSE_SYSCALL, Comparison};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::path::Path;

/// The values of [`measured`].
pub const MEASURED: [ValueKind; 6] = [
    ValueKind { name: "calls", title: "calls", unit: Unit::Count },
    ValueKind { name: "bytes", title: "bytes", unit: Unit::Bytes },
    ValueKind { name: "time", title: "time", unit: Unit::Nanoseconds },
    ValueKind { name: "over", title: "over budget", unit: Unit::Nanoseconds },
    ValueKind { name: "slow", title: "slow calls", unit: Unit::Count },
    ValueKind { name: "faults", title: "calls with faults", unit: Unit::Count },
];

const CALLS: usize = 0;
const BYTES: usize = 1;
const TIME: usize = 2;
const OVER: usize = 3;
const SLOW: usize = 4;
const FAULTS: usize = 5;
/// Code of the `op` column.
const FREE: u8 = 1;

/// The limits of [`measured`], ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The time that the calls of one frame may take together; without frames, that of one call.
    pub budget_ns: f64,
    /// A longer call is slow.
    pub slow_ns: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { budget_ns: 100_000.0, slow_ns: 10_000.0 }
    }
}

#[derive(Deserialize)]
struct StacksDocument {
    modules: Vec<Module>,
    stacks: Stacks,
}

/// Attributes the calls of each allocator's first kept run to their stacks. The profile has a
/// column for each of [`MEASURED`] and each allocator that has a kept run.
///
/// If the calls of a frame take longer than the budget together, the excess is divided among them
/// in proportion to their times. Calls that were preempted and had neither a page fault nor a
/// system call are not counted: their time depends on the other programs of the machine.
///
/// # Errors
/// The folder cannot be read, has no rows, or its journal had no stacks.
pub fn measured(
    folder: &Path,
    limits: Limits,
    folders: &DebugFolders,
) -> Result<Profile, BlameError> {
    let comparison = Comparison::load(folder)?;
    let raw_of = |result: &AllocatorResult| result.runs.iter().find_map(|run| run.raw.clone());
    let kept: Vec<(&AllocatorResult, String)> =
        comparison.allocators.iter().filter_map(|result| Some((result, raw_of(result)?))).collect();
    if kept.is_empty() {
        return Err(BlameError::NotKept(folder.to_path_buf()));
    }
    let document = read_stacks(folder)?;
    let mut sums = Sums {
        by_stack: FxHashMap::default(),
        columns: MEASURED.len() * kept.len(),
        ticks_per_ns: comparison.clock.ticks_per_ns,
        limits,
    };
    let mut columns = Vec::new();
    for (index, (result, raw)) in kept.iter().enumerate() {
        let allocator = &result.name;
        columns.extend(MEASURED.map(|kind| Column { kind, allocator: allocator.clone() }));
        let frames = match comparison.journal.frames.is_empty() {
            true => None,
            false => Some(frame_ticks(folder, raw)?),
        };
        let first = index * MEASURED.len();
        each_call(folder, raw, &mut |call| sums.add(&call, first, frames.as_deref()))?;
    }
    let by_stack = sums.by_stack.into_iter();
    let by_stack =
        by_stack.map(|(stack, values)| (stack, values.iter().map(|v| v.round() as u64).collect()));
    let recorded = (document.modules.as_slice(), &document.stacks);
    Ok(named(columns, by_stack.collect(), recorded, folders))
}

/// The sums of the values, not rounded.
struct Sums {
    by_stack: FxHashMap<u32, Vec<f64>>,
    columns: usize,
    ticks_per_ns: f64,
    limits: Limits,
}

impl Sums {
    /// Adds a call to the columns from `first` on. `frames` holds the ticks in the calls of each
    /// frame.
    fn add(&mut self, call: &Call, first: usize, frames: Option<&[f64]>) {
        let columns = self.columns;
        let values = self.by_stack.entry(call.stack).or_insert_with(|| vec![0.0; columns]);
        let values = &mut values[first..first + MEASURED.len()];
        let length = f64::from(call.ticks) / self.ticks_per_ns;
        let whole = frames.map_or(length, |frames| frames[call.frame as usize] / self.ticks_per_ns);
        let excess = (whole - self.limits.budget_ns).max(0.0);
        values[CALLS] += 1.0;
        values[BYTES] += if call.op == FREE { 0.0 } else { call.size as f64 };
        values[TIME] += length;
        // A frame that took no time has no excess.
        values[OVER] += if excess > 0.0 { excess * length / whole } else { 0.0 };
        values[SLOW] += f64::from(length > self.limits.slow_ns);
        values[FAULTS] += f64::from(call.cause & CAUSE_FAULT != 0);
    }
}

fn read_stacks(folder: &Path) -> Result<StacksDocument, BlameError> {
    let path = folder.join(STACKS_FILE);
    if !path.exists() {
        return Err(BlameError::NoStacksInResults(folder.to_path_buf()));
    }
    let failed = |detail: String| BlameError::Stacks { path: path.clone(), detail };
    let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

struct Call {
    op: u8,
    size: u64,
    frame: u32,
    stack: u32,
    ticks: u32,
    cause: u8,
}

/// The ticks inside the calls of each frame.
fn frame_ticks(folder: &Path, raw: &str) -> Result<Vec<f64>, BlameError> {
    let mut frames = Vec::new();
    each_call(folder, raw, &mut |call| {
        let index = call.frame as usize;
        if index >= frames.len() {
            frames.resize(index + 1, 0.0);
        }
        frames[index] += f64::from(call.ticks);
    })?;
    Ok(frames)
}

/// Calls `each` with every call whose time is that of the allocator and the kernel.
fn each_call(folder: &Path, raw: &str, each: &mut dyn FnMut(Call)) -> Result<(), BlameError> {
    let path = folder.join(OPERATIONS_FILE);
    let (mut operations, mut stacks) = (OperationReader::open(&path)?, StackReader::open(&path)?);
    let mut run = RunReader::open(&folder.join(raw))?;
    // All have the same rows, in batches of the same size.
    while let (Some(operation), Some(stacks), Some(timed)) =
        (operations.next_rows()?, stacks.next_rows()?, run.next_rows()?)
    {
        let what = operation.op.iter().zip(operation.size).zip(operation.frame).zip(stacks);
        let took = timed.ticks.iter().zip(timed.cause);
        for ((((&op, &size), &frame), &stack), (&ticks, &cause)) in what.zip(took) {
            let is_disturbed =
                cause & CAUSE_INTERRUPTED != 0 && cause & (CAUSE_FAULT | CAUSE_SYSCALL) == 0;
            if !is_disturbed {
                each(Call { op, size, frame, stack, ticks, cause });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(stack: u32, frame: u32, ticks: u32) -> Call {
        Call { op: 0, size: 10, frame, stack, ticks, cause: CAUSE_FAULT }
    }

    fn sums(calls: &[Call], frames: Option<&[f64]>) -> FxHashMap<u32, Vec<f64>> {
        let limits = Limits { budget_ns: 100.0, slow_ns: 50.0 };
        let mut sums = Sums {
            by_stack: FxHashMap::default(),
            columns: 2 * MEASURED.len(),
            ticks_per_ns: 2.0,
            limits,
        };
        calls.iter().for_each(|call| sums.add(call, MEASURED.len(), frames));
        sums.by_stack
    }

    #[test]
    fn the_excess_of_a_frame_is_divided_among_its_calls() {
        // Frame 0 takes 200 ns in all, frame 1 takes 30 ns.
        let calls = [call(1, 0, 300), call(2, 0, 100), call(2, 1, 60)];
        let sums = sums(&calls, Some(&[400.0, 60.0]));
        let part = |stack: u32| &sums[&stack][MEASURED.len()..];
        assert_eq!(part(1), [1.0, 10.0, 150.0, 75.0, 1.0, 1.0]);
        assert_eq!(part(2), [2.0, 20.0, 80.0, 25.0, 0.0, 2.0]);
        assert!(sums[&1][..MEASURED.len()].iter().all(|value| *value == 0.0));
    }

    #[test]
    fn without_frames_each_call_has_the_budget() {
        let sums = sums(&[call(1, 0, 300), call(1, 0, 100)], None);
        assert_eq!(sums[&1][MEASURED.len() + OVER], 50.0);
    }
}
