//! What the calls of each call stack took on an allocator, from a result folder.

use crate::compared::{Compared, Disturbed};
use crate::debug_files::DebugFolders;
use crate::error::BlameError;
use crate::kept_runs::{KeptRun, kept_runs};
use crate::over_time::{OverTime, Parts};
use crate::profile::{Column, Profile, Unit, ValueKind, named, over_the_whole_time};
use crate::recorded::Recorded;
use keel_results::raw::{OPERATIONS_FILE, OperationReader, RunReader, StackReader};
use keel_results::{CAUSE_FAULT, Comparison, only_preempted};
use rustc_hash::FxHashMap;
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

/// Attributes the calls of each allocator's median run to their stacks. The profile has a column
/// for each of [`MEASURED`] and each allocator that has a kept run.
///
/// If the calls of a frame take longer than the budget together, the excess is divided among them
/// in proportion to their times. The time before the first frame mark is not a frame and has no
/// excess. The times of calls that were preempted and had neither a page fault nor a system call
/// are not counted: they depend on the other programs of the machine.
///
/// # Errors
/// The folder cannot be read, has no rows, or its journal had no stacks.
pub fn measured(
    folder: &Path,
    limits: Limits,
    folders: &DebugFolders,
) -> Result<Profile, BlameError> {
    let comparison = Comparison::load(folder)?;
    let kept = kept_runs(&comparison, folder)?;
    let recorded = Recorded::read(folder)?;
    let (values, compared) = sums(folder, &comparison, &kept, limits, Parts::WHOLE)?;
    let values = over_the_whole_time(rounded(values));
    let mut profile = named(columns(&kept), values, recorded.both(), folders);
    profile.compare(&compared);
    Ok(profile)
}

/// The columns of [`sums`].
pub(crate) fn columns(kept: &[KeptRun<'_>]) -> Vec<Column> {
    let of_one = |(result, _): &KeptRun<'_>| {
        let allocator = result.name.clone();
        MEASURED.map(|kind| Column { kind, allocator: allocator.clone() })
    };
    kept.iter().flat_map(of_one).collect()
}

/// The values of each stack and each part of the recorded time, not rounded, and what the same
/// calls took on each allocator.
pub(crate) fn sums(
    folder: &Path,
    comparison: &Comparison,
    kept: &[KeptRun<'_>],
    limits: Limits,
    parts: Parts,
) -> Result<(OverTime<f64>, Compared), BlameError> {
    let disturbed = Disturbed::read(folder, kept)?;
    let mut compared = Compared::new(kept);
    let mut sums = Sums {
        values: OverTime::new(parts, MEASURED.len() * kept.len()),
        ticks_per_ns: comparison.clock.ticks_per_ns,
        limits,
    };
    for (index, (_, raw)) in kept.iter().enumerate() {
        let frames = match comparison.journal.frames.is_empty() {
            true => None,
            false => Some(frame_ticks(folder, raw)?),
        };
        let (first, mut row) = (index * MEASURED.len(), 0);
        each_call(folder, raw, &mut |call| {
            sums.add(&call, first, frames.as_ref());
            let takes = compared.takes(index, row, call.cause, &disturbed);
            let length = takes.then(|| sums.length(&call));
            compared.add(call.stack, index, length);
            row += 1;
        })?;
    }
    Ok((sums.values, compared))
}

/// The rows with rounded values.
pub(crate) fn rounded(values: OverTime<f64>) -> impl Iterator<Item = (u32, u32, Vec<u64>)> {
    let round = |values: Vec<f64>| values.iter().map(|value| value.round() as u64).collect();
    values.into_rows().map(move |(stack, part, values)| (stack, part, round(values)))
}

/// The sums of the values, not rounded.
struct Sums {
    values: OverTime<f64>,
    ticks_per_ns: f64,
    limits: Limits,
}

impl Sums {
    /// Adds a call to the columns from `first` on. `frames` holds the ticks in the calls of each
    /// frame.
    fn add(&mut self, call: &Call, first: usize, frames: Option<&FxHashMap<u32, f64>>) {
        let length = self.length(call);
        let values = &mut self.values.row(call.stack, call.time)[first..first + MEASURED.len()];
        let whole = match frames {
            None => length,
            // The time before the first mark, in which the program starts, is not a frame.
            Some(_) if call.frame == 0 => 0.0,
            Some(frames) => frames.get(&call.frame).copied().unwrap_or(0.0) / self.ticks_per_ns,
        };
        let excess = (whole - self.limits.budget_ns).max(0.0);
        values[CALLS] += 1.0;
        values[BYTES] += if call.op == FREE { 0.0 } else { call.size as f64 };
        if only_preempted(call.cause) {
            return;
        }
        values[TIME] += length;
        // A frame that took no time has no excess.
        values[OVER] += if excess > 0.0 { excess * length / whole } else { 0.0 };
        values[SLOW] += f64::from(length > self.limits.slow_ns);
        values[FAULTS] += f64::from(call.cause & CAUSE_FAULT != 0);
    }

    /// The length of a call, ns.
    fn length(&self, call: &Call) -> f64 {
        f64::from(call.ticks) / self.ticks_per_ns
    }
}

struct Call {
    op: u8,
    size: u64,
    frame: u32,
    time: u64,
    stack: u32,
    ticks: u32,
    cause: u8,
}

/// The ticks inside the calls of each frame that has calls. In a damaged file, any number may be
/// that of a frame, so the numbers do not index a vector.
fn frame_ticks(folder: &Path, raw: &str) -> Result<FxHashMap<u32, f64>, BlameError> {
    let mut frames = FxHashMap::default();
    each_call(folder, raw, &mut |call| {
        let ticks = if only_preempted(call.cause) { 0.0 } else { f64::from(call.ticks) };
        *frames.entry(call.frame).or_default() += ticks;
    })?;
    Ok(frames)
}

/// Calls `each` with every call.
fn each_call(folder: &Path, raw: &str, each: &mut dyn FnMut(Call)) -> Result<(), BlameError> {
    let path = folder.join(OPERATIONS_FILE);
    let (mut operations, mut stacks) = (OperationReader::open(&path)?, StackReader::open(&path)?);
    let mut run = RunReader::open(&folder.join(raw))?;
    // All have the same rows, in batches of the same size.
    while let (Some(operation), Some(stacks), Some(timed)) =
        (operations.next_rows()?, stacks.next_rows()?, run.next_rows()?)
    {
        let what = operation.op.iter().zip(operation.size).zip(operation.frame);
        let what = what.zip(operation.time).zip(stacks);
        let took = timed.ticks.iter().zip(timed.cause);
        for (((((&op, &size), &frame), &time), &stack), (&ticks, &cause)) in what.zip(took) {
            each(Call { op, size, frame, time, stack, ticks, cause });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_results::CAUSE_INTERRUPTED;
    use rustc_hash::FxHashMap;

    fn call(stack: u32, frame: u32, ticks: u32) -> Call {
        Call { op: 0, size: 10, frame, time: 0, stack, ticks, cause: CAUSE_FAULT }
    }

    fn sums(calls: &[Call], frames: Option<&FxHashMap<u32, f64>>) -> FxHashMap<u32, Vec<f64>> {
        let limits = Limits { budget_ns: 100.0, slow_ns: 50.0 };
        let values = OverTime::new(Parts::WHOLE, 2 * MEASURED.len());
        let mut sums = Sums { values, ticks_per_ns: 2.0, limits };
        calls.iter().for_each(|call| sums.add(call, MEASURED.len(), frames));
        sums.values.into_rows().map(|(stack, _, values)| (stack, values)).collect()
    }

    #[test]
    fn the_excess_of_a_frame_is_divided_among_its_calls() {
        // Frame 1 takes 200 ns in all, frame 2 takes 30 ns.
        let calls = [call(1, 1, 300), call(2, 1, 100), call(2, 2, 60)];
        let sums = sums(&calls, Some(&FxHashMap::from_iter([(1, 400.0), (2, 60.0)])));
        let part = |stack: u32| &sums[&stack][MEASURED.len()..];
        assert_eq!(part(1), [1.0, 10.0, 150.0, 75.0, 1.0, 1.0]);
        assert_eq!(part(2), [2.0, 20.0, 80.0, 25.0, 0.0, 2.0]);
        assert!(sums[&1][..MEASURED.len()].iter().all(|value| *value == 0.0));
    }

    #[test]
    fn the_time_before_the_first_frame_has_no_budget() {
        let sums = sums(
            &[call(1, 0, 3000), call(1, 1, 300)],
            Some(&FxHashMap::from_iter([(0, 3000.0), (1, 300.0)])),
        );
        assert_eq!(sums[&1][MEASURED.len() + OVER], 50.0);
        assert_eq!(sums[&1][MEASURED.len() + TIME], 1650.0);
    }

    #[test]
    fn a_preempted_call_counts_without_its_time() {
        let preempted = Call { cause: CAUSE_INTERRUPTED, ..call(1, 1, 300) };
        let sums = sums(&[preempted, call(1, 1, 300)], None);
        assert_eq!(sums[&1][MEASURED.len()..], [2.0, 20.0, 150.0, 50.0, 1.0, 1.0]);
    }

    #[test]
    fn without_frames_each_call_has_the_budget() {
        let sums = sums(&[call(1, 0, 300), call(1, 0, 100)], None);
        assert_eq!(sums[&1][MEASURED.len() + OVER], 50.0);
    }
}
