//! The order of the runs, the repetition of runs with interference, and the number of rounds.

use super::interference::{Watch, best_pair, interference, is_less_affected, is_slow};
use super::session::{Clocked, ROWS_KEPT, Session};
use super::{Progress, Request, everyone_failed};
use crate::digest::throughput;
use crate::run::RunFailure;
use crate::{Error, Keep, Pace};
use keel_allocators::FLOOR;
use keel_results::{Comparison, DiscardedRun, Run, total_inside};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use std::ops::Range;

/// The most repeats of a run.
const MAX_REPEATS: u32 = 3;
/// After this many failed repeats in a row, interference is accepted. Slow processors and other
/// kinds of interference are counted separately.
const MAX_FAILED_REPEATS: u32 = 6;

/// The reason for an early end.
enum End {
    Stopped,
    Failed(Error),
}

/// The state of the rounds.
pub struct Rounds {
    random: StdRng,
    order: Vec<usize>,
    /// Runs begun, and the number of runs planned so far.
    begun: u32,
    planned: u32,
    repeats: u32,
    /// Repeats in a row that did not help: of runs without and with a slow processor.
    failed_repeats: [u32; 2],
    /// For each allocator and run: the number of repeats, and the wall-clock time of the run.
    tries: Vec<Vec<(u32, u64)>>,
}

impl Rounds {
    fn new(request: &Request<'_>) -> Rounds {
        let allocators = request.allocators.len();
        Rounds {
            random: StdRng::seed_from_u64(request.options.seed),
            order: (0..allocators).collect(),
            begun: 0,
            planned: request.options.runs * allocators as u32,
            repeats: 0,
            failed_repeats: [0; 2],
            tries: vec![Vec::new(); allocators],
        }
    }
}

impl Session<'_> {
    /// Executes all runs in rounds of one run of each allocator. Each round has a random order, so
    /// that drift (heat, other work on the machine) affects all allocators alike. Runs with
    /// interference are repeated, and allocators whose figures are not yet precise get further
    /// rounds, as far as the options allow. Returns whether it was stopped.
    pub fn run_all(
        &mut self,
        comparison: &mut Comparison,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<bool, Error> {
        let mut rounds = Rounds::new(self.request);
        match self.all_rounds(&mut rounds, comparison, progress) {
            Ok(()) => self.measure_usable_sizes(comparison, progress),
            Err(End::Stopped) => Ok(true),
            Err(End::Failed(error)) => Err(error),
        }
    }

    fn all_rounds(
        &mut self,
        rounds: &mut Rounds,
        comparison: &mut Comparison,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), End> {
        let (runs, most) = (self.request.options.runs, self.request.options.max_runs);
        let everyone: Vec<usize> = (0..self.request.allocators.len()).collect();
        for round in 0..runs {
            self.round(round, &everyone, rounds, comparison, progress)?;
            if everyone_failed(comparison) {
                return Ok(());
            }
            self.repeat_runs(round..round + 1, rounds, comparison, progress)?;
            self.keep_rows(comparison, ROWS_KEPT).map_err(End::Failed)?;
        }
        // The best run of all may show that earlier ones had a slow processor.
        self.repeat_runs(0..runs, rounds, comparison, progress)?;
        for round in runs..most {
            self.describe_instrument(comparison);
            let unsettled = keel_results::unsettled(comparison, FLOOR);
            if unsettled.is_empty() {
                break;
            }
            rounds.planned += unsettled.len() as u32;
            self.round(round, &unsettled, rounds, comparison, progress)?;
            self.repeat_runs(round..round + 1, rounds, comparison, progress)?;
            self.keep_rows(comparison, ROWS_KEPT).map_err(End::Failed)?;
        }
        self.mark_interference(rounds, comparison);
        Ok(())
    }

    /// A run of each of these allocators.
    fn round(
        &mut self,
        round: u32,
        members: &[usize],
        rounds: &mut Rounds,
        comparison: &mut Comparison,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), End> {
        rounds.order.shuffle(&mut rounds.random);
        let order: Vec<usize> =
            rounds.order.iter().copied().filter(|index| members.contains(index)).collect();
        for index in order {
            let (position, failed) = (rounds.begun, comparison.allocators[index].failure.is_some());
            rounds.begun += 1;
            if failed {
                continue;
            }
            let name = comparison.allocators[index].name.clone();
            self.announce(&name, rounds, progress);
            let outcome = self.clocked(index, (round, position), "", progress)?;
            let outcome = match outcome {
                Ok((run, wall_ns)) => {
                    rounds.tries[index].push((0, wall_ns));
                    comparison.allocators[index].runs.push(run);
                    comparison.allocators[index].free_functions = self.free_functions();
                    self.unclocked(index, round, comparison, progress)
                }
                Err(failure) => Err(failure),
            };
            match outcome {
                Ok(()) => {}
                Err(RunFailure::Stopped) => return Err(End::Stopped),
                Err(RunFailure::Failed(reason)) => {
                    progress(Progress::Failed { allocator: &name, reason: &reason });
                    comparison.allocators[index].failure = Some(reason);
                }
            }
        }
        Ok(())
    }

    fn announce(&self, allocator: &str, rounds: &Rounds, progress: &mut dyn FnMut(Progress<'_>)) {
        let rows = self.compiled.plan.header().rows;
        progress(Progress::Begins {
            allocator,
            position: rounds.begun - 1,
            runs: rounds.planned,
            rows,
        });
    }

    /// A run with the clock, and its wall-clock time.
    fn clocked(
        &mut self,
        index: usize,
        (round, position): (u32, u32),
        mark: &str,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Result<(Run, u64), RunFailure>, End> {
        let watch = Watch::start();
        let sampler = match self.play(index, Clocked::Each, progress) {
            Ok(sampler) => sampler,
            Err(failure) => return Ok(Err(failure)),
        };
        let activity = watch.stop();
        let raw =
            (self.request.options.keep != Keep::None).then(|| self.raw_name(index, round, mark));
        let run = self.digested(index, position, &sampler, raw.as_deref()).map_err(End::Failed)?;
        let run = Run {
            raw,
            round,
            stolen_ns: activity.stolen_ns,
            other_programs_ns: activity.other_programs_ns,
            ..run
        };
        Ok(Ok((run, activity.wall_ns)))
    }

    /// A run without the clock, if the options ask for it.
    fn unclocked(
        &mut self,
        index: usize,
        round: u32,
        comparison: &mut Comparison,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), RunFailure> {
        if self.is_throughput_wanted() {
            let sampler = self.play(index, Clocked::Whole, progress)?;
            let figures = throughput(&self.measured(&sampler), round);
            comparison.allocators[index].throughput.push(figures);
        }
        Ok(())
    }

    /// Repeats the runs of these rounds that had interference. Of a run and its repeat the one with
    /// less interference counts.
    fn repeat_runs(
        &mut self,
        of: Range<u32>,
        rounds: &mut Rounds,
        comparison: &mut Comparison,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), End> {
        let options = &self.request.options;
        if !options.repeat || options.pace != Pace::Max || options.verify {
            return Ok(());
        }
        for _ in 0..MAX_REPEATS {
            self.mark_interference(rounds, comparison);
            for (index, place) in affected_runs(comparison, &of) {
                let slow = usize::from(is_slow(&comparison.allocators[index].runs[place]));
                let is_hopeless = rounds.failed_repeats[slow] >= MAX_FAILED_REPEATS
                    || 2 * rounds.repeats >= rounds.planned;
                if is_hopeless || rounds.tries[index][place].0 >= MAX_REPEATS {
                    continue;
                }
                self.repeat(index, place, rounds, comparison, progress)?;
            }
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        index: usize,
        place: usize,
        rounds: &mut Rounds,
        comparison: &mut Comparison,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), End> {
        let round = comparison.allocators[index].runs[place].round;
        let position = rounds.begun;
        rounds.begun += 1;
        rounds.planned += 1;
        rounds.repeats += 1;
        rounds.tries[index][place].0 += 1;
        let name = comparison.allocators[index].name.clone();
        self.announce(&name, rounds, progress);
        let mark = format!("-again{}", rounds.tries[index][place].0);
        let (mut run, wall_ns) = match self.clocked(index, (round, position), &mark, progress)? {
            Ok(found) => found,
            Err(RunFailure::Stopped) => return Err(End::Stopped),
            // The first run succeeded and stays.
            Err(RunFailure::Failed(_)) => return Ok(()),
        };
        let processors = comparison.machine.cpus;
        run.interference = interference(&run, wall_ns, processors, best_pair(comparison));
        let result = &mut comparison.allocators[index];
        let was_slow = is_slow(&result.runs[place]);
        let helped = if was_slow { !is_slow(&run) } else { run.interference.is_empty() };
        let failed_repeats = &mut rounds.failed_repeats[usize::from(was_slow)];
        *failed_repeats = if helped { 0 } else { *failed_repeats + 1 };
        if is_less_affected(&run, &result.runs[place]) {
            rounds.tries[index][place].1 = wall_ns;
            std::mem::swap(&mut run, &mut result.runs[place]);
        }
        if let Some(raw) = run.raw.take() {
            self.remove_rows(&raw).map_err(End::Failed)?;
        }
        result.discarded.push(discarded(&run));
        Ok(())
    }

    /// Stores the interference with each run, as known so far.
    fn mark_interference(&self, rounds: &Rounds, comparison: &mut Comparison) {
        let (best, processors) = (best_pair(comparison), comparison.machine.cpus);
        for (result, tries) in comparison.allocators.iter_mut().zip(&rounds.tries) {
            for (run, &(_, wall_ns)) in result.runs.iter_mut().zip(tries) {
                run.interference = interference(run, wall_ns, processors, best);
            }
        }
    }
}

fn affected_runs(comparison: &Comparison, of: &Range<u32>) -> Vec<(usize, usize)> {
    let all =
        comparison.allocators.iter().enumerate().filter(|(_, result)| result.failure.is_none());
    all.flat_map(|(index, result)| {
        let places = result.runs.iter().enumerate();
        places
            .filter(|(_, run)| of.contains(&run.round) && !run.interference.is_empty())
            .map(move |(place, _)| (index, place))
    })
    .collect()
}

fn discarded(run: &Run) -> DiscardedRun {
    DiscardedRun {
        position: run.position,
        round: run.round,
        interference: run.interference.clone(),
        elapsed_ns: run.elapsed_ns,
        inside_ns: total_inside(run),
        empty_pair_ns: run.empty_pair_ns,
        stolen_ns: run.stolen_ns,
        other_programs_ns: run.other_programs_ns,
    }
}
