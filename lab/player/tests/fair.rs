//! What could favour an allocator: which thread it runs on, what its own threads inherit from the
//! player, and what they cost.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use keel_allocators::{Allocator, Kind};
use keel_journal::Op;
use keel_replay::{Options, Pace};
use std::path::Path;
use support::{Bench, Story, allocator, library, mallocs, with};

fn fixture(folder: &Path) -> Allocator {
    allocator("fixture", Kind::Peer, Some(library(folder, "fixture")))
}

/// The numbers that the fixture wrote.
fn seen(bench: &Bench, story: &Story) -> Vec<i64> {
    let path = bench.folder.path().join("seen");
    let fixture = fixture(bench.folder.path());
    bench.run(story, with(&fixture, &[("KEEL_FIXTURE_SEEN", path.to_str().unwrap())]));
    let text = std::fs::read_to_string(&path).unwrap();
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn the_main_thread_of_the_journal_is_that_of_the_process() {
    let bench = Bench::new();
    assert_eq!(seen(&bench, &mallocs(100, 40))[..2], [1, 1], "one thread");
    let mut story = mallocs(100, 40);
    // These threads wait for blocks of thread 0.
    story.free(1, 1);
    story.free(2, 2);
    assert_eq!(seen(&bench, &story)[..2], [1, 0], "three threads");
}

#[test]
fn threads_of_the_allocator_inherit_nothing_from_the_player() {
    let mut bench = Bench::new();
    bench.options = Options { pace: Pace::Times(1.0), ..bench.options };
    let mut story = Story::default();
    story.push(0, Op::Calloc, 8, 0);
    story.malloc(0, 8);
    // The player sleeps until this call is due.
    story.source.events[1].time = 20_000_000;
    story.source.events[1].begin = 20_000_000;
    // SAFETY: these calls read numbers of this process.
    let (slack, nice, processors) = unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::sched_getaffinity(0, size_of_val(&set), &raw mut set);
        (
            libc::prctl(libc::PR_GET_TIMERSLACK),
            libc::getpriority(libc::PRIO_PROCESS, 0),
            libc::CPU_COUNT(&set),
        )
    };
    let expected = [slack, libc::SCHED_OTHER, nice, processors].map(i64::from);
    assert_eq!(seen(&bench, &story)[2..], expected, "slack, policy, nice value, processors");
}

#[test]
fn the_time_of_the_allocators_own_threads_is_shown_apart() {
    let bench = Bench::new();
    let fixture = fixture(bench.folder.path());
    let story = mallocs(1000, 40);
    let quiet = bench.run(&story, fixture.clone());
    let busy = bench.run(&story, with(&fixture, &[("KEEL_FIXTURE", "burn:100")]));
    assert!(quiet.background_cpu_ns < 50_000_000, "{} ns", quiet.background_cpu_ns);
    assert!(busy.background_cpu_ns >= 100_000_000, "{} ns", busy.background_cpu_ns);
    assert!(busy.cpu_ns < 50_000_000, "{} ns", busy.cpu_ns);
}

#[test]
fn a_short_peak_of_memory_is_not_missed() {
    const SPIKE: u64 = 64 << 20;
    // Since Linux 6.2 each processor counts up to 128 KiB of a process for itself before it adds
    // them to what `/proc` shows; and file pages that come after the peak are subtracted as well.
    const INEXACT: u64 = 8 << 20;
    let bench = Bench::new();
    let fixture = with(&fixture(bench.folder.path()), &[("KEEL_FIXTURE", "peak:64")]);
    let run = bench.run(&mallocs(1000, 40), fixture);
    let expected = SPIKE - INEXACT..SPIKE + INEXACT;
    assert!(expected.contains(&run.peak_rss_bytes), "{} bytes", run.peak_rss_bytes);
}
