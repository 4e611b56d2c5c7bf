//! What the lab takes: memory of a comparison for each operation of the journal (100 million
//! operations must fit into 8 GiB), and disk space of the command.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use keel_journal::{Event, Metadata, Op, Writer};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Writes a journal of this many operations, with 10,000 live blocks.
fn journal(path: &Path, operations: u64) {
    let mut writer = Writer::create(path).unwrap();
    for row in 0..operations {
        let frees = row >= 10_000 && row % 2 == 1;
        // The first 10,000 rows create an object each, after them every second row.
        let created = if row < 10_000 { row + 1 } else { 10_000 + (row - 10_000) / 2 + 1 };
        let event = Event {
            size: if frees { 0 } else { 16 + row % 200 },
            created: if frees { 0 } else { created },
            released: if frees { created - 10_000 } else { 0 },
            ..Event::at(row * 10, if frees { Op::Free } else { Op::Malloc })
        };
        writer.push(&event).unwrap();
    }
    writer.finish(Metadata::default()).unwrap();
}

/// The peak resident memory of `keel compare` without its players, but with the pages that they
/// share.
fn peak_bytes(folder: &Path, operations: u64) -> u64 {
    let path = folder.join(format!("{operations}.journal.parquet"));
    journal(&path, operations);
    let mut child = Command::new(env!("CARGO_BIN_EXE_keel"))
        .args(["compare", "--allocators", "glibc", "--runs", "1", "--no-throughput", "--output"])
        .args([&folder.join(format!("results-{operations}")), &path])
        .env("KEEL_PREFIX", common::prefix())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(child.wait().unwrap().success());
    peak
}

#[test]
fn an_operation_takes_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (few, many) = (1_000_000, 3_000_000);
    let (least, most) = (peak_bytes(folder.path(), few), peak_bytes(folder.path(), many));
    let growth = most.saturating_sub(least) as f64 / (many - few) as f64;
    // 16 bytes of the plan and 16 of the record, which the player shares; no other memory grows
    // with the journal. The limit of 8 GiB allows 85.
    assert!((16.0..=40.0).contains(&growth), "{growth} bytes per operation: {least} and {most}");
}

#[test]
fn the_command_is_small_on_the_disk() {
    let bytes = std::fs::metadata(common::prefix().join("bin/keel")).unwrap().len();
    // With its symbols it has 100 MB. Unoptimised crates (Cargo.toml) are 10 of its 35 MiB.
    assert!(bytes <= 36 << 20, "{bytes} bytes: the build must remove the symbols");
}
