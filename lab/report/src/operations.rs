//! The first pass: over the operations, which all runs share.

use crate::ReportError;
use crate::tiles::{FINEST_COLUMNS, size_step};
use keel_results::raw::{OPERATIONS_FILE, OperationReader, OperationRows};
use std::path::Path;

/// The operations that are drawn and tabled, by their code in the files.
pub const OPERATION_NAMES: [&str; 5] = ["malloc", "free", "calloc", "realloc", "aligned"];
/// Threads that are told apart; the last lane holds all further ones.
pub const LANES: usize = 16;
/// Length of the windows of program time that stand for audio buffers; longer buffers are several of them.
pub const WINDOW_NS: u64 = 2_000_000;
/// A recording with more windows than this has none: they would fill the page.
const MOST_WINDOWS: u64 = 400_000;
/// The longest pause that pace `compressed` leaves (lab/replay/src/compile/pacing.rs).
const LONGEST_GAP_NS: u64 = 1_000_000;

/// A foreign free is drawn as a free, a foreign realloc replays as a malloc; later codes are unknown here.
fn kind_of(code: u8) -> Option<u8> {
    match code {
        0..=4 => Some(code),
        5 => Some(1),
        6 => Some(0),
        _ => None,
    }
}

/// What to read of the operations.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The journal's duration, ns.
    pub span_ns: u64,
    /// Frame marks, ns, rising.
    pub frames: &'a [u64],
    /// Rows whose details are wanted, rising.
    pub rows: &'a [u64],
    /// The pace of the replay, as in the settings.
    pub pace: &'a str,
}

/// A thread of the journal.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Lane {
    /// Its number in the journal; None for the lane of all further threads.
    pub thread: Option<u32>,
    /// Its operations.
    pub operations: u64,
}

/// What all runs share: a few bytes a row, and where columns, frames and windows begin.
pub struct Operations {
    /// Index into [`OPERATION_NAMES`] of each row.
    pub kinds: Vec<u8>,
    /// See [`size_step`].
    pub size_steps: Vec<u8>,
    /// Index into `threads` of each row.
    pub lanes: Vec<u8>,
    /// The threads with most operations, busiest first.
    pub threads: Vec<Lane>,
    /// Time of each row in units of `1 << time_shift` ns.
    times: Vec<u32>,
    time_shift: u32,
    /// First row of each column; one more entry ends the last.
    pub column_starts: Vec<u64>,
    /// First row at or after each frame mark.
    pub frame_starts: Vec<u64>,
    /// First row at or after the end of each window but the last.
    pub window_starts: Vec<u64>,
    /// When each row was due, ns since the run's start; empty if calls follow each other without a schedule.
    pub due: Vec<u64>,
    /// The time axis is `0..span_ns`.
    pub span_ns: u64,
    /// Details of the asked rows, in their order.
    pub details: Vec<Detail>,
}

/// A row of the operations, in full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detail {
    /// Its number.
    pub row: u64,
    /// Index into [`OPERATION_NAMES`].
    pub kind: u8,
    /// Bytes.
    pub size: u64,
    /// Journal's thread.
    pub thread: u32,
    /// ns in the journal.
    pub time: u64,
}

impl Operations {
    /// Reads the operations of a result folder.
    pub fn read(folder: &Path, wanted: &Wanted<'_>) -> Result<Operations, ReportError> {
        let first = Pass::over(folder, wanted, wanted.span_ns.max(1))?;
        if first.span_ns == wanted.span_ns.max(1) {
            return Ok(first);
        }
        // The journal's facts understated its duration: once more, with the time that was found.
        Pass::over(folder, wanted, first.span_ns)
    }

    /// Number of operations.
    pub fn rows(&self) -> u64 {
        self.kinds.len() as u64
    }

    /// Details of a row that was asked for.
    pub fn detail(&self, row: u64) -> Option<&Detail> {
        self.details.binary_search_by_key(&row, |detail| detail.row).ok().map(|index| &self.details[index])
    }

    /// Program time between two rows, ns; exact to one part in four billion of the recording.
    pub fn between(&self, first: usize, last: usize) -> u64 {
        u64::from(self.times[last].saturating_sub(self.times[first])) << self.time_shift
    }

    /// Number of windows; 0 if the recording is too short or too long for them.
    pub fn windows(&self) -> usize {
        if self.window_starts.is_empty() { 0 } else { self.window_starts.len() + 1 }
    }
}

struct Pass<'a> {
    wanted: &'a Wanted<'a>,
    operations: Operations,
    slots: Slots,
    schedule: Schedule,
    column_end: u64,
    window_end: u64,
    latest: u64,
}

impl<'a> Pass<'a> {
    fn over(folder: &Path, wanted: &'a Wanted<'a>, span_ns: u64) -> Result<Operations, ReportError> {
        let path = folder.join(OPERATIONS_FILE);
        let mut reader = OperationReader::open(&path)?;
        let rows = reader.rows() as usize;
        let schedule = Schedule::of(wanted.pace);
        let paced = if matches!(schedule, Schedule::None) { 0 } else { rows };
        let windows = span_ns.div_ceil(WINDOW_NS);
        let mut pass = Pass {
            wanted,
            operations: Operations {
                kinds: Vec::with_capacity(rows),
                size_steps: Vec::with_capacity(rows),
                lanes: Vec::with_capacity(rows),
                threads: Vec::new(),
                times: Vec::with_capacity(rows),
                time_shift: (64 - span_ns.leading_zeros()).saturating_sub(32),
                column_starts: vec![0],
                frame_starts: Vec::with_capacity(wanted.frames.len()),
                window_starts: Vec::new(),
                due: Vec::with_capacity(paced),
                span_ns,
                details: Vec::with_capacity(wanted.rows.len()),
            },
            slots: Slots::default(),
            schedule,
            column_end: 0,
            window_end: if (2..=MOST_WINDOWS).contains(&windows) { WINDOW_NS } else { u64::MAX },
            latest: 0,
        };
        pass.column_end = pass.end_of_column(0);
        while let Some(batch) = reader.next_rows()? {
            pass.batch(&batch, &path)?;
        }
        Ok(pass.finish())
    }

    fn batch(&mut self, batch: &OperationRows<'_>, path: &Path) -> Result<(), ReportError> {
        let base = self.operations.rows();
        for (index, time) in batch.time.iter().enumerate() {
            self.latest = self.latest.max(*time);
            self.reach(base + index as u64);
        }
        for code in batch.op {
            let unknown = || ReportError::UnknownOperation { path: path.to_path_buf(), code: *code };
            self.operations.kinds.push(kind_of(*code).ok_or_else(unknown)?);
        }
        self.operations.size_steps.extend(batch.size.iter().map(|size| size_step(*size)));
        let shift = self.operations.time_shift;
        self.operations.times.extend(batch.time.iter().map(|time| (time >> shift) as u32));
        self.slots.extend(batch.thread, &mut self.operations.lanes);
        self.schedule.extend(batch.time, &mut self.operations.due);
        self.keep_details(batch, base);
        Ok(())
    }

    /// Notes the columns, frames and windows that begin with a row at the latest time.
    #[inline]
    fn reach(&mut self, row: u64) {
        while self.latest >= self.column_end {
            self.operations.column_starts.push(row);
            self.column_end = self.end_of_column(self.operations.column_starts.len() - 1);
        }
        while self.latest >= self.window_end {
            self.operations.window_starts.push(row);
            self.window_end += WINDOW_NS;
            if self.window_end >= self.operations.span_ns {
                self.window_end = u64::MAX;
            }
        }
        let frames = &mut self.operations.frame_starts;
        while self.wanted.frames.get(frames.len()).is_some_and(|mark| self.latest >= *mark) {
            frames.push(row);
        }
    }

    fn end_of_column(&self, column: usize) -> u64 {
        if column + 1 >= FINEST_COLUMNS {
            return u64::MAX;
        }
        let span = u128::from(self.operations.span_ns);
        ((column as u128 + 1) * span).div_ceil(FINEST_COLUMNS as u128) as u64
    }

    fn keep_details(&mut self, batch: &OperationRows<'_>, base: u64) {
        let end = base + batch.op.len() as u64;
        let operations = &mut self.operations;
        while let Some(row) = self.wanted.rows.get(operations.details.len()).filter(|row| **row < end) {
            let index = (row - base) as usize;
            operations.details.push(Detail {
                row: *row,
                kind: operations.kinds[*row as usize],
                size: batch.size[index],
                thread: batch.thread[index],
                time: batch.time[index],
            });
        }
    }

    fn finish(self) -> Operations {
        let Pass { mut operations, latest, wanted, slots, .. } = self;
        let rows = operations.rows();
        operations.column_starts.resize(FINEST_COLUMNS + 1, rows);
        operations.frame_starts.resize(wanted.frames.len(), rows);
        let windows = operations.span_ns.div_ceil(WINDOW_NS);
        if (2..=MOST_WINDOWS).contains(&windows) {
            operations.window_starts.resize(windows as usize - 1, rows);
        }
        operations.threads = slots.rank(&mut operations.lanes);
        if latest >= operations.span_ns {
            operations.span_ns = latest + 1;
        }
        operations
    }
}

/// Threads by first appearance while reading; ranked by their operations at the end.
#[derive(Default)]
struct Slots {
    slot_of: std::collections::HashMap<u32, u8>,
    threads: Vec<u32>,
    counts: Vec<u64>,
    last: Option<(u32, u8)>,
}

impl Slots {
    /// Threads that get a slot of their own; all later ones share one.
    const MOST: usize = 255;

    fn extend(&mut self, threads: &[u32], lanes: &mut Vec<u8>) {
        for thread in threads {
            let slot = match self.last {
                Some((last, slot)) if last == *thread => slot,
                _ => self.slot(*thread),
            };
            self.last = Some((*thread, slot));
            self.counts[usize::from(slot)] += 1;
            lanes.push(slot);
        }
    }

    fn slot(&mut self, thread: u32) -> u8 {
        if let Some(slot) = self.slot_of.get(&thread) {
            return *slot;
        }
        let slot = self.threads.len().min(Slots::MOST);
        if slot == self.counts.len() {
            self.counts.push(0);
        }
        if slot < Slots::MOST {
            self.threads.push(thread);
        }
        self.slot_of.insert(thread, slot as u8);
        slot as u8
    }

    /// Turns slots into lanes, busiest first.
    fn rank(self, lanes: &mut [u8]) -> Vec<Lane> {
        let mut order: Vec<usize> = (0..self.counts.len()).collect();
        // The shared slot names no thread, so it comes last whatever it holds.
        order.sort_by_key(|slot| (*slot == Slots::MOST, std::cmp::Reverse(self.counts[*slot])));
        let mut lane_of = [0u8; Slots::MOST + 1];
        let mut ranked: Vec<Lane> = Vec::new();
        let own = if order.len() <= LANES && order.len() <= Slots::MOST { order.len() } else { LANES - 1 };
        for (rank, slot) in order.into_iter().enumerate() {
            lane_of[slot] = rank.min(own) as u8;
            let operations = self.counts[slot];
            match ranked.get_mut(own).filter(|_| rank > own) {
                Some(others) => others.operations += operations,
                None => {
                    let thread = self.threads.get(slot).copied().filter(|_| rank < own);
                    ranked.push(Lane { thread, operations });
                }
            }
        }
        lanes.iter_mut().for_each(|lane| *lane = lane_of[usize::from(*lane)]);
        ranked
    }
}

/// When rows were due, by the pace of the replay.
enum Schedule {
    None,
    Times(f64),
    Compressed { last: u64, skipped: u64 },
}

impl Schedule {
    fn of(pace: &str) -> Schedule {
        match pace {
            "compressed" => Schedule::Compressed { last: 0, skipped: 0 },
            pace => match pace.strip_suffix('x').and_then(|times| times.parse().ok()) {
                Some(times) if times > 0.0 => Schedule::Times(times),
                _ => Schedule::None,
            },
        }
    }

    fn extend(&mut self, times: &[u64], due: &mut Vec<u64>) {
        match self {
            Schedule::None => {}
            Schedule::Times(factor) => due.extend(times.iter().map(|time| (*time as f64 / *factor) as u64)),
            Schedule::Compressed { last, skipped } => due.extend(times.iter().map(|time| {
                *skipped += time.saturating_sub(*last).saturating_sub(LONGEST_GAP_NS);
                *last = (*last).max(*time);
                time.saturating_sub(*skipped)
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_threads_get_lanes_of_their_own() {
        let mut slots = Slots::default();
        let mut lanes = Vec::new();
        // Thread t makes t + 1 operations; 20 threads are more than there are lanes.
        (0..20u32).for_each(|thread| slots.extend(&vec![thread; thread as usize + 1], &mut lanes));
        let first_of = |thread: usize| thread * (thread + 1) / 2;
        let ranked = slots.rank(&mut lanes);
        assert_eq!(ranked.len(), LANES);
        assert_eq!(ranked[0], Lane { thread: Some(19), operations: 20 });
        assert_eq!(ranked[14], Lane { thread: Some(5), operations: 6 });
        assert_eq!(ranked[15], Lane { thread: None, operations: 1 + 2 + 3 + 4 + 5 });
        assert_eq!((lanes[first_of(19)], lanes[first_of(5)], lanes[first_of(4)]), (0, 14, 15));
        assert_eq!(ranked.iter().map(|lane| lane.operations).sum::<u64>(), lanes.len() as u64);
    }

    #[test]
    fn few_threads_have_no_lane_of_others() {
        let mut slots = Slots::default();
        let mut lanes = Vec::new();
        slots.extend(&[7, 7, 3], &mut lanes);
        let ranked = slots.rank(&mut lanes);
        assert_eq!(
            ranked,
            [Lane { thread: Some(7), operations: 2 }, Lane { thread: Some(3), operations: 1 }]
        );
        assert_eq!(lanes, [0, 0, 1]);
    }

    #[test]
    fn a_schedule_follows_the_pace() {
        let due = |pace| {
            let mut due = Vec::new();
            Schedule::of(pace).extend(&[0, 500_000, 9_000_000], &mut due);
            due
        };
        assert_eq!(due("2x"), [0, 250_000, 4_500_000]);
        assert_eq!(due("compressed"), [0, 500_000, 1_500_000]);
        assert!(due("max").is_empty());
    }
}
