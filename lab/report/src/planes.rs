//! Counts over two quantities that are not time: size and latency of calls, size and lifetime of blocks.

use crate::ReportError;
use crate::encode::Stream;
use crate::operations::Operations;
use crate::tiles::LATENCY_ROWS;
use keel_results::raw::{AgeReader, OPERATIONS_FILE};
use std::path::Path;

/// Size steps, as [`crate::tiles::size_step`] gives them.
pub const SIZE_STEPS: usize = 242;
/// Steps of a lifetime's logarithm in a doubling.
pub const LIFETIME_STEPS_PER_OCTAVE: u32 = 4;
/// Steps of lifetime: 64 octaves, as many as a time in ns has.
pub const LIFETIME_STEPS: usize = 64 * LIFETIME_STEPS_PER_OCTAVE as usize;
const FREE: u8 = 1;

/// Calls by size and latency.
#[derive(Default)]
pub struct SizePlane {
    /// Allocated with the first call, for many operations never occur.
    counts: Vec<u32>,
}

impl SizePlane {
    /// Counts a call.
    #[inline]
    pub fn count(&mut self, size_step: u8, row: u16) {
        if self.counts.is_empty() {
            self.counts = vec![0; SIZE_STEPS * LATENCY_ROWS];
        }
        self.counts[usize::from(size_step) * LATENCY_ROWS + usize::from(row)] += 1;
    }

    /// Size step, latency row and calls of every cell.
    pub fn each(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count != 0);
        filled.map(|(at, count)| (at / LATENCY_ROWS, at % LATENCY_ROWS, u64::from(*count)))
    }

    /// See [`encode_plane`]; a column is a size step, its rows are those of latency.
    pub fn encode(&self) -> (Vec<u8>, usize) {
        encode_plane(&self.counts)
    }
}

/// Non-empty cells of a dense plane, column by column: steps from one's number to the next, then their counts.
fn encode_plane(counts: &[u32]) -> (Vec<u8>, usize) {
    let found = || counts.iter().enumerate().filter(|(_, count)| **count != 0);
    let mut stream = Stream::default();
    let mut previous = 0;
    for (at, _) in found() {
        stream.varint((at - previous) as u64);
        previous = at;
    }
    found().for_each(|(_, count)| stream.varint(u64::from(*count)));
    (stream.finish(), found().count())
}

/// Blocks by size and lifetime.
pub struct Lifetimes {
    counts: Vec<u32>,
    /// Blocks that were released.
    pub released: u64,
    /// Blocks still live at the journal's end.
    pub kept: u64,
}

impl Lifetimes {
    /// Reads which operation released which block. None if the folder does not tell.
    pub fn read(folder: &Path, operations: &Operations) -> Result<Option<Lifetimes>, ReportError> {
        let Ok(mut reader) = AgeReader::open(&folder.join(OPERATIONS_FILE)) else { return Ok(None) };
        let mut lifetimes = Lifetimes { counts: vec![0; SIZE_STEPS * LIFETIME_STEPS], released: 0, kept: 0 };
        let mut row = 0;
        while let Some(ages) = reader.next_rows()? {
            for age in ages {
                if *age != 0 {
                    lifetimes.count(operations, row - (*age as usize).min(row), row);
                }
                row += 1;
            }
        }
        let born = operations.kinds.iter().filter(|kind| **kind != FREE).count() as u64;
        lifetimes.kept = born.saturating_sub(lifetimes.released);
        Ok((lifetimes.released > 0).then_some(lifetimes))
    }

    fn count(&mut self, operations: &Operations, born: usize, died: usize) {
        let step = usize::from(operations.size_steps[born]);
        self.counts[step * LIFETIME_STEPS + lifetime_step(operations.between(born, died))] += 1;
        self.released += 1;
    }

    /// Size step, lifetime step and blocks of every cell.
    pub fn each(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count != 0);
        filled.map(|(at, count)| (at / LIFETIME_STEPS, at % LIFETIME_STEPS, u64::from(*count)))
    }

    /// See [`encode_plane`]; a column is a size step, its rows are [`lifetime_step`]s.
    pub fn encode(&self) -> (Vec<u8>, usize) {
        encode_plane(&self.counts)
    }
}

/// Quarter octaves of a lifetime from 1 ns up.
fn lifetime_step(ns: u64) -> usize {
    if ns < 2 {
        return 0;
    }
    let step = ((ns as f64).log2() * f64::from(LIFETIME_STEPS_PER_OCTAVE)) as usize;
    step.min(LIFETIME_STEPS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_is_written_as_its_filled_cells() {
        let mut plane = SizePlane::default();
        assert_eq!(plane.encode(), (Vec::new(), 0), "an operation that never occurs costs nothing");
        plane.count(1, 2);
        plane.count(1, 2);
        plane.count(1, 5);
        let first = LATENCY_ROWS + 2;
        assert_eq!(plane.encode(), (vec![first as u8 | 0x80, (first >> 7) as u8, 3, 2, 1], 2));
    }

    #[test]
    fn lifetime_steps_are_quarter_octaves() {
        assert_eq!([0, 1, 2, 4, 1024].map(lifetime_step), [0, 0, 4, 8, 40]);
        assert_eq!(lifetime_step(u64::MAX), LIFETIME_STEPS - 1);
    }
}
