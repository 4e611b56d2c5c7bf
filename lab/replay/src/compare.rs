//! The whole comparison.

use crate::compile::{Compiled, Operated, compile_with};
use crate::digest::{Measured, count, digest, growing};
use crate::run::{Player, RunFailure};
use crate::{Error, Keep, Options, Pace, Source, Touch};
use keel_allocators::{Allocator, FLOOR};
use keel_measure::Frequency;
use keel_plan::{Orders, Results};
use keel_results::raw::{OPERATIONS_FILE, OperationRows, OperationWriter};
use keel_results::{AllocatorResult, Clock, Comparison, Histogram, RESULTS_VERSION, Run, Settings};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
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
        /// Runs in all.
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
    let folder = Partial::create(&request.folder)?;
    let mut comparison = described(request);
    let compiled = compile(request, &folder.path, progress)?;
    comparison.journal = keel_results::JournalFacts { name: request.name.clone(), ..compiled.facts.clone() };
    let mut session = Session::new(request, &compiled, &folder.path)?;
    let stopped = session.run_all(&mut comparison, progress)?;
    if stopped && comparison.allocators.iter().all(|allocator| allocator.runs.is_empty()) {
        return Err(Error::Stopped);
    }
    session.keep_rows(&mut comparison)?;
    comparison.clock = session.clock();
    comparison.notes = session.notes(&comparison, stopped);
    comparison.save(&folder.path)?;
    folder.finish()?;
    Ok(Outcome { comparison, stopped })
}

fn described(request: &Request<'_>) -> Comparison {
    let Options { pace, touch_timed, runs, seed, serial, .. } = request.options;
    Comparison {
        version: RESULTS_VERSION,
        keel_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: keel_measure::rfc3339(SystemTime::now()),
        machine: keel_measure::machine(),
        settings: Settings {
            pace: pace.to_string(),
            touch: touched(&request.options).name().to_owned(),
            touch_timed,
            runs,
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
    AllocatorResult { name: allocator.name.clone(), version, runs: Vec::new(), failure }
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

/// The runs of a comparison.
struct Session<'a> {
    request: &'a Request<'a>,
    compiled: &'a Compiled,
    folder: &'a Path,
    results: Results,
    player: Player,
    frequency: Frequency,
    empty_pairs: Histogram,
    clock_code: u32,
    interruptions_known: bool,
    /// For each allocator, the most calls of a run that returned no memory, and the row of the first.
    refused: Vec<(u64, u64)>,
}

impl<'a> Session<'a> {
    fn new(request: &'a Request<'a>, compiled: &'a Compiled, folder: &'a Path) -> Result<Session<'a>, Error> {
        let patience = request.options.patience + std::time::Duration::from_nanos(compiled.longest_pause_ns);
        Ok(Session {
            request,
            compiled,
            folder,
            results: Results::create(compiled.plan.header())?,
            player: Player { executable: request.player.clone(), patience },
            frequency: Frequency::default(),
            empty_pairs: growing(),
            clock_code: 0,
            interruptions_known: true,
            refused: vec![(0, 0); request.allocators.len()],
        })
    }

    /// Every run, in rounds of one run of each allocator, each round in an order of its own: so that what drifts (heat,
    /// other work on the machine) meets all alike. Returns whether it was stopped.
    fn run_all(
        &mut self,
        comparison: &mut Comparison,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<bool, Error> {
        let mut random = StdRng::seed_from_u64(self.request.options.seed);
        let mut order: Vec<usize> = (0..self.request.allocators.len()).collect();
        let runs = self.request.options.runs * order.len() as u32;
        let mut position = 0;
        for _ in 0..self.request.options.runs {
            order.shuffle(&mut random);
            for &index in &order {
                let result = &mut comparison.allocators[index];
                if result.failure.is_none() {
                    let (allocator, rows) = (&result.name, self.compiled.plan.header().rows);
                    progress(Progress::Begins { allocator, position, runs, rows });
                    match self.run(index, position, result.runs.len(), progress)? {
                        Ok(run) => result.runs.push(run),
                        Err(RunFailure::Stopped) => return Ok(true),
                        Err(RunFailure::Failed(reason)) => {
                            progress(Progress::Failed { allocator: &result.name, reason: &reason });
                            result.failure = Some(reason);
                        }
                    }
                }
                position += 1;
            }
        }
        Ok(false)
    }

    fn run(
        &mut self,
        index: usize,
        position: u32,
        number: usize,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Result<Run, RunFailure>, Error> {
        let allocator = &self.request.allocators[index];
        let Options { touch_timed, verify, keep, .. } = self.request.options;
        // The floor keeps no contents, so there is nothing to verify.
        let verify = verify && allocator.name != FLOOR;
        let touch = touched(&self.request.options) as u8;
        let orders = Orders { touch, touch_inside: touch_timed, verify };
        let played = self.player.play(
            allocator,
            &self.compiled.plan,
            &self.results,
            orders,
            self.request.stop,
            &mut |done| {
                progress(Progress::Done(done));
            },
        );
        let sampler = match played {
            Ok(sampler) => sampler,
            Err(failure) => return Ok(Err(failure)),
        };
        self.calibrate();
        let control = self.results.control();
        let refused = (control.refused.load(Relaxed), control.first_refused.load(Relaxed));
        self.refused[index] = self.refused[index].max(refused);
        let raw = (keep != Keep::None).then(|| format!("run-{}-{number}.parquet", allocator.name));
        let measured = Measured {
            plan: &self.compiled.plan,
            results: &self.results,
            sampler: &sampler,
            frequency: self.frequency,
        };
        let path = raw.as_ref().map(|name| self.folder.join(name));
        let run = digest(&measured, position, path.as_deref())?;
        Ok(Ok(Run { raw, ..run }))
    }

    /// Takes what the player told about the instrument.
    fn calibrate(&mut self) {
        let control = self.results.control();
        self.clock_code = control.clock.load(Relaxed);
        self.interruptions_known &= control.interruptions.load(Relaxed) == 1;
        self.frequency.add(
            (control.prepare_ticks.load(Relaxed), control.prepare_ns.load(Relaxed)),
            (control.end_ticks.load(Relaxed), control.end_ns.load(Relaxed)),
        );
        for ticks in self.results.empty_pairs() {
            count(&mut self.empty_pairs, u64::from(ticks.load(Relaxed)), 1);
        }
    }

    fn clock(&self) -> Clock {
        let name = if self.clock_code == 1 { "tsc" } else { "clock_monotonic" };
        Clock {
            name: name.to_owned(),
            ticks_per_ns: self.frequency.ticks_per_ns(),
            empty_pair: self.empty_pairs.clone(),
        }
    }

    /// Removes the rows of all runs but those that are to be kept.
    fn keep_rows(&self, comparison: &mut Comparison) -> Result<(), Error> {
        if self.request.options.keep != Keep::Median {
            return Ok(());
        }
        for allocator in &mut comparison.allocators {
            let kept = keel_measure::median_run(&allocator.runs);
            for (index, run) in allocator.runs.iter_mut().enumerate() {
                if Some(index) != kept
                    && let Some(name) = run.raw.take()
                {
                    let path = self.folder.join(name);
                    std::fs::remove_file(&path).map_err(Error::io(path))?;
                }
            }
        }
        Ok(())
    }

    /// What a reader of the numbers must know.
    fn notes(&self, comparison: &Comparison, stopped: bool) -> Vec<String> {
        let Options { pace, verify, serial, keep, .. } = self.request.options;
        let header = self.compiled.plan.header();
        let mut notes = Vec::new();
        if stopped {
            let done: usize = comparison.allocators.iter().map(|allocator| allocator.runs.len()).sum();
            notes.push(format!("Stopped early: {done} runs were finished, and only they are counted."));
        }
        if header.alive > comparison.machine.cpus {
            notes.push(format!(
                "{} threads were alive at once, on {} processors: waiting threads sleep, and calls that were preempted \
                 are marked as interrupted.",
                header.alive, comparison.machine.cpus
            ));
        }
        if pace == Pace::Max && header.threads > 1 && !serial {
            notes.push(format!(
                "At pace max threads run free, but none more than {} operations ahead of the slowest; memory over time \
                 is that of this order, not of the recorded one.",
                header.skew
            ));
        }
        if !self.interruptions_known {
            notes.push("This kernel or C library does not tell whether a call was interrupted.".to_owned());
        }
        for (allocator, (calls, row)) in comparison.allocators.iter().zip(&self.refused) {
            if *calls > 0 {
                notes.push(format!(
                    "{} returned NULL from {calls} calls of a run, first at row {row}; its numbers are of a \
                     program that does without those blocks.",
                    allocator.name
                ));
            }
        }
        if verify {
            notes.push(
                "Contents were verified, so fresh blocks were not touched inside the calls.".to_owned(),
            );
        }
        let foreign = self.compiled.facts.skipped.values().sum::<u64>();
        if foreign > 0 {
            notes.push(format!("{foreign} frees of blocks from before the recording were left out."));
        }
        if keep == Keep::Median && self.request.options.runs > 1 {
            notes.push(
                "The rows kept of each allocator are those of its middle run by total time inside calls."
                    .to_owned(),
            );
        }
        notes
    }
}

/// A result folder that is not yet complete; removed when dropped.
struct Partial {
    path: PathBuf,
    target: PathBuf,
    finished: bool,
}

impl Partial {
    fn create(target: &Path) -> Result<Partial, Error> {
        let mut path = target.as_os_str().to_owned();
        path.push(format!(".partial-{}", std::process::id()));
        let path = PathBuf::from(path);
        std::fs::create_dir_all(&path).map_err(Error::io(&path))?;
        Ok(Partial { path, target: target.to_path_buf(), finished: false })
    }

    fn finish(mut self) -> Result<(), Error> {
        // An empty folder gives way; one with anything in it does not.
        std::fs::rename(&self.path, &self.target).map_err(Error::io(&self.target))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            // Already on the way out with an error, which is the one to be told.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Operations on their way into their file.
struct OperationBatch {
    writer: OperationWriter,
    op: Vec<u8>,
    size: Vec<u64>,
    thread: Vec<u32>,
    frame: Vec<u32>,
    time: Vec<u64>,
    age: Vec<u32>,
}

impl OperationBatch {
    fn create(path: &Path) -> Result<OperationBatch, Error> {
        let writer = OperationWriter::create(path)?;
        let (op, size, thread, frame, time, age) = Default::default();
        Ok(OperationBatch { writer, op, size, thread, frame, time, age })
    }

    fn push(&mut self, operated: Operated) -> Result<(), Error> {
        self.op.push(operated.op);
        self.size.push(operated.size);
        self.thread.push(operated.thread);
        self.frame.push(operated.frame);
        self.time.push(operated.time);
        self.age.push(operated.age);
        if self.op.len() == 1 << 16 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let rows = OperationRows {
            op: &self.op,
            size: &self.size,
            thread: &self.thread,
            frame: &self.frame,
            time: &self.time,
        };
        self.writer.write_with_ages(rows, &self.age)?;
        self.op.clear();
        self.size.clear();
        self.thread.clear();
        self.frame.clear();
        self.time.clear();
        self.age.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        self.writer.finish()?;
        Ok(())
    }
}
