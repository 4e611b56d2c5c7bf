//! Prints bytes per operation, by journal and column, as in the table of
//! docs/reference/journal-size.md: `cargo run --release -p keel-import --example journal_size --
//! A.txt B.txt.zst C.journal.parquet ...`
//!
//! `NAME.frames` next to a text is its frames file. Prints the speed of each import to stderr. A
//! journal is copied row by row.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is its job")]

use keel_import::{Options, import};
use keel_journal::{Reader, Writer};
use std::path::{Path, PathBuf};
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).peekable();
    let zstd_level = match arguments.peek().and_then(|argument| argument.strip_prefix("--level=")) {
        Some(level) => level.parse()?,
        None => Options::default().zstd_level,
    };
    let inputs = arguments.filter(|argument| !argument.starts_with("--"));
    let output = std::env::temp_dir().join(format!("journal-size-{}.parquet", std::process::id()));
    let mut lines = Vec::new();
    for input in inputs {
        lines.push(measure(Path::new(&input), &output, zstd_level)?);
    }
    std::fs::remove_file(&output)?;
    println!(
        "| journal | operations | bytes | bytes/op | time | thread | op | size | align | created \
            | released | frame |"
    );
    println!("| --- |{}", " ---: |".repeat(11));
    lines.sort();
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn measure(input: &Path, output: &Path, zstd_level: i32) -> Result<String, Failure> {
    let name = input.file_name().unwrap_or_default().to_string_lossy();
    let name = name.split('.').next().unwrap_or_default().to_owned();
    let frames = Some(input.with_file_name(format!("{name}.frames"))).filter(|path| path.exists());
    match Reader::open(input) {
        Ok(journal) => write_again(&journal, output, zstd_level)?,
        Err(_) => {
            let started = Instant::now();
            let options = Options { frames, zstd_level, ..Options::default() };
            let summary = import(&[PathBuf::from(input)], output, &options, &mut |_| {})?;
            let seconds = started.elapsed().as_secs_f64();
            eprintln!("{name}: {:.0} MB/s of text", summary.text_bytes as f64 / 1e6 / seconds);
        }
    }
    let reader = Reader::open(output)?;
    let rows = reader.rows() as f64;
    // Text journals do not have these.
    let silent = ["begin", "module", "stack", "free_hint", "hint_size", "hint_align"];
    let columns =
        reader.column_sizes().into_iter().filter(|column| !silent.contains(&column.name.as_str()));
    let cells: Vec<String> =
        columns.map(|column| format!("{:.3}", column.compressed as f64 / rows)).collect();
    let bytes = reader.bytes();
    Ok(format!(
        "| {name} | {} | {bytes} | **{:.2}** | {} |",
        reader.rows(),
        bytes as f64 / rows,
        cells.join(" | ")
    ))
}

fn write_again(journal: &Reader, output: &Path, zstd_level: i32) -> Result<(), Failure> {
    let options = keel_journal::Options { zstd_level, ..keel_journal::Options::default() };
    let mut writer = Writer::with_options(output, options)?;
    for batch in journal.batches() {
        writer.push_batch(&batch?)?;
    }
    writer.finish(journal.metadata().clone())?;
    Ok(())
}
