//! Counts over size and latency of calls, and over size and lifetime of blocks.

use super::operations::Operations;
use super::tiles::LATENCY_ROWS;
use crate::encode::Stream;
use crate::error::ReportError;
use keel_results::raw::{AgeReader, OPERATIONS_FILE};
use std::path::Path;

/// Number of values of [`super::tiles::size_step`].
pub const SIZE_STEPS: usize = 242;
/// Lifetime steps in a doubling of the lifetime.
pub const LIFETIME_STEPS_PER_OCTAVE: u32 = 4;
/// Lifetime steps: 64 octaves cover every time in ns.
pub const LIFETIME_STEPS: usize = 64 * LIFETIME_STEPS_PER_OCTAVE as usize;
const FREE: u8 = 1;

/// Calls by size and latency.
#[derive(Default)]
pub struct SizePlane {
    /// Allocated at the first call, because many operations never occur.
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

/// The non-empty cells of a dense plane, column by column: the differences of their numbers, then
/// their counts.
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
    /// Blocks that were freed.
    pub freed: u64,
    /// Blocks still live at the end of the journal.
    pub live: u64,
}

impl Lifetimes {
    /// Reads which operation freed which block. None if the folder does not record it.
    pub fn read(folder: &Path, operations: &Operations) -> Result<Option<Lifetimes>, ReportError> {
        let Ok(mut reader) = AgeReader::open(&folder.join(OPERATIONS_FILE)) else {
            return Ok(None);
        };
        let mut lifetimes =
            Lifetimes { counts: vec![0; SIZE_STEPS * LIFETIME_STEPS], freed: 0, live: 0 };
        let mut row = 0;
        while let Some(ages) = reader.next_rows()? {
            for age in ages {
                if *age != 0 {
                    lifetimes.count(operations, row - (*age as usize).min(row), row);
                }
                row += 1;
            }
        }
        let allocated = operations.kinds.iter().filter(|kind| **kind != FREE).count() as u64;
        lifetimes.live = allocated.saturating_sub(lifetimes.freed);
        Ok((lifetimes.freed > 0).then_some(lifetimes))
    }

    fn count(&mut self, operations: &Operations, allocated: usize, freed: usize) {
        let step = usize::from(operations.size_steps[allocated]);
        self.counts[step * LIFETIME_STEPS + lifetime_step(operations.between(allocated, freed))] +=
            1;
        self.freed += 1;
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

/// A lifetime in quarter octaves from 1 ns.
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
    fn a_plane_is_encoded_as_its_filled_cells() {
        let mut plane = SizePlane::default();
        assert_eq!(
            plane.encode(),
            (Vec::new(), 0),
            "an operation that never occurs takes no bytes"
        );
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
