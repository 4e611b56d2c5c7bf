//! Writes the golden journals: `cargo run --release -p keel-journal --example golden
//! journal/golden`.
//!
//! Run this only for a new version of the format. The text files contain the events that were
//! passed to the writer, not rows that were read from the journal.
#![allow(clippy::unwrap_used, reason = "a tool for developers")]

#[path = "../tests/common/mod.rs"]
mod common;

use keel_journal::{Event, FreeHint, Metadata, Module, NamedCall, Op, Origin, Stacks};
use std::path::{Path, PathBuf};

fn main() {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap());
    let (events, metadata) = every_operation();
    write(&folder, "v1-every-operation", &events, &metadata, 4);
    let (events, metadata) = common::sample(300);
    write(&folder, "v1-mixed", &events, &metadata, 120);
    // Long enough for every encoding.
    let (events, metadata) = common::sample(700);
    write(&folder, "v1-whole-bytes", &events, &metadata, 500);
    write(&folder, "v1-empty", &[], &common::metadata(vec![]), 120);
    write_origins(&folder);
    write_names(&folder);
    write_hints(&folder);
}

/// Frees with correct and with wrong hints.
fn write_hints(folder: &Path) {
    let row = |time, op, size, align, created, released, free_hint| Event {
        size,
        align,
        created,
        released,
        free_hint,
        ..Event::at(time, op)
    };
    let allocation =
        |number: u64, op, size, align| row(number, op, size, align, number, 0, FreeHint::NONE);
    let free = |time, released, free_hint| row(time, Op::Free, 0, 0, 0, released, free_hint);
    let wrong = FreeHint::wrong;
    let events = vec![
        allocation(1, Op::Malloc, 16, 0),
        allocation(2, Op::Calloc, 100, 0),
        allocation(3, Op::Aligned, 1000, 64),
        allocation(4, Op::Aligned, 72, 4096),
        allocation(5, Op::Realloc, 30, 0),
        allocation(6, Op::Malloc, 0, 0),
        allocation(7, Op::Aligned, 8, 8),
        allocation(8, Op::Malloc, 5, 0),
        free(11, 1, FreeHint::SIZE),
        free(12, 2, wrong(Some(96), None)),
        free(13, 3, FreeHint::BOTH),
        free(14, 4, wrong(Some(72), Some(64))),
        free(15, 5, wrong(Some((1 << 57) - 1), None)),
        free(16, 6, FreeHint::SIZE),
        free(17, 7, FreeHint::ALIGN),
        free(18, 8, wrong(None, Some(16))),
        row(19, Op::ForeignFree, 0, 0, 0, 0, FreeHint::NONE),
    ];
    write(folder, "v1-free-hints", &events, &common::metadata(vec![]), 7);
}

/// Every operation, with modules and stacks, and two blocks that were live before the recording.
fn write_origins(folder: &Path) {
    let (events, metadata) = every_operation();
    let module = |path: &str, build_id: &str| Module {
        path: path.to_owned(),
        build_id: build_id.to_owned(),
    };
    let metadata = Metadata {
        prologue: 2,
        modules: vec![module("/usr/bin/gr\u{fc}n", "00ff10"), module("/lib/libc.so.6", "")],
        stacks: Stacks {
            sites: vec![(0, 0x1234), (1, 1 << 40), (-1, 0x7f00_0000_0010), (0, 0x2000)],
            nodes: vec![(-1, 0), (0, 3), (1, 1), (-1, 2)],
            names: Vec::new(),
        },
        ..metadata
    };
    let known = [(0, 2), (0, 1), (Origin::NONE, 3), (1, 2), (0, Origin::NONE), (1, 0)];
    let origins: Vec<Origin> = (0..events.len())
        .map(|row| {
            known.get(row).map_or(Origin::UNKNOWN, |(module, stack)| Origin {
                module: *module,
                stack: *stack,
            })
        })
        .collect();
    write_with_origins(folder, "v1-origins", &events, &origins, &metadata);
}

/// Stacks with sites that have names, one of them two, and one without a function.
fn write_names(folder: &Path) {
    let row = |time, size, created| Event { size, created, ..Event::at(time, Op::Malloc) };
    let events = vec![row(1, 10, 1), row(2, 20, 2), row(3, 30, 3)];
    let name = |site, function: &str, file: &str, line, module| NamedCall {
        site,
        function: function.to_owned(),
        file: file.to_owned(),
        line,
        module,
    };
    let metadata = Metadata {
        modules: vec![Module { path: "/bin/game".to_owned(), build_id: "0a".to_owned() }],
        stacks: Stacks {
            sites: vec![(-1, 0), (-1, 0x10), (0, 0x20), (-1, 0x30)],
            nodes: vec![(-1, 0), (0, 1), (1, 2), (0, 3)],
            names: vec![
                name(0, "<module>", "/game/level.py", 19, None),
                name(1, "Vec::new", "", 0, Some(0)),
                name(1, "load", "/game/load.rs", 4, Some(0)),
                name(3, "", "", 0, Some(0)),
            ],
        },
        ..common::metadata(vec![])
    };
    let known = [(0, 2), (0, 3), (Origin::NONE, Origin::NONE)];
    let origins = known.map(|(module, stack)| Origin { module, stack });
    write_with_origins(folder, "v1-names", &events, &origins, &metadata);
    let calls = "game+0x20 < Vec::new < load (/game/load.rs:4) < <module> (/game/level.py:19)\n\
                 game < <module> (/game/level.py:19)\n-\n";
    std::fs::write(folder.join("v1-names.calls"), calls).unwrap();
}

fn write_with_origins(
    folder: &Path,
    name: &str,
    events: &[Event],
    origins: &[Origin],
    metadata: &Metadata,
) {
    let options = keel_journal::Options { rows_per_group: 4, ..Default::default() };
    let path = folder.join(format!("{name}.journal.parquet"));
    let mut writer = keel_journal::Writer::with_options(path, options).unwrap();
    for (event, origin) in events.iter().zip(origins) {
        writer.push_from(event, *origin).unwrap();
    }
    writer.finish(metadata.clone()).unwrap();
    describe(folder, name, events, metadata);
    std::fs::write(folder.join(format!("{name}.origins")), common::origins_as_text(origins))
        .unwrap();
}

fn write(folder: &Path, name: &str, events: &[Event], metadata: &Metadata, rows_per_group: usize) {
    common::write(
        &folder.join(format!("{name}.journal.parquet")),
        events,
        metadata,
        rows_per_group,
    );
    describe(folder, name, events, metadata);
}

fn describe(folder: &Path, name: &str, events: &[Event], metadata: &Metadata) {
    std::fs::write(folder.join(format!("{name}.rows")), common::as_text(events)).unwrap();
    let json = serde_json::to_string_pretty(metadata).unwrap();
    std::fs::write(folder.join(format!("{name}.metadata.json")), json + "\n").unwrap();
}

/// Each operation, with some special values: sizes 0 and 2^63-1, a realloc of NULL, a realloc that
/// took 151 ns.
fn every_operation() -> (Vec<Event>, Metadata) {
    let row = |time, thread, op, size, created, released, frame| Event {
        thread,
        size,
        created,
        released,
        frame,
        ..Event::at(time, op)
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
