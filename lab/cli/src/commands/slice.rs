//! `keel slice`: a part of a journal.

use crate::{format, output, progress};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use keel_journal::{Metadata, Reader, Selection, Sliced};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write a part of a journal as a separate journal
///
/// The new journal also contains the blocks that are live at the start of the part. A replay
/// allocates them before its clock starts. The results of the part can still differ from those in a
/// replay of the whole journal, because the addresses of these blocks and the contents of the
/// caches differ. The times in the new journal begin at 0.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
                  keel slice game.journal.parquet --from 60 --to 90 -o fight.journal.parquet\n  \
                  keel slice game.journal.parquet --frames 1200..1260 -o hitch.journal.parquet\n  \
                  keel slice game.journal.parquet --threads 0,audio -o two.journal.parquet\n  \
                  keel slice day.journal.parquet --every 20000000 -o parts")]
pub struct Arguments {
    /// The journal
    journal: PathBuf,
    /// Leave out the operations before this time, in seconds from the start of the journal
    #[arg(long, value_name = "SECONDS", value_parser = nanoseconds)]
    from: Option<u64>,
    /// Leave out the operations at this time or later
    #[arg(long, value_name = "SECONDS", value_parser = nanoseconds)]
    to: Option<u64>,
    /// Keep only the frames from FIRST to LAST (inclusive). The report shows the numbers of frames.
    /// Frame 0 is the time before the first frame mark
    #[arg(long, value_name = "FIRST..LAST", value_parser = frames)]
    #[arg(conflicts_with_all = ["from", "to"])]
    frames: Option<(u64, u64)>,
    /// Keep only these threads: numbers or names, separated by commas. An operation of another
    /// thread is kept if one of the given threads allocates, resizes or frees the same block
    #[arg(long, value_name = "THREADS", value_delimiter = ',')]
    threads: Vec<String>,
    /// Divide the journal into parts of this many operations, or a few more. --output is then a
    /// folder. Its files are part-0000.journal.parquet and so on
    #[arg(long, value_name = "OPERATIONS", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(conflicts_with_all = ["from", "to", "frames", "threads"])]
    every: Option<u64>,
    /// The journal to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let reader = Reader::open(&arguments.journal)?;
    if let (Ok(input), Ok(output)) =
        (arguments.journal.canonicalize(), arguments.output.canonicalize())
        && input == output
    {
        bail!("{} is the journal itself: choose another file with -o", output.display());
    }
    if let Some(operations) = arguments.every {
        return run_every(arguments, &reader, operations);
    }
    let selection = selection(arguments, reader.metadata())?;
    let passes = if selection.threads.is_some() { 2 } else { 1 };
    let bar = progress::bar(passes * reader.rows(), "operations");
    bar.set_message("slicing");
    let (mut before, mut last) = (0, 0);
    let sliced = keel_journal::slice(&reader, &selection, &arguments.output, &mut |rows| {
        if rows < last {
            before += last;
        }
        last = rows;
        bar.set_position(before + rows);
    })?;
    bar.finish_and_clear();
    let Some(sliced) = sliced else { bail!(nothing(arguments)) };
    describe(&arguments.output, &sliced)?;
    Ok(ExitCode::SUCCESS)
}

/// Successive parts of the whole journal, in a new folder.
fn run_every(arguments: &Arguments, reader: &Reader, operations: u64) -> Result<ExitCode> {
    let folder = &arguments.output;
    if output::is_occupied(folder) {
        bail!("{} exists and is not empty: choose another folder with -o", folder.display());
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let path = |index: u64| folder.join(format!("part-{index:04}.journal.parquet"));
    let bar = progress::bar(reader.rows(), "operations");
    bar.set_message("slicing");
    let sliced =
        keel_journal::slice_every(reader, operations, &path, &mut |rows| bar.set_position(rows))?;
    bar.finish_and_clear();
    if sliced.is_empty() {
        bail!(nothing(arguments));
    }
    for (index, part) in (0..).zip(&sliced) {
        describe(&path(index), part)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn nothing(arguments: &Arguments) -> String {
    format!(
        "no operation of {} is in this part, so nothing was written; `keel info` shows its \
         duration, frames and threads",
        arguments.journal.display()
    )
}

fn describe(path: &Path, sliced: &Sliced) -> Result<()> {
    output::print_text(&format!(
        "{}: {}, {}, {}; {} live at its start; {}\n",
        path.display(),
        format::counted(sliced.written.rows - sliced.prologue, "operation"),
        format::counted(sliced.threads, "thread"),
        format::counted(sliced.frames, "frame mark"),
        format::counted(sliced.prologue, "block"),
        format::bytes(sliced.written.bytes),
    ))?;
    Ok(())
}

fn selection(arguments: &Arguments, metadata: &Metadata) -> Result<Selection> {
    let (from, to) = match arguments.frames {
        Some((first, last)) => keel_journal::frame_times(metadata, first, last)?,
        None => (arguments.from.unwrap_or(0), arguments.to),
    };
    if to.is_some_and(|to| to <= from) {
        bail!("the part ends before it begins: give a --to that is after --from");
    }
    let threads = match arguments.threads.as_slice() {
        [] => None,
        names => Some(threads(names, metadata)?),
    };
    Ok(Selection { from, to, threads })
}

/// The threads with these numbers or names. Several threads may have one name.
fn threads(names: &[String], metadata: &Metadata) -> Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for name in names {
        let known = || metadata.threads.iter().enumerate();
        let named: Vec<u32> = known()
            .filter(|(index, thread)| index.to_string() == *name || thread.name == *name)
            .map(|(index, _)| index as u32)
            .collect();
        if named.is_empty() {
            let list: Vec<String> = known()
                .take(LISTED)
                .map(|(index, thread)| format!("{index} {}", thread.name).trim_end().to_owned())
                .collect();
            let more = if metadata.threads.len() > LISTED { ", ..." } else { "" };
            bail!("there is no thread `{name}`; the threads are: {}{more}", list.join(", "));
        }
        found.extend(named);
    }
    Ok(found)
}

/// More threads are not listed in an error.
const LISTED: usize = 20;

fn nanoseconds(text: &str) -> Result<u64, String> {
    let seconds: Option<f64> = text.parse().ok();
    let found = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    found
        .and_then(|time| u64::try_from(time.as_nanos()).ok())
        .ok_or_else(|| "give a number of seconds, such as 2.5".to_owned())
}

fn frames(text: &str) -> Result<(u64, u64), String> {
    let found = match text.split_once("..") {
        Some((first, last)) => first.parse().ok().zip(last.parse().ok()),
        None => text.parse().ok().map(|frame| (frame, frame)),
    };
    found
        .filter(|(first, last)| first <= last)
        .ok_or_else(|| "give a frame or a range, such as 1200 or 1200..1260".to_owned())
}
