//! What the same calls of a call stack took on each allocator.
//!
//! A call whose time on one allocator is that of another program is left out on all allocators.
//! Otherwise the sums would be those of different calls. Only the null allocator does not decide
//! about the others: it does nothing, so its interrupted calls would have been like its other ones.

use crate::kept_runs::KeptRun;
use keel_results::only_preempted;
use rustc_hash::FxHashMap;

/// The name of the null allocator.
const NULL: &str = "null";

/// What a call took on one allocator.
#[derive(Clone, Copy)]
pub(crate) struct Took {
    /// Its length, ns.
    pub ns: f64,
    /// Its causes (`CAUSE_...`).
    pub cause: u8,
}

/// What the calls of each stack took.
pub(crate) struct Compared {
    allocators: Vec<String>,
    /// The index of the null allocator.
    null: Option<usize>,
    by_stack: FxHashMap<u32, Sums>,
}

struct Sums {
    calls: u64,
    /// For each allocator: the calls that were added, and their time, ns.
    times: Vec<(u64, f64)>,
}

impl Sums {
    /// The number of calls that can be compared: those of the allocators that do something.
    fn comparable(&self, null: Option<usize>) -> u64 {
        let mut times = self.times.iter().enumerate();
        times.find(|(index, _)| null != Some(*index)).map_or(0, |(_, (calls, _))| *calls)
    }
}

impl Compared {
    pub fn new(kept: &[KeptRun<'_>]) -> Compared {
        Compared::of_allocators(kept.iter().map(|(result, _)| result.name.clone()).collect())
    }

    fn of_allocators(allocators: Vec<String>) -> Compared {
        let null = allocators.iter().position(|name| name == NULL);
        Compared { allocators, null, by_stack: FxHashMap::default() }
    }

    /// Adds a call: what it took on each allocator.
    pub fn add(&mut self, stack: u32, took: &[Took]) {
        let count = self.allocators.len();
        let empty = || Sums { calls: 0, times: vec![(0, 0.0); count] };
        let sums = self.by_stack.entry(stack).or_insert_with(empty);
        sums.calls += 1;
        let null = self.null;
        let is_null = |index: usize| null == Some(index);
        let preempted = |index: &usize| only_preempted(took[*index].cause);
        let is_disturbed = (0..took.len()).filter(preempted).any(|index| !is_null(index));
        for (index, ((added, time), took)) in sums.times.iter_mut().zip(took).enumerate() {
            // The interruptions of the others do not concern the null allocator.
            let is_left_out = match is_null(index) {
                true => only_preempted(took.cause),
                false => is_disturbed,
            };
            if !is_left_out {
                *added += 1;
                *time += took.ns;
            }
        }
    }

    /// The names of the allocators.
    pub fn allocators(&self) -> &[String] {
        &self.allocators
    }

    /// The values of a stack, as in [`crate::Sample::compared`].
    pub fn of(&self, stack: u32) -> Vec<u64> {
        let Some(sums) = self.by_stack.get(&stack) else { return Vec::new() };
        let comparable = sums.comparable(self.null);
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

    fn compared(names: [&str; 2]) -> Compared {
        Compared::of_allocators(names.map(str::to_owned).to_vec())
    }

    fn took(ns: f64, is_preempted: bool) -> Took {
        Took { ns, cause: if is_preempted { CAUSE_INTERRUPTED } else { 0 } }
    }

    #[test]
    fn a_call_that_is_left_out_counts_without_its_time() {
        let mut compared = compared(["keel", NULL]);
        // The time of one of the three calls is not known.
        compared.add(7, &[took(10.0, false), took(2.0, false)]);
        compared.add(7, &[took(900.0, true), took(4.0, false)]);
        compared.add(7, &[took(5.4, false), took(700.0, true)]);
        assert_eq!(compared.of(7), [3, 2, 15, 6]);
        assert!(compared.of(8).is_empty());
    }

    #[test]
    fn a_call_that_is_disturbed_on_one_allocator_is_left_out_on_all_others() {
        let mut compared = compared(["keel", "glibc"]);
        compared.add(1, &[took(1.0, false), took(900.0, true)]);
        compared.add(1, &[took(2.0, false), took(3.0, false)]);
        assert_eq!(compared.of(1), [2, 1, 2, 3]);
    }

    #[test]
    fn the_null_allocator_does_not_decide_which_calls_are_compared() {
        let mut compared = compared([NULL, "keel"]);
        compared.add(1, &[took(900.0, true), took(10.0, false)]);
        compared.add(1, &[took(2.0, false), took(20.0, false)]);
        // Its time is that of as many calls as the other has.
        assert_eq!(compared.of(1), [2, 2, 4, 30]);
    }
}
