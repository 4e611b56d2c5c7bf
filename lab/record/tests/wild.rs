//! Files that no correct program writes. Import returns an error or a journal, and never panics.
//! Most cases were found by `make fuzz` or by review.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::Journal;
use keel_journal::Op;
use keel_record::{Imported, import_log};
use std::path::Path;

const CHUNK_MAGIC: u64 = 0x314b_4e55_4843_4c4b;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The first page of a program's recording of itself.
fn header() -> Vec<u8> {
    let mut page = words(&[0x314c_4f4f_5053_4c4b, 6 | 1 << 32, 77 | 1 << 32, 1000, 0, 0, 0, 0]);
    page.resize(4096, 0);
    page
}

fn chunk(kind: u64, ring: u64, moment: [u64; 2], bytes: &[u8]) -> Vec<u8> {
    let head = [CHUNK_MAGIC, kind | ring << 32, 0, bytes.len() as u64, moment[0], moment[1], 0, 0];
    [words(&head), bytes.to_vec()].concat()
}

fn slot(time: u64, address: u64, size: u64, op: u64) -> Vec<u8> {
    words(&[time, address, size, 1 << 8 | op])
}

fn import(folder: &Path, chunks: &[Vec<u8>]) -> (Imported, Journal) {
    let (spool, output) = (folder.join("spool"), folder.join("journal"));
    std::fs::write(&spool, [header(), chunks.concat()].concat()).unwrap();
    let imported = import_log(&spool, &output, &[]).unwrap();
    (imported, Journal::read(&output))
}

#[test]
fn chunk_of_an_impossible_ring_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let block = slot(2000, 0x1000, 5, 1);
    let chunks = [
        chunk(1, u64::from(u32::MAX), [900, 300], &block),
        chunk(1, 0, [1900, 600], &block),
        chunk(3, 0, [2900, 900], &[]),
    ];
    let (imported, journal) = import(folder.path(), &chunks);
    assert_eq!((imported.rows, imported.torn_bytes, journal.events.len()), (1, 32, 1));
}

#[test]
fn values_beyond_the_range_of_a_journal_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let mut slots = Vec::new();
    for block in 0..4 {
        slots.extend(slot(2000, 0x1000 + block, u64::MAX, 1));
    }
    slots.extend(slot(2001, 0x2000, u64::MAX, 4));
    slots.extend(slot(2002, 0x1000, u64::MAX, 2));
    slots.extend(slot(u64::MAX / 3, 0, 0, 10));
    slots.extend(slot(u64::MAX / 3, 0, 0, 10));
    slots.extend(slot(u64::MAX / 3, 0x1001, 0, 2));
    let chunks = [
        chunk(2, 0, [1000, 1000], b""),
        chunk(1, 0, [1001, 9000], &slots),
        chunk(3, 0, [1002, 9001], b""),
    ];
    let (_, journal) = import(folder.path(), &chunks);
    assert_eq!(journal.count(Op::Malloc, i64::MAX as u64), 4);
    assert_eq!(journal.events[4].align, 1 << 62);
    assert_eq!(journal.events[5].free_hint.wrong_align(), Some(1 << 62));
    assert_eq!((journal.metadata.frames.len(), journal.events.len()), (2, 7));
}

#[test]
fn stopped_clock_has_a_finite_frequency() {
    let folder = tempfile::tempdir().unwrap();
    let slots = [slot(2000, 0x1000, 5, 1), slot(3000, 0x1000, 0, 2)].concat();
    let chunks = [chunk(1, 0, [1000, 700], &slots), chunk(3, 0, [9000, 700], b"")];
    let (imported, _) = import(folder.path(), &chunks);
    assert!(imported.metadata.clock_hz.is_finite(), "{}", imported.metadata.clock_hz);
}
