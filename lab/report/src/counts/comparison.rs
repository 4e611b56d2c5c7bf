//! One comparison, counted: the median run of each allocator, and what all runs share.

use super::operations::{Detail, Operations, Wanted};
use super::planes::Lifetimes;
use super::run::{CountedRun, count_run};
use super::tiles::{FINEST_COLUMNS, LatencyScale};
use crate::error::ReportError;
use crate::figures::{Matters, OperationSummary, median_run, short, summarize, undisturbed};
use keel_results::raw::OPERATIONS_FILE;
use keel_results::{AllocatorResult, Comparison, MemorySample, Outlier, Run};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How to count, and how many cells to keep.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads that count; at least 1.
    pub threads: usize,
    /// Most cells of all tiles together; a cell takes about three bytes of the page.
    pub max_cells: usize,
    /// The differences that the advice considers.
    pub matters: Matters,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Options { threads, max_cells: 2_500_000, matters: Matters::default() }
    }
}

/// Fewer columns than this would not fill a screen.
const FEWEST_COLUMNS: usize = 1024;
/// Points of a memory curve.
const MEMORY_POINTS: usize = 1500;
/// The slowest calls of each allocator that are looked up in the runs of all others.
const PROBED_CALLS: usize = 250;

/// One comparison with the median run of each allocator counted.
pub struct Counted<'a> {
    /// The comparison.
    pub comparison: &'a Comparison,
    /// The same without interrupted calls, if they are known.
    pub calm: Option<Comparison>,
    /// Which run of each allocator is drawn.
    pub drawn: Vec<Option<usize>>,
    /// The median runs, counted; None without raw rows.
    pub runs: Vec<Option<CountedRun>>,
    /// What all runs share; None without raw rows.
    pub operations: Option<Operations>,
    /// The calls that the page describes, of any run.
    pub described: Vec<Described>,
    /// Rows whose ticks are known in every run.
    pub probes: Vec<u64>,
    /// Blocks by size and lifetime, if the folder records lifetimes.
    pub lifetimes: Option<Lifetimes>,
    /// The time axis is `0..span_ns`.
    pub span_ns: u64,
    /// Time columns of the tiles; 0 without raw rows.
    pub columns: usize,
}

/// A call of any run that the page describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// Index of the allocator.
    pub allocator: usize,
    /// Index of the run.
    pub run: usize,
    /// The row of the operation.
    pub row: u64,
}

impl<'a> Counted<'a> {
    /// A comparison without its raw rows.
    pub fn figures(comparison: &'a Comparison) -> Counted<'a> {
        Counted {
            comparison,
            calm: undisturbed(comparison),
            drawn: comparison.allocators.iter().map(|_| None).collect(),
            runs: comparison.allocators.iter().map(|_| None).collect(),
            operations: None,
            described: Vec::new(),
            probes: Vec::new(),
            lifetimes: None,
            span_ns: comparison.journal.duration_ns.max(1),
            columns: 0,
        }
    }

    /// Reads the raw rows of a folder and counts every row. Besides the slow calls of the median
    /// runs, the `described` calls are kept. `progress` gets the number of finished allocators and
    /// their total.
    pub fn read(
        folder: &Path,
        comparison: &'a Comparison,
        options: Options,
        described: Vec<Described>,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Counted<'a>, ReportError> {
        let drawn: Vec<Option<usize>> = comparison.allocators.iter().map(median_run).collect();
        let rows: Vec<u64> = described.iter().map(|call| call.row).collect();
        let probes = probes(comparison, &drawn, &rows);
        let (calm, operations) = std::thread::scope(|scope| {
            let calm = scope.spawn(|| undisturbed(comparison));
            let operations = read_operations(folder, comparison, &drawn, &rows);
            (calm.join().unwrap_or_default(), operations)
        });
        let operations = operations?;
        let (mut runs, mut lifetimes) =
            (comparison.allocators.iter().map(|_| None).collect(), None);
        if let Some(operations) = &operations {
            // The lifetimes are one more job beside the runs.
            let count = |index: usize| match comparison.allocators.get(index) {
                Some(result) => {
                    count_drawn(folder, comparison, result, drawn[index], operations, &probes)
                        .map(|run| Job::Run(Box::new(run)))
                }
                None => Lifetimes::read(folder, operations).map(Job::Lifetimes),
            };
            let jobs =
                in_parallel(comparison.allocators.len() + 1, options.threads, progress, &count)?;
            runs = Vec::with_capacity(jobs.len());
            for job in jobs {
                match job {
                    Job::Run(run) => runs.push(*run),
                    Job::Lifetimes(found) => lifetimes = found,
                }
            }
        }
        let span_ns =
            operations.as_ref().map_or(comparison.journal.duration_ns, |rows| rows.span_ns).max(1);
        let columns =
            if operations.is_some() { columns_within(&runs, options.max_cells) } else { 0 };
        Ok(Counted {
            comparison,
            calm,
            drawn,
            runs,
            operations,
            described,
            probes,
            lifetimes,
            span_ns,
            columns,
        })
    }

    /// The figures of an operation under an allocator; None if it has no such call.
    pub fn summary(&self, result: &AllocatorResult, operation: &str) -> Option<OperationSummary> {
        summarize(result, &self.comparison.clock).remove(operation)
    }

    /// The run that is drawn; without raw rows the first run, for its memory curve.
    pub fn run(&self, index: usize) -> Option<&Run> {
        self.comparison.allocators[index].runs.get(self.drawn[index].unwrap_or(0))
    }

    /// The slow calls of the median run, and the described calls of other runs, by rising time;
    /// empty without raw rows.
    pub fn slow_calls(&self, index: usize) -> Vec<(&Detail, &Outlier)> {
        let (Some(run), Some(operations)) = (self.run(index), &self.operations) else {
            return Vec::new();
        };
        let is_elsewhere =
            |call: &&Described| call.allocator == index && Some(call.run) != self.drawn[index];
        let described = self.described.iter().filter(is_elsewhere);
        let elsewhere = described.filter_map(|call| {
            let run = self.comparison.allocators[index].runs.get(call.run)?;
            let same = run.outliers.iter().filter(|outlier| outlier.row == call.row);
            same.max_by_key(|outlier| outlier.ticks)
        });
        let outliers = run.outliers.iter().chain(elsewhere);
        let mut found: Vec<(&Detail, &Outlier)> = outliers
            .filter_map(|outlier| Some((operations.detail(outlier.row)?, outlier)))
            .collect();
        found.sort_by_key(|(detail, _)| (detail.time, detail.row));
        found
    }

    /// The index in `probes` of a row.
    pub fn probe(&self, row: u64) -> Option<usize> {
        self.probes.binary_search(&row).ok()
    }

    /// Resident bytes of an allocator over journal time: `[time, bytes]`.
    pub fn resident(&self, index: usize) -> Vec<[f64; 2]> {
        let curve = |run| self.curve(run, self.runs[index].as_ref(), |sample| sample.resident);
        self.run(index).map_or(Vec::new(), curve)
    }

    /// Live bytes over journal time: `[time, bytes]`. They are a property of the journal, so the
    /// first run that sampled them stands for all.
    pub fn live(&self) -> Vec<[f64; 2]> {
        let sampled = |run: &&Run| run.memory.iter().any(|sample| sample.live > 0);
        let runs = 0..self.comparison.allocators.len();
        let found = runs.filter_map(|index| Some((index, self.run(index).filter(sampled)?))).next();
        found.map_or(Vec::new(), |(index, run)| {
            self.curve(run, self.runs[index].as_ref(), |sample| sample.live)
        })
    }

    /// A memory curve in journal time, thinned to its highest points.
    fn curve(
        &self,
        run: &Run,
        counted: Option<&CountedRun>,
        value: fn(&MemorySample) -> u64,
    ) -> Vec<[f64; 2]> {
        let group = run.memory.len().div_ceil(MEMORY_POINTS).max(1);
        let highest = run
            .memory
            .chunks(group)
            .filter_map(|part| part.iter().max_by_key(|sample| value(sample)));
        highest
            .map(|sample| {
                [self.journal_time(sample.time, run, counted).round(), short(value(sample) as f64)]
            })
            .collect()
    }

    /// The journal time that the replay had reached at `time` ns since the start of the run.
    fn journal_time(&self, time: u64, run: &Run, counted: Option<&CountedRun>) -> f64 {
        let span = self.span_ns as f64;
        let Some(counted) = counted else {
            return (time as f64 / run.elapsed_ns.max(1) as f64 * span).min(span);
        };
        let times = &counted.column_times;
        let next = times.partition_point(|begin| *begin <= time).clamp(1, times.len() - 1);
        let (begin, end) = (times[next - 1], times[next]);
        let part = if end > begin {
            (time.saturating_sub(begin)) as f64 / (end - begin) as f64
        } else {
            1.0
        };
        ((next - 1) as f64 + part.min(1.0)) / FINEST_COLUMNS as f64 * span
    }
}

enum Job {
    Run(Box<Option<CountedRun>>),
    Lifetimes(Option<Lifetimes>),
}

fn median_runs<'a>(
    comparison: &'a Comparison,
    drawn: &'a [Option<usize>],
) -> impl Iterator<Item = &'a Run> + 'a {
    comparison.allocators.iter().zip(drawn).filter_map(|(result, run)| Some(&result.runs[(*run)?]))
}

/// The rows of the slowest calls of each median run and the described rows, rising.
fn probes(comparison: &Comparison, drawn: &[Option<usize>], described: &[u64]) -> Vec<u64> {
    let slowest = |run: &Run| {
        let mut calls: Vec<(u32, u64)> =
            run.outliers.iter().map(|call| (call.ticks, call.row)).collect();
        calls.sort_unstable_by(|a, b| b.cmp(a));
        calls.truncate(PROBED_CALLS);
        calls.into_iter().map(|(_, row)| row)
    };
    let mut rows: Vec<u64> = median_runs(comparison, drawn).flat_map(slowest).collect();
    rows.extend(described);
    rows.sort_unstable();
    rows.dedup();
    rows
}

fn read_operations(
    folder: &Path,
    comparison: &Comparison,
    drawn: &[Option<usize>],
    described: &[u64],
) -> Result<Option<Operations>, ReportError> {
    if drawn.iter().all(Option::is_none) || !folder.join(OPERATIONS_FILE).exists() {
        return Ok(None);
    }
    let outliers = median_runs(comparison, drawn).flat_map(|run| &run.outliers);
    let mut rows: Vec<u64> =
        outliers.map(|outlier| outlier.row).chain(described.to_vec()).collect();
    rows.sort_unstable();
    rows.dedup();
    let wanted = Wanted {
        span_ns: comparison.journal.duration_ns,
        frames: &comparison.journal.frames,
        rows: &rows,
        pace: &comparison.settings.pace,
    };
    Operations::read(folder, &wanted).map(Some)
}

fn count_drawn(
    folder: &Path,
    comparison: &Comparison,
    result: &AllocatorResult,
    drawn: Option<usize>,
    operations: &Operations,
    probes: &[u64],
) -> Result<Option<CountedRun>, ReportError> {
    let run = drawn.map(|run| &result.runs[run]);
    let Some(raw) = run.and_then(|run| run.raw.as_ref()) else { return Ok(None) };
    let scale = LatencyScale::new(comparison.clock.ticks_per_ns);
    count_run(&folder.join(raw), operations, &scale, probes).map(Some)
}

/// Runs `work` for `0..count` on up to `threads` threads; the results in order, or the first error.
pub fn in_parallel<T: Send>(
    count: usize,
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
    work: &(dyn Fn(usize) -> Result<T, ReportError> + Sync),
) -> Result<Vec<T>, ReportError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Mutex<Option<Result<T, ReportError>>>> =
        (0..count).map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(slot) = results.get(index) else { break };
                    let result = work(index);
                    if let Ok(mut slot) = slot.lock() {
                        *slot = Some(result);
                    }
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, count);
                }
            });
        }
    });
    // The scope ends after the last index, so every slot is filled.
    results.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect()
}

/// The finest number of columns at which all tiles together have at most `max_cells` cells.
fn columns_within(counted: &[Option<CountedRun>], max_cells: usize) -> usize {
    let tiles = || counted.iter().flatten().flat_map(|run| &run.tiles);
    let fits =
        |halvings: u32| tiles().map(|one| one.cells_after(halvings)).sum::<usize>() <= max_cells;
    let most = (FINEST_COLUMNS / FEWEST_COLUMNS).ilog2();
    let halvings = (0..most).find(|halvings| fits(*halvings)).unwrap_or(most);
    FINEST_COLUMNS >> halvings
}
