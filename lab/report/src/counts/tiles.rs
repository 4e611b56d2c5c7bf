//! Exact counts of calls over program time and latency: what the density view draws.
//!
//! ```text
//!              column 0      column 1            ...   column 2^k - 1
//!            +-------------+-------------+
//! latency    | row, count, | row, count, |       time in the journal -->
//! (12 rows   | size, cause | size, cause |
//! an octave) | ...         | ...         |
//!            +-------------+-------------+
//! ```
//! The rows of a result folder are in the order of the journal, so time never decreases: one dense
//! column is counted at a time and stored as a sparse one. Counting is O(1) per call, in memory
//! that does not grow with the calls. Coarser levels are sums of pairs of columns
//! ([`Tiles::halve`]); every level holds every call exactly once.

use crate::encode::Stream;
use keel_results::{CAUSE_FAULT, CAUSE_INTERRUPT, CAUSE_INTERRUPTED, CAUSE_SLEPT, CAUSE_SYSCALL};
use std::sync::LazyLock;

/// Latency rows in a doubling of the latency; a row is 5.9 % wide.
pub const ROWS_PER_OCTAVE: u32 = 12;
/// Rows from 1 ns: 40 octaves cover the longest call on the slowest clock.
pub const LATENCY_ROWS: usize = 40 * ROWS_PER_OCTAVE as usize;
/// Time columns of the finest level.
pub const FINEST_COLUMNS: usize = 1 << 14;
/// Size steps in a doubling of the size.
pub const SIZE_STEPS_PER_OCTAVE: f64 = 4.0;

/// From ticks to a row of latency.
pub struct LatencyScale {
    /// The row of every short call. Long calls are rare; their rows are computed.
    short: Vec<u16>,
    ticks_per_ns: f64,
}

impl LatencyScale {
    /// `ticks_per_ns` of the run's clock must be positive.
    pub fn new(ticks_per_ns: f64) -> LatencyScale {
        let short = (0..1u32 << 16).map(|ticks| row_of(f64::from(ticks) / ticks_per_ns)).collect();
        LatencyScale { short, ticks_per_ns }
    }

    /// The row of a call that took `ticks`, in `0..LATENCY_ROWS`.
    #[inline]
    pub fn row(&self, ticks: u32) -> u16 {
        match self.short.get(ticks as usize) {
            Some(row) => *row,
            None => row_of(f64::from(ticks) / self.ticks_per_ns),
        }
    }
}

fn row_of(ns: f64) -> u16 {
    let row = (ns.max(1.0).log2() * f64::from(ROWS_PER_OCTAVE)).floor();
    row.min(LATENCY_ROWS as f64 - 1.0) as u16
}

/// The logarithm of a size in quarter octaves, plus one; 0 is an unknown size (0 bytes).
#[inline]
pub fn size_step(size: u64) -> u8 {
    static SMALL: LazyLock<Vec<u8>> = LazyLock::new(|| (0..1 << 13).map(step_of).collect());
    SMALL.get(size as usize).copied().unwrap_or_else(|| step_of(size))
}

fn step_of(size: u64) -> u8 {
    if size == 0 {
        return 0;
    }
    // 1 + 4 * log2(2^64) = 257 would not fit, but no block is larger than 2^57.
    (1.0 + SIZE_STEPS_PER_OCTAVE * (size as f64).log2().min(60.0)).round() as u8
}

/// The calls of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cell {
    count: u32,
    /// Calls with page faults or system calls and without interruption.
    kernel: u32,
    /// Calls interrupted by the system.
    interrupted: u32,
    /// The lane with more calls than all others together, if there is one (majority vote of Boyer
    /// and Moore), and its lead.
    lane: u8,
    lead: u32,
    size_steps: u64,
}

/// Sparse columns of cells; the cells of a column by rising row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tiles {
    cells_in_column: Vec<u16>,
    rows: Vec<u16>,
    cells: Vec<Cell>,
}

/// A cell as it is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TileCell {
    /// Calls in it.
    pub calls: u64,
    /// Their mean [`size_step`].
    pub size_step: f64,
    /// 2 if most calls were interrupted, 1 if most were in the kernel, else 0.
    pub cause: u8,
    /// The lane of more than half of them, if there is one; else any.
    pub lane: u8,
}

/// The main cause of a call: 2 an interruption, 1 the kernel's work for the call, 0 neither.
/// `page/colour.js` does the same.
pub fn cause_index(cause: u8) -> u8 {
    let has = |bits| cause & bits != 0;
    if has(CAUSE_INTERRUPTED | CAUSE_SLEPT) {
        2
    } else if has(CAUSE_FAULT | CAUSE_SYSCALL) {
        1
    } else {
        2 * u8::from(has(CAUSE_INTERRUPT))
    }
}

/// Counts one operation's calls, column by column.
pub struct TileBuilder {
    column: Vec<Cell>,
    /// Rows outside `low..high` are empty in this column.
    low: usize,
    high: usize,
    tiles: Tiles,
}

impl Default for TileBuilder {
    fn default() -> Self {
        TileBuilder {
            column: vec![Cell::default(); LATENCY_ROWS],
            low: LATENCY_ROWS,
            high: 0,
            tiles: Tiles::default(),
        }
    }
}

impl TileBuilder {
    /// Counts a call in the current column.
    #[inline]
    pub fn count(&mut self, row: u16, size_step: u8, cause: u8, lane: u8) {
        let row = usize::from(row);
        let cell = &mut self.column[row];
        cell.count += 1;
        cell.size_steps += u64::from(size_step);
        cell.vote(lane, 1);
        if cause != 0 {
            let cause = cause_index(cause);
            cell.interrupted += u32::from(cause == 2);
            cell.kernel += u32::from(cause == 1);
        }
        self.low = self.low.min(row);
        self.high = self.high.max(row + 1);
    }

    /// Ends the current column and begins the next.
    pub fn end_column(&mut self) {
        let mut cells = 0;
        for row in self.low..self.high {
            let cell = std::mem::take(&mut self.column[row]);
            if cell.count != 0 {
                self.tiles.rows.push(row as u16);
                self.tiles.cells.push(cell);
                cells += 1;
            }
        }
        self.tiles.cells_in_column.push(cells);
        (self.low, self.high) = (LATENCY_ROWS, 0);
    }

    /// The finished columns.
    pub fn finish(self) -> Tiles {
        self.tiles
    }
}

impl Tiles {
    /// Number of columns, a power of two.
    pub fn columns(&self) -> usize {
        self.cells_in_column.len()
    }

    /// Number of non-empty cells, which determines the cost of drawing and the file size.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// The number of non-empty cells after this many calls of [`Tiles::halve`], without calling it.
    pub fn cells_after(&self, halvings: u32) -> usize {
        let mut cells = 0;
        let mut rest = self.rows.as_slice();
        for group in self.cells_in_column.chunks(1 << halvings) {
            let length = group.iter().map(|cells| usize::from(*cells)).sum();
            let (of_group, after) = rest.split_at(length);
            let mut filled = [0u64; LATENCY_ROWS.div_ceil(64)];
            of_group.iter().for_each(|row| filled[usize::from(row / 64)] |= 1 << (row % 64));
            cells += filled.iter().map(|word| word.count_ones() as usize).sum::<usize>();
            rest = after;
        }
        cells
    }

    /// Number of calls; the same at every level.
    pub fn calls(&self) -> u64 {
        self.cells.iter().map(|cell| u64::from(cell.count)).sum()
    }

    /// Lowest and highest row that holds a call; None without calls.
    pub fn row_range(&self) -> Option<(u16, u16)> {
        Some((*self.rows.iter().min()?, *self.rows.iter().max()?))
    }

    /// Column, row and content of every cell.
    pub fn each(&self) -> impl Iterator<Item = (usize, u16, TileCell)> + '_ {
        let columns = self.cells_in_column.iter().enumerate();
        let columns =
            columns.flat_map(|(column, cells)| std::iter::repeat_n(column, usize::from(*cells)));
        columns
            .zip(&self.rows)
            .zip(&self.cells)
            .map(|((column, row), cell)| (column, *row, cell.drawn()))
    }

    /// The next coarser level: pairs of columns added up.
    pub fn halve(&self) -> Tiles {
        let mut halved = Tiles::default();
        let mut from = 0;
        for pair in self.cells_in_column.chunks(2) {
            let middle = from + usize::from(pair[0]);
            let end = middle + pair.get(1).map_or(0, |cells| usize::from(*cells));
            let before = halved.rows.len();
            self.merge(from..middle, middle..end, &mut halved);
            halved.cells_in_column.push((halved.rows.len() - before) as u16);
            from = end;
        }
        halved
    }

    /// Appends the union of two columns of `self` to `to`, by rising row.
    fn merge(&self, left: std::ops::Range<usize>, right: std::ops::Range<usize>, to: &mut Tiles) {
        let (mut a, mut b) = (left.start, right.start);
        while a < left.end || b < right.end {
            let row_a = if a < left.end { self.rows[a] } else { u16::MAX };
            let row_b = if b < right.end { self.rows[b] } else { u16::MAX };
            let mut cell = Cell::default();
            if row_a <= row_b {
                cell.add(&self.cells[a]);
                a += 1;
            }
            if row_b <= row_a {
                cell.add(&self.cells[b]);
                b += 1;
            }
            to.rows.push(row_a.min(row_b));
            to.cells.push(cell);
        }
    }

    /// The bytes that `page/data.js` reads: eight streams of like values, which compress well.
    pub fn encode(&self) -> Vec<u8> {
        let mut stream = Stream::default();
        for cells in &self.cells_in_column {
            stream.varint(u64::from(*cells));
        }
        let mut at = 0;
        for cells in &self.cells_in_column {
            let mut previous = 0;
            for row in &self.rows[at..at + usize::from(*cells)] {
                stream.varint(u64::from(row - previous));
                previous = *row;
            }
            at += usize::from(*cells);
        }
        self.cells.iter().for_each(|cell| stream.varint(u64::from(cell.count)));
        self.cells.iter().for_each(|cell| stream.byte(cell.mean_size_step()));
        self.cells.iter().for_each(|cell| stream.varint(u64::from(cell.kernel)));
        self.cells.iter().for_each(|cell| stream.varint(u64::from(cell.interrupted)));
        self.cells.iter().for_each(|cell| stream.byte(cell.lane));
        // Most cells are of one thread: their zeros compress well.
        self.cells.iter().for_each(|cell| stream.varint(u64::from(cell.count - cell.lead)));
        stream.finish()
    }
}

impl Cell {
    fn add(&mut self, other: &Cell) {
        self.count += other.count;
        self.kernel += other.kernel;
        self.interrupted += other.interrupted;
        self.size_steps += other.size_steps;
        self.vote(other.lane, other.lead);
    }

    /// Adds votes for a lane; votes for different lanes cancel each other.
    #[inline]
    fn vote(&mut self, lane: u8, votes: u32) {
        if self.lane == lane {
            self.lead += votes;
        } else if self.lead >= votes {
            self.lead -= votes;
        } else {
            (self.lane, self.lead) = (lane, votes - self.lead);
        }
    }

    fn drawn(&self) -> TileCell {
        let most = |part: u32| part * 2 > self.count;
        TileCell {
            calls: u64::from(self.count),
            size_step: self.size_steps as f64 / f64::from(self.count.max(1)),
            cause: if most(self.interrupted) { 2 } else { u8::from(most(self.kernel)) },
            lane: self.lane,
        }
    }

    fn mean_size_step(&self) -> u8 {
        let count = u64::from(self.count.max(1));
        ((self.size_steps + count / 2) / count) as u8
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn sample() -> (Tiles, u64) {
        let scale = LatencyScale::new(2.5);
        let (mut builder, mut calls, mut state) = (TileBuilder::default(), 0u64, 1u64);
        for _ in 0..64 {
            for _ in 0..500 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let ticks = (state >> 40) as u32 >> (state & 15);
                builder.count(
                    scale.row(ticks),
                    (state >> 20) as u8 & 63,
                    calls as u8 & 3,
                    calls as u8 % 3,
                );
                calls += 1;
            }
            builder.end_column();
        }
        (builder.finish(), calls)
    }

    #[test]
    fn every_level_holds_every_call_once() {
        let (mut tiles, calls) = sample();
        let totals = |tiles: &Tiles| {
            let sum = |of: fn(&Cell) -> u64| tiles.cells.iter().map(of).sum::<u64>();
            [
                sum(|cell| u64::from(cell.count)),
                sum(|cell| u64::from(cell.kernel)),
                sum(|cell| u64::from(cell.interrupted)),
                sum(|cell| cell.size_steps),
            ]
        };
        let finest = totals(&tiles);
        assert_eq!(finest[0], calls);
        assert_eq!(finest[2], calls / 2, "bit 0 of a counter is set in every other call");
        let mut halvings = 0;
        let first = tiles.clone();
        while tiles.columns() > 1 {
            let cells = tiles.cells();
            tiles = tiles.halve();
            halvings += 1;
            assert_eq!(first.cells_after(halvings), tiles.cells(), "counted without halving");
            assert_eq!(totals(&tiles), finest);
            assert!(tiles.cells() <= cells);
        }
        assert!(tiles.rows.is_sorted_by(|a, b| a < b), "one column, each row once");
    }

    #[test]
    fn rows_rise_with_latency_and_contain_it() {
        let scale = LatencyScale::new(3.0);
        let mut previous = 0;
        for ticks in (0..2_000_000).step_by(7).chain([u32::MAX]) {
            let row = scale.row(ticks);
            assert!(row >= previous);
            let low = (f64::from(row) / f64::from(ROWS_PER_OCTAVE)).exp2();
            let ns = (f64::from(ticks) / 3.0).max(1.0);
            assert!(
                low <= ns * (1.0 + 1e-9) && ns < low * 1.06,
                "{ticks} ticks in row {row} from {low} ns"
            );
            previous = row;
        }
    }

    #[test]
    fn a_size_step_is_a_quarter_octave_and_zero_is_unknown() {
        assert_eq!([0, 1, 2, 16, 1 << 20].map(size_step), [0, 1, 5, 17, 81]);
        assert_eq!(size_step(u64::MAX), 241);
    }

    #[test]
    fn a_cell_has_the_thread_of_most_of_its_calls() {
        let mut builder = TileBuilder::default();
        [4, 2, 4, 3, 4, 4].into_iter().for_each(|lane| builder.count(9, 1, 0, lane));
        builder.end_column();
        [2, 2, 2].into_iter().for_each(|lane| builder.count(9, 1, 0, lane));
        builder.end_column();
        let tiles = builder.finish();
        assert_eq!(tiles.cells.iter().map(|cell| cell.lane).collect::<Vec<_>>(), [4, 2]);
        let halved = tiles.halve();
        assert_eq!(
            (halved.cells[0].lane, halved.cells[0].lead),
            (2, 1),
            "lane 2 has 3 + 1 calls, lane 4 has 4, two others have one each"
        );
    }

    #[test]
    fn the_main_cause_of_a_call_is_found() {
        assert_eq!([0, CAUSE_FAULT, CAUSE_SYSCALL].map(cause_index), [0, 1, 1]);
        assert_eq!(
            [CAUSE_INTERRUPTED | CAUSE_FAULT, CAUSE_SLEPT, CAUSE_INTERRUPT].map(cause_index),
            [2, 2, 2]
        );
        assert_eq!(
            cause_index(CAUSE_INTERRUPT | CAUSE_FAULT),
            1,
            "an interrupt is no longer than a fault"
        );
    }

    #[test]
    fn empty_columns_take_one_byte() {
        let mut builder = TileBuilder::default();
        (0..8).for_each(|_| builder.end_column());
        let tiles = builder.finish();
        assert_eq!((tiles.columns(), tiles.cells(), tiles.row_range()), (8, 0, None));
        assert_eq!(tiles.encode().len(), 8);
    }
}
