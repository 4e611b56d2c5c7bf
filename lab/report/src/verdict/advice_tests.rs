#![allow(clippy::unwrap_used, reason = "a test may panic")]
use super::{Advice, advice};
use crate::figures::{FLOOR, complete, figures};
use keel_results::{AllocatorResult, Comparison, FrameSums, Histogram, Run};

const MIB: u64 = 1 << 20;

/// A run of a million mallocs of `ns`.
fn run(ns: u64, peak: u64) -> Run {
    let mut malloc = Histogram::default();
    malloc.0.auto(true);
    malloc.0.record_n(ns, 1_000_000).unwrap();
    let inside_ns = [("malloc".to_owned(), ns as f64 * 1e6)].into();
    Run {
        latency: [("malloc".to_owned(), malloc)].into(),
        inside_ns,
        peak_rss_bytes: peak,
        ..Run::default()
    }
}

/// An allocator whose runs take these times a call.
fn result(name: &str, times: &[u64], peak: u64) -> AllocatorResult {
    let runs = times.iter().map(|ns| run(*ns, peak)).collect();
    AllocatorResult { name: name.into(), runs, ..AllocatorResult::default() }
}

/// The same with so many frames, which spend these times in calls.
fn with_frames(mut result: AllocatorResult, frames: u64, ns: &[u64]) -> AllocatorResult {
    for (run, ns) in result.runs.iter_mut().zip(ns) {
        let mut sums = FrameSums::default();
        sums.all_threads.0.auto(true);
        sums.all_threads.0.record_n(*ns, frames).unwrap();
        run.frames = Some(sums);
    }
    result
}

fn advise(allocators: Vec<AllocatorResult>, seconds: u64) -> Advice {
    let runs = allocators[0].runs.len();
    let mut comparison = Comparison { allocators, ..Comparison::default() };
    comparison.clock.ticks_per_ns = 1.0;
    comparison.clock.step_ticks = 1;
    comparison.journal.operations.insert("malloc".to_owned(), 1_000_000);
    comparison.journal.duration_ns = seconds * 1_000_000_000;
    complete(&mut comparison, FLOOR);
    advice(&comparison, &figures(&comparison, None), runs)
}

const SLOW: [u64; 5] = [100, 104, 101, 103, 102];
const FAST: [u64; 5] = [50, 52, 51, 53, 50];
const NOISY: [u64; 5] = [40, 300, 60, 900, 50];

#[test]
fn a_saving_that_matters_is_named_with_its_price() {
    let found =
        advise(vec![result("glibc", &SLOW, 100 * MIB), result("keel", &FAST, 112 * MIB)], 10);
    assert_eq!(
        found.sentence,
        "Take keel instead of glibc: it saves 306 ms per minute in calls (0.51 % of the recorded \
         time), for 12 MiB (12 %) more peak memory."
    );
    assert_eq!(found.more, "");
}

#[test]
fn equally_good_allocators_are_named() {
    let allocators = vec![
        result("glibc", &SLOW, 100 * MIB),
        result("keel", &FAST, 80 * MIB),
        result("other", &FAST.map(|ns| ns + 1), 102 * MIB),
    ];
    let found = advise(allocators, 10);
    assert!(found.sentence.ends_with("with 20 MiB (20 %) less peak memory."), "{found:?}");
    assert_eq!(found.more, "other is as good: it differs by less than 5 %.");
}

#[test]
fn a_saving_without_effect_on_the_program_does_not_matter() {
    let allocators = vec![result("glibc", &SLOW, 100 * MIB), result("keel", &FAST, 90 * MIB)];
    let found = advise(allocators, 10_000);
    assert_eq!(
        found.sentence,
        "The choice of allocator hardly matters for this program: its calls take 612 µs per minute \
         (less than 0.01 % of the recorded time) with glibc, and no other allocator saves enough \
         of that to matter."
    );
    assert_eq!(
        found.more,
        "If memory matters, take keel: it runs with 10 MiB (10 %) less peak memory."
    );
}

#[test]
fn the_base_is_kept_if_the_others_are_slower() {
    let allocators = vec![result("glibc", &FAST, 10 * MIB), result("keel", &SLOW, 10 * MIB)];
    assert_eq!(
        advise(allocators, 10).sentence,
        "Stay with glibc: no other allocator saves time that matters, and keel takes 306 ms per \
         minute in calls (0.51 % of the recorded time) more."
    );
}

#[test]
fn an_allocator_whose_runs_vary_is_never_recommended() {
    let allocators = vec![result("glibc", &SLOW, MIB), result("keel", &NOISY, MIB)];
    let found = advise(allocators, 10);
    assert!(found.sentence.starts_with("It is too noisy to tell"), "{found:?}");
    assert!(found.more.starts_with("The runs of keel vary too much"), "{found:?}");
}

#[test]
fn frames_are_judged_first() {
    let advice = |frames: u64| {
        let keel = result("keel", &SLOW, MIB);
        let allocators = vec![
            with_frames(result("glibc", &SLOW, MIB), frames, &[2_000_000; 5]),
            with_frames(keel, frames, &[500_000, 510_000, 505_000, 500_000, 500_000]),
            with_frames(result("fast", &FAST, MIB), frames, &[2_000_000; 5]),
        ];
        advise(allocators, 10).sentence
    };
    assert_eq!(
        advice(2000),
        "Take keel instead of glibc: the slowest 1 % of the frames spend 500 µs or more in calls \
         instead of 2.00 ms, with about the same peak memory."
    );
    assert_eq!(
        advice(200),
        "Take keel instead of glibc: a frame spends 500 µs in calls on average instead of 2.00 ms, \
         with about the same peak memory."
    );
}

#[test]
fn frames_that_are_short_enough_do_not_matter() {
    let allocators = vec![
        with_frames(result("glibc", &SLOW, MIB), 2000, &[100_000; 5]),
        with_frames(result("keel", &SLOW, MIB), 2000, &[50_000; 5]),
    ];
    let found = advise(allocators, 10_000);
    assert!(found.sentence.starts_with("The choice of allocator hardly matters"), "{found:?}");
}

#[test]
fn few_runs_are_hedged_and_one_gives_no_advice() {
    let found = advise(vec![result("glibc", &SLOW[..3], MIB), result("keel", &FAST[..3], MIB)], 10);
    assert_eq!(found.more, "This advice is based on only 3 runs.");
    let found = advise(vec![result("glibc", &SLOW[..1], MIB), result("keel", &FAST[..1], MIB)], 10);
    assert_eq!(found, Advice::default());
    assert_eq!(advise(vec![result("glibc", &SLOW, MIB)], 10), Advice::default());
}

#[test]
fn without_the_c_library_the_first_allocator_is_the_base() {
    let found = advise(vec![result("slow", &SLOW, MIB), result("keel", &FAST, MIB)], 10);
    assert!(found.sentence.starts_with("Take keel instead of slow: "), "{found:?}");
}
