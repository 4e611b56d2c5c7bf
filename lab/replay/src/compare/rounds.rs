//! The order of the runs, the repetition of rounds with interference, and the number of rounds.
//!
//! A round is one sequence of runs: of each allocator one that counts. A disturbed run is repeated
//! at once ([`super::member`]). If only a later run shows that the processor had been slow, the
//! whole round is repeated: a single run, made much later than the others of its round, would not
//! be comparable with them.

use super::member::{Member, discarded_unclocked};
use super::schedule::{End, Rounds};
use super::session::{ROWS_KEPT, Session};
use super::{Progress, everyone_failed};
use crate::Error;
use crate::run::RunFailure;
use keel_allocators::FLOOR;
use keel_results::{AllocatorResult, Comparison};

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
        let mut rounds = Rounds::new(self.request, comparison.machine.cpus);
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
        }
        for round in runs..most {
            self.describe_instrument(comparison);
            let needing_rounds = match self.request.options.decide {
                true => keel_results::undecided(comparison, FLOOR),
                false => keel_results::needing_rounds(comparison, FLOOR),
            };
            if needing_rounds.is_empty() {
                break;
            }
            rounds.plan(needing_rounds.len());
            self.round(round, &needing_rounds, rounds, comparison, progress)?;
        }
        Ok(())
    }

    /// A run of each of these allocators. Then repeats the rounds in which a processor is now known
    /// to have been slow.
    fn round(
        &mut self,
        round: u32,
        members: &[usize],
        rounds: &mut Rounds,
        comparison: &mut Comparison,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), End> {
        let mut found = Vec::new();
        let end = self.sequence((round, members), rounds, comparison, &mut found, progress);
        found.into_iter().for_each(|member| file(member, comparison));
        end?;
        for late in rounds.mark_all(comparison) {
            self.repeat_round(late, rounds, comparison, progress)?;
        }
        self.keep_rows(comparison, ROWS_KEPT).map_err(End::Failed)
    }

    /// The runs of a round, in random order. Those that are done are in `found`, even after an
    /// early end.
    fn sequence(
        &mut self,
        (round, members): (u32, &[usize]),
        rounds: &mut Rounds,
        comparison: &mut Comparison,
        found: &mut Vec<Member>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), End> {
        for index in rounds.shuffled(members) {
            if comparison.allocators[index].failure.is_some() {
                rounds.begin();
                continue;
            }
            let failure = match self.member(index, round, rounds, progress)? {
                Ok(mut member) => {
                    let failure = member.failure.take();
                    found.push(member);
                    failure
                }
                Err(RunFailure::Stopped) => return Err(End::Stopped),
                Err(RunFailure::Failed(reason)) => Some(reason),
            };
            if let Some(reason) = failure {
                let result = &mut comparison.allocators[index];
                progress(Progress::Failed { allocator: &result.name, reason: &reason });
                result.failure = Some(reason);
            }
        }
        Ok(())
    }

    /// Repeats a whole round, once. Of the two, the one with fewer disturbed runs counts.
    fn repeat_round(
        &mut self,
        round: u32,
        rounds: &mut Rounds,
        comparison: &mut Comparison,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), End> {
        let ran = |result: &AllocatorResult| {
            result.failure.is_none() && result.runs.iter().any(|run| run.round == round)
        };
        let members: Vec<usize> = (0..comparison.allocators.len())
            .filter(|&index| ran(&comparison.allocators[index]))
            .collect();
        if !self.repeats() || rounds.is_again(round) || rounds.is_hopeless(0, true) {
            return Ok(());
        }
        rounds.repeat_all(round, members.len());
        let mut found = Vec::new();
        // After an early end, or if an allocator failed, the round stays as it was.
        let end = self.sequence((round, &members), rounds, comparison, &mut found, progress);
        let disturbed = |members: &[Member]| {
            let each = members.iter().map(Member::disturbed);
            each.fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
        };
        let is_whole = end.is_ok() && found.len() == members.len();
        let mut before: Vec<Member> =
            members.iter().filter_map(|&index| take(index, round, comparison)).collect();
        let helped = is_whole && disturbed(&found) < disturbed(&before);
        rounds.count_result(0, true, helped);
        if helped {
            std::mem::swap(&mut found, &mut before);
        }
        for member in before {
            file(member, comparison);
        }
        for member in found {
            let discarded = &mut comparison.allocators[member.index].discarded;
            discarded.extend(member.discarded);
            discarded.push(self.discard(member.run)?);
            discarded.extend(member.throughput.as_ref().map(discarded_unclocked));
        }
        end
    }
}

/// Adds the runs of an allocator in a round to its results, in the order of the rounds.
fn file(member: Member, comparison: &mut Comparison) {
    let result = &mut comparison.allocators[member.index];
    let place = result.runs.partition_point(|run| run.round < member.run.round);
    if let Some(run) = member.throughput {
        let place = result.throughput.partition_point(|other| other.round < run.round);
        result.throughput.insert(place, run);
    }
    result.runs.insert(place, member.run);
    result.discarded.extend(member.discarded);
    result.free_functions = member.free_functions;
}

/// Takes the runs of an allocator in a round out of its results.
fn take(index: usize, round: u32, comparison: &mut Comparison) -> Option<Member> {
    let result = &mut comparison.allocators[index];
    let place = result.runs.iter().position(|run| run.round == round)?;
    let unclocked = result.throughput.iter().position(|run| run.round == round);
    Some(Member {
        index,
        run: result.runs.remove(place),
        throughput: unclocked.map(|place| result.throughput.remove(place)),
        discarded: Vec::new(),
        free_functions: result.free_functions.clone(),
        failure: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_results::{Run, Throughput};

    #[test]
    fn a_round_that_is_replaced_takes_its_place_in_the_order() {
        let of = |round| Run { round, ..Run::default() };
        let throughput = |round| Throughput { round, ..Throughput::default() };
        let mut comparison = Comparison {
            allocators: vec![AllocatorResult {
                runs: vec![of(0), of(1), of(2)],
                throughput: vec![throughput(0), throughput(1), throughput(2)],
                ..AllocatorResult::default()
            }],
            ..Comparison::default()
        };
        let Some(mut taken) = take(0, 1, &mut comparison) else { panic!("round 1 ran") };
        assert_eq!(comparison.allocators[0].runs.len(), 2);
        taken.run.position = 9;
        file(taken, &mut comparison);
        let result = &comparison.allocators[0];
        let order: Vec<_> = result.runs.iter().map(|run| (run.round, run.position)).collect();
        assert_eq!(order, [(0, 0), (1, 9), (2, 0)]);
        let order: Vec<_> = result.throughput.iter().map(|run| run.round).collect();
        assert_eq!(order, [0, 1, 2]);
    }
}
