//! An excerpt of a journal obeys the rules, and at each time has the same live blocks as the whole.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use keel_journal::{
    Event, Metadata, Op, Reader, Rules, Selection, frame_times, slice, slice_every,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// A journal that was read.
struct Read {
    events: Vec<Event>,
    metadata: Metadata,
}

fn read(path: &Path) -> Read {
    let reader = Reader::open(path).unwrap();
    let events: Vec<Event> = reader.events().map(|event| event.unwrap()).collect();
    let metadata = reader.metadata().clone();
    let mut rules = Rules::new(&metadata).unwrap();
    events.iter().for_each(|event| rules.check(event).unwrap());
    Read { events, metadata }
}

/// Writes and reads an excerpt; None if it would be empty.
fn sliced(events: &[Event], metadata: &Metadata, selection: &Selection) -> Option<Read> {
    let folder = tempfile::tempdir().unwrap();
    let (whole, part) = (folder.path().join("whole.parquet"), folder.path().join("part.parquet"));
    common::write(&whole, events, metadata, 100);
    let reader = Reader::open(&whole).unwrap();
    let found = slice(&reader, selection, &part, &mut |_| {}).unwrap();
    assert_eq!(found.is_some(), part.exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1 + usize::from(found.is_some()));
    let found = found?;
    let read = read(&part);
    assert_eq!(found.written.rows, read.events.len() as u64);
    assert_eq!(found.prologue, read.metadata.prologue);
    Some(read)
}

/// The live blocks after these rows: how many of each size and alignment.
fn live<'a>(events: impl Iterator<Item = &'a Event>) -> BTreeMap<(u64, u64), usize> {
    let mut live = BTreeMap::new();
    for event in events {
        live.remove(&event.released);
        if event.created != 0 {
            live.insert(event.created, (event.size, event.align));
        }
    }
    let mut counts = BTreeMap::new();
    live.into_values().for_each(|block| *counts.entry(block).or_default() += 1);
    counts
}

fn operations(read: &Read) -> impl Iterator<Item = &Event> {
    read.events.iter().skip(read.metadata.prologue as usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    /// Each of successive excerpts is the same as the excerpt of its times.
    #[test]
    fn successive_excerpts_together_are_the_whole(
        steps in prop::collection::vec(common::step(), 1..300),
        frames in prop::collection::vec(0u64..60_000, 0..8),
        operations in 1u64..150,
    ) {
        let (events, metadata) = common::journal(&steps, &frames);
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("whole.parquet");
        common::write(&whole, &events, &metadata, 100);
        let reader = Reader::open(&whole).unwrap();
        let path = |index: u64| folder.path().join(format!("{index}.parquet"));
        let found = slice_every(&reader, operations, &path, &mut |_| {}).unwrap();
        let (mut at, mut from) = (metadata.prologue as usize, 0);
        for (index, one) in found.iter().enumerate() {
            let rows = (one.written.rows - one.prologue) as usize;
            let is_last = index + 1 == found.len();
            prop_assert!(is_last || rows as u64 >= operations);
            at += rows;
            let to = if is_last { None } else { Some(events[at].time) };
            let selection = Selection { from, to, threads: None };
            let same = sliced(&events, &metadata, &selection).unwrap();
            let part = read(&path(index as u64));
            prop_assert_eq!(&part.events, &same.events);
            prop_assert_eq!(&part.metadata, &same.metadata);
            from = to.unwrap_or(0);
        }
        prop_assert_eq!(at, events.len());
    }

    #[test]
    fn an_excerpt_has_the_same_live_blocks_at_each_operation(
        steps in prop::collection::vec(common::step(), 1..300),
        frames in prop::collection::vec(0u64..60_000, 0..8),
        ends in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let (events, metadata) = common::journal(&steps, &frames);
        let [one, other] = [ends.0, ends.1].map(|at| events[at.index(events.len())].time);
        let (from, to) = (one.min(other), one.max(other));
        let selection = Selection { from, to: Some(to), threads: None };
        let inside: Vec<&Event> =
            events.iter().filter(|event| (from..to).contains(&event.time)).collect();
        let found = sliced(&events, &metadata, &selection);
        prop_assert_eq!(found.is_none(), inside.is_empty());
        let Some(found) = found else { return Ok(()) };

        prop_assert_eq!(operations(&found).count(), inside.len());
        for (part, whole) in operations(&found).zip(&inside) {
            let time = whole.time - from;
            prop_assert_eq!((part.op, part.size, part.time), (whole.op, whole.size, time));
            prop_assert_eq!(part.free_hint, whole.free_hint);
            let name = |metadata: &Metadata, event: &Event| {
                metadata.threads[event.thread as usize].name.clone()
            };
            prop_assert_eq!(name(&found.metadata, part), name(&metadata, whole));
        }
        let before = events.iter().filter(|event| event.time < from);
        let prologue = found.events.iter().take(found.metadata.prologue as usize);
        prop_assert!(prologue.clone().all(|event| event.time == 0 && event.op != Op::Realloc));
        prop_assert_eq!(live(prologue), live(before));
        let until = events.iter().filter(|event| event.time < to);
        prop_assert_eq!(live(found.events.iter()), live(until));
    }

    #[test]
    fn the_selected_threads_keep_all_their_operations_and_blocks(
        steps in prop::collection::vec(common::step(), 1..300),
        thread in 0u32..5,
    ) {
        let (events, metadata) = common::journal(&steps, &[]);
        let threads = Some([thread].into_iter().collect());
        let found = sliced(&events, &metadata, &Selection { threads, ..Selection::default() });
        let of = |metadata: &Metadata, event: &Event| metadata.threads[event.thread as usize].id;
        let wanted = metadata.threads[thread as usize].id;
        let own: Vec<_> = events.iter().filter(|event| event.thread == thread).collect();
        prop_assert_eq!(found.is_none(), own.is_empty());
        let Some(found) = found else { return Ok(()) };
        let kept: Vec<_> =
            found.events.iter().filter(|event| of(&found.metadata, event) == wanted).collect();
        let short = |event: &&Event| (event.time, event.op, event.size, event.released != 0);
        prop_assert_eq!(
            kept.iter().map(short).collect::<Vec<_>>(),
            own.iter().map(short).collect::<Vec<_>>()
        );
        // A block that a selected thread allocates is freed by the thread that really did.
        let frees = |events: &[Event], object: u64| {
            events.iter().any(|event| object != 0 && event.released == object)
        };
        for (kept, own) in kept.iter().zip(&own) {
            prop_assert_eq!(
                frees(&found.events, kept.created),
                frees(&events, own.created),
                "{:?}",
                own
            );
        }
    }
}

/// malloc, malloc, [frame 1] free of the first, malloc, [frame 2] malloc.
fn three_frames() -> (Vec<Event>, Metadata) {
    let at = |time: u64, op: Op, created: u64, released: u64, frame: u32| {
        let size = if created == 0 { 0 } else { 10 * created };
        Event { size, created, released, frame, thread: 1, ..Event::at(time, op) }
    };
    let events = vec![
        at(10, Op::Malloc, 1, 0, 0),
        at(20, Op::Calloc, 2, 0, 0),
        at(110, Op::Free, 0, 1, 1),
        at(120, Op::Malloc, 3, 0, 1),
        at(210, Op::Malloc, 4, 0, 2),
    ];
    (events, common::metadata(vec![100, 200]))
}

#[test]
fn frames_are_cut_at_their_marks() {
    let (events, metadata) = three_frames();
    assert_eq!(frame_times(&metadata, 0, 0).unwrap(), (0, Some(100)));
    assert_eq!(frame_times(&metadata, 1, 2).unwrap(), (100, None));
    let error = frame_times(&metadata, 1, 3).unwrap_err().to_string();
    assert!(error.contains("1..3") && error.contains("0 to 2"), "{error}");
    let (from, to) = frame_times(&metadata, 1, 1).unwrap();
    let found = sliced(&events, &metadata, &Selection { from, to, threads: None }).unwrap();
    assert_eq!((found.metadata.prologue, found.events.len()), (2, 4));
    assert_eq!(found.events[1].op, Op::Calloc);
    assert!(found.metadata.frames.is_empty() && found.metadata.ended == "still running");
    assert_eq!(found.metadata.threads.len(), 1);
    let last = sliced(&events, &metadata, &Selection { from, ..Selection::default() }).unwrap();
    assert_eq!(last.metadata.frames, [100]);
    assert_eq!(last.events.last().unwrap().frame, 1);
    assert_eq!(last.metadata.ended, "exit 0");
}

/// An excerpt of an excerpt keeps the blocks of its prologue.
#[test]
fn a_prologue_stays_a_prologue() {
    let (events, metadata) = three_frames();
    let selection = Selection { from: 100, ..Selection::default() };
    let once = sliced(&events, &metadata, &selection).unwrap();
    let twice = sliced(&once.events, &once.metadata, &Selection::default()).unwrap();
    assert_eq!(twice.events, once.events);
    assert_eq!(twice.metadata, once.metadata);
    let later = Selection { from: 50, ..Selection::default() };
    let later = sliced(&once.events, &once.metadata, &later).unwrap();
    assert_eq!((later.metadata.prologue, later.events.len()), (2, 3));
}
