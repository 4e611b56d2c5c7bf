//! `keel bench`: synthetic workloads on several allocators, in interleaved runs.

mod archive;
mod contestants;
mod suite;
mod tables;

use crate::layout::Layout;
use crate::{interrupt, output, progress};
use anyhow::{Context as _, Result, bail};
use archive::Archive;
use clap::Args;
use keel_workloads::{Bench, Outcome, Sample, Suite, Workload};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// The default number of runs.
const RUNS: u32 = 5;
const SUITE_RUNS: u32 = 3;

/// Run synthetic workloads on each allocator
///
/// Each run has its own process, and the allocators take turns. Without --suite, the command runs
/// two groups of small workloads. `throughput` measures the cost of all calls together. `latency`
/// measures the slowest individual calls of each kind; each run also measures the noise of the
/// machine, which is subtracted. Keel is measured with default settings (`keel`), with
/// KEEL_KEEPER=on (`keel+keeper`) and, in `latency`, also with warm memory that is prepared at the
/// start (`keel+warm`).
///
/// `--suite` runs whole programs instead: `synthetic` (modelled on well-known allocator
/// benchmarks), `patterns` (patterns of use) and `real` (installed programs). It also replays
/// journals (`journals`). It measures elapsed and processor time, peak and average memory, page
/// faults, context switches, system calls and the slowest calls, and writes a page (index.html),
/// suite.md, runs.parquet and every run (runs.jsonl) into the folder of -o. The same command with
/// the same folder continues a suite that was stopped. `--suite --publish FOLDER` without -o runs
/// nothing: it lists the results that the site contains.
///
/// Ctrl-C ends the benchmark and keeps the complete runs. The exit code is then 130.
#[derive(Args)]
#[command(
    group = clap::ArgGroup::new("place").args(["output", "publish"]).multiple(true),
    after_help = "Examples:\n  keel bench --list\n  keel bench throughput --runs 9 --archive \
        results\n  \
                        keel bench game-mix -a keel,jemalloc \
                        --allocator jemalloc:MALLOC_CONF=thp:always\n  \
                        keel bench --suite --quick -o quick.suite\n  \
                        keel bench --suite synthetic,patterns/tree -a keel,glibc -o my.suite"
)]
pub struct Arguments {
    /// Workloads and suites, separated by commas, or `all`; --list prints them
    #[arg(default_value = "all", value_delimiter = ',')]
    workloads: Vec<String>,
    /// Allocators, separated by commas: names that `keel allocators` lists, keel+keeper, keel+warm,
    /// paths of libraries and of folders of libraries, or `all` (which includes the libraries in
    /// the folder that the environment variable KEEL_BENCH_PEERS names)
    /// [default: all]
    #[arg(short, long, value_delimiter = ',')]
    allocators: Vec<String>,
    /// One more allocator, with a label and environment variables:
    /// [LABEL=]NAME[:VARIABLE=VALUE]..., such as keel:KEEL_KEEPER=off; may be given several times.
    /// If -a is absent, only the allocators given with --allocator are compared
    #[arg(long = "allocator", value_name = "SPEC")]
    single: Vec<String>,
    /// Runs of each workload on each allocator [default: 5; with --suite 3]
    #[arg(long, visible_alias = "rounds", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Run whole programs: suites (all, synthetic, patterns, real, journals) or single workloads
    /// (patterns/tree), separated by commas; `real` means all known programs that are installed
    /// [default: synthetic, patterns, some of `real`, and journals if --journal is given]
    #[arg(long, num_args = 0.., value_delimiter = ',', value_name = "SUITE", requires = "place")]
    suite: Option<Vec<String>>,
    /// With --suite: a short run with fewer and smaller workloads, and without the allocators that
    /// have one lock for all threads
    #[arg(long, requires = "suite")]
    quick: bool,
    /// With --suite: end a run that takes longer, and record it as failed
    #[arg(long, requires = "suite", value_name = "SECONDS", default_value_t = 300,
        value_parser = clap::value_parser!(u32).range(1..=86_400))]
    limit: u32,
    /// With --suite: begin no further runs after this time. Every workload runs at least once, even
    /// if this takes longer [default: 80; with --quick 9]
    #[arg(long, requires = "suite", value_name = "MINUTES",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    minutes: Option<u32>,
    /// With --suite: do not repeat runs that the machine disturbed
    #[arg(long, requires = "suite")]
    no_repeat: bool,
    /// With --suite: a journal for the suite `journals`; may be given several times
    #[arg(long = "journal", requires = "suite", value_name = "FILE")]
    journals: Vec<PathBuf>,
    /// With --suite: also copy the results into this folder, which is a static site that lists
    /// all results that it contains
    #[arg(long, requires = "suite", value_name = "FOLDER")]
    publish: Option<PathBuf>,
    /// Write every sample to this file, as JSON; an existing file is not overwritten. With --suite:
    /// the folder of the results
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write samples and tables to SUITE.json and SUITE.md in this folder, numbered if they exist
    #[arg(long, value_name = "FOLDER")]
    archive: Option<PathBuf>,
    /// Run nothing, but read samples from these files and combine them
    #[arg(long, value_name = "FILE", num_args = 1..)]
    from: Vec<PathBuf>,
    /// The version under test, which is stored with the samples: the output of `git describe`
    #[arg(long, default_value = "", hide_default_value = true)]
    commit: String,
    /// Also check whether Keel reaches its own targets (docs/results.md)
    #[arg(long)]
    bars: bool,
    /// Print the samples as JSON instead of the tables
    #[arg(long)]
    json: bool,
    /// Print the workloads and exit
    #[arg(long)]
    list: bool,
}

/// Runs the subcommand. Exit code 130 if it was stopped.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    if let (Some(suites), None, Some(site)) =
        (&arguments.suite, &arguments.output, &arguments.publish)
    {
        if !suites.is_empty() {
            bail!("there is no folder for the results of {}: add -o FOLDER", suites.join(", "));
        }
        suite::list_site(site)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(suites), Some(folder)) = (&arguments.suite, &arguments.output) {
        return suite::run(&suite::Request {
            suites: suites.clone(),
            specs: [arguments.allocators.clone(), arguments.single.clone()].concat(),
            rounds: arguments.runs.unwrap_or(SUITE_RUNS),
            quick: arguments.quick,
            minutes: arguments.minutes.unwrap_or(if arguments.quick { 9 } else { 80 }),
            repeat: !arguments.no_repeat,
            limit_seconds: f64::from(arguments.limit),
            journals: arguments.journals.clone(),
            folder: folder.clone(),
            publish: arguments.publish.clone(),
        });
    }
    let archive = if arguments.from.is_empty() {
        let layout = Layout::discover()?;
        let program = layout.private("keel-workload")?;
        let known = keel_workloads::list(&program).map_err(anyhow::Error::msg)?;
        if arguments.list {
            output::print(&listing(&known))?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(output) = arguments.output.as_ref().filter(|output| output.exists()) {
            bail!(
                "{} exists, and results are never overwritten: choose another name",
                output.display()
            );
        }
        let workloads = choose(&arguments.workloads, &known)?;
        let specs = keel_allocators::requested(&arguments.allocators, &arguments.single);
        let contestants = contestants::choose(&specs, &layout, &workloads)?;
        let bench = Bench { program, contestants, workloads, runs: arguments.runs.unwrap_or(RUNS) };
        measure(&bench, &layout, &arguments.commit)?
    } else {
        archive::read_all(&arguments.from)?
    };
    if archive.samples.is_empty() && archive.stopped {
        eprintln!("keel: stopped before the first run was complete; there are no results");
        return Ok(ExitCode::from(130));
    }
    keep(&arguments, &archive)?;
    show(&arguments, &archive)?;
    Ok(if archive.stopped { ExitCode::from(130) } else { ExitCode::SUCCESS })
}

fn listing(known: &[Workload]) -> String {
    let suite = |workload: &Workload| match workload.suite {
        Suite::Latency => "latency",
        Suite::Throughput => "throughput",
    };
    known.iter().map(|one| format!("{:<20} {:<12} {}\n", one.name, suite(one), one.about)).collect()
}

fn choose(names: &[String], known: &[Workload]) -> Result<Vec<Workload>> {
    let mut chosen: Vec<Workload> = Vec::new();
    for name in names {
        let fits = |one: &&Workload| match name.as_str() {
            "all" => true,
            "latency" => one.suite == Suite::Latency,
            "throughput" => one.suite == Suite::Throughput,
            _ => one.name == *name,
        };
        let new: Vec<&Workload> =
            known.iter().filter(fits).filter(|one| !chosen.contains(one)).collect();
        if new.is_empty() && !known.iter().any(|one| fits(&one)) {
            let names: Vec<&str> = known.iter().map(|one| one.name.as_str()).collect();
            bail!(
                "there is no workload `{name}`; the workloads are all, latency, throughput, {}",
                names.join(", ")
            );
        }
        chosen.extend(new.into_iter().cloned());
    }
    Ok(chosen)
}

fn measure(bench: &Bench, layout: &Layout, commit: &str) -> Result<Archive> {
    let mut archive = Archive::begin(bench, &layout.private("keel-player")?, commit);
    let stop = interrupt::stop_requested();
    let total = bench.turns();
    let bar = progress::bar(total as u64, "runs");
    let terminal = std::io::stderr().is_terminal();
    let mut shuffler = rand::rngs::SmallRng::from_os_rng();
    let mut done = 0;
    archive.samples = bench.run(
        |order| order.shuffle(&mut shuffler),
        |sample| {
            done += 1;
            bar.set_message(format!("{} on {}", sample.workload, sample.allocator));
            bar.inc(1);
            if let Some(line) = line_of(sample, done, total, terminal) {
                bar.suspend(|| eprintln!("{line}"));
            }
        },
        stop,
    );
    bar.finish_and_clear();
    archive.stopped = stop.load(Ordering::Relaxed);
    Ok(archive)
}

/// A line for each failed run, and if there is no bar, for every 50th run.
fn line_of(sample: &Sample, done: usize, total: usize, terminal: bool) -> Option<String> {
    match &sample.outcome {
        Outcome::Failed(reason) => {
            Some(format!("keel: {} on {} failed: {reason}", sample.workload, sample.allocator))
        }
        Outcome::Measured(_) if !terminal && (done.is_multiple_of(50) || done == total) => {
            Some(format!("bench: {done} of {total} runs"))
        }
        Outcome::Measured(_) => None,
    }
}

fn keep(arguments: &Arguments, archive: &Archive) -> Result<()> {
    if let Some(output) = &arguments.output {
        archive.write(output)?;
    }
    if let Some(folder) = &arguments.archive {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let path = archive::free_name(folder, archive.suite_name())?;
        archive.write(&path)?;
        let text = tables::markdown(archive, true)?;
        let table = path.with_extension("md");
        std::fs::write(&table, text)
            .with_context(|| format!("cannot write {}", table.display()))?;
        eprintln!("bench: samples in {}, tables in {}", path.display(), table.display());
    }
    Ok(())
}

fn show(arguments: &Arguments, archive: &Archive) -> Result<()> {
    let text = if arguments.json {
        serde_json::to_string_pretty(archive)? + "\n"
    } else {
        tables::text(archive, arguments.bars)?
    };
    output::print(&text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn workload(name: &str, suite: Suite) -> Workload {
        Workload { name: name.to_owned(), suite, about: String::new() }
    }

    #[test]
    fn suites_and_names_choose_workloads_once() {
        let known = [
            workload("lifo-64", Suite::Throughput),
            workload("free-large", Suite::Latency),
            workload("threads", Suite::Latency),
        ];
        let names = |words: &[&str]| -> Result<Vec<String>> {
            let words: Vec<String> = words.iter().map(|&name| name.to_owned()).collect();
            Ok(choose(&words, &known)?.into_iter().map(|one| one.name).collect())
        };
        assert_eq!(names(&["latency"]).unwrap(), ["free-large", "threads"]);
        assert_eq!(names(&["threads", "latency"]).unwrap(), ["threads", "free-large"]);
        assert_eq!(names(&["all"]).unwrap().len(), 3);
        assert!(names(&["lifo"]).unwrap_err().to_string().contains("no workload `lifo`"));
    }
}
