//! The calls of a whole program: 5.5 M mallocs with the statistics of Doom 3's journal (median 64
//! B, mean 471 B, 332 MB live at the peak), one byte in every 4096 written inside the clock, and
//! the frees between.
//!
//! ```text
//! load     half of the blocks stay until the level ends; the others are freed within some hundred
//!          calls
//! play     blocks are freed within some hundred calls; one in 32 replaces a block of the level
//! unload   the level's first 60 % are freed, and the next load fills the level again
//! ```

use crate::heap::Heap;
use crate::process;
use crate::random::Random;
use crate::watch::{Findings, Mode};
use keel_player::system;
use std::ptr::null_mut;

const MALLOCS: u64 = 5_500_000;
const LIVE_BYTES: u64 = 332_000_000;
const LEVELS: u64 = 3;
/// The part of a level that is unloaded, in percent.
const UNLOADED: usize = 60;
const SHORT_LIVED: u64 = 1024;
/// Mallocs between two batches of empty windows.
const WINDOWS_EVERY: u64 = 100_000;

/// The loop as a whole, without the empty windows.
pub struct Whole {
    /// Mallocs, each with its free.
    pub pairs: u64,
    /// Elapsed.
    pub seconds: f64,
    /// Of all threads of the process.
    pub cpu_seconds: f64,
}

/// Sizes: half at most 64 B, four fifths at most 256 B; a few of up to a megabyte bring the mean to
/// 471 B.
fn size(random: &mut Random) -> usize {
    match random.below(100_000) {
        0..50_000 => 8 * (1 + random.below(8)) as usize,
        50_000..80_000 => between(random, 64, 2),
        80_000..95_000 => between(random, 256, 2),
        95_000..99_943 => between(random, 1024, 3),
        _ => between(random, 16 << 10, 6),
    }
}

/// Between `least` and `least << doublings`; every doubling is as frequent as any other.
fn between(random: &mut Random, least: usize, doublings: u64) -> usize {
    let low = least << random.below(doublings);
    low + 1 + random.below(low as u64) as usize
}

/// The program's state.
struct Program {
    random: Random,
    level: Vec<(*mut u8, usize)>,
    live_bytes: u64,
    short_lived: Vec<*mut u8>,
}

/// Runs the program and measures its mallocs and frees, and the run as a whole.
pub fn game_mix(heap: &Heap, findings: &mut Findings) -> Whole {
    let mut mallocs = heap.watch("malloc").with_windows_later();
    let mut frees = heap.watch("free").with_windows_later();
    let mut program = Program {
        random: Random::new(8),
        level: Vec::with_capacity(800_000),
        live_bytes: 0,
        short_lived: vec![null_mut(); SHORT_LIVED as usize],
    };
    let (total, limit) = (heap.scaled(MALLOCS), heap.scaled(LIVE_BYTES));
    let (begin, before) = (system::monotonic_ns(), process::usage().cpu_seconds);
    let (mut apart_ns, mut apart_cpu_ns) = (0, 0);
    let mut loading = true;
    for step in 0..total {
        let size = size(&mut program.random);
        let block = mallocs.time(|| heap.malloc_touched(size));
        if let Some(old) = program.keep(block, size, loading) {
            frees.time(|| heap.free(old));
        }
        loading &= program.live_bytes < limit;
        if (step + 1).is_multiple_of((total / LEVELS).max(1)) && step + 1 < total {
            for old in program.unload() {
                frees.time(|| heap.free(old));
            }
            loading = true;
        }
        if step.is_multiple_of(WINDOWS_EVERY) && heap.mode() == Mode::Timed {
            let (wall, cpu) = (system::monotonic_ns(), system::thread_cpu_ns());
            mallocs.time_windows();
            frees.time_windows();
            apart_ns += system::monotonic_ns() - wall;
            apart_cpu_ns += system::thread_cpu_ns() - cpu;
        }
    }
    for old in program.rest() {
        frees.time(|| heap.free(old));
    }
    let whole = Whole {
        pairs: total,
        seconds: (system::monotonic_ns() - begin - apart_ns) as f64 * 1e-9,
        cpu_seconds: process::usage().cpu_seconds - before - apart_cpu_ns as f64 * 1e-9,
    };
    mallocs.finish(findings);
    frees.finish(findings);
    whole
}

impl Program {
    /// Stores a new block and returns the block that it replaces.
    fn keep(&mut self, block: *mut u8, size: usize, loading: bool) -> Option<*mut u8> {
        let lasting = if loading { self.random.below(2) == 0 } else { self.random.below(32) == 0 };
        let old = if !lasting {
            let place = self.random.below(SHORT_LIVED) as usize;
            std::mem::replace(&mut self.short_lived[place], block)
        } else if loading || self.level.is_empty() {
            self.level.push((block, size));
            self.live_bytes += size as u64;
            null_mut()
        } else {
            let place = self.random.below(self.level.len() as u64) as usize;
            let (old, bytes) = std::mem::replace(&mut self.level[place], (block, size));
            self.live_bytes = self.live_bytes + size as u64 - bytes as u64;
            old
        };
        (!old.is_null()).then_some(old)
    }

    /// Removes blocks of the ending level and returns them.
    fn unload(&mut self) -> Vec<*mut u8> {
        let count = self.level.len() * UNLOADED / 100;
        let removed: Vec<_> = self.level.drain(..count).collect();
        self.live_bytes -= removed.iter().map(|&(_, size)| size as u64).sum::<u64>();
        removed.into_iter().map(|(block, _)| block).collect()
    }

    /// Removes all remaining blocks and returns them.
    fn rest(&mut self) -> Vec<*mut u8> {
        let level = self.level.drain(..).map(|(block, _)| block);
        level.chain(self.short_lived.drain(..).filter(|block| !block.is_null())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_median_and_the_mean_of_the_journal() {
        let mut random = Random::new(8);
        let mut sizes: Vec<usize> = (0..1_000_000).map(|_| size(&mut random)).collect();
        let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
        sizes.sort_unstable();
        assert!((56..=72).contains(&sizes[sizes.len() / 2]), "median {}", sizes[sizes.len() / 2]);
        assert!((455.0..=487.0).contains(&mean), "mean {mean}");
    }
}
