//! An allocator's part in a round: a run with the clock and a run without it. Each is repeated at
//! once if the machine disturbed it, so that the round remains one sequence of runs.

use super::Progress;
use super::interference::{Watch, Watched};
use super::schedule::{End, Rounds};
use super::session::{Clocked, Session};
use crate::digest::throughput;
use crate::run::RunFailure;
use crate::{Keep, Pace};
use keel_results::{DiscardedRun, Run, Throughput, total_inside};
use std::collections::BTreeMap;

/// The most repeats of a run.
const MAX_REPEATS: u32 = 3;

/// The runs of one allocator in a round.
pub struct Member {
    /// The index of the allocator.
    pub index: usize,
    /// The run with the clock that counts.
    pub run: Run,
    /// The run without it, if one was wanted and succeeded.
    pub throughput: Option<Throughput>,
    /// The runs that do not count.
    pub discarded: Vec<DiscardedRun>,
    /// See [`keel_results::AllocatorResult::free_functions`].
    pub free_functions: BTreeMap<String, String>,
    /// Why the run without the clock failed.
    pub failure: Option<String>,
}

impl Member {
    /// The number of its runs that a slow processor disturbed, and of all that were disturbed.
    pub fn disturbed(&self) -> [usize; 2] {
        let of = |slow: bool, disturbed: bool| [usize::from(slow), usize::from(disturbed)];
        let [slow, all] = of(self.run.is_slow(), self.run.is_disturbed());
        let [more_slow, more] =
            self.throughput.as_ref().map_or([0; 2], |run| of(run.is_slow(), run.is_disturbed()));
        [slow + more_slow, all + more]
    }
}

type Played<T> = Result<Result<T, RunFailure>, End>;

impl Session<'_> {
    /// Executes the runs of an allocator in a round.
    pub(super) fn member(
        &mut self,
        index: usize,
        round: u32,
        rounds: &mut Rounds,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Played<Member> {
        let clocked = self.least_disturbed(rounds, 0, &mut |session, rounds, again| {
            session.clocked(index, (round, again), rounds, progress)
        })?;
        let (run, others) = match clocked {
            Ok(found) => found,
            Err(failure) => return Ok(Err(failure)),
        };
        let mut discarded = Vec::new();
        for run in others {
            discarded.push(self.discard(run)?);
        }
        let (throughput, failure) = (None, None);
        let free_functions = self.free_functions();
        let mut member = Member { index, run, throughput, discarded, free_functions, failure };
        if self.is_throughput_wanted() {
            let unclocked = self.least_disturbed(rounds, 1, &mut |session, rounds, _| {
                Ok(session.unclocked(index, round, rounds, progress))
            })?;
            match unclocked {
                Ok((run, others)) => {
                    member.throughput = Some(run);
                    member.discarded.extend(others.iter().map(discarded_unclocked));
                }
                // The next run is stopped too; this one has succeeded.
                Err(RunFailure::Stopped) => {}
                Err(RunFailure::Failed(reason)) => member.failure = Some(reason),
            }
        }
        Ok(Ok(member))
    }

    /// Plays a run, and repeats it while the machine disturbs it, within the limits. Returns the
    /// one that was disturbed least, and the others. `kind` is that of [`Rounds::best`].
    fn least_disturbed<T: Watched>(
        &mut self,
        rounds: &mut Rounds,
        kind: usize,
        play: &mut dyn FnMut(&mut Self, &mut Rounds, bool) -> Played<T>,
    ) -> Played<(T, Vec<T>)> {
        let mut kept = match play(self, rounds, false)? {
            Ok(run) => run,
            Err(failure) => return Ok(Err(failure)),
        };
        rounds.mark(kind, &mut kept);
        let mut others = Vec::new();
        for _ in 0..MAX_REPEATS {
            let was_slow = kept.is_slow();
            if !self.repeats() || !kept.is_disturbed() || rounds.is_hopeless(kind, was_slow) {
                break;
            }
            rounds.count_repeat(kind);
            let mut run = match play(self, rounds, true)? {
                Ok(run) => run,
                // The first run has succeeded and stays.
                Err(failure) => {
                    if let RunFailure::Failed(reason) = failure {
                        self.failed_repeats.push(reason);
                    }
                    break;
                }
            };
            rounds.mark(kind, &mut run);
            let helped = if was_slow { !run.is_slow() } else { !run.is_disturbed() };
            rounds.count_result(kind, was_slow, helped);
            if run.is_less_affected(&kept) {
                std::mem::swap(&mut run, &mut kept);
            }
            others.push(run);
        }
        Ok(Ok((kept, others)))
    }

    /// Whether disturbed runs are repeated.
    pub(super) fn repeats(&self) -> bool {
        let options = &self.request.options;
        options.repeat && options.pace == Pace::Max && !options.verify
    }

    /// A run with the clock.
    fn clocked(
        &mut self,
        index: usize,
        (round, again): (u32, bool),
        rounds: &mut Rounds,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Played<Run> {
        let position = rounds.begin();
        let (runs, rows) = (rounds.planned(), self.compiled.plan.header().rows);
        let allocator = self.request.allocators[index].name.as_str();
        progress(Progress::Begins { allocator, position, runs, rows });
        let watch = Watch::start();
        let sampler = match self.play(index, Clocked::Each, progress) {
            Ok(sampler) => sampler,
            Err(failure) => return Ok(Err(failure)),
        };
        let activity = watch.stop();
        let mark = match again || rounds.is_again(round) {
            true => format!("-again{position}"),
            false => String::new(),
        };
        let raw =
            (self.request.options.keep != Keep::None).then(|| self.raw_name(index, round, &mark));
        let run = self.digested(index, position, &sampler, raw.as_deref()).map_err(End::Failed)?;
        Ok(Ok(Run {
            raw,
            round,
            stolen_ns: activity.stolen_ns,
            other_programs_ns: activity.other_programs_ns,
            interference: activity.interference(rounds.processors),
            ..run
        }))
    }

    /// A run without the clock.
    fn unclocked(
        &mut self,
        index: usize,
        round: u32,
        rounds: &Rounds,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Throughput, RunFailure> {
        let watch = Watch::start();
        let sampler = self.play(index, Clocked::Whole, progress)?;
        let activity = watch.stop();
        Ok(Throughput {
            stolen_ns: activity.stolen_ns,
            other_programs_ns: activity.other_programs_ns,
            interference: activity.interference(rounds.processors),
            ..throughput(&self.measured(&sampler), round)
        })
    }

    /// Removes the rows of a run that does not count.
    pub(super) fn discard(&self, mut run: Run) -> Result<DiscardedRun, End> {
        if let Some(raw) = run.raw.take() {
            self.remove_rows(&raw).map_err(End::Failed)?;
        }
        Ok(DiscardedRun {
            unclocked: false,
            position: run.position,
            round: run.round,
            inside_ns: total_inside(&run),
            interference: run.interference,
            elapsed_ns: run.elapsed_ns,
            empty_pair_ns: run.empty_pair_ns,
            loop_ns: run.loop_ns,
            stolen_ns: run.stolen_ns,
            other_programs_ns: run.other_programs_ns,
        })
    }
}

/// A run without the clock that does not count.
pub fn discarded_unclocked(run: &Throughput) -> DiscardedRun {
    DiscardedRun {
        unclocked: true,
        round: run.round,
        interference: run.interference.clone(),
        elapsed_ns: run.elapsed_ns,
        empty_pair_ns: run.empty_pair_ns,
        loop_ns: run.loop_ns,
        stolen_ns: run.stolen_ns,
        other_programs_ns: run.other_programs_ns,
        ..DiscardedRun::default()
    }
}
