//! Frees that pass the size or the alignment of their blocks reach the allocator as such, with
//! correct hints only.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use keel_allocators::{Allocator, Kind};
use keel_journal::{FreeHint, Op};
use keel_replay::{Options, Touch};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use support::{Bench, Story, allocator, library, system, with};

/// The kinds of frees that the fixture counts, in its order; the last is of frees with wrong hints.
const FREE: usize = 0;
const SIZED: usize = 1;
const ALIGNED: usize = 2;
const BOTH: usize = 3;
const LIES: usize = 4;

/// Frees of every kind on two threads, some of blocks of the other thread; and how many of each
/// kind the allocator must see.
fn story() -> (Story, [u64; 5]) {
    let mut story = Story::default();
    let mut expected = [0; 5];
    let mut free = |story: &mut Story, thread, object, free_hint, kind: usize| {
        story.free(thread, object);
        story.source.events.last_mut().unwrap().free_hint = free_hint;
        expected[kind] += 1;
    };
    for round in 0..50u64 {
        let (one, other) = ((round % 2) as u32, (round / 2 % 2) as u32);
        let block = story.malloc(one, 100 + round);
        free(&mut story, other, block, FreeHint::NONE, FREE);
        let block = story.malloc(one, 200 + round);
        free(&mut story, other, block, FreeHint::SIZE, SIZED);
        let block = story.push(one, Op::Calloc, 300 + round, 0);
        let block = story.push(other, Op::Realloc, 400 + round, block);
        free(&mut story, one, block, FreeHint::SIZE, SIZED);
        let block = story.push(one, Op::Aligned, 500 + round, 0);
        free(&mut story, other, block, FreeHint::BOTH, BOTH);
        let block = story.push(one, Op::Aligned, 600 + round, 0);
        free(&mut story, other, block, FreeHint::ALIGN, ALIGNED);
        // Wrong hints, replayed as plain frees: marked as wrong in the journal, or not marked.
        let block = story.malloc(one, 700 + round);
        free(&mut story, one, block, FreeHint::wrong(Some(7), None), FREE);
        let block = story.push(one, Op::Aligned, 800 + round, 0);
        free(&mut story, one, block, FreeHint::SIZE, FREE);
        let block = story.malloc(one, 900 + round);
        free(&mut story, one, block, FreeHint::BOTH, FREE);
    }
    (story, expected)
}

/// A journal with a block whose size does not fit into a step of the plan.
fn large_story() -> (Story, [u64; 5]) {
    let (mut story, mut expected) = story();
    let block = story.malloc(0, (5 << 32) + 6);
    story.free(1, block);
    story.source.events.last_mut().unwrap().free_hint = FreeHint::SIZE;
    expected[SIZED] += 1;
    (story, expected)
}

/// The counts of the allocator in the last run, and the function names in the results.
fn counted(
    bench: &Bench,
    story: &Story,
    allocator: Allocator,
) -> ([u64; 5], BTreeMap<String, String>, Vec<String>) {
    let path = bench.folder.path().join("counts");
    let allocator = with(&allocator, &[("KEEL_FIXTURE_COUNTS", path.to_str().unwrap())]);
    let outcome = bench.compare(story, vec![allocator]).unwrap();
    std::fs::remove_dir_all(bench.results()).unwrap();
    let result = &outcome.comparison.allocators[0];
    assert_eq!(result.failure, None);
    let text = std::fs::read_to_string(path).unwrap();
    let counts: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    (counts.try_into().unwrap(), result.free_functions.clone(), outcome.comparison.notes)
}

fn names(sized: &str, aligned: &str, both: &str) -> BTreeMap<String, String> {
    [("free_sized", sized), ("free_aligned", aligned), ("free_aligned_sized", both)]
        .map(|(kind, name)| (kind.to_owned(), name.to_owned()))
        .into()
}

fn bench(options: Options) -> Bench {
    // The block of 5 * 2^32 bytes must not be touched.
    Bench { options: Options { touch: Touch::None, ..options }, ..Bench::new() }
}

#[test]
fn each_free_calls_the_function_for_its_hints() {
    let (story, expected) = large_story();
    let options = Bench::new().options;
    for options in [
        Options { throughput: false, ..options.clone() },
        Options { throughput: true, ..options.clone() },
        Options { throughput: true, serial: true, ..options.clone() },
        Options { usable_sizes: true, ..options },
    ] {
        let bench = bench(options);
        let file = library(bench.folder.path(), "free_hints");
        let own = Allocator {
            symbols: "own_".to_owned(),
            ..allocator("own", Kind::Prefixed, Some(file))
        };
        let (counts, by, notes) = counted(&bench, &story, own);
        assert!(!notes.iter().any(|note| note.contains("failed")), "{notes:?}");
        assert_eq!(counts, expected, "free, sized, aligned, both, wrong");
        assert_eq!(by, names("free_size", "free_aligned", "free_aligned_sized"));
        let hinted = (expected[SIZED] + expected[ALIGNED] + expected[BOTH]).to_string();
        let note = notes.iter().find(|note| note.contains("own free_aligned and")).unwrap();
        assert!(note.starts_with(&format!("{hinted} frees passed")), "{note}");
        assert!(
            notes.iter().any(|note| note
                .starts_with("50 frees passed a size or an alignment that differs")),
            "{notes:?}"
        );
    }
}

#[test]
fn a_preloaded_library_receives_hints_through_its_operators() {
    let (story, expected) = large_story();
    let bench = bench(Bench::new().options);
    let file: PathBuf = bench.folder.path().join("liboperators.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/free_hints.c");
    let flags = ["-O1", "-fPIC", "-shared", "-fno-builtin", "-DOPERATORS", "-o"];
    let compiled = Command::new("cc").args(flags).arg(&file).arg(source).status().unwrap();
    assert!(compiled.success());
    let (counts, by, _) =
        counted(&bench, &story, allocator("operators", Kind::Preload, Some(file)));
    // The process itself frees a few blocks plainly.
    assert!(counts[FREE] >= expected[FREE], "{counts:?}");
    assert_eq!(counts[SIZED..=LIES], expected[SIZED..=LIES]);
    assert_eq!(by, names("_ZdlPvm", "_ZdlPvSt11align_val_t", "_ZdlPvmSt11align_val_t"));
}

#[test]
fn an_allocator_without_such_functions_gets_plain_frees() {
    let (story, expected) = story();
    let bench = bench(Bench::new().options);
    // An older table, which does not have these functions.
    let older = allocator("older", Kind::Peer, Some(library(bench.folder.path(), "fixture")));
    let path = bench.folder.path().join("counts");
    let older = with(&older, &[("KEEL_FIXTURE_COUNTS", path.to_str().unwrap())]);
    let outcome = bench.compare(&story, vec![older]).unwrap();
    let result = &outcome.comparison.allocators[0];
    assert_eq!(
        (result.failure.clone(), result.free_functions.clone()),
        (None, names("free", "free", "free"))
    );
    let frees: u64 =
        std::fs::read_to_string(path).unwrap().lines().nth(1).unwrap().parse().unwrap();
    assert_eq!(frees, expected.iter().sum::<u64>());
    assert_eq!(result.runs[0].calls("free"), frees, "frees with hints are counted as frees");
    assert_eq!(outcome.comparison.journal.operations["free"], frees);
    assert_eq!(outcome.comparison.journal.frees["free_sized"], expected[SIZED]);
}

#[test]
fn contents_are_verified_at_frees_with_hints_too() {
    let bench = bench(Options { verify: true, ..Bench::new().options });
    let outcome = bench.compare(&story().0, vec![system()]).unwrap();
    assert_eq!(outcome.comparison.allocators[0].failure, None);
}
