//! On a busy machine, runs with interference are repeated and reported.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use keel_replay::Options;
use std::process::{Child, Command};
use support::{Bench, failure, mallocs, system};

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
        comparison.notes.iter().any(|note| note.contains("were discarded")),
        "{:?}",
        comparison.notes
    );
    assert!(
        comparison.notes.iter().any(|note| note.contains("other programs took more than 10 %")),
        "{:?}",
        comparison.notes
    );
}
