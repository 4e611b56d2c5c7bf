//! The instrument reports known causes, the clock and the floor correctly.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use keel_allocators::{Allocator, Kind};
use keel_replay::{ClockChoice, Keep, Options, Touch};
use keel_results::raw::RunReader;
use keel_results::{
    CAUSE_FAULT, CAUSE_INTERRUPTED, CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT, CAUSE_SYSCALL,
    Comparison,
};
use support::{Bench, allocator, failure, floor, library, mallocs, system, with};

const EVERY: usize = 10;

/// Compares an allocator that does a known action in every tenth call; returns the comparison and
/// the causes of its calls.
fn known() -> (Comparison, Vec<u8>) {
    let mut bench = Bench::new();
    let fixture = allocator("fixture", Kind::Peer, Some(library(bench.folder.path(), "fixture")));
    bench.options =
        Options { touch: Touch::None, keep: Keep::All, throughput: false, ..bench.options };
    let fixture = with(&fixture, &[("KEEL_FIXTURE", &format!("known:{EVERY}"))]);
    let outcome = bench.compare(&mallocs(40_000, 64), vec![fixture]).unwrap();
    let result = &outcome.comparison.allocators[0];
    assert_eq!(failure(result), "no failure");
    let mut rows =
        RunReader::open(&bench.results().join(result.runs[0].raw.as_ref().unwrap())).unwrap();
    let mut causes = Vec::new();
    while let Some(rows) = rows.next_rows().unwrap() {
        causes.extend_from_slice(rows.cause);
    }
    (outcome.comparison, causes)
}

#[test]
fn known_causes_are_detected_and_interruptions_are_not_invented() {
    let (comparison, causes) = known();
    let run = &comparison.allocators[0].runs[0];
    let interruptions = comparison.instrument.interruptions;
    let signalled = if interruptions { CAUSE_INTERRUPTED } else { CAUSE_INTERRUPTED_UNKNOWN };
    let (mut detected, mut acted, mut falsely) = (0, 0, 0);
    // Row 0 is the first call into the library: it may take the page fault that maps its code.
    for (row, &cause) in causes.iter().enumerate().skip(1) {
        let has = |bit| cause & bit != 0;
        if row % EVERY != EVERY - 1 {
            assert!(
                !has(CAUSE_FAULT) && !has(CAUSE_SYSCALL) && !has(CAUSE_SLEPT),
                "row {row}: {cause}"
            );
            falsely += u64::from(has(CAUSE_INTERRUPTED));
            continue;
        }
        acted += 1;
        detected += u64::from(match row / EVERY % 4 {
            0 => has(CAUSE_SLEPT),
            1 => has(CAUSE_FAULT),
            2 => has(CAUSE_SYSCALL) || !comparison.instrument.system_calls,
            _ => has(signalled),
        });
        falsely += u64::from(row / EVERY % 4 != 3 && has(CAUSE_INTERRUPTED));
    }
    assert_eq!(acted, 4000);
    assert!(detected * 100 >= acted * 99, "{detected} of {acted}");
    // A busy machine does preempt some: as often as the kernel counted. Besides, Linux (6.4 and
    // later) looks through each process's processor ids at a timer tick every 100 ms, which clears
    // the flag and is counted as no switch.
    let bound = run.involuntary_switches + run.elapsed_ns / 100_000_000 + 1;
    assert!(falsely <= bound, "{falsely} of {bound}");
}

/// The timer interrupts each of these 20 calls, and none of them is long because of that. A busy
/// machine may take the processor from most of them, but not from nearly all.
#[test]
fn long_work_of_the_allocator_is_not_blamed_on_an_interruption() {
    let mut bench = Bench::new();
    let fixture = allocator("fixture", Kind::Peer, Some(library(bench.folder.path(), "fixture")));
    bench.options =
        Options { touch: Touch::None, keep: Keep::All, throughput: false, ..bench.options };
    let fixture = with(&fixture, &[("KEEL_FIXTURE", "work:5")]);
    let outcome = bench.compare(&mallocs(100, 64), vec![fixture]).unwrap();
    let result = &outcome.comparison.allocators[0];
    assert_eq!(failure(result), "no failure");
    let raw = bench.results().join(result.runs[0].raw.as_ref().unwrap());
    let mut rows = RunReader::open(&raw).unwrap();
    let mut causes = Vec::new();
    while let Some(rows) = rows.next_rows().unwrap() {
        causes.extend_from_slice(rows.cause);
    }
    let own = causes.iter().skip(4).step_by(5).filter(|cause| *cause & CAUSE_INTERRUPTED == 0);
    assert!(own.count() >= 5, "{causes:?}");
}

#[test]
fn slow_calls_are_summed_up_by_cause_and_list_their_system_calls() {
    let (comparison, _) = known();
    let run = &comparison.allocators[0].runs[0];
    let counted: u64 = run.slow_causes.values().map(|count| count.calls).sum();
    let p999 = run.latency["malloc"].0.value_at_quantile(0.999);
    let beyond = run.outliers.iter().filter(|slow| u64::from(slow.ticks) > p999).count();
    assert_eq!(counted, beyond as u64);
    // The 40 worst of 40,000 are among the 1000 sleeps, however busy the machine is.
    assert!(run.slow_causes.contains_key("slept"), "{:?}", run.slow_causes);
    let slept = run.outliers.iter().filter(|slow| slow.cause & CAUSE_SLEPT != 0);
    for slow in slept.filter(|_| comparison.instrument.system_calls) {
        assert_eq!(keel_results::system_calls(slow.calls).collect::<Vec<_>>(), ["clock_nanosleep"]);
    }
}

#[test]
fn the_self_test_is_a_part_of_the_result() {
    let bench = Bench::new();
    let comparison = bench.compare(&mallocs(1000, 32), vec![system()]).unwrap().comparison;
    let test = |action: &str| {
        comparison.instrument.self_test.iter().find(|test| test.action == action).unwrap()
    };
    for what in ["sleep", "signal", "fault", "mmap"] {
        assert_eq!(test(what).tried, 20, "{what}");
    }
    assert_eq!(test("fault").detected, 20);
    assert_eq!((test("quiet").tried, test("quiet").detected), (1000, 0));
    assert_eq!(comparison.instrument.system_calls, test("mmap").detected == 20);
    if comparison.instrument.interruptions {
        assert_eq!((test("sleep").detected, test("signal").detected), (20, 20));
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn an_allocator_that_makes_system_calls_past_the_c_library_is_noted() {
    let bench = Bench::new();
    let library = library(bench.folder.path(), "syscaller");
    let own =
        Allocator { symbols: "own_".to_owned(), ..allocator("own", Kind::Prefixed, Some(library)) };
    let comparison =
        bench.compare(&mallocs(100, 64), vec![own, system(), floor()]).unwrap().comparison;
    assert_eq!(failure(&comparison.allocators[0]), "no failure");
    let noted: Vec<&String> =
        comparison.notes.iter().filter(|note| note.contains("system call instruction")).collect();
    assert_eq!(noted.len(), usize::from(comparison.instrument.system_calls), "{noted:?}");
    assert!(noted.iter().all(|note| note.starts_with("The code of own contains ")), "{noted:?}");
}

#[test]
fn the_clock_can_be_chosen_and_a_fallback_is_reported() {
    let mut bench = Bench::new();
    bench.options.clock = ClockChoice::Monotonic;
    let comparison = bench.compare(&mallocs(1000, 32), vec![system()]).unwrap().comparison;
    assert_eq!(comparison.clock.name, "clock_monotonic");
    assert!(
        (comparison.clock.ticks_per_ns - 1.0).abs() < 1e-3,
        "{}",
        comparison.clock.ticks_per_ns
    );
    assert!(
        comparison
            .notes
            .iter()
            .any(|note| note.starts_with("Calls were timed with CLOCK_MONOTONIC"))
    );
    std::fs::remove_dir_all(bench.results()).unwrap();
    bench.options.clock = ClockChoice::Auto;
    let comparison = bench.compare(&mallocs(1000, 32), vec![system()]).unwrap().comparison;
    let fell_back = comparison.instrument.clock_fallback.is_some();
    assert_eq!(fell_back, comparison.clock.name == "clock_monotonic");
    assert!(comparison.clock.step_ticks > 0 && comparison.clock.deviation_ppm < 10_000.0);
}

#[test]
fn a_run_without_the_clock_does_the_same_operations_in_less_time() {
    let mut bench = Bench::new();
    bench.options.runs = 3;
    let comparison = bench.compare(&mallocs(50_000, 32), vec![floor()]).unwrap().comparison;
    let result = &comparison.allocators[0];
    assert_eq!(result.throughput.len(), 3);
    assert!(result.throughput.iter().all(|run| run.operations == 50_000 && run.elapsed_ns > 0));
    assert_eq!(result.throughput.iter().map(|run| run.round).collect::<Vec<_>>(), [0, 1, 2]);
    bench.options.throughput = false;
    std::fs::remove_dir_all(bench.results()).unwrap();
    let comparison = bench.compare(&mallocs(1000, 32), vec![floor()]).unwrap().comparison;
    assert!(comparison.allocators[0].throughput.is_empty());
}

#[test]
fn usable_excess_is_the_usable_bytes_beyond_the_request() {
    let mut story = support::Story::default();
    let objects: Vec<u64> = (0..100).map(|_| story.malloc(0, 20)).collect();
    objects.into_iter().for_each(|object| story.free(0, object));
    story.malloc(0, 24);
    let mut bench = Bench::new();
    bench.options.usable_sizes = true;
    let comparison = bench.compare(&story, vec![system(), floor()]).unwrap().comparison;
    // The C library's blocks of 20 bytes hold 24 on 64-bit systems.
    let excess = comparison.allocators[0].usable_excess.unwrap();
    assert_eq!((excess.live_at_peak, excess.usable_at_peak), (2000, 2400));
    assert_eq!((excess.requested_total, excess.usable_total), (2024, 2424));
    assert!(comparison.allocators[1].usable_excess.is_none(), "the floor's blocks have no size");
}
