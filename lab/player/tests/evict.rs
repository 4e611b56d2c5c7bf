//! `--between evict=SIZE`: the data of the allocator are not in the caches when a call begins, and
//! the calls of a burst do not become late.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use keel_allocators::Kind;
use keel_plan::Eviction;
use keel_replay::{Options, Pace, Touch};
use keel_results::{Comparison, percentile};
use support::{Bench, Story, allocator, library, mallocs};

const CALLS: u64 = 5000;
const EVICTED: u64 = 1 << 20;

/// `CALLS` mallocs, one every `apart_ns`.
fn story(apart_ns: u64) -> Story {
    let mut story = mallocs(CALLS, 16);
    for (event, index) in story.source.events.iter_mut().zip(0..) {
        (event.time, event.begin) = (index * apart_ns, index * apart_ns);
    }
    story
}

/// The mallocs of the allocator with a chain of lines, at the recorded times.
fn compare(story: &Story, evict_bytes: u64) -> Comparison {
    let mut bench = Bench::new();
    let chain = allocator("chain", Kind::Peer, Some(library(bench.folder.path(), "evict")));
    let pace = Pace::Times(1.0);
    bench.options =
        Options { pace, evict: bytes(evict_bytes), touch: Touch::None, ..bench.options };
    bench.compare(story, vec![chain]).unwrap().comparison
}

fn bytes(bytes: u64) -> Eviction {
    if bytes == 0 { Eviction::None } else { Eviction::Bytes(bytes) }
}

/// The median malloc, ns.
fn median_ns(comparison: &Comparison) -> f64 {
    let counts = &comparison.allocators[0].runs[0].latency["malloc"].0;
    percentile(counts, 0.5, comparison.clock.step_ticks) / comparison.clock.ticks_per_ns
}

#[test]
fn data_of_the_allocator_are_cold_after_a_pause() {
    // Shorter than the pauses in which a thread sleeps and other programs displace the data.
    let story = story(95_000);
    let mut ratios = Vec::new();
    // On a busy machine other programs displace the data too, and calls are late, so that there is
    // less time to read: some attempt differs.
    let differs = (0..8).any(|_| {
        let (warm, cold) = (compare(&story, 0), compare(&story, EVICTED));
        assert_eq!(warm.allocators[0].runs[0].evicted_bytes, 0);
        assert!(cold.allocators[0].runs[0].evicted_bytes > EVICTED);
        assert!(cold.notes.iter().any(|note| note.contains("each thread read up to 1 MiB")));
        ratios.push(median_ns(&cold) / median_ns(&warm));
        ratios.last().is_some_and(|ratio| *ratio > 1.5)
    });
    assert!(differs, "cold over warm: {ratios:?}");
}

#[test]
fn a_burst_of_calls_is_not_delayed() {
    // Less than one batch of lines fits between two calls.
    let comparison = compare(&story(1), EVICTED);
    let run = &comparison.allocators[0].runs[0];
    assert!(run.evicted_bytes < EVICTED, "{} bytes were read in a burst", run.evicted_bytes);
}
