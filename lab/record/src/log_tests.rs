#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;
use crate::ring::{
    CHUNK_EVENTS, CHUNK_MAGIC, CLOCK_MONOTONIC, LOG_MAGIC, PAGE_BYTES, SpoolHeader, op,
};
use keel_journal::{Op, Reader};
use std::mem::offset_of;

/// A file as a program writes it: pieces of rings, in the order of writing. Times in ns.
fn written(pieces: &[(u32, &[RawEvent])]) -> Vec<u8> {
    let mut file = vec![0; PAGE_BYTES];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &LOG_MAGIC.to_le_bytes());
    put(offset_of!(SpoolHeader, version), &ring::VERSION.to_le_bytes());
    put(offset_of!(SpoolHeader, clock), &CLOCK_MONOTONIC.to_le_bytes());
    let chunk = |kind: u32, ring: u32, first: usize, bytes: usize| {
        let words = [
            CHUNK_MAGIC,
            u64::from(kind) | u64::from(ring) << 32,
            first as u64,
            bytes as u64,
            0,
            0,
            0,
            0,
        ];
        words.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>()
    };
    let mut counts = BTreeMap::new();
    for (ring, events) in pieces {
        let first = counts.entry(*ring).or_insert(0);
        file.extend(chunk(CHUNK_EVENTS, *ring, *first, events.len() * EVENT_BYTES as usize));
        for event in *events {
            let words = [event.time, event.address, event.size, event.word];
            file.extend(words.into_iter().flat_map(u64::to_le_bytes));
        }
        *first += events.len();
    }
    file.extend(chunk(ring::CHUNK_END, 0, 0, 0));
    file
}

fn event(time: u64, op: u8, address: u64, size: u64) -> RawEvent {
    RawEvent { time, address, size, word: u64::from(op) | 1 << 8 }
}

/// The clock of the file does not change for some time, as on many arm64 machines. One thread frees
/// a block and another gets its memory at the same time. The free is in a piece that begins at that
/// time.
#[test]
fn rows_wait_for_later_pieces_with_events_of_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let (log, journal) = (folder.path().join("log"), folder.path().join("journal.parquet"));
    let begin = |ring: u64| event(1000, op::THREAD_BEGIN, 4000 + ring, ring + 1);
    let pieces: [(u32, &[RawEvent]); 4] = [
        (0, &[begin(0), event(2000, op::MALLOC, 0x10, 8), event(50_000, op::MALLOC, 0x30, 8)]),
        (1, &[begin(1), event(50_000, op::MALLOC, 0x10, 16)]),
        (0, &[event(50_000, op::FREE, 0x10, 0)]),
        (1, &[event(90_000, op::FREE, 0x10, 0)]),
    ];
    std::fs::write(&log, written(&pieces)).unwrap();
    let imported = import_log(&log, &journal, &[]).unwrap();
    assert!(imported.ended_in_order);
    assert!(imported.metadata.repairs.is_empty(), "{:?}", imported.metadata.repairs);
    let mut rows = Vec::new();
    let reader = Reader::open(&journal).unwrap();
    for row in reader.events() {
        let row = row.unwrap();
        rows.push((row.op, row.created, row.released));
    }
    let wanted = [
        (Op::Malloc, 1, 0),
        (Op::Malloc, 2, 0),
        (Op::Free, 0, 1),
        (Op::Malloc, 3, 0),
        (Op::Free, 0, 3),
    ];
    assert_eq!(rows, wanted);
}
