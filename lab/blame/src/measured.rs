//! What the calls of each call stack took on an allocator, from a result folder.

use crate::compared::{Compared, Took};
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
    let ticks_per_ns = comparison.clock.ticks_per_ns;
    let frames = match comparison.journal.frames.is_empty() {
        true => None,
        false => Some(frame_times(folder, kept, ticks_per_ns)?),
    };
    let mut compared = Compared::new(kept);
    let mut sums = Sums { values: OverTime::new(parts, MEASURED.len() * kept.len()), limits };
    each_call(folder, kept, ticks_per_ns, &mut |call, took| {
        sums.add(&call, took, frames.as_ref());
        compared.add(call.stack, took);
    })?;
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
    limits: Limits,
}

impl Sums {
    /// Adds what a call took on each allocator. `frames` holds the time in the calls of each frame.
    fn add(&mut self, call: &Call, took: &[Took], frames: Option<&FrameTimes>) {
        let values = self.values.row(call.stack, call.time).chunks_exact_mut(MEASURED.len());
        // The time before the first mark, in which the program starts, is not a frame.
        let frame = frames.map(|frames| match call.frame {
            0 => &[],
            frame => frames.get(&frame).map_or(&[][..], |times| times),
        });
        for (index, (values, took)) in values.zip(took).enumerate() {
            let whole = frame.map_or(took.ns, |times| times.get(index).copied().unwrap_or(0.0));
            let excess = (whole - self.limits.budget_ns).max(0.0);
            values[CALLS] += 1.0;
            values[BYTES] += if call.op == FREE { 0.0 } else { call.size as f64 };
            if only_preempted(took.cause) {
                continue;
            }
            values[TIME] += took.ns;
            // A frame that took no time has no excess.
            values[OVER] += if excess > 0.0 { excess * took.ns / whole } else { 0.0 };
            values[SLOW] += f64::from(took.ns > self.limits.slow_ns);
            values[FAULTS] += f64::from(took.cause & CAUSE_FAULT != 0);
        }
    }
}

/// A recorded call.
struct Call {
    op: u8,
    size: u64,
    frame: u32,
    time: u64,
    stack: u32,
}

/// The time inside the calls of each frame that has calls, on each allocator, ns. In a damaged
/// file, any number may be that of a frame, so the numbers do not index a vector.
type FrameTimes = FxHashMap<u32, Vec<f64>>;

fn frame_times(
    folder: &Path,
    kept: &[KeptRun<'_>],
    ticks_per_ns: f64,
) -> Result<FrameTimes, BlameError> {
    let mut frames = FrameTimes::default();
    each_call(folder, kept, ticks_per_ns, &mut |call, took| {
        let times = frames.entry(call.frame).or_insert_with(|| vec![0.0; kept.len()]);
        for (time, took) in times.iter_mut().zip(took) {
            *time += if only_preempted(took.cause) { 0.0 } else { took.ns };
        }
    })?;
    Ok(frames)
}

/// Calls `each` with every call and what it took on each allocator. All files are read at the same
/// time: the values of a call stack are looked up once for each call, not once for each allocator.
fn each_call(
    folder: &Path,
    kept: &[KeptRun<'_>],
    ticks_per_ns: f64,
    each: &mut dyn FnMut(Call, &[Took]),
) -> Result<(), BlameError> {
    let path = folder.join(OPERATIONS_FILE);
    let (mut operations, mut stacks) = (OperationReader::open(&path)?, StackReader::open(&path)?);
    let open = |(_, raw): &KeptRun<'_>| RunReader::open(&folder.join(raw));
    let mut runs = kept.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let mut all = vec![Took { ns: 0.0, cause: 0 }; runs.len()];
    // All files have the same rows, in batches of the same size.
    while let (Some(operation), Some(stacks)) = (operations.next_rows()?, stacks.next_rows()?) {
        let timed = runs.iter_mut().map(|run| Ok(run.next_rows()?));
        let timed: Option<Vec<_>> = timed.collect::<Result<_, BlameError>>()?;
        let Some(timed) = timed else { break };
        let what = operation.op.iter().zip(operation.size).zip(operation.frame);
        let what = what.zip(operation.time).zip(stacks).enumerate();
        for (row, ((((&op, &size), &frame), &time), &stack)) in what {
            for (took, run) in all.iter_mut().zip(&timed) {
                let (Some(ticks), Some(cause)) = (run.ticks.get(row), run.cause.get(row)) else {
                    return Ok(());
                };
                *took = Took { ns: f64::from(*ticks) / ticks_per_ns, cause: *cause };
            }
            each(Call { op, size, frame, time, stack }, &all);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_results::CAUSE_INTERRUPTED;
    use rustc_hash::FxHashMap;

    /// A call of 10 B with a page fault: its stack, its frame, and what it took on the second of
    /// two allocators, ns.
    type Case = (u32, u32, f64);

    fn sums(calls: &[Case], frames: Option<&FrameTimes>) -> FxHashMap<u32, Vec<f64>> {
        sums_with(calls, CAUSE_FAULT, frames)
    }

    /// `cause`: that of the first call.
    fn sums_with(
        calls: &[Case],
        cause: u8,
        frames: Option<&FrameTimes>,
    ) -> FxHashMap<u32, Vec<f64>> {
        let limits = Limits { budget_ns: 100.0, slow_ns: 50.0 };
        let values = OverTime::new(Parts::WHOLE, 2 * MEASURED.len());
        let mut sums = Sums { values, limits };
        for (at, &(stack, frame, ns)) in calls.iter().enumerate() {
            let cause = if at == 0 { cause } else { CAUSE_FAULT };
            let call = Call { op: 0, size: 10, frame, time: 0, stack };
            sums.add(&call, &[Took { ns: 1.0, cause: 0 }, Took { ns, cause }], frames);
        }
        sums.values.into_rows().map(|(stack, _, values)| (stack, values)).collect()
    }

    #[test]
    fn the_excess_of_a_frame_is_divided_among_its_calls() {
        // Frame 1 takes 200 ns in all, frame 2 takes 30 ns.
        let calls = [(1, 1, 150.0), (2, 1, 50.0), (2, 2, 30.0)];
        let frames = FrameTimes::from_iter([(1, vec![2.0, 200.0]), (2, vec![1.0, 30.0])]);
        let sums = sums(&calls, Some(&frames));
        let part = |stack: u32| &sums[&stack][MEASURED.len()..];
        assert_eq!(part(1), [1.0, 10.0, 150.0, 75.0, 1.0, 1.0]);
        assert_eq!(part(2), [2.0, 20.0, 80.0, 25.0, 0.0, 2.0]);
        assert_eq!(sums[&1][..MEASURED.len()], [1.0, 10.0, 1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn the_time_before_the_first_frame_has_no_budget() {
        let frames = FrameTimes::from_iter([(0, vec![1.0, 1500.0]), (1, vec![1.0, 150.0])]);
        let sums = sums(&[(1, 0, 1500.0), (1, 1, 150.0)], Some(&frames));
        assert_eq!(sums[&1][MEASURED.len() + OVER], 50.0);
        assert_eq!(sums[&1][MEASURED.len() + TIME], 1650.0);
    }

    #[test]
    fn a_preempted_call_counts_without_its_time() {
        let sums = sums_with(&[(1, 1, 150.0), (1, 1, 150.0)], CAUSE_INTERRUPTED, None);
        assert_eq!(sums[&1][MEASURED.len()..], [2.0, 20.0, 150.0, 50.0, 1.0, 1.0]);
    }

    #[test]
    fn without_frames_each_call_has_the_budget() {
        let sums = sums(&[(1, 0, 150.0), (1, 0, 50.0)], None);
        assert_eq!(sums[&1][MEASURED.len() + OVER], 50.0);
    }
}
