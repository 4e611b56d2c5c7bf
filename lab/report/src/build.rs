//! From a result folder to the page's facts and blocks.

use crate::contest::all_leaders;
use crate::encode::Block;
use crate::model::{AllocatorFacts, ClockFacts, Facts};
use crate::operations::{OPERATION_NAMES, Operations, WINDOW_NS, Wanted};
use crate::page::{self, Part};
use crate::pairs::{all_pairs, frame_spreads};
use crate::planes::{LIFETIME_STEPS, LIFETIME_STEPS_PER_OCTAVE, Lifetimes};
use crate::rows::{CountedRun, count_run};
use crate::statistics::{Spread, short};
use crate::summary::{OperationSummary, summarize, undisturbed};
use crate::tiles::{FINEST_COLUMNS, LATENCY_ROWS, LatencyScale, ROWS_PER_OCTAVE, Tiles};
use crate::verdict::{Contender, FLOOR, judge};
use crate::{ReportError, blocks, contest};
use keel_results::raw::OPERATIONS_FILE;
use keel_results::{AllocatorResult, Comparison, MemorySample, RESULTS_FILE, RUN, Run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How to build the page.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads that count; at least 1.
    pub threads: usize,
    /// Cells of all tiles together, at most; a cell costs about three bytes of the page.
    pub max_cells: usize,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Options { threads, max_cells: 2_500_000 }
    }
}

/// A finished page.
#[derive(Debug, Default)]
pub struct Report {
    /// The file's contents.
    pub html: String,
    /// Calls that its tiles count, over all allocators.
    pub calls: u64,
    /// Allocators whose calls are drawn.
    pub drawn: usize,
    /// Time columns of the tiles.
    pub columns: usize,
}

/// Fewer columns than this would not fill a screen.
const FEWEST_COLUMNS: usize = 1024;
/// Points of a memory curve.
const MEMORY_POINTS: usize = 1500;

/// Calls of each allocator, its slowest, that are looked up in the runs of all others.
const PROBED_CALLS: usize = 250;

/// Builds the page of one or several result folders, which it then switches between. `progress` is told of each
/// finished allocator: how many of how many.
///
/// Takes time linear in the rows of one run of each allocator, eight bytes of memory a row (sixteen where the replay
/// followed a schedule) and the tiles.
pub fn build(
    folders: &[PathBuf],
    options: Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Report, ReportError> {
    let comparisons = folders.iter().map(|folder| load(folder)).collect::<Result<Vec<_>, _>>()?;
    let total: usize = comparisons.iter().map(|comparison| comparison.allocators.len()).sum();
    let share = Options { max_cells: options.max_cells / folders.len().max(1), ..options };
    let (mut parts, mut report, mut done) = (Vec::new(), Report::default(), 0);
    for (number, (folder, comparison)) in folders.iter().zip(&comparisons).enumerate() {
        let counted = Counted::read(folder, comparison, share, &|one, _| progress(done + one, total))?;
        done += comparison.allocators.len();
        let prefix = if number == 0 { String::new() } else { format!("{}-", number + 1) };
        let part = counted.part(prefix, label(folder), share)?;
        report.calls += part.facts.allocators.iter().map(|one| one.calls).sum::<u64>();
        report.drawn += counted.runs.iter().filter(|run| run.is_some()).count();
        report.columns = counted.columns;
        parts.push(part);
    }
    report.html = page::assemble(&parts);
    Ok(report)
}

/// Reads a folder's summary and refuses what cannot be true.
pub fn load(folder: &Path) -> Result<Comparison, ReportError> {
    let mut comparison = Comparison::load(folder)?;
    check(folder, &comparison)?;
    contest::complete(&mut comparison, FLOOR);
    Ok(comparison)
}

/// What a folder is called where several are shown.
pub fn label(folder: &Path) -> String {
    let name = folder.file_name().or(folder.parent().and_then(Path::file_name)).unwrap_or_default();
    name.to_string_lossy().trim_end_matches(".comparison").to_owned()
}

fn check(folder: &Path, comparison: &Comparison) -> Result<(), ReportError> {
    let nonsense =
        |detail: &str| ReportError::Nonsense { path: folder.join(RESULTS_FILE), detail: detail.into() };
    if comparison.allocators.iter().all(|result| result.runs.is_empty()) {
        return Err(nonsense("holds no run of any allocator"));
    }
    if !(comparison.clock.ticks_per_ns.is_finite() && comparison.clock.ticks_per_ns > 0.0) {
        return Err(nonsense("the clock has no frequency (clock.ticks_per_ns)"));
    }
    Ok(())
}

/// Of the runs with raw rows the one with the median time inside calls: neither the luckiest nor the unluckiest.
pub fn drawn_run(result: &AllocatorResult) -> Option<usize> {
    let inside = |run: &Run| run.inside_ns.values().sum::<f64>();
    let mut kept: Vec<usize> = (0..result.runs.len()).filter(|run| result.runs[*run].raw.is_some()).collect();
    kept.sort_by(|a, b| inside(&result.runs[*a]).total_cmp(&inside(&result.runs[*b])));
    kept.get(kept.len().saturating_sub(1) / 2).copied()
}

/// One comparison with the drawn run of each allocator counted.
pub struct Counted<'a> {
    /// The comparison.
    pub comparison: &'a Comparison,
    /// The same without interrupted calls, if they are known.
    pub calm: Option<Comparison>,
    /// Which run of each allocator is drawn.
    pub drawn: Vec<Option<usize>>,
    /// It, counted; None without raw rows.
    pub runs: Vec<Option<CountedRun>>,
    /// What all runs share; None without raw rows.
    pub operations: Option<Operations>,
    /// Rows whose ticks are known in every run.
    pub probes: Vec<u64>,
    /// How long blocks lived, if the folder tells.
    pub lifetimes: Option<Lifetimes>,
    /// The time axis is `0..span_ns`.
    pub span_ns: u64,
    /// Time columns of the tiles; 0 without raw rows.
    pub columns: usize,
}

impl<'a> Counted<'a> {
    /// Without raw rows.
    pub fn figures(comparison: &'a Comparison) -> Counted<'a> {
        Counted {
            comparison,
            calm: undisturbed(comparison),
            drawn: comparison.allocators.iter().map(|_| None).collect(),
            runs: comparison.allocators.iter().map(|_| None).collect(),
            operations: None,
            probes: Vec::new(),
            lifetimes: None,
            span_ns: comparison.journal.duration_ns.max(1),
            columns: 0,
        }
    }

    /// Reads a folder's raw rows and counts every one.
    pub fn read(
        folder: &Path,
        comparison: &'a Comparison,
        options: Options,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Counted<'a>, ReportError> {
        let drawn: Vec<Option<usize>> = comparison.allocators.iter().map(drawn_run).collect();
        let probes = probes(comparison, &drawn);
        // What the results tell and what the rows tell are found beside each other.
        let (calm, operations) = std::thread::scope(|scope| {
            let calm = scope.spawn(|| undisturbed(comparison));
            let operations = read_operations(folder, comparison, &drawn);
            (calm.join().unwrap_or_default(), operations)
        });
        let operations = operations?;
        let (mut runs, mut lifetimes) = (comparison.allocators.iter().map(|_| None).collect(), None);
        if let Some(operations) = &operations {
            // The lifetimes are one more job beside the runs.
            let count = |index: usize| match comparison.allocators.get(index) {
                Some(result) => count_drawn(folder, comparison, result, drawn[index], operations, &probes)
                    .map(|run| Job::Run(Box::new(run))),
                None => Lifetimes::read(folder, operations).map(Job::Lifetimes),
            };
            let jobs = in_parallel(comparison.allocators.len() + 1, options.threads, progress, &count)?;
            runs = Vec::with_capacity(jobs.len());
            for job in jobs {
                match job {
                    Job::Run(run) => runs.push(*run),
                    Job::Lifetimes(found) => lifetimes = found,
                }
            }
        }
        let span_ns = operations.as_ref().map_or(comparison.journal.duration_ns, |rows| rows.span_ns).max(1);
        let columns = if operations.is_some() { columns_within(&runs, options.max_cells) } else { 0 };
        Ok(Counted { comparison, calm, drawn, runs, operations, probes, lifetimes, span_ns, columns })
    }
}

/// The facts of a comparison without its raw rows: every figure, no drawing.
pub fn figures_of(comparison: &Comparison) -> Facts {
    let counted = Counted::figures(comparison);
    let allocators = (0..comparison.allocators.len()).map(|index| counted.allocator(index, "").0).collect();
    counted.facts(allocators, String::new(), String::new())
}

enum Job {
    Run(Box<Option<CountedRun>>),
    Lifetimes(Option<Lifetimes>),
}

fn drawn_runs<'a>(
    comparison: &'a Comparison,
    drawn: &'a [Option<usize>],
) -> impl Iterator<Item = &'a Run> + 'a {
    comparison.allocators.iter().zip(drawn).filter_map(|(result, run)| Some(&result.runs[(*run)?]))
}

/// The rows of the slowest calls of each drawn run, rising.
fn probes(comparison: &Comparison, drawn: &[Option<usize>]) -> Vec<u64> {
    let slowest = |run: &Run| {
        let mut calls: Vec<(u32, u64)> = run.outliers.iter().map(|call| (call.ticks, call.row)).collect();
        calls.sort_unstable_by(|a, b| b.cmp(a));
        calls.truncate(PROBED_CALLS);
        calls.into_iter().map(|(_, row)| row)
    };
    let mut rows: Vec<u64> = drawn_runs(comparison, drawn).flat_map(slowest).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

fn read_operations(
    folder: &Path,
    comparison: &Comparison,
    drawn: &[Option<usize>],
) -> Result<Option<Operations>, ReportError> {
    if drawn.iter().all(Option::is_none) || !folder.join(OPERATIONS_FILE).exists() {
        return Ok(None);
    }
    let outliers = drawn_runs(comparison, drawn).flat_map(|run| &run.outliers);
    let mut rows: Vec<u64> = outliers.map(|outlier| outlier.row).collect();
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
fn in_parallel<T: Send>(
    count: usize,
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
    work: &(dyn Fn(usize) -> Result<T, ReportError> + Sync),
) -> Result<Vec<T>, ReportError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Mutex<Option<Result<T, ReportError>>>> = (0..count).map(|_| Mutex::new(None)).collect();
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
    // The scope ends only when every index has been worked on, so every slot is filled.
    results.into_iter().filter_map(|slot| slot.into_inner().ok().flatten()).collect()
}

/// The finest number of columns at which all tiles together stay within `max_cells`.
fn columns_within(counted: &[Option<CountedRun>], max_cells: usize) -> usize {
    let tiles = || counted.iter().flatten().flat_map(|run| &run.tiles);
    let fits = |halvings: u32| tiles().map(|one| one.cells_after(halvings)).sum::<usize>() <= max_cells;
    let most = (FINEST_COLUMNS / FEWEST_COLUMNS).ilog2();
    let halvings = (0..most).find(|halvings| fits(*halvings)).unwrap_or(most);
    FINEST_COLUMNS >> halvings
}

/// What the latency axis must span: the contenders' rows, or the floor's where nothing else is drawn.
fn row_range(comparison: &Comparison, counted: &[Option<CountedRun>]) -> [u16; 2] {
    let range_of = |floor: bool| {
        let drawn = comparison.allocators.iter().zip(counted).filter(|(one, _)| (one.name == FLOOR) == floor);
        let ranges = drawn.filter_map(|(_, run)| run.as_ref()).flat_map(|run| &run.tiles);
        ranges.filter_map(Tiles::row_range).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    };
    let (low, high) = range_of(false).or_else(|| range_of(true)).unwrap_or((0, 1));
    [low, high]
}

impl Counted<'_> {
    /// The page's part for this comparison. `prefix` begins the names of its blocks.
    fn part(&self, prefix: String, label: String, options: Options) -> Result<Part, ReportError> {
        let one = |index: usize| Ok(self.allocator(index, &prefix));
        let packed = in_parallel(self.runs.len(), options.threads, &|_, _| {}, &one)?;
        let (allocators, mut blocks): (Vec<AllocatorFacts>, Vec<Vec<Block>>) = packed.into_iter().unzip();
        blocks.push(blocks::shared(self, &prefix));
        let blocks = blocks.into_iter().flatten().collect();
        Ok(Part { facts: self.facts(allocators, prefix, label), blocks })
    }

    /// An operation's figures under an allocator; None if it has none.
    pub fn summary(&self, result: &AllocatorResult, operation: &str) -> Option<OperationSummary> {
        summarize(result, &self.comparison.clock).remove(operation)
    }

    /// Resident bytes of an allocator over journal time.
    pub fn resident(&self, index: usize) -> Vec<[f64; 2]> {
        let curve = |run| self.curve(run, self.runs[index].as_ref(), |sample| sample.resident);
        self.run(index).map_or(Vec::new(), curve)
    }

    /// The run that is drawn; where no raw rows were kept the first, for its memory.
    pub fn run(&self, index: usize) -> Option<&Run> {
        self.comparison.allocators[index].runs.get(self.drawn[index].unwrap_or(0))
    }

    fn allocator(&self, index: usize, prefix: &str) -> (AllocatorFacts, Vec<Block>) {
        let result = &self.comparison.allocators[index];
        let (run, counted) = (self.run(index), self.runs[index].as_ref());
        let mut facts = AllocatorFacts {
            name: result.name.clone(),
            version: result.version.clone(),
            floor: result.name == FLOOR,
            failure: result.failure.clone(),
            runs: result.runs.len(),
            drawn_run: if counted.is_some() { self.drawn[index].map_or(0, |run| run + 1) } else { 0 },
            operations: summarize(result, &self.comparison.clock),
            undisturbed: self.calm.as_ref().map_or_else(BTreeMap::new, |calm| {
                summarize(&calm.allocators[index], &self.comparison.clock)
            }),
            figures: figures(result),
            frames: frame_spreads(result),
            memory: run.map_or(Vec::new(), |run| self.curve(run, counted, |sample| sample.resident)),
            tiles: BTreeMap::new(),
            planes: BTreeMap::new(),
            outlier_count: 0,
            calls: 0,
        };
        let mut blocks = Vec::new();
        if let (Some(counted), Some(run)) = (counted, run) {
            blocks = blocks::of_run(self, counted, run, &format!("{prefix}{index}"), &mut facts);
        }
        (facts, blocks)
    }

    /// A memory curve in journal time, thinned to its highest points.
    fn curve(
        &self,
        run: &Run,
        counted: Option<&CountedRun>,
        value: fn(&MemorySample) -> u64,
    ) -> Vec<[f64; 2]> {
        let group = run.memory.len().div_ceil(MEMORY_POINTS).max(1);
        let highest =
            run.memory.chunks(group).filter_map(|part| part.iter().max_by_key(|sample| value(sample)));
        highest
            .map(|sample| [self.journal_time(sample.time, run, counted).round(), short(value(sample) as f64)])
            .collect()
    }

    /// The journal's time that the replay had reached at a time of its own.
    fn journal_time(&self, time: u64, run: &Run, counted: Option<&CountedRun>) -> f64 {
        let span = self.span_ns as f64;
        let Some(counted) = counted else {
            return (time as f64 / run.elapsed_ns.max(1) as f64 * span).min(span);
        };
        let times = &counted.column_times;
        let next = times.partition_point(|begin| *begin <= time).clamp(1, times.len() - 1);
        let (begin, end) = (times[next - 1], times[next]);
        let part = if end > begin { (time.saturating_sub(begin)) as f64 / (end - begin) as f64 } else { 1.0 };
        ((next - 1) as f64 + part.min(1.0)) / FINEST_COLUMNS as f64 * span
    }

    fn facts(&self, allocators: Vec<AllocatorFacts>, prefix: String, label: String) -> Facts {
        let comparison = self.comparison;
        let operations = self.operations.as_ref();
        let contenders: Vec<Contender<'_>> = allocators.iter().map(contender).collect();
        let verdict = judge(comparison, self.calm.as_ref(), &contenders);
        let mut journal = comparison.journal.clone();
        let frame_count = std::mem::take(&mut journal.frames).len();
        let occurs = |name: &&str| allocators.iter().any(|one| one.operations.contains_key(*name));
        let lifetimes = self.lifetimes.as_ref();
        Facts {
            prefix,
            format: comparison.version,
            system_calls: keel_results::SYSTEM_CALLS,
            label,
            keel_version: comparison.keel_version.clone(),
            started: comparison.started.clone(),
            machine: comparison.machine.clone(),
            journal,
            settings: comparison.settings.clone(),
            clock: clock(comparison),
            operations: OPERATION_NAMES.into_iter().filter(occurs).collect(),
            span_ns: self.span_ns,
            columns: self.columns,
            rows_per_octave: ROWS_PER_OCTAVE,
            row_range: row_range(comparison, &self.runs),
            latency_rows: LATENCY_ROWS,
            lanes: operations.map_or(Vec::new(), |rows| rows.threads.clone()),
            lane_columns: blocks::LANE_COLUMNS,
            windows: operations.map_or(0, Operations::windows),
            window_ns: WINDOW_NS,
            lateness: operations.is_some_and(|rows| !rows.due.is_empty()),
            probes: self.probes.len(),
            lifetimes: lifetimes.map(|found| [found.released, found.kept]),
            lifetime_steps: LIFETIME_STEPS,
            lifetime_steps_per_octave: LIFETIME_STEPS_PER_OCTAVE,
            curve_points_per_nine: crate::summary::CURVE_POINTS_PER_NINE as u32,
            frame_count,
            live: self.live(),
            leaders: all_leaders(comparison),
            calm_leaders: self.calm.as_ref().map(all_leaders).unwrap_or_default(),
            pairs: all_pairs(comparison),
            calm_pairs: self.calm.as_ref().map(all_pairs).unwrap_or_default(),
            allocators,
            verdict,
        }
    }

    /// The live bytes are the journal's, so the first run that sampled them tells them for all.
    pub fn live(&self) -> Vec<[f64; 2]> {
        let sampled = |run: &&Run| run.memory.iter().any(|sample| sample.live > 0);
        let runs = 0..self.comparison.allocators.len();
        let found = runs.filter_map(|index| Some((index, self.run(index).filter(sampled)?))).next();
        found.map_or(Vec::new(), |(index, run)| {
            self.curve(run, self.runs[index].as_ref(), |sample| sample.live)
        })
    }
}

fn contender(facts: &AllocatorFacts) -> Contender<'_> {
    Contender {
        name: &facts.name,
        operations: &facts.operations,
        undisturbed: &facts.undisturbed,
        figures: &facts.figures,
        runs: facts.runs,
    }
}

fn figures(result: &AllocatorResult) -> BTreeMap<&'static str, Spread> {
    type Figure = (&'static str, fn(&Run) -> u64);
    let of: [Figure; 8] = [
        ("peak", |run| run.peak_rss_bytes),
        ("minor_faults", |run| run.minor_faults),
        ("major_faults", |run| run.major_faults),
        ("elapsed", |run| run.elapsed_ns),
        ("cpu", |run| run.cpu_ns),
        ("waited", |run| run.waited_ns),
        ("voluntary_switches", |run| run.voluntary_switches),
        ("involuntary_switches", |run| run.involuntary_switches),
    ];
    let of_runs = |(name, value): Figure| {
        Some((name, Spread::of(result.runs.iter().map(|run| value(run) as f64))?, result.runs.len()))
    };
    let each = result.throughput.iter().map(|run| run.elapsed_ns as f64 / run.operations.max(1) as f64);
    let throughput = Spread::of(each).map(|spread| ("throughput", spread, result.throughput.len()));
    let intervals = result.intervals.get(RUN);
    let with = |(name, spread, runs): (&'static str, Spread, usize)| {
        (name, spread.with(intervals.and_then(|found| found.get(name)), runs))
    };
    of.into_iter().filter_map(of_runs).chain(throughput).map(with).collect()
}

fn clock(comparison: &Comparison) -> ClockFacts {
    let (pair, ticks_per_ns) = (&comparison.clock.empty_pair.0, comparison.clock.ticks_per_ns);
    let at = |quantile: f64| short(pair.value_at_quantile(quantile) as f64 / ticks_per_ns);
    let empty_pair = if pair.is_empty() { Vec::new() } else { [0.5, 0.99, 0.999].map(at).to_vec() };
    let step_ns = short(comparison.clock.step_ticks as f64 / ticks_per_ns);
    ClockFacts { name: comparison.clock.name.clone(), ticks_per_ns, step_ns, empty_pair }
}
