//! What the same calls of a call stack took on each allocator.
//!
//! A call whose time on one allocator is that of another program is left out on all allocators.
//! Otherwise the sums would be those of different calls. Only the null allocator does not decide
//! about the others: it does nothing, so its interrupted calls would have been like its other ones.

use crate::error::BlameError;
use crate::kept_runs::KeptRun;
use keel_results::only_preempted;
use keel_results::raw::RunReader;
use rustc_hash::FxHashMap;
use std::path::Path;

/// The name of the null allocator.
const NULL: &str = "null";

/// The rows that were disturbed on at least one allocator.
#[derive(Default)]
pub(crate) struct Disturbed {
    words: Vec<u64>,
}

impl Disturbed {
    /// Reads the causes of all runs but that of the null allocator.
    pub fn read(folder: &Path, kept: &[KeptRun<'_>]) -> Result<Disturbed, BlameError> {
        let mut disturbed = Disturbed::default();
        for (_, raw) in kept.iter().filter(|(result, _)| result.name != NULL) {
            let (mut run, mut row) = (RunReader::open(&folder.join(raw))?, 0);
            while let Some(timed) = run.next_rows()? {
                for &cause in timed.cause {
                    if only_preempted(cause) {
                        disturbed.note(row);
                    }
                    row += 1;
                }
            }
        }
        Ok(disturbed)
    }

    fn note(&mut self, row: usize) {
        let word = row / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (row % 64);
    }

    /// Whether a row was disturbed.
    pub fn has(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }
}

/// What the calls of each stack took.
pub(crate) struct Compared {
    allocators: Vec<String>,
    by_stack: FxHashMap<u32, Sums>,
}

struct Sums {
    calls: u64,
    /// For each allocator: the calls that were added, and their time, ns.
    times: Vec<(u64, f64)>,
}

impl Sums {
    /// The number of calls that can be compared: those of the allocators that do something.
    fn comparable(&self, allocators: &[String]) -> u64 {
        let index = allocators.iter().position(|name| name != NULL);
        index.map_or(0, |index| self.times[index].0)
    }
}

impl Compared {
    pub fn new(kept: &[KeptRun<'_>]) -> Compared {
        let allocators = kept.iter().map(|(result, _)| result.name.clone()).collect();
        Compared { allocators, by_stack: FxHashMap::default() }
    }

    /// Adds a call of this length, ns; None if it is left out. The calls of each allocator are
    /// added once.
    pub fn add(&mut self, stack: u32, allocator: usize, length: Option<f64>) {
        let count = self.allocators.len();
        let empty = || Sums { calls: 0, times: vec![(0, 0.0); count] };
        let sums = self.by_stack.entry(stack).or_insert_with(empty);
        // All allocators have the same calls.
        sums.calls += u64::from(allocator == 0);
        let (added, time) = &mut sums.times[allocator];
        *added += u64::from(length.is_some());
        *time += length.unwrap_or_default();
    }

    /// Whether the call of a row is added: the interruptions of the others do not concern the null
    /// allocator, nor its own the others.
    pub fn takes(&self, allocator: usize, row: usize, cause: u8, disturbed: &Disturbed) -> bool {
        match self.allocators[allocator] == NULL {
            true => !only_preempted(cause),
            false => !disturbed.has(row),
        }
    }

    /// The names of the allocators.
    pub fn allocators(&self) -> &[String] {
        &self.allocators
    }

    /// The values of a stack, as in [`crate::Sample::compared`].
    pub fn of(&self, stack: u32) -> Vec<u64> {
        let Some(sums) = self.by_stack.get(&stack) else { return Vec::new() };
        let comparable = sums.comparable(&self.allocators);
        // The null allocator's time is that of as many calls as the others have.
        let scaled = |(added, time): &(u64, f64)| match *added {
            0 => 0,
            added => (time * comparable as f64 / added as f64).round() as u64,
        };
        [sums.calls, comparable].into_iter().chain(sums.times.iter().map(scaled)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_results::CAUSE_INTERRUPTED;

    #[test]
    fn rows_are_noted_once_and_for_all() {
        let mut disturbed = Disturbed::default();
        [3, 64, 64, 1000].into_iter().for_each(|row| disturbed.note(row));
        let rows: Vec<usize> = (0..2000).filter(|row| disturbed.has(*row)).collect();
        assert_eq!(rows, [3, 64, 1000]);
    }

    #[test]
    fn a_call_that_is_left_out_counts_without_its_time() {
        let allocators = vec!["keel".to_owned(), "null".to_owned()];
        let mut compared = Compared { allocators, by_stack: FxHashMap::default() };
        for length in [Some(10.0), None, Some(5.4)] {
            compared.add(7, 0, length);
        }
        // The time of one of the three calls is not known.
        for length in [Some(2.0), Some(4.0), None] {
            compared.add(7, 1, length);
        }
        assert_eq!(compared.of(7), [3, 2, 15, 6]);
        assert!(compared.of(8).is_empty());
    }

    #[test]
    fn the_null_allocator_does_not_decide_which_calls_are_compared() {
        let allocators = vec![NULL.to_owned(), "keel".to_owned()];
        let compared = Compared { allocators, by_stack: FxHashMap::default() };
        let mut disturbed = Disturbed::default();
        disturbed.note(1);
        let takes = |allocator, row, cause| compared.takes(allocator, row, cause, &disturbed);
        assert!(takes(0, 1, 0) && !takes(0, 0, CAUSE_INTERRUPTED));
        assert!(!takes(1, 1, 0) && takes(1, 0, 0));
    }
}
