//! What a journal says of the program's memory and its allocators.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::Bench;
use keel_journal::OtherAllocator;
use keel_record::Options;

#[test]
fn memory_settings_and_other_allocators_are_recorded() {
    const MIB: u64 = 1 << 20;
    let bench = Bench::new();
    let program = bench.compile("maps.c", &[]);
    let environment = vec![("MALLOC_ARENA_MAX", "2".into())];
    let options = Options { environment, ..bench.options(&program, &[]) };
    let recorded = keel_record::record(&options).unwrap();
    let metadata = common::whole(&recorded).metadata;
    assert_eq!((metadata.memory.mapped_calls, metadata.memory.mapped_bytes), (4, 32 * MIB));
    let peak = metadata.memory.peak().unwrap();
    assert!((48 * MIB..56 * MIB).contains(&peak.anonymous), "{peak:?}");
    assert!(peak.resident >= peak.anonymous);
    assert!(metadata.memory.samples.is_sorted_by_key(|sample| sample.time));
    let settings: Vec<_> = metadata.settings.into_iter().collect();
    assert_eq!(settings, [("MALLOC_ARENA_MAX".to_owned(), "2".to_owned())]);
    let path = program.canonicalize().unwrap().display().to_string();
    let mimalloc = OtherAllocator { name: "mimalloc".to_owned(), path, recorded: true };
    assert_eq!(metadata.other_allocators, [mimalloc]);
}
