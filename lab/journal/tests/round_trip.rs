//! The reader returns the events that were written, for all journals and sizes of row groups.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use keel_journal::{Error, Event, FreeHint, Metadata, Op, Reader, Rules, Writer};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn random_journals_are_read_back_unchanged(
        steps in prop::collection::vec(common::step(), 0..600),
        frames in prop::collection::vec(0u64..60_000, 0..8),
        rows_per_group in 1usize..400,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.parquet");
        let (events, metadata) = common::journal(&steps, &frames);
        common::write(&path, &events, &metadata, rows_per_group);

        let reader = Reader::open(&path).unwrap();
        prop_assert_eq!(reader.metadata(), &metadata);
        prop_assert_eq!(reader.rows(), events.len() as u64);
        let read: Vec<Event> = reader.events().map(|event| event.unwrap()).collect();
        prop_assert_eq!(&read, &events);
        let mut rules = Rules::new(reader.metadata()).unwrap();
        for event in &read {
            rules.check(event).unwrap();
        }
    }
}

#[test]
fn large_journals_span_batches_and_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j.parquet");
    let (events, metadata) = common::sample(150_000);
    common::write(&path, &events, &metadata, 1 << 18);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.row_groups(), 1);
    let mut read = Vec::new();
    for batch in reader.batches() {
        read.extend(batch.unwrap());
    }
    assert!(read == events);
    let sum: u64 = reader.column_sizes().iter().map(|column| column.compressed).sum();
    assert!(sum < reader.bytes() && sum * 2 > reader.bytes(), "{sum} of {}", reader.bytes());
}

#[test]
fn an_empty_journal_is_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j.parquet");
    common::write(&path, &[], &Metadata::default(), 10);
    let reader = Reader::open(&path).unwrap();
    assert_eq!((reader.rows(), reader.batches().count()), (0, 0));
}

#[test]
fn an_unfinished_writer_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j.parquet");
    let (events, _) = common::sample(2000);
    let options = keel_journal::Options { rows_per_group: 100, ..Default::default() };
    let mut writer = Writer::with_options(&path, options).unwrap();
    writer.push_batch(&events).unwrap();
    drop(writer);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_existing_journal_stays_until_the_new_one_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j.parquet");
    let (events, metadata) = common::sample(50);
    common::write(&path, &events, &metadata, 100);
    drop(Writer::create(&path).unwrap());
    assert_eq!(Reader::open(&path).unwrap().rows(), 50);
}

#[test]
fn the_writer_refuses_events_that_break_a_rule_and_stays_usable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j.parquet");
    let good = Event { size: 1, created: 1, ..Event::at(10, Op::Malloc) };
    let mut writer = Writer::create(&path).unwrap();
    writer.push(&good).unwrap();
    let next = Event { created: 2, ..good };
    let broken = [
        (Event { time: 9, begin: 9, ..next }, "before that of the row above"),
        (Event { begin: 11, ..next }, "after its time"),
        (Event { created: 3, ..next }, "must create object 2"),
        (Event { created: 0, ..next }, "must create object 2"),
        (Event { size: u64::MAX, ..next }, "too large"),
        (Event { released: 1, ..next }, "cannot release"),
        (Event { free_hint: FreeHint::SIZE, ..next }, "cannot have the hint"),
        (Event { op: Op::Free, created: 0, size: 0, released: 5, ..next }, "only 1 were created"),
        (Event { op: Op::Free, created: 0, size: 0, ..next }, "cannot release object 0"),
    ];
    for (event, expected) in broken {
        match writer.push(&event) {
            Err(Error::Invalid { row: 1, what }) if what.contains(expected) => {}
            other => panic!("{event:?}: {other:?} instead of {expected}"),
        }
    }
    writer.push(&next).unwrap();
    assert_eq!(writer.finish(Metadata::default()).unwrap().rows, 2);
    assert_eq!(Reader::open(&path).unwrap().metadata().threads.len(), 1);
}

#[test]
fn errors_name_the_path_that_cannot_be_written() {
    let error = Writer::create("/nonexistent/folder/j.parquet").map(drop).unwrap_err().to_string();
    assert!(
        error.contains("/nonexistent/folder/j.parquet") && error.contains("No such file"),
        "{error}"
    );
    let folder = tempfile::tempdir().unwrap();
    let error = Writer::create(folder.path()).map(drop).unwrap_err().to_string();
    assert!(error.contains("is a folder"), "{error}");
}
