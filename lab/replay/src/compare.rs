//! A comparison of allocators on one journal.

mod instrument;
mod interference;
mod member;
mod notes;
mod operations;
mod partial;
mod rounds;
mod schedule;
mod session;

use crate::compile::{Compiled, compile_with};
use crate::{Error, Options, Source, Touch};
use interference::{Speed, Watched};
use keel_allocators::{Allocator, FLOOR};
use keel_plan::Eviction;
use keel_results::raw::{OPERATIONS_FILE, STACKS_FILE};
use keel_results::{AllocatorResult, Comparison, RESULTS_VERSION, Settings};
use operations::{OperationBatch, write_stacks};
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
    /// The options.
    pub options: Options,
    /// The player's executable.
    pub player: PathBuf,
    /// The result folder; it must not exist, or be empty.
    pub folder: PathBuf,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Set by another thread to stop the comparison.
    pub stop: &'a AtomicBool,
}

/// The progress of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The journal is being compiled: rows done, rows in all.
    Compiling(u64, u64),
    /// A run begins.
    Begins {
        /// Name of the allocator.
        allocator: &'a str,
        /// The run's index, from 0.
        position: u32,
        /// Runs planned so far; repeats and further rounds add to them.
        runs: u32,
        /// Operations in a run.
        rows: u64,
    },
    /// Operations of the run that are done.
    Done(u64),
    /// The run failed; the allocator is skipped from here on.
    Failed {
        /// Name of the allocator.
        allocator: &'a str,
        /// The reason.
        reason: &'a str,
    },
}

/// A finished comparison.
#[derive(Debug)]
pub struct Outcome {
    /// The contents of `results.json`.
    pub comparison: Comparison,
    /// Whether it was stopped before all runs were done.
    pub stopped: bool,
}

/// Compares the allocators and writes a result folder.
///
/// Everything is written into a temporary folder, which is renamed at the end, so that an existing
/// result folder is always complete. If `stop` is set, the runs finished by then are kept, with a
/// note; if there are none, no folder remains.
///
/// # Errors
/// Errors of the comparison as a whole: the journal, the memory, the folder. A failed allocator is
/// not an error.
pub fn compare(
    request: &Request<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, Error> {
    let mut comparison = described(request);
    if everyone_failed(&comparison) {
        let failed =
            comparison.allocators.iter().filter_map(|one| Some((&one.name, one.failure.as_ref()?)));
        let reasons: Vec<String> =
            failed.map(|(name, reason)| format!("{name}: {reason}")).collect();
        return Err(Error::NoneUsable(reasons.join("; ")));
    }
    let folder = Partial::create(&request.folder)?;
    let compiled = compile(request, &folder.path, progress)?;
    comparison.journal =
        keel_results::JournalFacts { name: request.name.clone(), ..compiled.facts.clone() };
    let mut session = Session::new(request, &compiled, &folder.path)?;
    let stopped = session.run_all(&mut comparison, progress)?;
    if stopped && comparison.allocators.iter().all(|allocator| allocator.runs.is_empty()) {
        return Err(Error::Stopped);
    }
    session.keep_rows(&mut comparison, 1)?;
    session.describe_instrument(&mut comparison);
    keel_results::conclude(&mut comparison, FLOOR);
    comparison.notes = session.notes(&comparison, stopped);
    comparison.save(&folder.path)?;
    folder.finish()?;
    Ok(Outcome { comparison, stopped })
}

/// The notes that depend on the measurements only, not on the plan.
pub fn notes_of_measurements(comparison: &Comparison) -> Vec<String> {
    notes::of_measurements(comparison)
}

/// Marks the runs whose processor was slower than in the best run of any round, if all rounds were
/// measured on one machine.
pub fn mark_slow_processors(comparison: &mut Comparison, is_one_machine: bool) {
    if !is_one_machine {
        return;
    }
    fn least<'a, T: Watched + 'a>(runs: impl Iterator<Item = &'a T>) -> Speed {
        runs.map(T::speed).fold([f64::INFINITY; 2], |least, own| {
            std::array::from_fn(|of| if own[of] > 0.0 { least[of].min(own[of]) } else { least[of] })
        })
    }
    let results = || comparison.allocators.iter();
    let clocked = least(results().flat_map(|one| &one.runs));
    let unclocked = least(results().flat_map(|one| &one.throughput));
    for result in &mut comparison.allocators {
        result.runs.iter_mut().for_each(|run| run.mark_slow(clocked));
        result.throughput.iter_mut().for_each(|run| run.mark_slow(unclocked));
    }
}

/// Whether no requested allocator is left; the floor alone is no comparison.
fn everyone_failed(comparison: &Comparison) -> bool {
    let mut others = comparison.allocators.iter().filter(|one| one.name != FLOOR).peekable();
    others.peek().is_some() && others.all(|one| one.failure.is_some())
}

fn described(request: &Request<'_>) -> Comparison {
    let Options { pace, evict, touch_timed, runs, max_runs, seed, serial, .. } = request.options;
    Comparison {
        version: RESULTS_VERSION,
        keel_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: keel_results::rfc3339(SystemTime::now()),
        machine: keel_results::machine(),
        settings: Settings {
            pace: pace.to_string(),
            evict_bytes: evict.most_bytes(),
            evict_recorded: matches!(evict, Eviction::Recorded(_)),
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

/// Under verification blocks are written outside of the calls, and not touched inside.
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

/// Compiles the plan and writes `operations.parquet`.
fn compile(
    request: &Request<'_>,
    folder: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Compiled, Error> {
    let metadata = request.source.metadata();
    let has_stacks = !metadata.stacks.is_empty();
    if has_stacks {
        write_stacks(&folder.join(STACKS_FILE), metadata)?;
    }
    let mut operations = OperationBatch::create(&folder.join(OPERATIONS_FILE), has_stacks)?;
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
