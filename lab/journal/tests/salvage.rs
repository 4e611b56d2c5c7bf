//! Salvages the file of a writer that was killed, for many lengths of the file.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use keel_journal::{Error, Event, Metadata, Options, Reader, Rules, Writer, is_partial, salvage};
use std::path::Path;

const ROWS: usize = 1000;
const GROUP: usize = 130;

/// Returns the bytes of a `.partial` file with seven complete row groups, and the end of each row
/// group's record.
fn partial(folder: &Path) -> (Vec<Event>, Metadata, Vec<u8>) {
    let path = folder.join("whole.journal.parquet");
    let (events, metadata) = common::sample(ROWS as u64);
    let mut writer =
        Writer::with_options(&path, Options { rows_per_group: GROUP, ..Options::default() })
            .unwrap();
    for event in &events {
        if writer.fills_group_next() {
            let mut known = metadata.clone();
            known.frames.retain(|mark| *mark <= event.time);
            known.ended.clear();
            writer.describe(known);
        }
        writer.push(event).unwrap();
    }
    writer.cut().unwrap();
    writer.finish(metadata.clone()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (events, metadata, bytes)
}

#[test]
fn all_whole_row_groups_of_a_truncated_file_are_salvaged() {
    let folder = tempfile::tempdir().unwrap();
    let (events, metadata, bytes) = partial(folder.path());
    let ends: Vec<usize> = bytes
        .windows(8)
        .enumerate()
        .filter(|(_, w)| *w == b"KLGROUP1")
        .map(|(at, _)| at + 8)
        .collect();
    assert_eq!(ends.len(), ROWS.div_ceil(GROUP));
    let (cut, output) = (folder.path().join("x.partial"), folder.path().join("x.journal.parquet"));
    for length in (0..bytes.len() - 1).step_by(53).chain(ends.iter().copied()) {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let groups = ends.iter().filter(|end| **end <= length).count();
        assert_eq!(is_partial(&cut), groups > 0, "{length} bytes");
        if groups == 0 {
            assert!(
                matches!(salvage(&cut, &output), Err(Error::Truncated { .. })),
                "{length} bytes"
            );
            continue;
        }
        assert!(matches!(Reader::open(&cut), Err(Error::Partial { .. })), "{length} bytes");
        let salvaged = salvage(&cut, &output).unwrap();
        let rows = (groups * GROUP).min(ROWS);
        assert_eq!(
            (salvaged.rows, salvaged.torn_bytes),
            (rows as u64, (length - ends[groups - 1]) as u64)
        );
        assert_eq!(salvaged.bytes, std::fs::metadata(&output).unwrap().len());
        let reader = Reader::open(&output).unwrap();
        let read: Vec<Event> = reader.events().map(|event| event.unwrap()).collect();
        assert!(read == events[..rows], "{length} bytes");
        let mut rules = Rules::new(reader.metadata()).unwrap();
        read.iter().for_each(|event| rules.check(event).unwrap());
        let salvaged = reader.metadata();
        assert_eq!(
            (&salvaged.program, salvaged.ended.as_str()),
            (&metadata.program, "recorder killed")
        );
    }
}

#[test]
fn a_journal_that_lost_its_footer_keeps_its_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.journal.parquet");
    let output = folder.path().join("x.journal.parquet");
    let (events, metadata) = common::sample(ROWS as u64);
    for cuts in [0, 50] {
        // With many small row groups the journal is written again (`unite`).
        let mut writer = Writer::with_options(&path, Options::default()).unwrap();
        for (at, event) in events.iter().enumerate() {
            writer.push(event).unwrap();
            if at < cuts {
                writer.cut().unwrap();
            }
        }
        writer.finish(metadata.clone()).unwrap();
        let stated = Reader::open(&path).unwrap().metadata().clone();
        let bytes = std::fs::read(&path).unwrap();
        for lost in [1, 20] {
            std::fs::write(&path, &bytes[..bytes.len() - lost]).unwrap();
            assert_eq!(salvage(&path, &output).unwrap().rows, ROWS as u64);
            let reader = Reader::open(&output).unwrap();
            assert!(!stated.frames.is_empty());
            assert_eq!(reader.metadata(), &stated, "{cuts} row groups, {lost} bytes lost");
        }
    }
}

#[test]
fn salvage_stops_at_a_damaged_row_group() {
    let folder = tempfile::tempdir().unwrap();
    let (events, _, mut bytes) = partial(folder.path());
    let ends: Vec<usize> = bytes
        .windows(8)
        .enumerate()
        .filter(|(_, w)| *w == b"KLGROUP1")
        .map(|(at, _)| at + 8)
        .collect();
    bytes.truncate(ends[5] + 10);
    bytes[ends[2] + 20] ^= 1;
    let (cut, output) = (folder.path().join("x.partial"), folder.path().join("x.journal.parquet"));
    std::fs::write(&cut, &bytes).unwrap();
    assert_eq!(salvage(&cut, &output).unwrap().rows, 3 * GROUP as u64);
    let read: Vec<Event> =
        Reader::open(&output).unwrap().events().map(|event| event.unwrap()).collect();
    assert!(read == events[..3 * GROUP]);
}

#[test]
fn a_whole_journal_and_other_files_are_not_partial() {
    let folder = tempfile::tempdir().unwrap();
    partial(folder.path());
    assert!(!is_partial(&folder.path().join("whole.journal.parquet")));
    let text = folder.path().join("text");
    std::fs::write(&text, "a 1 2 3 4\n").unwrap();
    assert!(
        !is_partial(&text) && !is_partial(folder.path()) && !is_partial(Path::new("/no/such/file"))
    );
    assert!(matches!(salvage(&text, &folder.path().join("x")), Err(Error::Truncated { .. })));
    assert!(!folder.path().join("x").exists());
}

/// The record at the end of `bytes`, with another number of rows in its row group.
fn with_stated_rows(bytes: &[u8], rows: i64) -> Vec<u8> {
    const TAIL: usize = 24; // start, checksum and length of the footer, magic
    let varint = |number: i64| {
        let mut bits = ((number << 1) ^ (number >> 63)) as u64;
        let mut written = vec![0x16]; // the next field, a number of 64 bits
        while bits >= 0x80 {
            written.push(bits as u8 | 0x80);
            bits >>= 7;
        }
        written.push(bits as u8);
        written
    };
    let (before, tail) = bytes.split_at(bytes.len() - TAIL);
    let length = u32::from_le_bytes(tail[12..16].try_into().unwrap()) as usize;
    let (before, footer) = before.split_at(before.len() - length);
    let stated = varint(GROUP as i64);
    let mut changed = Vec::new();
    let mut at = 0;
    while at < footer.len() {
        if footer[at..].starts_with(&stated) {
            changed.extend(varint(rows));
            at += stated.len();
        } else {
            changed.push(footer[at]);
            at += 1;
        }
    }
    assert_ne!(changed, footer);
    let mut record = before.to_vec();
    record.extend(&changed);
    record.extend(&tail[..8]);
    record.extend(crc32fast::hash(&changed).to_le_bytes());
    record.extend((changed.len() as u32).to_le_bytes());
    record.extend(&tail[16..]);
    record
}

/// A fuzzer found that the sum of the rows overflowed here.
#[test]
fn a_row_group_that_states_impossible_rows_is_not_salvaged() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, bytes) = partial(folder.path());
    let second = bytes.windows(8).enumerate().filter(|(_, w)| *w == b"KLGROUP1").nth(1);
    let bytes = &bytes[..second.unwrap().0 + 8];
    let (cut, output) = (folder.path().join("x.partial"), folder.path().join("x.journal.parquet"));
    for (stated, rows) in [(7, GROUP + 7), (i64::MAX, GROUP), (-1, GROUP), (1 << 33, GROUP)] {
        std::fs::write(&cut, with_stated_rows(bytes, stated)).unwrap();
        assert_eq!(salvage(&cut, &output).unwrap().rows, rows as u64, "{stated}");
    }
}
