//! `keel bench`: synthetic workloads on several allocators, in interleaved runs.

mod archive;
mod contestants;
mod suite;
mod tables;

use crate::layout::Layout;
use crate::{format, interrupt, output, progress};
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

/// Run benchmark programs on each allocator
///
/// Each run has its own process, and the allocators take turns.
///
/// Without --suite, the command runs two groups of small programs. `throughput` measures the time
/// of all calls together. `latency` measures the slowest calls of each kind. Each run of `latency`
/// also measures the noise of the machine, and the command subtracts this noise. Keel runs with
/// default settings (`keel`) and with KEEL_KEEPER=on (`keel+keeper`). In `latency` it also runs
/// with memory that is prepared at the start (`keel+warm`).
///
/// With --suite, the command runs whole programs. The suites are `synthetic` (modelled on
/// well-known allocator benchmarks), `patterns` (patterns of use), `real` (installed programs) and
/// `journals` (replays of journals). For each run it measures elapsed and processor time, memory,
/// page faults, context switches, system calls and the slowest calls.
///
/// The folder of -o receives a page (index.html), tables (suite.md), a Parquet file (runs.parquet)
/// and every run (runs.jsonl). To continue a suite that was stopped, repeat the command with the
/// same folder. `--suite --publish FOLDER` without -o runs nothing. It only rebuilds the web site
/// in FOLDER from the results in FOLDER.
///
/// Ctrl-C ends the benchmark with exit code 130. The complete runs are kept.
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
    /// What to run, separated by commas: names of workloads, the groups `throughput` and `latency`,
    /// or `all`. --list prints the names
    #[arg(default_value = "all", value_delimiter = ',')]
    workloads: Vec<String>,
    /// The allocators, separated by commas: names that `keel allocators` lists, keel+keeper,
    /// keel+warm, paths of libraries, folders of libraries, or `all`. `all` includes the libraries
    /// in the folder that the environment variable KEEL_BENCH_PEERS names [default: all]
    #[arg(short, long, value_delimiter = ',')]
    allocators: Vec<String>,
    /// One more allocator, with environment variables: [LABEL=]NAME[:VARIABLE=VALUE]..., such as
    /// keel:KEEL_KEEPER=off. LABEL is its name in the results. This option can be repeated. Without
    /// -a, only the allocators of this option are compared
    #[arg(long = "allocator", value_name = "SPEC")]
    single: Vec<String>,
    /// Runs of each workload on each allocator [default: 5; with --suite 3]
    #[arg(long, visible_alias = "rounds", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Run whole programs: suites (all, synthetic, patterns, real, journals) or single workloads
    /// (patterns/tree), separated by commas. `real` means all known programs that are installed
    /// [default: synthetic, patterns, some of `real`, and journals if --journal is given]
    #[arg(long, num_args = 0.., value_delimiter = ',', value_name = "SUITE", requires = "place")]
    suite: Option<Vec<String>>,
    /// With --suite: run fewer and smaller workloads, without the allocators that have one lock for
    /// all threads
    #[arg(long, requires = "suite")]
    quick: bool,
    /// With --suite: stop a run that takes longer than this, and record it as failed
    #[arg(long, requires = "suite", value_name = "SECONDS", default_value_t = 300,
        value_parser = clap::value_parser!(u32).range(1..=86_400))]
    limit: u32,
    /// With --suite: begin no further runs after this time. But every workload runs at least once,
    /// even if this takes longer [default: 80; with --quick 9]
    #[arg(long, requires = "suite", value_name = "MINUTES",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    minutes: Option<u32>,
    /// With --suite: keep disturbed runs, instead of repeating them (see `keel compare
    /// --no-repeat`)
    #[arg(long, requires = "suite")]
    no_repeat: bool,
    /// With --suite: a journal for the suite `journals`. This option can be repeated
    #[arg(long = "journal", requires = "suite", value_name = "FILE")]
    journals: Vec<PathBuf>,
    /// With --suite: also copy the results into this folder, a static web site. Its first page
    /// lists all results in it
    #[arg(long, requires = "suite", value_name = "FOLDER")]
    publish: Option<PathBuf>,
    /// Write every sample to this file, as JSON. An existing file is not overwritten. With --suite:
    /// the folder of the results
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write samples and tables to NAME.json and NAME.md in this folder. NAME is `throughput` or
    /// `latency`; or `bench` if workloads of both groups ran. If these files exist, the new names
    /// have numbers
    #[arg(long, value_name = "FOLDER")]
    archive: Option<PathBuf>,
    /// Run nothing. Read samples from these files and combine them
    #[arg(long, value_name = "FILE", num_args = 1..)]
    from: Vec<PathBuf>,
    /// The version under test (the output of `git describe`). It is stored with the samples
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
            output::print_text(&listing(&known))?;
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
        say!("keel: stopped before the first run was complete; there are no results");
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
                bar.suspend(|| say!("{line}"));
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
            Some(format!("bench: {done} of {}", format::counted(total as u64, "run")))
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
        say!("bench: samples in {}, tables in {}", path.display(), table.display());
    }
    Ok(())
}

fn show(arguments: &Arguments, archive: &Archive) -> Result<()> {
    let text = if arguments.json {
        serde_json::to_string_pretty(archive)? + "\n"
    } else {
        tables::text(archive, arguments.bars)?
    };
    output::print_text(&text)?;
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
