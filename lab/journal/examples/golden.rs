//! Writes the golden journals anew: `cargo run --release -p keel-journal --example golden journal/golden`.
//!
//! That is needed once for each new version of the format, under new names: the files that are there must stay
//! readable for ever. The rows as text come from the events given to the writer, not from reading the file.
#![allow(clippy::unwrap_used, reason = "a tool for developers")]

#[path = "../tests/common/mod.rs"]
mod common;

use keel_journal::{Event, Metadata, Op};
use std::path::{Path, PathBuf};

fn main() {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap());
    let (events, metadata) = every_operation();
    write(&folder, "v1-every-operation", &events, &metadata, 4);
    let (events, metadata) = common::sample(300);
    write(&folder, "v1-mixed", &events, &metadata, 120);
    write(&folder, "v1-empty", &[], &common::metadata(vec![]), 120);
}

fn write(folder: &Path, name: &str, events: &[Event], metadata: &Metadata, rows_per_group: usize) {
    common::write(&folder.join(format!("{name}.journal.parquet")), events, metadata, rows_per_group);
    std::fs::write(folder.join(format!("{name}.rows")), common::as_text(events)).unwrap();
    let json = serde_json::to_string_pretty(metadata).unwrap();
    std::fs::write(folder.join(format!("{name}.metadata.json")), json + "\n").unwrap();
}

/// Each operation, and what is special about some: sizes 0 and 2^63-1, a realloc of NULL, one that took its time.
fn every_operation() -> (Vec<Event>, Metadata) {
    let row = |time, thread, op, size, created, released, frame| Event {
        time,
        begin: time,
        thread,
        op,
        size,
        align: 0,
        created,
        released,
        frame,
    };
    let events = vec![
        row(0, 0, Op::Malloc, 16, 1, 0, 0),
        row(5, 0, Op::Malloc, 0, 2, 0, 0),
        row(5, 1, Op::Calloc, 4096, 3, 0, 0),
        row(100, 1, Op::Realloc, 10, 4, 0, 1),
        Event { begin: 99, ..row(250, 2, Op::Realloc, 200, 5, 1, 0) },
        Event { align: 64, ..row(300, 2, Op::Aligned, 1000, 6, 0, 3) },
        row(300, 0, Op::ForeignFree, 0, 0, 0, 3),
        row(301, 0, Op::ForeignRealloc, 77, 7, 0, 3),
        row(302, 4, Op::Free, 0, 0, 7, 3),
        row(302, 4, Op::Free, 0, 0, 3, 3),
        row(1 << 40, 3, Op::Malloc, i64::MAX as u64, 8, 0, 3),
        row(i64::MAX as u64, 3, Op::Free, 0, 0, 8, 3),
    ];
    (events, common::metadata(vec![100, 300, 300]))
}
