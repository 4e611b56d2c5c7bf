//! The player from end to end: journals replayed on real allocators, and on one whose faults can be
//! chosen.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use keel_allocators::{Allocator, Kind};
use keel_journal::Op;
use keel_plan::{CAUSE_FAULT, CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT};
use keel_replay::{Error, Keep, Options, Pace, Progress, Touch};
use keel_results::Run;
use keel_results::raw::{OPERATIONS_FILE, OperationReader, RunReader};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use support::{Bench, Story, allocator, failure, floor, library, mallocs, system, with};

/// Every kind of operation on six threads, a third of the blocks freed by a thread other than their
/// maker.
fn lively() -> Story {
    let mut story = Story::default();
    let mut live = Vec::new();
    let mut random = 1u64;
    for step in 0..30_000u64 {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (thread, size) = ((random >> 33) as u32 % 6, (random >> 40) % 3000 + 1);
        match (random >> 20) % 10 {
            0..=3 => live.push((thread, story.malloc(thread, size))),
            4 => live.push((thread, story.push(thread, Op::Calloc, size, 0))),
            5 => live.push((thread, story.push(thread, Op::Aligned, size, 0))),
            _ if live.is_empty() => {}
            what => {
                let index = (random >> 8) as usize % live.len();
                let (maker, object) = live.swap_remove(index);
                let user = if step % 3 == 0 { thread } else { maker };
                if what == 6 {
                    live.push((user, story.push(user, Op::Realloc, size, object)));
                } else {
                    story.free(user, object);
                }
            }
        }
    }
    story
}

/// Three threads hold blocks when the recording begins; then others free, resize and add to them.
fn begun_late() -> Story {
    let mut story = Story::default();
    let held: Vec<u64> = (0..3000).map(|index| story.malloc(index % 3, 4096)).collect();
    story.source.metadata.prologue = story.rows();
    for (index, block) in held.into_iter().enumerate() {
        let thread = (index % 4) as u32;
        match index % 3 {
            0 => story.free(thread, block),
            1 => _ = story.push(thread, Op::Realloc, 5000, block),
            _ => _ = story.malloc(thread, 100),
        }
    }
    story
}

/// All calls of a run.
fn calls(run: &Run) -> u64 {
    run.latency.keys().map(|name| run.calls(name)).sum()
}

#[test]
fn blocks_from_before_the_recording_are_there_and_no_call_of_theirs_is_measured() {
    let story = begun_late();
    for (verify, unclocked) in [(false, false), (true, false), (false, true)] {
        let mut bench = Bench::new();
        (bench.options.verify, bench.options.throughput, bench.options.usable_sizes) =
            (verify, unclocked, unclocked);
        let outcome = bench.compare(&story, vec![system(), floor()]).unwrap();
        let journal = &outcome.comparison.journal;
        assert_eq!((journal.prologue_blocks, journal.prologue_bytes), (3000, 3000 * 4096));
        assert_eq!((journal.operations["malloc"], journal.operations["free"]), (1000, 1000));
        let result = &outcome.comparison.allocators[0];
        assert_eq!(failure(result), "no failure");
        let run = &result.runs[0];
        assert_eq!(calls(run), 3000);
        // What another thread frees is in memory before the first call: all of its pages were
        // touched.
        assert!(run.memory[0].resident > 3000 * 4096, "{:?}", run.memory[0]);
        assert!(run.memory.iter().all(|sample| sample.live > 2000 * 4096), "{:?}", run.memory);
        assert!(
            outcome
                .comparison
                .notes
                .iter()
                .any(|note| note.contains("3,000 blocks (11.7 MiB in total)"))
        );
    }
}

#[test]
fn every_operation_is_measured_once_on_every_allocator() {
    let mut bench = Bench::new();
    bench.options.runs = 3;
    let story = lively();
    let outcome = bench.compare(&story, vec![system(), floor()]).unwrap();
    let comparison = outcome.comparison;
    for result in &comparison.allocators {
        assert_eq!(failure(result), "no failure");
        assert_eq!(result.runs.len(), 3);
        for run in &result.runs {
            assert_eq!(calls(run), story.rows());
            for (operation, count) in &comparison.journal.operations {
                assert_eq!(run.calls(operation), *count, "{operation}");
            }
            assert!(run.elapsed_ns > 0 && run.cpu_ns > 0 && !run.memory.is_empty());
        }
        // The rows of one run are kept, and only of one.
        let kept: Vec<_> = result.runs.iter().filter_map(|run| run.raw.as_ref()).collect();
        assert_eq!(kept.len(), 1);
        assert_eq!(RunReader::open(&bench.results().join(kept[0])).unwrap().rows(), story.rows());
    }
    let mut operations = OperationReader::open(&bench.results().join(OPERATIONS_FILE)).unwrap();
    assert_eq!(operations.next_rows().unwrap().unwrap().op.len() as u64, story.rows());
    assert!(comparison.clock.empty_pair.0.len() > 1000 && comparison.clock.ticks_per_ns > 0.0);
    assert!(
        comparison.allocators[0].version.starts_with("glibc"),
        "{}",
        comparison.allocators[0].version
    );
    let positions: Vec<u32> = comparison
        .allocators
        .iter()
        .flat_map(|result| result.runs.iter().map(|run| run.position))
        .collect();
    assert!((0..6).all(|position| positions.contains(&position)), "{positions:?}");
}

#[test]
fn live_bytes_over_time_end_where_the_journal_ends() {
    let run = Bench::new().run(&mallocs(20_000, 1000), system());
    assert_eq!(run.memory.last().unwrap().live, 20_000_000);
    assert!(
        run.peak_rss_bytes >= 19_000_000 && run.peak_rss_bytes < 40_000_000,
        "{}",
        run.peak_rss_bytes
    );
    // The floor's memory is shared and the player's own is subtracted.
    let floor = Bench::new().run(&mallocs(20_000, 1000), floor());
    assert!(floor.peak_rss_bytes < 2_000_000, "{}", floor.peak_rss_bytes);
}

#[test]
fn far_more_threads_than_processors_wait_for_each_other_and_finish() {
    // A relay: each block is made by one thread and freed by the next, through 40 threads, 300
    // times over.
    let mut story = Story::default();
    let mut object = story.malloc(0, 64);
    for step in 1..12_000u32 {
        story.free(step % 40, object);
        object = story.malloc(step % 40, 64);
    }
    let bench = Bench::new();
    let outcome = bench.compare(&story, vec![system()]).unwrap();
    let result = &outcome.comparison.allocators[0];
    assert_eq!(failure(result), "no failure");
    assert!(result.runs[0].waited_ns > 0);
    assert!(
        outcome.comparison.notes.iter().any(|note| note.starts_with("Up to 40 threads shared "))
    );
}

/// A thread announces its row once a stretch, and its stretch may reach further than the others may
/// run ahead of that row. Here the second thread fills up its lead while the first touches 64 MiB,
/// so the stretch from row 21,000 takes in the free, of a block that the second thread may only
/// make once it sees that the first stands at row 49,000.
#[test]
fn threads_that_need_each_other_in_the_middle_of_a_stretch_finish() {
    let mut story = Story::default();
    let mut late = 0;
    for row in 0..50_000 {
        match row {
            0 => late = story.malloc(0, 32),
            // Until here the second thread waits, so that it has no lead yet when the first comes
            // to row 17,000.
            1 => story.free(1, late),
            21_000 => _ = story.malloc(0, 32),
            17_000 => _ = story.malloc(0, 64 << 20),
            45_000 => late = story.malloc(1, 16),
            49_000 => story.free(0, late),
            _ => _ = story.malloc(1, 16),
        }
    }
    let bench = Bench::new();
    let result = &bench.compare(&story, vec![system()]).unwrap().comparison.allocators[0];
    assert_eq!(failure(result), "no failure");
    assert_eq!(result.throughput[0].operations, story.rows());
}

#[test]
fn hundreds_of_short_threads_are_started_as_others_end() {
    let mut story = Story::default();
    for thread in 0..700 {
        let object = story.malloc(thread, 100);
        story.free(thread, object);
    }
    let run = Bench::new().run(&story, system());
    assert_eq!(run.calls("malloc"), 700);
}

/// A run, and how many of its calls took page faults.
struct Touched {
    run: keel_results::Run,
    faulted: u64,
}

#[test]
fn touching_writes_each_page_and_no_more() {
    // Mappings of 64 pages of their own, so that every first touch of a page is exactly one fault.
    let (blocks, pages) = (200, 64);
    let bench = Bench::new();
    let fixture = allocator("fixture", Kind::Peer, Some(library(bench.folder.path(), "fixture")));
    let faults = |touch: Touch, touch_timed: bool| {
        let mut bench = Bench::new();
        bench.options = Options { touch, touch_timed, keep: Keep::All, ..bench.options };
        let fixture = with(&fixture, &[("KEEL_FIXTURE", "map")]);
        let outcome = bench.compare(&mallocs(blocks, pages * 4096), vec![fixture]).unwrap();
        let run = outcome.comparison.allocators[0].runs[0].clone();
        let mut rows = RunReader::open(&bench.results().join(run.raw.as_ref().unwrap())).unwrap();
        let mut faulted = 0;
        while let Some(rows) = rows.next_rows().unwrap() {
            faulted +=
                rows.cause.iter().filter(|&&cause| u32::from(cause) & CAUSE_FAULT != 0).count()
                    as u64;
        }
        Touched { run, faulted }
    };
    let near = |touched: &Touched, expected: u64| {
        let faults = touched.run.minor_faults;
        assert!((expected..expected + 150).contains(&faults), "{faults} of {expected}");
    };
    near(&faults(Touch::None, true), 0);
    near(&faults(Touch::FirstByte, true), blocks);
    let inside = faults(Touch::Page, true);
    near(&inside, blocks * pages);
    assert_eq!(inside.faulted, blocks);
    near(&faults(Touch::All, true), blocks * pages);
    // Untimed, the faults are the same but fall outside of the calls.
    let outside = faults(Touch::Page, false);
    near(&outside, blocks * pages);
    assert!(outside.faulted < blocks / 10, "{} calls with a fault", outside.faulted);
    assert!(
        inside.run.outliers.iter().all(|slow| u32::from(slow.cause) & CAUSE_FAULT != 0),
        "{:?}",
        inside.run.outliers
    );
}

#[test]
fn the_allocator_sees_the_journals_calls_and_nothing_else() {
    let bench = Bench::new();
    let fixture = allocator("fixture", Kind::Peer, Some(library(bench.folder.path(), "fixture")));
    let path = bench.folder.path().join("counts");
    let story = lively();
    bench.run(&story, with(&fixture, &[("KEEL_FIXTURE_COUNTS", path.to_str().unwrap())]));
    let count = |op| story.source.events.iter().filter(|event| event.op == op).count() as u64;
    let expected = [Op::Malloc, Op::Free, Op::Calloc, Op::Realloc, Op::Aligned].map(count);
    let seen = counts(&path);
    assert_eq!(seen[..5], expected);
    // As in a program, the main thread ends with the process.
    assert_eq!(seen[5..], [6, 5], "each thread started and ended once");
}

#[test]
fn the_process_does_not_use_a_preloaded_allocator_while_it_replays() {
    // What the process itself needs to start is the same whatever the journal, so of two journals
    // the difference counts.
    let bench = Bench::new();
    let preload =
        allocator("preload", Kind::Preload, Some(library(bench.folder.path(), "preload")));
    let path = bench.folder.path().join("counts");
    let counts_of = |rows: u64| {
        let counting = with(&preload, &[("KEEL_FIXTURE_COUNTS", path.to_str().unwrap())]);
        bench.run(&mallocs(rows, 40), counting);
        counts(&path)
    };
    let (few, many) = (counts_of(1_000), counts_of(21_000));
    let difference: Vec<u64> = many.iter().zip(&few).map(|(many, few)| many - few).collect();
    assert_eq!(difference, [20_000, 0, 0, 0, 0]);
}

#[test]
fn a_library_is_called_by_names_with_a_prefix() {
    let bench = Bench::new();
    let file = library(bench.folder.path(), "prefixed");
    let by = |symbols: &str| Allocator {
        symbols: symbols.to_owned(),
        ..allocator("own", Kind::Prefixed, Some(file.clone()))
    };
    let story = lively();
    let run = bench.run(&story, by("own_"));
    assert_eq!(calls(&run), story.rows());
    let outcome = bench.compare(&story, vec![by("mine_"), system()]).unwrap();
    let said = failure(&outcome.comparison.allocators[0]);
    assert!(said.contains("has no function `mine_malloc`"), "{said}");
}

#[test]
fn settings_reach_the_allocator_and_the_result() {
    let bench = Bench::new();
    let fixture = allocator("fixture", Kind::Peer, Some(library(bench.folder.path(), "fixture")));
    let path = bench.folder.path().join("counts");
    let setting = ("KEEL_FIXTURE_COUNTS".to_owned(), path.to_str().unwrap().to_owned());
    let set = with(&fixture, &[(&setting.0, &setting.1)]);
    let outcome = bench.compare(&mallocs(1234, 40), vec![set]).unwrap();
    assert_eq!(outcome.comparison.allocators[0].environment, [setting]);
    assert_eq!(counts(&path)[0], 1234);
}

fn counts(path: &std::path::Path) -> Vec<u64> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn a_failing_allocator_is_reported_and_the_others_continue() {
    let mut bench = Bench::new();
    let fixture = allocator("fixture", Kind::Peer, Some(library(bench.folder.path(), "fixture")));
    let story = mallocs(5_000, 32);
    for (order, said) in [
        ("crash:700", "it crashed with SIGSEGV after about"),
        ("hang:700", "it hung: no operation was completed for 8 s"),
        ("refuse:700", "it returned NULL from 4,301 of 5,000 calls, first at row 699"),
    ] {
        // The sound one has to begin within that time, on a busy machine too.
        let timeout = if order.starts_with("hang") { 8 } else { 60 };
        bench.options.timeout = Duration::from_secs(timeout);
        let outcome = bench
            .compare(&story, vec![with(&fixture, &[("KEEL_FIXTURE", order)]), system()])
            .unwrap();
        let [broken, sound] = &outcome.comparison.allocators[..] else { panic!("two allocators") };
        assert!(failure(broken).contains(said), "{order}: {}", failure(broken));
        assert!(broken.runs.is_empty() && sound.runs.len() == 1 && sound.failure.is_none());
        std::fs::remove_dir_all(bench.results()).unwrap();
    }
    let missing = allocator("missing", Kind::Peer, Some("/nowhere/missing.so".into()));
    let outcome = bench.compare(&story, vec![missing, system()]).unwrap();
    assert!(failure(&outcome.comparison.allocators[0]).contains("cannot be loaded"));
}

#[test]
fn a_comparison_without_a_usable_allocator_ends_at_once() {
    let mut bench = Bench::new();
    bench.options.runs = 5;
    let story = mallocs(5_000, 32);
    let missing = allocator("missing", Kind::Peer, Some("/nowhere/missing.so".into()));
    let error = bench.compare(&story, vec![missing, floor()]).unwrap_err().to_string();
    assert!(error.contains("none of the allocators can be used: missing: "), "{error}");
    assert!(!bench.results().exists());
    // One that can be loaded and then fails leaves the floor alone: no further round is made.
    let fixture = allocator("fixture", Kind::Peer, Some(library(bench.folder.path(), "fixture")));
    let crashing = with(&fixture, &[("KEEL_FIXTURE", "crash:700")]);
    let outcome = bench.compare(&story, vec![crashing, floor()]).unwrap();
    let [broken, null] = &outcome.comparison.allocators[..] else { panic!("two allocators") };
    assert!(failure(broken).contains("it crashed"), "{}", failure(broken));
    assert!(null.runs.len() <= 1, "{} runs of the floor", null.runs.len());
}

#[test]
fn a_few_refused_calls_are_noted_and_the_rest_counts() {
    let bench = Bench::new();
    let fixture = allocator("fixture", Kind::Peer, Some(library(bench.folder.path(), "fixture")));
    let refusing = with(&fixture, &[("KEEL_FIXTURE", "refuse:4999")]);
    let outcome = bench.compare(&mallocs(5_000, 32), vec![refusing]).unwrap();
    assert_eq!(outcome.comparison.allocators[0].runs.len(), 1);
    let note = "fixture returned NULL from 2 calls of a run. The first was at row 4998.";
    assert!(
        outcome.comparison.notes.iter().any(|one| one.starts_with(note)),
        "{:?}",
        outcome.comparison.notes
    );
}

#[test]
fn verification_finds_overlapping_blocks_and_passes_sound_ones() {
    let mut bench = Bench::new();
    bench.options.verify = true;
    let fixture = allocator("fixture", Kind::Peer, Some(library(bench.folder.path(), "fixture")));
    let outcome = bench.compare(&lively(), vec![fixture.clone(), system(), floor()]).unwrap();
    for result in &outcome.comparison.allocators {
        assert_eq!(failure(result), "no failure", "{}", result.name);
    }
    std::fs::remove_dir_all(bench.results()).unwrap();
    let mut story = Story::default();
    let objects: Vec<u64> = (0..1000).map(|_| story.malloc(0, 100)).collect();
    story.free(0, objects[498]);
    let overlapping = with(&fixture, &[("KEEL_FIXTURE", "overlap:500")]);
    let outcome = bench.compare(&story, vec![overlapping]).unwrap();
    let said = failure(&outcome.comparison.allocators[0]);
    assert_eq!(said, "1 block did not hold what was written there, first at row 1000");
}

#[test]
fn a_call_that_sleeps_is_detected() {
    let bench = Bench::new();
    let fixture = allocator("fixture", Kind::Peer, Some(library(bench.folder.path(), "fixture")));
    let mut bench = Bench { folder: bench.folder, ..Bench::new() };
    bench.options.touch = Touch::None;
    let run = bench.run(&mallocs(10_000, 32), with(&fixture, &[("KEEL_FIXTURE", "sleep:2000")]));
    // 5 calls slept for 2 ms. The outliers are the 10 worst calls, so a busy machine may stop for
    // longer 5 times and all of them are still there; it must be very busy to push three of them
    // out.
    let slept = run.outliers.iter().filter(|slow| slow.row % 2000 == 1999).collect::<Vec<_>>();
    assert!(slept.len() >= 3, "{}", slept.len());
    let expected = CAUSE_SLEPT | CAUSE_INTERRUPTED_UNKNOWN;
    assert!(slept.iter().all(|slow| u32::from(slow.cause) & expected != 0), "{slept:?}");
}

#[test]
fn at_the_recorded_pace_operations_are_due_when_they_were() {
    let mut bench = Bench::new();
    bench.options.pace = Pace::Times(1.0);
    let mut story = mallocs(400, 64);
    for (row, event) in story.source.events.iter_mut().enumerate() {
        event.time = row as u64 * 500_000;
        event.begin = event.time;
    }
    let outcome = bench.compare(&story, vec![system()]).unwrap();
    let run = &outcome.comparison.allocators[0].runs[0];
    assert_eq!(run.lateness.as_ref().unwrap().0.len(), 400);
    let mut rows = RunReader::open(&bench.results().join(run.raw.as_ref().unwrap())).unwrap();
    let rows = rows.next_rows().unwrap().unwrap();
    // A first call that is late on a busy machine makes the run shorter.
    assert!(run.elapsed_ns + rows.start[0] >= 199_000_000, "{}", run.elapsed_ns);
    // Never early (but for the rounding of ticks), however late on a busy machine.
    assert!(
        rows.start.iter().enumerate().all(|(row, &start)| start + 50_000 >= row as u64 * 500_000)
    );
}

#[test]
fn threads_without_work_sleep_until_it_is_due() {
    let mut bench = Bench::new();
    bench.options.pace = Pace::Times(1.0);
    let mut story = Story::default();
    story.malloc(0, 64);
    let late: Vec<u64> = (0..20).map(|_| story.malloc(0, 64)).collect();
    for (object, thread) in late.into_iter().zip(1..) {
        story.free(thread, object);
    }
    for event in story.source.events.iter_mut().skip(1) {
        event.time += 2_000_000_000;
        event.begin = event.time;
    }
    let run = bench.run(&story, system());
    // Twenty threads wait two seconds for blocks of the first. A look at each millisecond would be
    // 40,000 switches.
    assert!(run.voluntary_switches < 4_000, "{}", run.voluntary_switches);
}

#[test]
fn in_series_everything_runs_on_one_thread_in_the_order_of_the_journal() {
    let mut bench = Bench::new();
    bench.options.serial = true;
    let story = lively();
    let outcome = bench.compare(&story, vec![system()]).unwrap();
    let run = &outcome.comparison.allocators[0].runs[0];
    assert_eq!(run.waited_ns, 0);
    let mut rows = RunReader::open(&bench.results().join(run.raw.as_ref().unwrap())).unwrap();
    assert!(rows.next_rows().unwrap().unwrap().start.is_sorted());
}

#[test]
fn stopping_keeps_the_runs_that_are_done_and_otherwise_leaves_nothing() {
    let bench = Bench::new();
    let story = mallocs(1_000, 32);
    bench.stop.store(true, Relaxed);
    let error = bench.compare(&story, vec![system()]).unwrap_err();
    assert!(matches!(error, Error::Stopped));
    assert_eq!(std::fs::read_dir(bench.folder.path()).unwrap().count(), 0);

    let mut bench = Bench::new();
    bench.options.runs = 4;
    let outcome = bench.compare_watched(&story, vec![system()], &mut |progress| {
        if matches!(progress, Progress::Begins { position: 2, .. }) {
            bench.stop.store(true, Relaxed);
        }
    });
    let outcome = outcome.unwrap();
    assert!(outcome.stopped);
    assert_eq!(outcome.comparison.allocators[0].runs.len(), 2);
    assert!(
        outcome.comparison.notes[0]
            .starts_with("The comparison was stopped early. It contains the 2 runs"),
        "{:?}",
        outcome.comparison.notes
    );
    assert_eq!(std::fs::read_dir(bench.folder.path()).unwrap().count(), 1);
}
