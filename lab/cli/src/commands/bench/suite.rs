//! `keel bench --suite`: whole programs on several allocators.

mod choice;
mod publish;

pub use publish::list as list_site;

use crate::format::counted;
use crate::layout::Layout;
use crate::{interrupt, output, progress, table};
use anyhow::{Context as _, Result};
use keel_results::{
    SUITE_VERSION, Suite, SuiteAllocator, SuiteHead, SuiteLog, SuiteMetric, SuiteOutcome,
};
use keel_workloads::suite::{Entrant, Progress, Runner, Session};
use rand::{RngCore as _, SeedableRng as _};
use std::io::IsTerminal as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The size of synthetic workloads in the short form.
const QUICK_SCALE: f64 = 0.25;
/// The rounds in which the calls of synthetic workloads are timed; those of patterns in one.
const TIMED_ROUNDS: u32 = 3;
const QUICK_TIMED_ROUNDS: u32 = 1;

/// What the command line asks for.
pub struct Request {
    /// Suites and single workloads; all if it is empty.
    pub suites: Vec<String>,
    /// Allocators; all if it is empty.
    pub specs: Vec<String>,
    /// Rounds in all.
    pub rounds: u32,
    /// The short form.
    pub quick: bool,
    /// Minutes after which no further workload is begun, from the second round on.
    pub minutes: u32,
    /// Whether disturbed runs are repeated.
    pub repeat: bool,
    /// The time limit of a run.
    pub limit_seconds: f64,
    /// Files of the suite `journals`.
    pub journals: Vec<PathBuf>,
    /// The folder of the results.
    pub folder: PathBuf,
    /// The folder of a site.
    pub publish: Option<PathBuf>,
}

/// Runs the suite. Exit code 130 if it was stopped, 1 if a run failed.
pub fn run(request: &Request) -> Result<ExitCode> {
    let layout = Layout::discover()?;
    let catalogue = choice::workloads(request, &layout)?;
    let entrants = choice::entrants(request, &layout)?;
    let mut head = SuiteHead {
        workloads: catalogue.cases.iter().map(|case| case.workload.clone()).collect(),
        left_out: catalogue.left_out,
        ..head(request)
    };
    head.allocators = described(&entrants, &layout)?;
    let mut log = SuiteLog::open(&request.folder, head)?;
    let scratch = tempfile::tempdir().context("cannot create a folder for the runs' files")?;
    let runner = runner(request, &layout, scratch.path())?;
    let session = Session {
        runner: &runner,
        cases: &catalogue.cases,
        entrants: &entrants,
        rounds: request.rounds,
        at_most: Duration::from_secs(60 * u64::from(request.minutes)),
    };
    let stopped = measure(&session, &mut log)?;
    write(&log)?;
    if let Some(site) = &request.publish {
        publish::publish(&request.folder, site)?;
    }
    output::print_text(&text(&log.suite))?;
    let page = log.folder().join("index.html");
    let runs = counted(log.suite.runs.len() as u64, "run");
    say!("suite: {runs}, page in {}", page.display());
    if stopped {
        say!("suite: stopped; the same command continues it");
        return Ok(ExitCode::from(130));
    }
    let failed = log.suite.runs.iter().any(|run| run.measured().is_none());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn head(request: &Request) -> SuiteHead {
    let started = std::time::SystemTime::now();
    SuiteHead {
        version: SUITE_VERSION,
        keel_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: keel_results::rfc3339(started),
        command: std::env::args().skip(1).collect(),
        machine: keel_results::machine(),
        load_before: std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned(),
        quick: request.quick,
        scale: if request.quick { QUICK_SCALE } else { 1.0 },
        limit_seconds: request.limit_seconds,
        seed: rand::rngs::StdRng::from_os_rng().next_u64() >> 11,
        ..SuiteHead::default()
    }
}

/// The allocators with their versions.
fn described(entrants: &[Entrant], layout: &Layout) -> Result<Vec<SuiteAllocator>> {
    let player = layout.private("keel-player")?;
    let setting = |(name, value): &(String, String)| format!("{name}={value}");
    Ok(entrants
        .iter()
        .map(|Entrant { allocator, .. }| SuiteAllocator {
            name: allocator.name.clone(),
            remark: allocator.remark.clone(),
            version: allocator.describe(&player).unwrap_or_default(),
            settings: allocator.environment.iter().map(setting).collect(),
        })
        .collect())
}

fn runner(request: &Request, layout: &Layout, scratch: &Path) -> Result<Runner> {
    let overseer = layout.private("keel-overseer")?;
    let tools = scratch.join("tools");
    let cannot = || format!("cannot prepare {}", scratch.display());
    std::fs::create_dir(&tools).with_context(cannot)?;
    std::os::unix::fs::symlink(overseer, tools.join("overseer")).with_context(cannot)?;
    // Servers that refuse to run as root run as another user, who must read their input.
    std::fs::set_permissions(scratch, std::fs::Permissions::from_mode(0o755))
        .with_context(cannot)?;
    Ok(Runner {
        folder: layout.folder("lib/keel"),
        keel: std::env::current_exe().context("cannot find the path of the running keel")?,
        scratch: scratch.to_path_buf(),
        scale: if request.quick { QUICK_SCALE } else { 1.0 },
        limit_seconds: request.limit_seconds,
        timed_rounds: if request.quick { QUICK_TIMED_ROUNDS } else { TIMED_ROUNDS },
        complete: !request.quick,
        repeat: request.repeat,
    })
}

/// Makes the missing runs. Returns whether it was stopped.
fn measure(session: &Session, log: &mut SuiteLog) -> Result<bool> {
    let stop = interrupt::stop_requested();
    let terminal = std::io::stderr().is_terminal();
    let bar = progress::estimated(session.total() as u64, "runs");
    let before = log.suite.runs.len();
    if before > 0 {
        say!("suite: continues after {}", counted(before as u64, "run"));
    }
    let report = |state: &Progress| {
        bar.set_position(state.done as u64);
        let left = format!("about {} min left", state.left.as_secs().div_ceil(60));
        bar.set_message(format!("{} on {}, {left}", state.run.workload, state.run.allocator));
        if let SuiteOutcome::Failed(reason) = &state.run.outcome {
            let line =
                format!("keel: {} on {} failed: {reason}", state.run.workload, state.run.allocator);
            bar.suspend(|| say!("{line}"));
        }
        if !terminal && (state.done.is_multiple_of(50) || state.done == state.total) {
            say!("suite: {} of {}, {left}", state.done, counted(state.total as u64, "run"));
        }
    };
    session.run(log, report, stop)?;
    bar.finish_and_clear();
    Ok(stop.load(Ordering::Relaxed))
}

/// The page and the tables, from all runs so far.
fn write(log: &SuiteLog) -> Result<()> {
    let (folder, suite) = (log.folder(), &log.suite);
    output::write_whole(&folder.join("index.html"), keel_report::suite_page(suite).as_bytes())?;
    output::write_whole(&folder.join("suite.md"), keel_report::suite_markdown(suite).as_bytes())?;
    let mut bytes = Vec::new();
    keel_export::suite_table(suite, &mut bytes)?;
    output::write_whole(&folder.join("runs.parquet"), &bytes)
}

/// The means, for the terminal.
fn text(suite: &Suite) -> String {
    let mut rows = vec![vec!["geometric mean of".to_owned()]];
    rows[0].extend(suite.head.allocators.iter().map(|one| one.name.clone()));
    for metric in SuiteMetric::ALL.into_iter().filter(|&metric| suite.has(metric)) {
        for group in suite.suites() {
            let all = suite.measured_workloads(group, metric);
            if suite.means(group, metric).iter().all(|(mean, _)| mean.is_none()) {
                continue;
            }
            let mut row = vec![format!("{}, {group}", metric.title())];
            row.extend(suite.means(group, metric).into_iter().map(|(mean, count)| match mean {
                None => "-".to_owned(),
                Some(mean) if count < all => format!("{mean:.2} of {count}/{all}"),
                Some(mean) => format!("{mean:.2}"),
            }));
            rows.push(row);
        }
    }
    format!("{}\n\n{}", keel_report::suite_headline(suite), table::aligned(&rows))
}
