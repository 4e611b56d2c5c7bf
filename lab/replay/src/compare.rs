//! The whole comparison.

mod instrument;
mod interference;
mod notes;
mod operations;
mod partial;
mod rounds;
mod session;

use crate::compile::{Compiled, compile_with};
use crate::{Error, Options, Source, Touch};
use keel_allocators::{Allocator, FLOOR};
use keel_results::raw::OPERATIONS_FILE;
use keel_results::{AllocatorResult, Comparison, RESULTS_VERSION, Settings};
use operations::OperationBatch;
use partial::Partial;
use session::Session;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;

/// What to compare.
pub struct Request<'a> {
    /// The journal.
    pub source: &'a dyn Source,
    /// Its file name without folders.
    pub name: String,
    /// The allocators, in the order of tables.
    pub allocators: Vec<Allocator>,
    /// How.
    pub options: Options,
    /// The player's executable.
    pub player: PathBuf,
    /// The result folder; it must not exist, or be empty.
    pub folder: PathBuf,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Set from outside to stop.
    pub stop: &'a AtomicBool,
}

/// What is going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The journal is being compiled: so many of so many rows.
    Compiling(u64, u64),
    /// A run begins: of this allocator, the how-manieth run of all.
    Begins {
        /// Name of the allocator.
        allocator: &'a str,
        /// From 0.
        position: u32,
        /// Runs in all, as far as is known: more when some are made again, or medians have not settled.
        runs: u32,
        /// Operations in a run.
        rows: u64,
    },
    /// So many operations of the run are done.
    Done(u64),
    /// The run gave no result; the allocator is left out from here on.
    Failed {
        /// Name of the allocator.
        allocator: &'a str,
        /// Why.
        reason: &'a str,
    },
}

/// A comparison that was written.
#[derive(Debug)]
pub struct Outcome {
    /// What `results.json` holds.
    pub comparison: Comparison,
    /// Whether it was stopped before all runs were done.
    pub stopped: bool,
}

/// Compares, and leaves a result folder.
///
/// All is written into a folder beside the one asked for and renamed at the end, so that the latter is complete
/// whenever it exists. If `stop` is set, the runs finished by then are kept, and a note says so; if there are
/// none, nothing is left.
///
/// # Errors
/// What concerns the comparison as a whole: the journal, the memory, the folder. An allocator that fails is an outcome.
pub fn compare(request: &Request<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Outcome, Error> {
    let mut comparison = described(request);
    if everyone_failed(&comparison) {
        let told = comparison.allocators.iter().filter_map(|one| Some((&one.name, one.failure.as_ref()?)));
        let reasons: Vec<String> = told.map(|(name, reason)| format!("{name}: {reason}")).collect();
        return Err(Error::NoneUsable(reasons.join("; ")));
    }
    let folder = Partial::create(&request.folder)?;
    let compiled = compile(request, &folder.path, progress)?;
    comparison.journal = keel_results::JournalFacts { name: request.name.clone(), ..compiled.facts.clone() };
    let mut session = Session::new(request, &compiled, &folder.path)?;
    let stopped = session.run_all(&mut comparison, progress)?;
    if stopped && comparison.allocators.iter().all(|allocator| allocator.runs.is_empty()) {
        return Err(Error::Stopped);
    }
    session.keep_rows(&mut comparison)?;
    session.describe_instrument(&mut comparison);
    keel_results::conclude(&mut comparison, FLOOR);
    comparison.notes = session.notes(&comparison, stopped);
    comparison.save(&folder.path)?;
    folder.finish()?;
    Ok(Outcome { comparison, stopped })
}

/// Of the allocators that were asked for none is left; the floor alone tells nothing.
fn everyone_failed(comparison: &Comparison) -> bool {
    let mut others = comparison.allocators.iter().filter(|one| one.name != FLOOR).peekable();
    others.peek().is_some() && others.all(|one| one.failure.is_some())
}

fn described(request: &Request<'_>) -> Comparison {
    let Options { pace, touch_timed, runs, max_runs, seed, serial, .. } = request.options;
    Comparison {
        version: RESULTS_VERSION,
        keel_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: keel_results::rfc3339(SystemTime::now()),
        machine: keel_results::machine(),
        settings: Settings {
            pace: pace.to_string(),
            touch: touched(&request.options).name().to_owned(),
            touch_timed,
            runs,
            max_runs: max_runs.max(runs),
            seed,
            serial,
            command: request.command.clone(),
        },
        allocators: request
            .allocators
            .iter()
            .map(|allocator| described_allocator(request, allocator))
            .collect(),
        ..Comparison::default()
    }
}

/// Under verification all of a block is written outside of the calls, and inside nothing.
fn touched(options: &Options) -> Touch {
    if options.verify { Touch::None } else { options.touch }
}

fn described_allocator(request: &Request<'_>, allocator: &Allocator) -> AllocatorResult {
    let (version, failure) = match allocator.describe(&request.player) {
        Ok(version) => (version, None),
        Err(reason) => (String::new(), Some(reason)),
    };
    let environment = allocator.environment.clone();
    AllocatorResult {
        name: allocator.name.clone(),
        remark: allocator.remark.clone(),
        version,
        environment,
        failure,
        ..AllocatorResult::default()
    }
}

/// Compiles the plan and writes `operations.parquet` on the way.
fn compile(
    request: &Request<'_>,
    folder: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Compiled, Error> {
    let mut operations = OperationBatch::create(&folder.join(OPERATIONS_FILE))?;
    let compiled = compile_with(
        request.source,
        &request.options,
        &mut |operated| {
            if request.stop.load(Relaxed) { Err(Error::Stopped) } else { operations.push(operated) }
        },
        &mut |done, total| progress(Progress::Compiling(done, total)),
    )?;
    operations.finish()?;
    Ok(compiled)
}
