//! The rounds of a suite: which runs are made, in which order, and which have been made before.

use super::catalogue::Case;
use super::interference::Judge;
use super::process::{Entrant, Runner};
use keel_results::{SuiteError, SuiteLog, SuiteRun};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A suite that is run.
pub struct Session<'a> {
    /// How a run is made.
    pub runner: &'a Runner,
    /// The workloads.
    pub cases: &'a [Case],
    /// The allocators.
    pub entrants: &'a [Entrant],
    /// The number of rounds in all, with those of earlier sessions.
    pub rounds: u32,
    /// After this time no further workload is begun, once the first round is complete.
    pub at_most: Duration,
}

/// The state after a run.
pub struct Progress<'a> {
    /// The run.
    pub run: &'a SuiteRun,
    /// Complete runs, with those of earlier sessions.
    pub done: usize,
    /// All runs.
    pub total: usize,
    /// An estimate from the runs of this session.
    pub left: Duration,
}

impl Session<'_> {
    /// The number of runs in all rounds.
    pub fn total(&self) -> usize {
        self.rounds as usize * self.cases.len() * self.entrants.len()
    }

    /// Makes the runs that the log does not have yet and appends them to it. Ends early if `stop`
    /// is set; the run under way is then dropped. Ends between two workloads when the time is over.
    ///
    /// # Errors
    /// If the log cannot be written.
    pub fn run(
        &self,
        log: &mut SuiteLog,
        mut progress: impl FnMut(&Progress),
        stop: &AtomicBool,
    ) -> Result<(), SuiteError> {
        let begin = Instant::now();
        let mut judge = Judge::new();
        let turns = self.remaining(log);
        let before = self.total() - turns.len();
        for (index, &(round, case, entrant)) in turns.iter().enumerate() {
            let group = |at: usize| (turns[at].0, turns[at].1);
            let is_first = index == 0 || group(index - 1) != (round, case);
            if is_first && round > 0 && begin.elapsed() > self.at_most {
                return Ok(());
            }
            let (case, entrant) = (&self.cases[case], &self.entrants[entrant]);
            if has_failed(log, case, entrant) {
                continue;
            }
            let Some(run) = self.runner.run(case, entrant, round, &mut judge, stop) else {
                return Ok(());
            };
            log.append(run.clone())?;
            let after = &turns[index + 1..];
            let each = begin.elapsed() / (index as u32 + 1);
            // The first round is completed in any case.
            let first = after.iter().filter(|turn| turn.0 == 0).count() as u32;
            let rest = self.at_most.saturating_sub(begin.elapsed());
            progress(&Progress {
                run: &run,
                done: before + index + 1,
                total: self.total(),
                left: (each * after.len() as u32).min(rest).max(each * first),
            });
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// (round, case, entrant) of the runs that are not in the log, in the order in which they are
    /// made.
    fn remaining(&self, log: &SuiteLog) -> Vec<(u32, usize, usize)> {
        let key = |run: &SuiteRun| (run.round, run.workload.clone(), run.allocator.clone());
        let done: HashSet<_> = log.suite.runs.iter().map(key).collect();
        let turns = (0..self.rounds).flat_map(|round| self.round(log.suite.head.seed, round));
        turns
            .filter(|&(round, case, entrant)| {
                let workload = self.cases[case].workload.key();
                let allocator = self.entrants[entrant].allocator.name.clone();
                !done.contains(&(round, workload, allocator))
            })
            .collect()
    }

    /// Workload by workload, the allocators in a random order that depends only on the seed.
    fn round(&self, seed: u64, round: u32) -> Vec<(u32, usize, usize)> {
        let mut turns = Vec::new();
        for case in 0..self.cases.len() {
            let mut state = mixed(seed ^ mixed(u64::from(round) << 32 | case as u64));
            let mut order: Vec<usize> = (0..self.entrants.len()).collect();
            for at in (1..order.len()).rev() {
                state = mixed(state);
                order.swap(at, (state % (at as u64 + 1)) as usize);
            }
            turns.extend(order.into_iter().map(|entrant| (round, case, entrant)));
        }
        turns
    }
}

/// Whether the allocator has failed on the workload: it has no figure for it then, and further runs
/// would change nothing, but may take the whole time limit.
fn has_failed(log: &SuiteLog, case: &Case, entrant: &Entrant) -> bool {
    let key = case.workload.key();
    let mut runs = log.suite.runs.iter();
    runs.any(|run| {
        run.measured().is_none() && run.workload == key && run.allocator == entrant.allocator.name
    })
}

/// The finalizer of splitmix64: a bijection whose results look random.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::suite::Kind;
    use keel_allocators::Allocator;
    use keel_results::{SuiteHead, SuiteOutcome, SuiteWorkload};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn runner(folder: &Path) -> Runner {
        Runner {
            folder: folder.to_path_buf(),
            keel: "keel".into(),
            scratch: folder.to_path_buf(),
            scale: 1.0,
            limit_seconds: 1.0,
            timed_rounds: 0,
            complete: false,
            repeat: false,
        }
    }
    fn case(name: &str) -> Case {
        Case {
            workload: SuiteWorkload { name: name.into(), ..SuiteWorkload::default() },
            kind: Kind::Synthetic,
        }
    }
    fn entrant(name: &str) -> Entrant {
        Entrant {
            allocator: Allocator { name: name.into(), ..Allocator::default() },
            environment: Vec::new(),
        }
    }
    fn head() -> SuiteHead {
        SuiteHead { version: keel_results::SUITE_VERSION, seed: 7, ..SuiteHead::default() }
    }

    #[test]
    fn after_its_time_a_suite_ends_between_rounds_and_failed_workloads_are_left_out() {
        // An overseer whose second word is the report. It fails on the workload "b".
        let place = tempfile::tempdir().unwrap();
        let overseer = place.path().join("keel-overseer");
        let script = r#"#!/bin/sh
[ "$1" != --calls ] || shift
case "$*" in *"keel-synthetic b"*) status=1 ;; *) status=0 ;; esac
echo "{\"status\":$status,\"wall_s\":1,\"user_s\":1,\"sys_s\":0,\"peak_bytes\":9,\
\"minor_faults\":1,\"major_faults\":0,\"voluntary_switches\":1,\
\"involuntary_switches\":0,\"system_calls\":5,\"left\":[]}" >"$1"
echo '{"elapsed_s":1,"cpu_s":1}'
"#;
        std::fs::write(&overseer, script).unwrap();
        std::fs::set_permissions(&overseer, PermissionsExt::from_mode(0o755)).unwrap();
        let runner = runner(place.path());
        let (cases, entrants) = (["a", "b"].map(case), ["1"].map(entrant));
        let runs = |at_most: Duration| {
            let session =
                Session { runner: &runner, cases: &cases, entrants: &entrants, rounds: 3, at_most };
            let folder = tempfile::tempdir().unwrap();
            let mut log = SuiteLog::open(folder.path(), head()).unwrap();
            session.run(&mut log, |_| (), &AtomicBool::new(false)).unwrap();
            log.suite.runs
        };
        let all = runs(Duration::MAX);
        let of = |name: &str| all.iter().filter(|run| run.workload.ends_with(name)).count();
        assert_eq!((of("/a"), of("/b")), (3, 1));
        let counts: Vec<_> =
            all.iter().flat_map(SuiteRun::measured).map(|one| one.system_calls).collect();
        assert_eq!(counts, [Some(5), None, None], "counted in the first round");
        assert_eq!(runs(Duration::ZERO).len(), 2, "the first round is complete");
    }

    #[test]
    fn a_continued_suite_makes_the_missing_runs_in_the_same_order() {
        let runner = runner(Path::new("lib/keel"));
        let cases = ["a", "b", "c"].map(case);
        let entrants = ["1", "2", "3", "4", "5"].map(entrant);
        let session = Session {
            runner: &runner,
            cases: &cases,
            entrants: &entrants,
            rounds: 4,
            at_most: Duration::MAX,
        };
        let folder = tempfile::tempdir().unwrap();
        let mut log = SuiteLog::open(folder.path(), head()).unwrap();
        let all = session.remaining(&log);
        assert_eq!(all.len(), session.total());
        let orders: HashSet<Vec<usize>> =
            all.chunks(5).map(|turns| turns.iter().map(|turn| turn.2).collect()).collect();
        assert!(orders.len() > 6, "the order hardly changes: {orders:?}");
        for &(round, case, entrant) in &all[..23] {
            let run = SuiteRun {
                workload: cases[case].workload.key(),
                allocator: entrants[entrant].allocator.name.clone(),
                round,
                outcome: SuiteOutcome::Failed(String::new()),
                ..SuiteRun::default()
            };
            log.append(run).unwrap();
        }
        assert_eq!(session.remaining(&log), all[23..]);
    }
}
