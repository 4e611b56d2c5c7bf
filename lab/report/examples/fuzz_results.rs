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
use keel_results::Comparison;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);
/// Numbers that begin or end a range of a type.
const EXTREMES: [&str; 12] = [
    "0",
    "-1",
    "1e308",
    "0.0000001",
    "255",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "null",
    "[]",
];

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
    std::panic::set_hook(Box::new(|_| {}));
    let (mut random, started) = (Random(seed), Instant::now());
    let (mut inputs, mut whole, mut findings) = (0u64, 0u64, 0u64);
    while started.elapsed().as_secs() < seconds && findings < 10 {
        let at = below(&mut random, files.len());
        let input = mutated(&sound[at], &mut random);
        // A new file, because some file systems wait for the disk when one is overwritten.
        std::fs::remove_file(&files[at]).unwrap();
        std::fs::write(&files[at], &input).unwrap();
        let begun = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| read(folder.path())));
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

fn below(random: &mut Random, bound: usize) -> usize {
    (random.next() % bound.max(1) as u64) as usize
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

fn mutated(sound: &[u8], random: &mut Random) -> Vec<u8> {
    let mut input = sound.to_vec();
    let is_text = input.first() == Some(&b'{');
    for _ in 0..1 << below(random, 4) {
        let at = below(random, input.len());
        match below(random, 4) {
            0 if !is_text => input[at] = random.next() as u8,
            1 if !is_text => input[at] ^= 1 << below(random, 8),
            // The footer of a Parquet file is at its end.
            2 if !is_text => {
                let last = below(random, input.len().min(600));
                let at = input.len() - 1 - last;
                input[at] = random.next() as u8;
            }
            3 if below(random, 8) == 0 => input.truncate(at),
            _ => replace_number(&mut input, at, random),
        }
    }
    input
}

/// Replaces the number at or after a position by an extreme one.
fn replace_number(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let Some(found) = input[at..].iter().position(is_digit) else { return };
    let start =
        input[..at + found].iter().rposition(|byte| !is_digit(byte)).map_or(0, |before| before + 1);
    let length = input[start..].iter().position(|byte| !is_digit(byte));
    let end = length.map_or(input.len(), |length| start + length);
    let number = EXTREMES[below(random, EXTREMES.len())];
    input.splice(start..end, number.bytes()).for_each(drop);
}

fn keep(file: &Path, input: &[u8], number: u64) {
    let name = file.file_name().unwrap().to_string_lossy();
    std::fs::create_dir_all("fuzz-findings").unwrap();
    let path = format!("fuzz-findings/results-{number}-{name}");
    std::fs::write(&path, input).unwrap();
    println!("a finding: {path}");
}
