//! `keel time`: the second half of the Judy kit. It times the segments between the marks of a
//! journal.

use crate::layout::Layout;
use crate::selection::chosen;
use crate::{format, output};
use anyhow::{Result, bail};
use clap::Args;
use keel_allocators::Allocator;
use keel_journal::Reader;
use keel_plan::Reading;
use keel_replay::{Player, Segment, Timing};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Replay a journal on one thread and measure only its total time and memory
///
/// Each run has its own process and one thread. If the journal has markers (see `keel capture`),
/// the command also prints time and memory at each marker. It reads the clock only at markers and
/// at the end, so that the clock does not slow the calls. The null allocator does nothing: its time
/// is that of the replay loop itself.
///
/// `keel compare` times single calls and replays all threads of the program.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel time game.journal.parquet\n  \
                        keel time game.journal.parquet -a keel,glibc,./libmine.so,null --runs 9 \
                        --touch")]
pub struct Arguments {
    /// The journal that `keel capture`, `keel record` or `keel import` wrote
    journal: PathBuf,
    /// The allocators, separated by commas: names that `keel allocators` lists, or paths of shared
    /// libraries
    #[arg(short, long, value_delimiter = ',', default_value = "keel,glibc,null")]
    allocators: Vec<String>,
    /// Runs of each allocator. The allocators take turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..1000))]
    runs: u32,
    /// Write one byte into each system page of a new block, so that the block becomes resident
    #[arg(long)]
    touch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand. Exit code 2 for an allocator that cannot be used, 1 if one gave no result.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let layout = Layout::discover()?;
    let Some(allocators) = chosen(&layout, &arguments.allocators) else {
        return Ok(ExitCode::from(2));
    };
    let reader = Reader::open(&arguments.journal)?;
    if reader.rows() == 0 {
        bail!("{} contains no operations: there is nothing to time", arguments.journal.display());
    }
    let timing = Timing::new(&reader, arguments.touch)?;
    let player = Player { executable: layout.private("keel-player")?, timeout: Duration::MAX };
    let measured = measure(&arguments, &timing, &player, &allocators);
    if arguments.json {
        output::print_json(&measured)?;
    } else {
        output::print_text(&text(&measured))?;
    }
    if timing.skipped > 0 {
        say!(
            "note: left out {} of blocks whose allocation was not recorded",
            format::counted(timing.skipped, "free")
        );
    }
    let failed = measured.iter().filter(|one| one.failure.is_some());
    failed.clone().for_each(|one| {
        say!("keel: {}: {}", one.allocator, one.failure.as_deref().unwrap_or_default())
    });
    Ok(if failed.count() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[derive(Serialize)]
struct Measured {
    allocator: String,
    runs: u32,
    failure: Option<String>,
    marks: Vec<AtMark>,
}

/// The segment that ends at a marker.
#[derive(Serialize)]
struct AtMark {
    /// The marker's text; empty at the end of the journal.
    mark: String,
    operations: u64,
    /// Minimum, median and maximum over the runs, in ns.
    least_ns: u64,
    median_ns: u64,
    most_ns: u64,
    /// Of the median run, in bytes.
    resident_bytes: u64,
    live_bytes: u64,
    live_blocks: u64,
    /// Calls that returned NULL, in the median run.
    refused: u64,
}

/// Runs the allocators in turn: the first run of each, the second of each ...
fn measure(
    arguments: &Arguments,
    timing: &Timing,
    player: &Player,
    allocators: &[Allocator],
) -> Vec<Measured> {
    let mut readings: Vec<Vec<Vec<Reading>>> = vec![Vec::new(); allocators.len()];
    let mut failures: Vec<Option<String>> = vec![None; allocators.len()];
    for _ in 0..arguments.runs {
        for ((allocator, readings), failure) in
            allocators.iter().zip(&mut readings).zip(&mut failures)
        {
            if failure.is_none() {
                match timing.play(player, allocator) {
                    Ok(reading) => readings.push(reading),
                    Err(reason) => *failure = Some(reason),
                }
            }
        }
    }
    let measured = allocators.iter().zip(readings).zip(failures);
    measured
        .map(|((allocator, readings), failure)| Measured {
            allocator: allocator.name.clone(),
            runs: readings.len() as u32,
            marks: match &failure {
                None => timing
                    .segments
                    .iter()
                    .enumerate()
                    .map(|(index, one)| at_mark(one, index, &readings))
                    .collect(),
                Some(_) => Vec::new(),
            },
            failure,
        })
        .collect()
}

fn at_mark(segment: &Segment, index: usize, readings: &[Vec<Reading>]) -> AtMark {
    let mut all: Vec<Reading> = readings.iter().filter_map(|run| run.get(index).copied()).collect();
    all.sort_by_key(|reading| reading.ns);
    let at = |position: usize| all.get(position).copied().unwrap_or_default();
    let median = at(all.len() / 2);
    AtMark {
        mark: segment.mark.clone(),
        operations: segment.operations,
        least_ns: at(0).ns,
        median_ns: median.ns,
        most_ns: at(all.len().saturating_sub(1)).ns,
        resident_bytes: median.resident,
        live_bytes: segment.live_bytes,
        live_blocks: segment.live_blocks,
        refused: median.refused,
    }
}

fn text(measured: &[Measured]) -> String {
    const MARK_WIDTH: usize = 40;
    let mut text = String::new();
    for one in measured.iter().filter(|one| one.failure.is_none()) {
        text += &format!("{}, {}\n", one.allocator, format::counted(one.runs.into(), "run"));
        text += &format!(
            "  {:<MARK_WIDTH$} {:>12} {:>10} {:>21} {:>8} {:>10} {:>10}\n",
            "at", "operations", "time", "least .. most", "ns/op", "live", "resident"
        );
        for mark in &one.marks {
            let name: String = match mark.mark.as_str() {
                "" => "the end".to_owned(),
                name => name
                    .chars()
                    .map(|letter| if letter.is_control() { ' ' } else { letter })
                    .take(MARK_WIDTH)
                    .collect(),
            };
            let each = match mark.operations {
                0 => "-".to_owned(),
                operations => format!("{:.2}", mark.median_ns as f64 / operations as f64),
            };
            let spread = format!(
                "{} .. {}",
                format::nanoseconds(mark.least_ns),
                format::nanoseconds(mark.most_ns)
            );
            text += &format!(
                "  {name:<MARK_WIDTH$} {:>12} {:>10} {spread:>21} {each:>8} {:>10} {:>10}\n",
                format::count(mark.operations),
                format::nanoseconds(mark.median_ns),
                format::bytes(mark.live_bytes),
                format::bytes(mark.resident_bytes),
            );
        }
    }
    text
}
