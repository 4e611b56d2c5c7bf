#![allow(clippy::unwrap_used, reason = "a test may panic")]
use super::{Advice, Evidence, advice};
use crate::figures::{FLOOR, Matters, complete, figures, undisturbed};
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
    advise_if(allocators, seconds, "program=0.1".parse().unwrap())
}

fn advise_if(allocators: Vec<AllocatorResult>, seconds: u64, matters: Matters) -> Advice {
    let runs = allocators[0].runs.len();
    let mut comparison = Comparison { allocators, ..Comparison::default() };
    comparison.clock.ticks_per_ns = 1.0;
    comparison.clock.step_ticks = 1;
    comparison.journal.operations.insert("malloc".to_owned(), 1_000_000);
    comparison.journal.duration_ns = seconds * 1_000_000_000;
    complete(&mut comparison, FLOOR);
    let calm = undisturbed(&comparison);
    let allocators = figures(&comparison, calm.as_ref());
    let evidence =
        Evidence { comparison: &comparison, calm: calm.as_ref(), allocators: &allocators, runs };
    advice(&evidence, matters)
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
        "The choice of allocator hardly matters for this program: glibc spends 612 µs per minute \
         in calls (less than 0.01 % of the recorded time), and no other allocator saves enough of \
         that to matter."
    );
    assert_eq!(
        found.more,
        "If memory matters, take keel: it runs with 10 MiB (10 %) less peak memory."
    );
}

#[test]
fn the_base_is_kept_if_the_others_are_slower() {
    let allocators = vec![result("glibc", &FAST, 10 * MIB), result("keel", &SLOW, 10 * MIB)];
    let found = advise(allocators, 10);
    assert_eq!(found.sentence, "Stay with glibc: no other allocator saves time that matters.");
    assert_eq!(found.more, "Avoid keel: all calls take 102 ms (glibc: 51 ms).");
}

#[test]
fn an_allocator_whose_runs_vary_is_never_recommended() {
    let allocators = vec![result("glibc", &SLOW, MIB), result("keel", &NOISY, MIB)];
    let found = advise(allocators, 10);
    assert_eq!(
        found.sentence,
        "The runs vary too much to show whether keel serves this program better than glibc."
    );
    let remedy = "Repeat the comparison on a quiet machine, or with --runs 20.";
    assert!(found.more.starts_with("At best, it saves "), "{found:?}");
    assert!(found.more.ends_with(remedy), "{found:?}");
}

#[test]
fn a_busy_machine_is_named_as_the_reason() {
    let mut noisy = result("keel", &NOISY, MIB);
    for run in &mut noisy.runs {
        run.interference = vec![keel_results::OTHER_PROGRAMS.to_owned()];
    }
    let mut steady = result("glibc", &SLOW, MIB);
    steady.runs[0].interference = vec![keel_results::OTHER_PROGRAMS.to_owned()];
    let found = advise(vec![steady, noisy], 10);
    let reason = "Other programs used the processors during 6 of 10 runs: repeat the comparison \
                  on an idle machine.";
    assert!(found.more.ends_with(reason), "{found:?}");
}

#[test]
fn interrupted_calls_are_left_out() {
    let mut allocators = vec![result("glibc", &SLOW, MIB), result("keel", &FAST, MIB)];
    // Preempted for longer in some runs than all calls together take.
    for (at, run) in allocators.iter_mut().flat_map(|one| &mut one.runs).enumerate() {
        let mut interrupted = Histogram::default();
        interrupted.0.auto(true);
        interrupted.0.record_n((1 + at as u64 * 7 % 5) * 300_000_000, 1).unwrap();
        run.latency.get_mut("malloc").unwrap().0.add(&interrupted.0).unwrap();
        *run.inside_ns.get_mut("malloc").unwrap() += interrupted.0.max() as f64;
        run.interrupted.insert("malloc".to_owned(), interrupted);
    }
    let found = advise(allocators, 10);
    assert!(found.sentence.starts_with("Take keel instead of glibc: it saves 30"), "{found:?}");
}

#[test]
fn differences_that_do_not_matter_are_set_by_the_reader() {
    let field = || vec![result("glibc", &SLOW, MIB), result("keel", &FAST, MIB)];
    for matters in ["time=60,program=0.1", "time=5,program=1"] {
        let found = advise_if(field(), 10, matters.parse().unwrap());
        assert!(found.sentence.starts_with("The choice of allocator hardly matters"), "{found:?}");
    }
    assert!(advise(field(), 10).sentence.starts_with("Take keel"));
}

#[test]
fn allocators_that_are_worse_by_what_matters_are_named() {
    let frames = |name, ns: u64| {
        with_frames(result(name, &SLOW, MIB), 2000, &[ns, ns + 9, ns + 5, ns + 7, ns + 1])
    };
    let field = vec![
        frames("glibc", 100_000),
        frames("near", 90_000),
        frames("lock", 400_000),
        frames("worse", 900_000),
    ];
    let found = advise(field, 10);
    assert_eq!(
        found.sentence,
        "The choice among 2 of the allocators hardly matters for this program: with glibc a frame \
         spends 100 µs in calls on average (0.60 % of a frame at 60 Hz), and no other allocator \
         saves enough of that to matter."
    );
    let range = "Avoid lock and worse: the slowest 1 % of the frames spend 400 µs to 900 µs or \
                 more in calls (glibc: 100 µs).";
    assert_eq!(found.more, range);
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
fn the_worst_of_few_frames_matters_if_it_can_make_a_frame_late() {
    let frames = |name, ns: u64| with_frames(result(name, &SLOW, MIB), 200, &[ns; 5]);
    let found = advise(vec![frames("glibc", 9_000_000), frames("keel", 1_000_000)], 10);
    assert_eq!(
        found.sentence,
        "Take keel instead of glibc: the worst frame spends 1.00 ms in calls instead of 9.00 ms, \
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
