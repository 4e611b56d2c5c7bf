//! The samples of what a program evicts from the caches between two operations.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::Bench;
use keel_journal::cache_sizes;
use std::path::Path;

/// Of the samples of a program that reads `bytes` before each operation: the share that found the
/// lines evicted from at least `level` levels.
fn share(bench: &Bench, program: &Path, bytes: u64, events: u64, level: usize) -> f64 {
    let (_, journal) = bench.record(program, &[&bytes.to_string(), &events.to_string()]);
    let samples = journal.metadata.caches.samples();
    let all: u64 = samples.iter().sum();
    assert!(all >= events / 4096, "{all} samples of {events} events");
    samples[level..].iter().sum::<u64>() as f64 / all as f64
}

#[test]
fn samples_show_what_the_program_evicts() {
    let sizes = cache_sizes();
    if sizes.len() < 2 || !cfg!(target_arch = "x86_64") {
        return; // the kernel does not state the sizes, or there are no samples
    }
    let bench = Bench::new();
    let program = bench.compile("evicts.c", &[]);
    let share = |bytes, events, level| share(&bench, &program, bytes, events, level);
    let mut seen = Vec::new();
    // When other programs use the processor, they evict the lines, too: some attempt shows this
    // program alone.
    let shown = (0..6).any(|_| {
        let nothing = share(0, 60_000, 1);
        let first = share(sizes[0] * 2, 60_000, 1);
        let not_second = share(sizes[0] * 2, 60_000, 2);
        let second = share(sizes[1] * 2, 16_000, 2);
        seen.push([nothing, first, not_second, second]);
        nothing < 0.2 && first > 0.7 && not_second < 0.3 && second > 0.7
    });
    assert!(shown, "{seen:.2?}");
}
