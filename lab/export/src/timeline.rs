//! A journal over time: live memory, and frames.

use crate::ExportError;
use crate::perfetto::cause;
use crate::rows::{OPERATIONS, all_kept};
use keel_journal::{Error, Metadata, Reader};
use keel_results::Comparison;
use keel_results::raw::{OPERATIONS_FILE, OperationReader, StackReader};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;

/// Points of live memory: the highest value in each part of the recorded time.
const POINTS: u64 = 20_000;

/// Why a journal was not written as a trace.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] Error),
    /// The output cannot be written.
    #[error("the output cannot be written")]
    Output(#[from] std::io::Error),
}

/// Live memory at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    /// ns since the start.
    pub time: u64,
    pub bytes: u64,
    pub blocks: u64,
}

/// Calls `each` with live bytes and blocks: the highest number of bytes in each part of the time,
/// and the last one. Returns the time of the last operation.
pub(crate) fn live(
    reader: &Reader,
    each: &mut dyn FnMut(Live) -> std::io::Result<()>,
) -> Result<u64, TimelineError> {
    let end = last_time(reader)?;
    let (mut sizes, mut bytes) = (FxHashMap::default(), 0_u64);
    let (mut part, mut highest, mut last) = (0, Live::default(), Live::default());
    for batch in reader.batches() {
        for event in batch? {
            let released: u64 = sizes.remove(&event.released).unwrap_or(0);
            bytes = bytes.saturating_sub(released);
            if event.created != 0 {
                sizes.insert(event.created, event.size);
                bytes = bytes.saturating_add(event.size);
            }
            let now = u128::from(event.time) * u128::from(POINTS) / u128::from(end.max(1));
            last = Live { time: event.time, bytes, blocks: sizes.len() as u64 };
            if now != part {
                each(highest)?;
                (part, highest) = (now, last);
            } else if bytes > highest.bytes {
                highest = last;
            }
        }
    }
    each(highest)?;
    if last != highest {
        each(last)?;
    }
    Ok(end)
}

fn last_time(reader: &Reader) -> Result<u64, Error> {
    let mut end = 0;
    for batch in reader.batches() {
        end = batch?.last().map_or(end, |event| event.time);
    }
    Ok(end)
}

/// Begin and end of each frame: from its mark to the next one, the last one to `end`.
pub(crate) fn frames(marks: &[u64], end: u64) -> impl Iterator<Item = (u64, u64)> {
    let ends = marks.iter().skip(1).copied().chain([end]);
    marks.iter().zip(ends).map(|(begin, end)| (*begin, end.max(*begin)))
}

/// What is beside the call stacks in a profile.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The recorded time, ns.
    pub span_ns: u64,
    /// Begin and end of each frame, ns.
    pub frames: Vec<(u64, u64)>,
    /// The slow calls, in the order of time; only results have them.
    pub slow: Vec<SlowCall>,
}

/// A slow call.
#[derive(Clone, Debug, Default)]
pub struct SlowCall {
    /// The allocator.
    pub allocator: String,
    /// `malloc`, ...
    pub operation: &'static str,
    /// Requested bytes.
    pub size: u64,
    /// Index of the thread in the journal.
    pub thread: u32,
    /// ns since the start.
    pub start: u64,
    /// ns.
    pub length: f64,
    /// Why it was slow.
    pub cause: String,
    /// The number of its stack in the recording; `u32::MAX` for none.
    pub stack: u32,
}

impl Timeline {
    /// That of a journal.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn of_journal(reader: &Reader) -> Result<Timeline, Error> {
        let Metadata { frames: marks, .. } = reader.metadata();
        let span_ns = last_time(reader)?;
        Ok(Timeline { span_ns, frames: frames(marks, span_ns).collect(), slow: Vec::new() })
    }
}

impl Timeline {
    /// That of the kept runs of a result folder: of all allocators, or of one. Calls up to
    /// `slow_ns` are left out. All times are those of the journal.
    ///
    /// # Errors
    /// See [`ExportError`].
    pub fn of_results(
        folder: &Path,
        allocator: Option<&str>,
        slow_ns: f64,
    ) -> Result<Timeline, ExportError> {
        let comparison = Comparison::load(folder)?;
        let (span_ns, marks) = (comparison.journal.duration_ns, &comparison.journal.frames);
        let mut calls: BTreeMap<u64, Vec<SlowCall>> = BTreeMap::new();
        for (result, raw) in all_kept(&comparison, allocator)? {
            let run = result.runs.iter().find(|run| run.raw.as_deref() == Some(raw));
            for outlier in run.iter().flat_map(|run| &run.outliers) {
                let length = f64::from(outlier.ticks) / comparison.clock.ticks_per_ns;
                if length > slow_ns {
                    let allocator = result.name.clone();
                    let cause = Some(cause(outlier.cause)).filter(|cause| !cause.is_empty());
                    let cause = cause.unwrap_or_else(|| "own work".to_owned());
                    let call = SlowCall { allocator, length, cause, ..SlowCall::default() };
                    calls.entry(outlier.row).or_default().push(call);
                }
            }
        }
        describe(folder, &mut calls)?;
        let slow = calls.into_values().flatten().collect();
        Ok(Timeline { span_ns, frames: frames(marks, span_ns).collect(), slow })
    }
}

/// Adds what the journal has about the calls, by row.
fn describe(folder: &Path, calls: &mut BTreeMap<u64, Vec<SlowCall>>) -> Result<(), ExportError> {
    let path = folder.join(OPERATIONS_FILE);
    let (mut operations, mut stacks) = (OperationReader::open(&path)?, StackReader::open(&path)?);
    let mut base = 0;
    // Both have the same rows, in batches of the same size.
    while let (Some(rows), Some(stacks)) = (operations.next_rows()?, stacks.next_rows()?) {
        let end = base + stacks.len() as u64;
        for (row, calls) in calls.range_mut(base..end) {
            let row = (row - base) as usize;
            let name = OPERATIONS.get(usize::from(rows.op[row])).copied().unwrap_or_default();
            for call in calls {
                (call.operation, call.size, call.thread) = (name, rows.size[row], rows.thread[row]);
                (call.start, call.stack) = (rows.time[row], stacks[row]);
            }
        }
        base = end;
    }
    Ok(())
}
