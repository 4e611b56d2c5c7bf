//! The state of the rounds: their order, how disturbed the machine is, and how many repeats are
//! left.

use super::Request;
use super::interference::{Speed, Watched};
use crate::Error;
use keel_results::Comparison;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

/// After this many failed repeats in a row, interference is accepted. Slow processors and other
/// kinds of interference are counted separately.
const MAX_FAILED_REPEATS: u32 = 6;

/// The reason for an early end.
pub enum End {
    Stopped,
    Failed(Error),
}

/// The state of the rounds. Runs with and without the clock are kinds 0 and 1.
pub struct Rounds {
    random: StdRng,
    order: Vec<usize>,
    /// Processors of the machine.
    pub processors: u32,
    /// Runs with the clock begun, and the number of such runs planned so far.
    begun: u32,
    planned: u32,
    /// For each kind, the shortest durations so far, ns; 0 without one.
    best: [Speed; 2],
    /// For each kind, the number of repeats.
    repeats: [u32; 2],
    /// For each kind, repeats in a row that did not help: of runs without and with a slow
    /// processor.
    failed_repeats: [[u32; 2]; 2],
    /// The rounds that were repeated as a whole.
    again: Vec<u32>,
}

impl Rounds {
    pub fn new(request: &Request<'_>, processors: u32) -> Rounds {
        let allocators = request.allocators.len();
        Rounds {
            random: StdRng::seed_from_u64(request.options.seed),
            order: (0..allocators).collect(),
            processors,
            begun: 0,
            planned: request.options.runs * allocators as u32,
            best: [[0.0; 2]; 2],
            repeats: [0; 2],
            failed_repeats: [[0; 2]; 2],
            again: Vec::new(),
        }
    }

    /// Counts a run that begins. Returns its position.
    pub fn begin(&mut self) -> u32 {
        self.begun += 1;
        self.begun - 1
    }

    /// The runs planned so far.
    pub fn planned(&self) -> u32 {
        self.planned
    }

    /// Plans more runs.
    pub fn plan(&mut self, runs: usize) {
        self.planned += runs as u32;
    }

    /// These allocators in a new random order.
    pub fn shuffled(&mut self, members: &[usize]) -> Vec<usize> {
        self.order.shuffle(&mut self.random);
        self.order.iter().copied().filter(|index| members.contains(index)).collect()
    }

    /// Counts the repeat of a whole round.
    pub fn repeat_all(&mut self, round: u32, members: usize) {
        self.again.push(round);
        (0..members).for_each(|_| self.count_repeat(0));
    }

    /// Whether this round is a repeat, so that file names of its runs may be taken.
    pub fn is_again(&self, round: u32) -> bool {
        self.again.contains(&round)
    }

    /// Notes whether the processor was slow in this run, as known so far.
    pub fn mark(&mut self, kind: usize, run: &mut impl Watched) {
        for (own, best) in run.speed().into_iter().zip(&mut self.best[kind]) {
            if own > 0.0 && (*best == 0.0 || own < *best) {
                *best = own;
            }
        }
        run.mark_slow(self.best[kind]);
    }

    /// Whether the machine is to be taken as it is: repeats did not help, or they are half as many
    /// as the planned runs.
    pub fn is_hopeless(&self, kind: usize, slow: bool) -> bool {
        self.failed_repeats[kind][usize::from(slow)] >= MAX_FAILED_REPEATS
            || 2 * self.repeats[kind] >= self.planned
    }

    /// Counts a repeat.
    pub fn count_repeat(&mut self, kind: usize) {
        self.repeats[kind] += 1;
        self.planned += u32::from(kind == 0);
    }

    /// Counts whether a repeat of a run with or without a slow processor helped.
    pub fn count_result(&mut self, kind: usize, slow: bool, helped: bool) {
        let failed = &mut self.failed_repeats[kind][usize::from(slow)];
        *failed = if helped { 0 } else { *failed + 1 };
    }

    /// Marks the runs whose processor is now known to have been slow. Returns their rounds.
    pub fn mark_all(&self, comparison: &mut Comparison) -> Vec<u32> {
        let mut late = Vec::new();
        for result in &mut comparison.allocators {
            let clocked = result.runs.iter_mut();
            late.extend(clocked.filter_map(|run| self.is_late(0, run).then_some(run.round)));
            let unclocked = result.throughput.iter_mut();
            late.extend(unclocked.filter_map(|run| self.is_late(1, run).then_some(run.round)));
        }
        late.sort_unstable();
        late.dedup();
        late
    }

    /// Marks a run; whether its processor was not known to be slow before.
    fn is_late(&self, kind: usize, run: &mut impl Watched) -> bool {
        let was_slow = run.is_slow();
        run.mark_slow(self.best[kind]);
        run.is_slow() && !was_slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_results::{AllocatorResult, Run, Throughput};

    fn rounds() -> Rounds {
        Rounds {
            random: StdRng::seed_from_u64(1),
            order: Vec::new(),
            processors: 4,
            begun: 0,
            planned: 20,
            best: [[0.0; 2]; 2],
            repeats: [0; 2],
            failed_repeats: [[0; 2]; 2],
            again: Vec::new(),
        }
    }

    #[test]
    fn a_later_run_shows_in_which_rounds_the_processor_was_slow() {
        let mut rounds = rounds();
        let mut result = AllocatorResult::default();
        for (round, pair) in [16.0, 16.1, 15.0].into_iter().enumerate() {
            let mut run = Run { round: round as u32, empty_pair_ns: pair, ..Run::default() };
            rounds.mark(0, &mut run);
            assert!(!run.is_slow(), "not known yet");
            result.runs.push(run);
        }
        let mut run = Throughput { round: 1, empty_pair_ns: 9.0, ..Throughput::default() };
        rounds.mark(1, &mut run);
        result.throughput.push(run);
        let mut comparison = Comparison { allocators: vec![result], ..Comparison::default() };
        assert_eq!(rounds.mark_all(&mut comparison), [0, 1]);
        assert!(comparison.allocators[0].runs[0].is_slow());
        assert!(rounds.mark_all(&mut comparison).is_empty(), "each round is reported once");
        assert!(!comparison.allocators[0].throughput[0].is_slow(), "kinds are not compared");
    }

    #[test]
    fn repeats_end_when_they_do_not_help() {
        let mut rounds = rounds();
        for _ in 0..MAX_FAILED_REPEATS {
            assert!(!rounds.is_hopeless(1, false));
            rounds.count_repeat(1);
            rounds.count_result(1, false, false);
        }
        assert!(rounds.is_hopeless(1, false) && !rounds.is_hopeless(1, true));
        rounds.count_result(1, false, true);
        assert!(!rounds.is_hopeless(1, false));
        (0..4).for_each(|_| rounds.count_repeat(1));
        assert!(rounds.is_hopeless(1, false), "10 repeats of 20 runs");
    }
}
