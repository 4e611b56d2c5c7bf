//! Fuzzes the readers of result folders: `fuzz_results [--seconds N] [--seed N]`, `make fuzz`.
//!
//! Changes bytes and numbers of `results.json`, `operations.parquet` or a file of rows, and reads
//! the folder as `keel report`, `--markdown` and the terminal do. No input may cause a panic, take
//! longer than [`LIMIT`], or need unbounded memory (run it under `ulimit -v`). Otherwise the input
//! is kept in `fuzz-findings/`, and the exit code is 1.
#![allow(clippy::print_stdout, reason = "printing is its job")]
#![allow(clippy::unwrap_used, reason = "a developer's tool")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::Random;
use common::mutation::{below, mutated};
use keel_results::Comparison;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

fn main() {
    let (mut seconds, mut seed) = (60u64, 1u64);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let number = arguments.next().and_then(|text| text.parse().ok());
        match (argument.as_str(), number) {
            ("--seconds", Some(number)) => seconds = number,
            ("--seed", Some(number)) => seed = number,
            _ => panic!("usage: fuzz_results [--seconds N] [--seed N]"),
        }
    }
    let folder = tempfile::tempdir().unwrap();
    common::write(folder.path(), 600, 2, 3);
    let files: Vec<PathBuf> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let sound: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(read(folder.path()), "the unchanged folder is read");
    // Panics of the readers are reported with their input, those of this program as usual.
    static READING: AtomicBool = AtomicBool::new(false);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !READING.load(Relaxed) {
            usual(info);
        }
    }));
    let (mut random, started) = (Random(seed), Instant::now());
    let (mut inputs, mut whole, mut findings) = (0u64, 0u64, 0u64);
    while started.elapsed().as_secs() < seconds && findings < 10 {
        let at = below(&mut random, files.len());
        let input = mutated(&sound[at], &mut random);
        // A new file, because some file systems wait for the disk when one is overwritten.
        std::fs::remove_file(&files[at]).unwrap();
        std::fs::write(&files[at], &input).unwrap();
        let begun = Instant::now();
        READING.store(true, Relaxed);
        let outcome = catch_unwind(AssertUnwindSafe(|| read(folder.path())));
        READING.store(false, Relaxed);
        inputs += 1;
        if outcome.is_err() || begun.elapsed() > LIMIT {
            findings += 1;
            keep(&files[at], &input, findings);
        }
        whole += u64::from(outcome.unwrap_or(false));
        std::fs::write(&files[at], &sound[at]).unwrap();
    }
    println!("| results | {inputs} inputs | {whole} read whole | {findings} findings |");
    std::process::exit(i32::from(findings > 0));
}

/// Reads the folder in every way; whether all succeeded.
fn read(folder: &Path) -> bool {
    let folders = [folder.to_path_buf()];
    let page = keel_report::build(&folders, keel_report::Options::default(), &|_, _| ());
    let text = keel_report::markdown(folder, keel_report::Matters::default());
    let terminal = Comparison::load(folder).map(|comparison| {
        let chart = keel_report::chart(&comparison, "malloc", 80);
        keel_report::verdict(&comparison, folder).map(|verdict| chart.len() + verdict.len())
    });
    page.is_ok() && text.is_ok() && terminal.is_ok_and(|terminal| terminal.is_ok())
}

fn keep(file: &Path, input: &[u8], number: u64) {
    let name = file.file_name().unwrap().to_string_lossy();
    std::fs::create_dir_all("fuzz-findings").unwrap();
    let path = format!("fuzz-findings/results-{number}-{name}");
    std::fs::write(&path, input).unwrap();
    println!("a finding: {path}");
}
