//! `keel check`: budgets on exact counts, and zones that must not allocate.

mod findings;
mod formats;
mod json;
#[cfg_attr(not(target_os = "linux"), path = "check/elsewhere.rs")]
mod runs;

use super::blame;
use crate::format::printable;
use crate::output;
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use findings::Findings;
use keel_check::{Budget, CallKind, Checked, Input, Learning, Outcome, Zone, ZonePlace};
use keel_journal::Reader;
use runs::{gates, kernel, recorded, worst};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check a program against a budget, and zones that must neither allocate nor free
///
/// The command records the program after `--` with call stacks, or reads a journal. It compares
/// exact counts with the limits of the budget file: operations, bytes, live memory, and others; of
/// the whole run, of each frame, of threads, between marks, and of functions. It lists each call of
/// malloc and free in the zones, with its call stack. The counts do not depend on the speed of the
/// machine; the times of --worst and of limits on latency do. docs/guide/check.md describes the
/// budget file.
///
/// Exit codes: 0 if everything is kept; 1 if a limit is broken or a zone has calls; 2 if the
/// command was used wrongly, or something cannot be checked, for example a zone that does not
/// occur; 3 if the program itself failed.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel check --learn budget.toml -- ./game --demo\n  \
                        keel check --budget budget.toml -- ./game --demo\n  \
                        keel check --zone thread=audio game.journal.parquet\n  \
                        keel check --zone symbol=audio_callback -- ./synth\n  \
                        keel check --zone class=fifo --also locks,files --worst -- ./synth\n  \
                        keel check --budget budget.toml --report junit=check.xml -- ./tests")]
pub struct Arguments {
    /// The journal, if no program is given. With --learn: one or more
    journals: Vec<PathBuf>,
    /// The budget file, in TOML
    #[arg(short, long, value_name = "FILE", conflicts_with = "learn")]
    budget: Option<PathBuf>,
    /// A zone that must neither allocate nor free: thread=NAME (with * and ?), class=fifo,
    /// class=rr, class=realtime, marks=BEGIN..END, symbol=FUNCTION, scope=NAME. This option can be
    /// repeated
    #[arg(short, long, value_name = "KIND=VALUE", conflicts_with = "learn")]
    zone: Vec<ZonePlace>,
    /// Functions that the zones of this command line must not call either. locks: waits for a
    /// mutex, a condition, a semaphore or a thread. files: open, read, fwrite and the like. sleeps:
    /// sleep, poll and the like
    #[arg(
        long,
        value_name = "locks,files,sleeps",
        value_delimiter = ',',
        conflicts_with = "learn"
    )]
    also: Vec<CallKind>,
    /// Leave out the first N frames (of --learn, and of zones of threads and functions), or the
    /// first N passes of zones of marks and scopes. It concerns the zones of this command line
    #[arg(long, value_name = "N", default_value_t = 0)]
    warm_up: u64,
    /// Show what is new or has grown since this journal, by call site
    #[arg(long, value_name = "JOURNAL", conflicts_with = "learn")]
    baseline: Option<PathBuf>,
    /// Replay the journal on these allocators, and show the longest time that a call site in a zone
    /// takes on each: names as for `keel compare --allocators`, or all
    #[arg(long, value_name = "ALLOCATORS", num_args = 0..=1, require_equals = true,
          default_missing_value = "all", conflicts_with = "learn")]
    worst: Option<String>,
    /// Write a budget that the program keeps. A count that is the same in all runs is the limit; a
    /// count that varies gets head-room
    #[arg(long, value_name = "FILE")]
    learn: Option<PathBuf>,
    /// With --learn: replace an existing file
    #[arg(long, requires = "learn")]
    force: bool,
    /// With --learn: run the program this many times
    #[arg(long, value_name = "N", default_value_t = 3, requires = "learn",
          value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// With --learn: the least head-room of a count that varies, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10, requires = "learn")]
    head_room: u64,
    /// The form of the result on stdout
    #[arg(long, value_name = "FORMAT", default_value = "text", conflicts_with = "learn")]
    format: Format,
    /// Also write the result to a file, for example junit=check.xml. This option can be repeated
    #[arg(long, value_name = "FORMAT=FILE", value_parser = report, conflicts_with = "learn")]
    report: Vec<(Format, PathBuf)>,
    /// Keep the journal of the program in this file
    #[arg(short, long, value_name = "FILE", requires = "command")]
    output: Option<PathBuf>,
    /// The number of stack frames that are recorded of each operation. With fewer frames than the
    /// stacks have, zones of functions cannot be checked
    #[arg(long, value_name = "DEPTH", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    stacks: u32,
    /// Record the objects of a Python program, too; see `keel record --python-objects`
    #[arg(long)]
    python_objects: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// The forms of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// Everything, with each call in a zone
    Json,
    /// JUnit's XML: a test case for each limit and each zone
    Junit,
    /// SARIF 2.1.0
    Sarif,
    /// Markdown, for a comment
    Markdown,
    /// Annotations of GitHub Actions
    Github,
    /// Counts as `customSmallerIsBetter` of github-action-benchmark
    Benchmark,
}

const BROKEN: u8 = 1;
const UNKNOWN: u8 = 2;
const PROGRAM_FAILED: u8 = 3;

/// A journal of the program, and how the program ended.
struct Recording {
    journal: PathBuf,
    /// Why the program failed.
    failure: Option<String>,
}

/// Runs the subcommand. An error is exit code 2, because 1 means a broken budget.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    Ok(checked(arguments).unwrap_or_else(|error| {
        say!("keel check: {error:#}");
        ExitCode::from(UNKNOWN)
    }))
}

fn checked(arguments: &Arguments) -> Result<ExitCode> {
    match (arguments.journals.len(), arguments.command.is_empty()) {
        (0, true) => bail!("give a journal, or a program after `--`"),
        (1.., false) => bail!("give either a journal or a program, not both"),
        _ => {}
    }
    // A temporary folder for the journals, which is removed at the end.
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    if let Some(file) = &arguments.learn {
        if !arguments.force && file.metadata().is_ok_and(|of| of.is_file() && of.len() > 0) {
            bail!("{} exists: choose another file, or replace it with --force", file.display());
        }
        return learn(arguments, file, folder.path());
    }
    let budget = budget(arguments)?;
    let baseline = arguments.baseline.as_ref().map(Reader::open).transpose()?;
    let recording = match arguments.journals.as_slice() {
        [] => {
            let kept = arguments.output.clone();
            let journal = kept.unwrap_or_else(|| folder.path().join("check.journal.parquet"));
            let calls = budget.zones.iter().any(|zone| !zone.also.is_empty());
            recorded(arguments, journal, calls)?
        }
        [journal] => Recording { journal: journal.clone(), failure: None },
        _ => bail!("give one journal: several are for --learn"),
    };
    let reader = Reader::open(&recording.journal)?;
    let folders = blame::debug_folders();
    let kernel = kernel::measure(&budget, (&recording.journal, &reader), folder.path())?;
    let input = Input {
        reader: &reader,
        budget: &budget,
        baseline: baseline.as_ref(),
        folders: &folders,
        kernel: kernel.as_ref().map(|(rows, _)| rows.as_slice()),
    };
    let mut checked = keel_check::check(&input)?;
    checked.notes.extend(kernel.map(|(_, note)| note));
    let before = arguments.baseline.as_deref();
    checked.gates = gates::measure(&budget.gates, &recording.journal, before, folder.path())?;
    refuse_incomplete(&reader, &mut checked);
    if let Some(allocators) = &arguments.worst {
        worst::measure(&mut checked, (&recording.journal, &reader), allocators, folder.path())?;
    }
    let findings = Findings::new(checked, reader.metadata(), recording.failure);
    for (format, file) in &arguments.report {
        output::write_whole(file, render(*format, &findings)?.as_bytes())?;
    }
    output::print(&render(arguments.format, &findings)?)?;
    Ok(ExitCode::from(exit_code(&findings)))
}

/// The budget of the file and of the command line.
fn budget(arguments: &Arguments) -> Result<Budget> {
    let mut budget = match &arguments.budget {
        None => Budget::default(),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read the budget {}", file.display()))?;
            Budget::parse(&text).with_context(|| file.display().to_string())?
        }
    };
    let warm_up = arguments.warm_up;
    let zone =
        |place: &ZonePlace| Zone { place: place.clone(), warm_up, also: arguments.also.clone() };
    budget.zones.extend(arguments.zone.iter().map(zone));
    if budget.limits.is_empty() && budget.zones.is_empty() && budget.gates.is_empty() {
        bail!(
            "nothing to check: give a --budget or a --zone. `keel check --learn budget.toml -- \
             PROGRAM` writes a budget"
        );
    }
    Ok(budget)
}

/// Whether a limit is on page faults or system calls, which only a replay counts.
fn counts_kernel(budget: &Budget) -> bool {
    let mut limits = budget.limits.iter().flat_map(|limited| &limited.limits);
    limits.any(|(metric, _)| metric.is_replayed())
}

/// A journal that lacks operations cannot show that a budget is kept.
fn refuse_incomplete(reader: &Reader, checked: &mut Checked) {
    let drops = reader.metadata().drops;
    if drops == 0 {
        return;
    }
    let reason = format!("the journal lacks {drops} operations");
    let limits = checked.limits.iter_mut().map(|limit| &mut limit.outcome);
    let zones = checked.zones.iter_mut().map(|zone| &mut zone.outcome);
    for outcome in limits.chain(zones).filter(|outcome| **outcome == Outcome::Kept) {
        *outcome = Outcome::Unknown(reason.clone());
    }
}

fn learn(arguments: &Arguments, file: &Path, folder: &Path) -> Result<ExitCode> {
    let mut learning = Learning::new(arguments.warm_up, arguments.head_room);
    let folders = blame::debug_folders();
    let mut count = arguments.journals.len();
    for journal in &arguments.journals {
        learning.add(&Reader::open(journal)?, &folders)?;
    }
    if arguments.journals.is_empty() {
        count = arguments.runs as usize;
        for run in 1..=count {
            let recording =
                recorded(arguments, folder.join(format!("{run}.journal.parquet")), false)?;
            if let Some(failure) = recording.failure {
                say!("keel check: the program failed ({failure}); nothing was written");
                return Ok(ExitCode::from(PROGRAM_FAILED));
            }
            learning.add(&Reader::open(&recording.journal)?, &folders)?;
        }
    }
    let runs = if count == 1 { "one run".to_owned() } else { format!("{count} runs") };
    let learned = learning.finish(&format!("Learned from {runs}."));
    output::write_whole(file, learned.text.as_bytes())?;
    let (same, all) = learned.same;
    say!("keel check: {} of {all} counts were the same in all runs -> {}", same, file.display());
    Ok(ExitCode::SUCCESS)
}

fn report(text: &str) -> Result<(Format, PathBuf), String> {
    let (format, file) = text.split_once('=').ok_or("give FORMAT=FILE, such as junit=check.xml")?;
    Ok((Format::from_str(format, false)?, PathBuf::from(file)))
}

fn render(format: Format, findings: &Findings) -> Result<String> {
    Ok(match format {
        Format::Text => printable(&formats::text(findings)),
        Format::Markdown => printable(&formats::markdown(findings)),
        Format::Github => printable(&formats::github(findings)),
        Format::Junit => printable(&formats::junit(findings)),
        Format::Sarif => json::pretty(&json::sarif(findings))?,
        Format::Json => json::pretty(&json::everything(findings))?,
        Format::Benchmark => json::pretty(&json::benchmark(findings))?,
    })
}

fn exit_code(findings: &Findings) -> u8 {
    let has = |wanted: fn(&Outcome) -> bool| findings.checked.outcomes().any(wanted);
    if findings.failure.is_some() {
        PROGRAM_FAILED
    } else if has(|outcome| *outcome == Outcome::Broken) {
        BROKEN
    } else if has(|outcome| matches!(outcome, Outcome::Unknown(_))) {
        UNKNOWN
    } else {
        0
    }
}
