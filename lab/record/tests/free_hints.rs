//! Hints of frees (size, alignment): recorded once as given, and compared with the request.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Bench, Journal, whole};
use keel_journal::{Event, FreeHint, Op};
use keel_record::Options;
use std::collections::BTreeMap;

/// The hints of the frees of blocks of this size, and how often each occurs.
fn free_hint(journal: &Journal, size: u64) -> BTreeMap<FreeHint, usize> {
    let sizes: Vec<u64> =
        journal.events.iter().filter(|e| e.created != 0).map(|e| e.size).collect();
    let of_size = |e: &&Event| e.op == Op::Free && sizes[e.released as usize - 1] == size;
    let mut counts = BTreeMap::new();
    for free in journal.events.iter().filter(of_size) {
        *counts.entry(free.free_hint).or_default() += 1;
    }
    counts
}

#[test]
fn hints_of_frees_are_recorded_on_any_allocator() {
    let bench = Bench::new();
    let program = bench.compile("sized.cpp", &["-std=c++17"]);
    let bump = bench.compile_library("bump.c");
    for preload in [None, Some(bump.into_os_string())] {
        let own = preload.is_some();
        let recorded =
            keel_record::record(&Options { preload, ..bench.options(&program, &[]) }).unwrap();
        assert_eq!(recorded.status.code(), Some(0));
        let journal = whole(&recorded);
        assert_eq!(journal.metadata.foreign, 0);
        let (size, both) = (FreeHint::SIZE, FreeHint::BOTH);
        let right = [
            (1001, size),
            (1003, size),
            (1005, both),
            (1007, both),
            (1009, FreeHint::ALIGN),
            (1011, FreeHint::NONE),
            (1013, size),
            (1015, size),
            (1017, size),
            (1024, both),
            (1280, FreeHint::NONE),
        ];
        for (asked, expected) in right {
            assert_eq!(
                free_hint(&journal, asked),
                BTreeMap::from([(expected, 10)]),
                "{asked}, own: {own}"
            );
        }
        let largest = (1 << 57) - 1;
        let wrong = [
            (1021, Some(21), None),
            (1023, Some(1023), Some(4096)),
            (1025, None, Some(4096)),
            (1027, Some(largest), None),
            (1536, Some(1536), None),
            (1029, Some(1029), Some(16)),
        ];
        for (asked, size, align) in wrong {
            let expected = BTreeMap::from([(FreeHint::wrong(size, align), 3)]);
            assert_eq!(free_hint(&journal, asked), expected, "{asked}, own: {own}");
        }
        let wrong = journal.events.iter().filter(|event| event.free_hint.is_wrong()).count();
        assert_eq!(wrong, 6 * 3, "deleting a block of operator new(0) with size 0 is correct");
    }
}

#[test]
fn delete_of_a_block_of_a_pool_is_not_recorded() {
    let bench = Bench::new();
    let program = bench.compile("pool.cpp", &["-std=c++17", "-Wno-sized-deallocation"]);
    let (recorded, journal) = bench.record(&program, &[]);
    assert_eq!(recorded.status.code(), Some(20));
    assert_eq!((journal.count(Op::Malloc, 10007), journal.count(Op::Malloc, 101)), (1, 0));
    assert_eq!(free_hint(&journal, 10007), BTreeMap::from([(FreeHint::NONE, 1)]));
    assert_eq!((journal.count(Op::Malloc, 1001), journal.count(Op::Realloc, 200_003)), (20, 20));
    assert_eq!(
        (journal.released(1001), free_hint(&journal, 200_003)),
        (20, BTreeMap::from([(FreeHint::NONE, 20)]))
    );
    assert_eq!(journal.metadata.foreign, 0);
}
