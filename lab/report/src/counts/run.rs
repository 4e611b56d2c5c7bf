//! The second pass: over one run of each allocator. Every row is counted.

use super::operations::Operations;
use super::planes::SizePlane;
use super::threads::LANES;
use super::tiles::{FINEST_COLUMNS, LatencyScale, TileBuilder, Tiles};
use crate::error::ReportError;
use keel_results::raw::{RunReader, RunRows};
use keel_results::{OPERATIONS, only_preempted};
use std::path::Path;

/// Columns of the strip of lateness.
pub const LATENESS_COLUMNS: usize = 2048;
const REALLOC: u8 = 3;

/// Time inside calls in consecutive intervals of program time, ticks.
#[derive(Default)]
pub struct Sums {
    /// In all calls.
    pub inside: Vec<u64>,
    /// In calls that were only preempted, which the figures of frames leave out.
    pub interrupted: Vec<u64>,
    /// In the calls of the thread that spent most in that interval.
    pub busiest: Vec<u64>,
}

/// One run, counted.
pub struct CountedRun {
    /// By operation, as in [`OPERATIONS`].
    pub tiles: Vec<Tiles>,
    /// Size and latency of all calls, by operation.
    pub planes: Vec<SizePlane>,
    /// Of each frame; entry 0 is the time before the first mark.
    pub frames: Sums,
    /// Of each window; empty without windows.
    pub windows: Sums,
    /// Ticks of the probed rows, in their order.
    pub probes: Vec<u32>,
    /// Greatest and mean lateness in each of [`LATENESS_COLUMNS`], ns; empty without a schedule.
    pub lateness: Vec<[u64; 2]>,
    /// When the replay reached the start of each finest column, ns since the start of the run;
    /// never decreasing.
    pub column_times: Vec<u64>,
}

/// Reads the rows of one run and counts every row. `probes`: rows whose ticks are kept, rising.
pub fn count_run(
    path: &Path,
    operations: &Operations,
    scale: &LatencyScale,
    probes: &[u64],
) -> Result<CountedRun, ReportError> {
    let mut reader = RunReader::open(path)?;
    if reader.rows() != operations.rows() {
        let (path, found, expected) = (path.to_path_buf(), reader.rows(), operations.rows());
        return Err(ReportError::RowCount { path, found, expected });
    }
    let mut counter = RunCounter::new(operations, scale, probes);
    while let Some(batch) = reader.next_rows()? {
        counter.batch(&batch);
    }
    Ok(counter.finish())
}

/// Sums of the calls in an interval of time, by thread.
#[derive(Default)]
struct Interval {
    lanes: [u64; LANES],
    interrupted: u64,
}

impl Interval {
    fn end(&mut self, sums: &mut Sums) {
        sums.inside.push(self.lanes.iter().sum());
        sums.busiest.push(self.lanes.iter().copied().max().unwrap_or(0));
        sums.interrupted.push(self.interrupted);
        *self = Interval::default();
    }

    fn add(&mut self, other: &Interval) {
        self.lanes.iter_mut().zip(other.lanes).for_each(|(to, from)| *to += from);
        self.interrupted += other.interrupted;
    }
}

struct RunCounter<'a> {
    operations: &'a Operations,
    scale: &'a LatencyScale,
    probes: &'a [u64],
    builders: Vec<TileBuilder>,
    row: u64,
    column: usize,
    frame: Interval,
    window: Interval,
    /// Sum and number of the lateness values in each column of the strip.
    late: Vec<(u64, u64)>,
    counted: CountedRun,
}

impl<'a> RunCounter<'a> {
    fn new(operations: &'a Operations, scale: &'a LatencyScale, probes: &'a [u64]) -> Self {
        let strip = if operations.due.is_empty() { 0 } else { LATENESS_COLUMNS };
        RunCounter {
            operations,
            scale,
            probes,
            builders: (0..OPERATIONS.len()).map(|_| TileBuilder::default()).collect(),
            row: 0,
            column: 0,
            frame: Interval::default(),
            window: Interval::default(),
            late: vec![(0, 0); strip],
            counted: CountedRun {
                tiles: Vec::new(),
                planes: (0..OPERATIONS.len()).map(|_| SizePlane::default()).collect(),
                frames: Sums::default(),
                windows: Sums::default(),
                probes: Vec::with_capacity(probes.len()),
                lateness: vec![[0, 0]; strip],
                column_times: vec![0],
            },
        }
    }

    /// Splits a batch where a column, a frame or a window ends: the inner loop has no such checks.
    fn batch(&mut self, batch: &RunRows<'_>) {
        let base = self.row;
        let mut at = 0;
        while at < batch.ticks.len() {
            self.reach(batch.start[at]);
            let ends = [
                self.operations.column_starts.get(self.column + 1),
                self.operations.frame_starts.get(self.counted.frames.inside.len()),
                self.operations.window_starts.get(self.counted.windows.inside.len()),
            ];
            let end = ends.into_iter().flatten().copied().min().unwrap_or(u64::MAX);
            let rows = (end - self.row).min((batch.ticks.len() - at) as u64) as usize;
            self.late(&batch.start[at..at + rows]);
            self.rows(&batch.ticks[at..at + rows], &batch.cause[at..at + rows]);
            at += rows;
        }
        while let Some(row) =
            self.probes.get(self.counted.probes.len()).filter(|row| **row < self.row)
        {
            self.counted.probes.push(batch.ticks[(row - base) as usize]);
        }
    }

    /// Moves to the column, frame and window of the current row, whose call started at `start`.
    fn reach(&mut self, start: u64) {
        while self.operations.column_starts[self.column + 1] <= self.row {
            self.builders.iter_mut().for_each(TileBuilder::end_column);
            self.column += 1;
            let previous = self.counted.column_times.last().copied().unwrap_or(0);
            self.counted.column_times.push(start.max(previous));
        }
        let ended =
            |starts: &[u64], done: usize| starts.get(done).is_some_and(|first| *first <= self.row);
        while ended(&self.operations.frame_starts, self.counted.frames.inside.len()) {
            self.frame.end(&mut self.counted.frames);
        }
        while ended(&self.operations.window_starts, self.counted.windows.inside.len()) {
            self.window.end(&mut self.counted.windows);
        }
    }

    /// Compares the starts of calls with the schedule. Reallocs are left out: they are due before
    /// their time in the journal.
    fn late(&mut self, starts: &[u64]) {
        if self.late.is_empty() {
            return;
        }
        let from = self.row as usize;
        let column = self.column * LATENESS_COLUMNS / FINEST_COLUMNS;
        let due = &self.operations.due[from..from + starts.len()];
        let kinds = &self.operations.kinds[from..from + starts.len()];
        for ((start, due), _) in
            starts.iter().zip(due).zip(kinds).filter(|(_, kind)| **kind != REALLOC)
        {
            let late = start.saturating_sub(*due);
            self.counted.lateness[column][0] = self.counted.lateness[column][0].max(late);
            self.late[column].0 += late;
            self.late[column].1 += 1;
        }
    }

    fn rows(&mut self, ticks: &[u32], cause: &[u8]) {
        let from = self.row as usize;
        let kinds = &self.operations.kinds[from..from + ticks.len()];
        let sizes = &self.operations.size_steps[from..from + ticks.len()];
        let lanes = &self.operations.lanes[from..from + ticks.len()];
        let mut interval = Interval::default();
        for index in 0..ticks.len() {
            let row = self.scale.row(ticks[index]);
            let kind = usize::from(kinds[index]);
            self.builders[kind].count(row, sizes[index], cause[index], lanes[index]);
            self.counted.planes[kind].count(sizes[index], row);
            interval.lanes[usize::from(lanes[index])] += u64::from(ticks[index]);
            if only_preempted(cause[index]) {
                interval.interrupted += u64::from(ticks[index]);
            }
        }
        self.frame.add(&interval);
        self.window.add(&interval);
        self.row += ticks.len() as u64;
    }

    fn finish(mut self) -> CountedRun {
        let last = self.counted.column_times.last().copied().unwrap_or(0);
        while self.column < FINEST_COLUMNS {
            self.builders.iter_mut().for_each(TileBuilder::end_column);
            self.column += 1;
            self.counted.column_times.push(last);
        }
        while self.counted.frames.inside.len() <= self.operations.frame_starts.len() {
            self.frame.end(&mut self.counted.frames);
        }
        while self.counted.windows.inside.len() < self.operations.windows() {
            self.window.end(&mut self.counted.windows);
        }
        for (lateness, (sum, calls)) in self.counted.lateness.iter_mut().zip(&self.late) {
            lateness[1] = sum / (*calls).max(1);
        }
        self.counted.tiles = self.builders.into_iter().map(TileBuilder::finish).collect();
        self.counted
    }
}
