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
