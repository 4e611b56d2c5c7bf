//! The two passes over raw rows: once over the operations, then once over each allocator's drawn run.

use crate::ReportError;
use crate::tiles::{FINEST_COLUMNS, LatencyScale, TileBuilder, Tiles, size_step};
use keel_results::CAUSE_INTERRUPTED;
use keel_results::raw::{OPERATIONS_FILE, OperationReader, RunReader};
use std::path::Path;

/// The operations that are drawn and tabled, by their code in the files.
pub const OPERATION_NAMES: [&str; 5] = ["malloc", "free", "calloc", "realloc", "aligned"];

/// A foreign free is drawn as a free, a foreign realloc replays as a malloc; later codes are unknown here.
fn kind_of(code: u8) -> Option<u8> {
    match code {
        0..=4 => Some(code),
        5 => Some(1),
        6 => Some(0),
        _ => None,
    }
}

/// What all runs share: two bytes a row, and where columns and frames begin.
pub struct Operations {
    kinds: Vec<u8>,
    size_steps: Vec<u8>,
    /// First row of each column; one more entry ends the last.
    column_starts: Vec<u64>,
    /// First row at or after each frame mark.
    frame_starts: Vec<u64>,
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
    /// Reads the operations of a result folder. `asked` names the rows whose details are wanted, sorted.
    pub fn read(
        folder: &Path,
        span_ns: u64,
        frames: &[u64],
        asked: &[u64],
    ) -> Result<Operations, ReportError> {
        let first = Operations::read_once(folder, span_ns, frames, asked)?;
        if first.span_ns == span_ns.max(1) {
            return Ok(first);
        }
        // The journal's facts understated its duration: once more, with the time that was found.
        Operations::read_once(folder, first.span_ns, frames, asked)
    }

    fn read_once(
        folder: &Path,
        span_ns: u64,
        frames: &[u64],
        asked: &[u64],
    ) -> Result<Operations, ReportError> {
        let path = folder.join(OPERATIONS_FILE);
        let mut reader = OperationReader::open(&path)?;
        let rows = reader.rows() as usize;
        let mut operations = Operations {
            kinds: Vec::with_capacity(rows),
            size_steps: Vec::with_capacity(rows),
            column_starts: vec![0],
            frame_starts: Vec::with_capacity(frames.len()),
            span_ns: span_ns.max(1),
            details: Vec::with_capacity(asked.len()),
        };
        let mut column_end = operations.column_end(0);
        let mut latest = 0;
        while let Some(batch) = reader.next_rows()? {
            let base = operations.kinds.len() as u64;
            for (index, time) in batch.time.iter().enumerate() {
                latest = latest.max(*time);
                while latest >= column_end {
                    operations.column_starts.push(base + index as u64);
                    column_end = operations.column_end(operations.column_starts.len() - 1);
                }
                while frames.get(operations.frame_starts.len()).is_some_and(|mark| latest >= *mark) {
                    operations.frame_starts.push(base + index as u64);
                }
            }
            for code in batch.op {
                let kind = kind_of(*code)
                    .ok_or_else(|| ReportError::UnknownOperation { path: path.clone(), code: *code })?;
                operations.kinds.push(kind);
            }
            operations.size_steps.extend(batch.size.iter().map(|size| size_step(*size)));
            while let Some(row) =
                asked.get(operations.details.len()).filter(|row| **row < base + batch.op.len() as u64)
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
        operations.finish(latest, frames.len());
        Ok(operations)
    }

    fn column_end(&self, column: usize) -> u64 {
        if column + 1 >= FINEST_COLUMNS {
            return u64::MAX;
        }
        ((column as u128 + 1) * u128::from(self.span_ns)).div_ceil(FINEST_COLUMNS as u128) as u64
    }

    fn finish(&mut self, latest: u64, frames: usize) {
        let rows = self.kinds.len() as u64;
        self.column_starts.resize(FINEST_COLUMNS + 1, rows);
        self.frame_starts.resize(frames, rows);
        if latest >= self.span_ns {
            self.span_ns = latest + 1;
        }
    }

    /// Number of operations.
    pub fn rows(&self) -> u64 {
        self.kinds.len() as u64
    }

    /// Details of a row that was asked for.
    pub fn detail(&self, row: u64) -> Option<&Detail> {
        self.details.binary_search_by_key(&row, |detail| detail.row).ok().map(|index| &self.details[index])
    }
}

/// One run, counted.
pub struct CountedRun {
    /// By operation, as in [`OPERATION_NAMES`].
    pub tiles: Vec<Tiles>,
    /// Ticks inside calls in each frame; entry 0 is the time before the first mark.
    pub frame_ticks: Vec<u64>,
    /// The part of `frame_ticks` in calls that the system interrupted.
    pub frame_interrupted_ticks: Vec<u64>,
    /// When the replay reached the beginning of each finest column, ns since the run's start; never decreasing.
    pub column_times: Vec<u64>,
}

/// Reads one run's rows and counts every one of them.
pub fn count_run(
    path: &Path,
    operations: &Operations,
    scale: &LatencyScale,
) -> Result<CountedRun, ReportError> {
    let mut reader = RunReader::open(path)?;
    if reader.rows() != operations.rows() {
        let (path, found, expected) = (path.to_path_buf(), reader.rows(), operations.rows());
        return Err(ReportError::RowCount { path, found, expected });
    }
    let mut counter = RunCounter::new(operations, scale);
    while let Some(batch) = reader.next_rows()? {
        counter.batch(batch.start, batch.ticks, batch.cause);
    }
    Ok(counter.finish())
}

struct RunCounter<'a> {
    operations: &'a Operations,
    scale: &'a LatencyScale,
    builders: Vec<TileBuilder>,
    row: u64,
    column: usize,
    frame: usize,
    counted: CountedRun,
}

impl<'a> RunCounter<'a> {
    fn new(operations: &'a Operations, scale: &'a LatencyScale) -> Self {
        let frames = operations.frame_starts.len() + 1;
        RunCounter {
            operations,
            scale,
            builders: (0..OPERATION_NAMES.len()).map(|_| TileBuilder::default()).collect(),
            row: 0,
            column: 0,
            frame: 0,
            counted: CountedRun {
                tiles: Vec::new(),
                frame_ticks: vec![0; frames],
                frame_interrupted_ticks: vec![0; frames],
                column_times: vec![0],
            },
        }
    }

    /// Splits a batch where a column or a frame ends, so that the inner loop asks nothing.
    fn batch(&mut self, start: &[u64], ticks: &[u32], cause: &[u8]) {
        let mut at = 0;
        while at < ticks.len() {
            self.reach(start[at]);
            let column_end = self.operations.column_starts[self.column + 1];
            let frame_end = self.operations.frame_starts.get(self.frame).copied().unwrap_or(u64::MAX);
            let rows = (column_end.min(frame_end) - self.row).min((ticks.len() - at) as u64) as usize;
            self.rows(&ticks[at..at + rows], &cause[at..at + rows]);
            at += rows;
        }
    }

    /// Moves to the column and frame of the current row, whose call started at `start`.
    fn reach(&mut self, start: u64) {
        while self.operations.column_starts[self.column + 1] <= self.row {
            self.builders.iter_mut().for_each(TileBuilder::end_column);
            self.column += 1;
            let previous = self.counted.column_times.last().copied().unwrap_or(0);
            self.counted.column_times.push(start.max(previous));
        }
        while self.operations.frame_starts.get(self.frame).is_some_and(|first| *first <= self.row) {
            self.frame += 1;
        }
    }

    fn rows(&mut self, ticks: &[u32], cause: &[u8]) {
        let from = self.row as usize;
        let kinds = &self.operations.kinds[from..from + ticks.len()];
        let sizes = &self.operations.size_steps[from..from + ticks.len()];
        let (mut sum, mut interrupted) = (0u64, 0u64);
        for index in 0..ticks.len() {
            let row = self.scale.row(ticks[index]);
            self.builders[usize::from(kinds[index])].count(row, sizes[index], cause[index]);
            sum += u64::from(ticks[index]);
            if cause[index] & CAUSE_INTERRUPTED != 0 {
                interrupted += u64::from(ticks[index]);
            }
        }
        self.counted.frame_ticks[self.frame] += sum;
        self.counted.frame_interrupted_ticks[self.frame] += interrupted;
        self.row += ticks.len() as u64;
    }

    fn finish(mut self) -> CountedRun {
        let last = self.counted.column_times.last().copied().unwrap_or(0);
        while self.column < FINEST_COLUMNS {
            self.builders.iter_mut().for_each(TileBuilder::end_column);
            self.column += 1;
            self.counted.column_times.push(last);
        }
        self.counted.tiles = self.builders.into_iter().map(TileBuilder::finish).collect();
        self.counted
    }
}
