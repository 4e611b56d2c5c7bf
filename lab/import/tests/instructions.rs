//! What a line of text costs on its way into the journal, counted in instructions, which no other
//! load disturbs.
//!
//! The test runs itself under callgrind, which counts all threads: reading, parsing, ordering,
//! packing and compressing. What an import costs whatever it reads falls out, as two texts are
//! imported of which one is longer.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use keel_import::{Options, import};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// A row group, and what a line may cost on average. It was 1,285 when this was written, and 1,663
/// while a line's fields were found one after the other.
const LINES: usize = 1 << 18;
const BOUND: f64 = 1400.0;

/// Set in the process that runs under callgrind: the text that it imports.
const TEXT: &str = "KEEL_TEST_COUNTED_TEXT";
const NAME: &str = "a_line_costs_few_instructions";

/// A trace of `lines` lines and two threads. Some blocks live long; most do not.
fn text(lines: usize) -> String {
    let (mut text, mut live, mut random) = (String::new(), Vec::new(), 1_u64);
    for line in 0..lines as u64 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let draw = random >> 33;
        let (thread, time) = (4711 + (line >> 9 & 1), 5_000_000_000 + line * 211 + draw % 200);
        if live.len() > 100 && draw & 1 == 0 {
            // Mostly one of the youngest.
            let age = if draw & 30 == 0 { draw as usize % live.len() } else { draw as usize % 16 };
            let address: u64 = live.swap_remove(live.len() - 1 - age);
            writeln!(text, "f {address:x} {thread} {time}").unwrap();
        } else {
            let address = 0x7f12_3400_0000 + line * 0x90;
            live.push(address);
            writeln!(text, "a {} {address:x} {thread} {time}", 8 + (draw >> 5) % 500).unwrap();
        }
    }
    text
}

/// Instructions of the import of `lines` lines.
fn counted(lines: usize, folder: &Path) -> u64 {
    let path = folder.join("text");
    std::fs::write(&path, text(lines)).unwrap();
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", folder.join("out").display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--test-threads=1"])
        .env(TEXT, &path)
        .output()
        .expect("valgrind is there; `make setup` installs it");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let line =
        text.lines().find_map(|line| line.split_once("Collected :")).expect("callgrind's sum").1;
    line.trim().replace(',', "").parse().unwrap()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_line_costs_few_instructions() {
    if let Some(text) = std::env::var_os(TEXT) {
        let journal = Path::new(&text).with_extension("parquet");
        let summary = import(&[text.into()], &journal, &Options::default(), &mut |_| {}).unwrap();
        assert!(summary.rows >= LINES as u64);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (less, more) = (counted(LINES, folder.path()), counted(2 * LINES, folder.path()));
    let a_line = (more - less) as f64 / LINES as f64;
    assert!(a_line > 100.0 && a_line <= BOUND, "{a_line} instructions a line");
}
