//! On a busy machine, runs with interference are repeated and reported.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use keel_replay::Options;
use keel_results::{AllocatorResult, Comparison};
use std::process::{Child, Command};
use support::{Bench, failure, floor, mallocs, system};

/// Programs that work until this is dropped: enough of them to take far more than a tenth of all
/// processors.
struct Others(Vec<Child>);

impl Others {
    fn start() -> Others {
        let count =
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get).div_ceil(2);
        let work = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Others((0..count).map(|_| work()).collect())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn runs_beside_other_programs_are_reported_and_repeated() {
    let others = Others::start();
    let events = mallocs(2_000_000, 64);
    let mut bench = Bench::new();
    bench.options = Options { throughput: false, runs: 2, ..bench.options };
    let kept = bench.compare(&events, vec![system()]).unwrap().comparison;
    let result = &kept.allocators[0];
    assert_eq!((failure(result), result.runs.len(), result.discarded.len()), ("no failure", 2, 0));
    assert!(
        result.runs.iter().all(|run| run.interference.iter().any(|word| word == "other programs")),
        "{:?}",
        result.runs
    );
    assert!(
        result.runs.iter().all(|run| run.empty_pair_ns > 1.0 && run.other_programs_ns > 30_000_000)
    );

    let mut bench = Bench::new();
    bench.options = Options { throughput: false, runs: 2, repeat: true, ..bench.options };
    let comparison = bench.compare(&events, vec![system()]).unwrap().comparison;
    drop(others);
    let result = &comparison.allocators[0];
    assert_eq!((failure(result), result.runs.len()), ("no failure", 2));
    // At most one repeat for each run: the repeats have interference too.
    let aside = &result.discarded;
    assert!((1..=2).contains(&aside.len()), "{aside:?}");
    assert!(
        aside.iter().all(|run| run.elapsed_ns > 0 && !run.interference.is_empty()),
        "{aside:?}"
    );
    let mut positions: Vec<u32> = result.runs.iter().map(|run| run.position).collect();
    positions.extend(aside.iter().map(|run| run.position));
    positions.sort_unstable();
    assert_eq!(
        positions,
        (0..positions.len() as u32).collect::<Vec<_>>(),
        "every run has a position"
    );
    assert!(
        comparison.notes.iter().any(|note| note.contains("Discarded runs: ")),
        "{:?}",
        comparison.notes
    );
    assert!(
        comparison.notes.iter().any(|note| note.contains("other programs took more than 10 %")),
        "{:?}",
        comparison.notes
    );
}

/// (position, round, whether it counts) of all runs with the clock, in the order of execution.
fn sequence(comparison: &Comparison) -> Vec<(u32, u32, bool)> {
    let of = |result: &AllocatorResult| {
        let kept = result.runs.iter().map(|run| (run.position, run.round, true));
        let discarded = result.discarded.iter().filter(|run| !run.unclocked);
        let discarded = discarded.map(|run| (run.position, run.round, false));
        kept.chain(discarded).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = comparison.allocators.iter().flat_map(of).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_repeat_stays_in_its_round_and_runs_without_a_clock_are_repeated_too() {
    let others = Others::start();
    let events = mallocs(1_500_000, 64);
    let mut bench = Bench::new();
    bench.options = Options { runs: 2, repeat: true, ..bench.options };
    let comparison = bench.compare(&events, vec![system(), floor()]).unwrap().comparison;
    drop(others);
    let all = sequence(&comparison);
    assert!(all.len() > 4, "some were repeated: {all:?}");
    for round in 0..2 {
        let kept = || all.iter().filter(|run| run.1 == round && run.2).map(|run| run.0);
        let (first, last) = (kept().min().unwrap(), kept().max().unwrap());
        assert_eq!(kept().count(), 2);
        let between = all.iter().filter(|run| (first..=last).contains(&run.0));
        assert!(between.clone().all(|run| run.1 == round), "round {round}: {all:?}");
    }
    let results = || comparison.allocators.iter();
    let unclocked: Vec<_> =
        results().flat_map(|result| &result.discarded).filter(|run| run.unclocked).collect();
    assert!(
        !unclocked.is_empty() && unclocked.iter().all(|run| !run.interference.is_empty()),
        "{unclocked:?}"
    );
    let throughput = || results().flat_map(|result| &result.throughput);
    assert!(
        throughput().all(|run| run.empty_pair_ns > 1.0)
            && throughput().any(|run| run.interference.contains(&"other programs".to_owned())),
        "{:?}",
        throughput().collect::<Vec<_>>()
    );
}
