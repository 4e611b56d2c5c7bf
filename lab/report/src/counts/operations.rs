//! The first pass: over the operations, which all runs share.

use super::schedule::Schedule;
use super::threads::{Lane, Slots};
use super::tiles::{FINEST_COLUMNS, size_step};
use crate::error::ReportError;
use keel_results::raw::{OPERATIONS_FILE, OperationReader, OperationRows};
use std::path::Path;

/// Length of the windows of program time that stand for audio buffers; a longer buffer is several
/// windows.
pub const WINDOW_NS: u64 = 2_000_000;
/// A recording with more windows than this gets none: they would fill the page.
const MOST_WINDOWS: u64 = 400_000;

/// Room for this many rows is made before the first one is read.
const ROOM_AT_FIRST: u64 = 1 << 24;

/// The index of an operation in [`keel_results::OPERATIONS`]. A foreign free is drawn as a
/// free; a foreign realloc replays as a malloc. None for unknown codes.
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
    /// Rows whose details are kept, rising.
    pub rows: &'a [u64],
    /// The pace of the replay, as in the settings.
    pub pace: &'a str,
}

/// What all runs share: a few bytes per row, and the first rows of columns, frames and windows.
pub struct Operations {
    /// Index into [`keel_results::OPERATIONS`] of each row.
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
    /// When each row was due, ns since the start of the run; empty without a schedule.
    pub due: Vec<u64>,
    /// The time axis is `0..span_ns`.
    pub span_ns: u64,
    /// Details of the wanted rows, in their order.
    pub details: Vec<Detail>,
}

/// A row of the operations, in full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detail {
    /// Its number.
    pub row: u64,
    /// Index into [`keel_results::OPERATIONS`].
    pub kind: u8,
    /// Bytes.
    pub size: u64,
    /// Thread of the journal.
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
        // The journal's metadata understated its duration: read again with the time that was found.
        Pass::over(folder, wanted, first.span_ns)
    }

    /// Number of operations.
    pub fn rows(&self) -> u64 {
        self.kinds.len() as u64
    }

    /// Details of a wanted row.
    pub fn detail(&self, row: u64) -> Option<&Detail> {
        self.details
            .binary_search_by_key(&row, |detail| detail.row)
            .ok()
            .map(|index| &self.details[index])
    }

    /// Program time between two rows, ns; accurate to one part in four billion of the recording.
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
    fn over(
        folder: &Path,
        wanted: &'a Wanted<'a>,
        span_ns: u64,
    ) -> Result<Operations, ReportError> {
        let path = folder.join(OPERATIONS_FILE);
        let mut reader = OperationReader::open(&path)?;
        // A damaged file may state any number of rows. More room is made when rows are read.
        let rows = reader.rows().min(ROOM_AT_FIRST) as usize;
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
            let unknown =
                || ReportError::UnknownOperation { path: path.to_path_buf(), code: *code };
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

    /// Records the columns, frames and windows that begin at this row, at the latest time.
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
        while let Some(row) =
            self.wanted.rows.get(operations.details.len()).filter(|row| **row < end)
        {
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
