//! The samples of what a program evicts from the caches between two operations.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::Bench;
use keel_journal::cache_sizes;

/// What a reading's time says about the levels depends on the machine and its load;
/// `src/caches.rs` tests that from tables.
#[test]
fn samples_are_taken_and_counted_by_distinguished_levels() {
    const EVENTS: u64 = 60_000;
    let bench = Bench::new();
    let program = bench.compile("evicts.c", &[]);
    let (_, journal) = bench.record(&program, &["0", &EVENTS.to_string()]);
    let caches = &journal.metadata.caches;
    let levels = caches.sizes.len();
    if levels == 0 {
        assert!(caches.is_empty(), "samples without a level: {caches:?}");
        return; // this machine's levels cannot be distinguished
    }
    assert!(cache_sizes().starts_with(&caches.sizes), "{caches:?}");
    let samples = caches.samples();
    let all: u64 = samples.iter().sum();
    assert!((EVENTS / 4096..EVENTS / 256).contains(&all), "{all} samples of {EVENTS} events");
    assert!(samples[levels + 1..].iter().all(|count| *count == 0), "{caches:?}");
}
