//! From a result folder to the page's facts and blocks.

use crate::ReportError;
use crate::encode::{Block, Stream};
use crate::model::{AllocatorFacts, ClockFacts, Facts, TileFacts};
use crate::page;
use crate::rows::{CountedRun, OPERATION_NAMES, Operations, count_run};
use crate::statistics::{Spread, short};
use crate::summary::{Calls, clock_step_ticks, summarize};
use crate::tiles::{FINEST_COLUMNS, LatencyScale, ROWS_PER_OCTAVE, Tiles};
use crate::verdict::{Contender, FLOOR, judge};
use keel_results::raw::OPERATIONS_FILE;
use keel_results::{AllocatorResult, Comparison, MemorySample, RESULTS_FILE, Run};
use std::collections::BTreeMap;
use std::path::Path;
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
#[derive(Debug)]
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

/// Builds the page of a result folder. `progress` is told of each finished allocator: how many of how many.
///
/// Takes time linear in the rows of one run of each allocator, two bytes of memory a row and the tiles.
pub fn build(
    folder: &Path,
    options: Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Report, ReportError> {
    let comparison = Comparison::load(folder)?;
    check(folder, &comparison)?;
    let drawn: Vec<Option<usize>> = comparison.allocators.iter().map(drawn_run).collect();
    let operations = read_operations(folder, &comparison, &drawn)?;
    let counted = match &operations {
        Some(operations) => {
            let count = |index: usize| count_drawn(folder, &comparison, &drawn, operations, index);
            in_parallel(comparison.allocators.len(), options.threads, progress, &count)?
        }
        None => comparison.allocators.iter().map(|_| None).collect(),
    };
    let span_ns = operations.as_ref().map_or(comparison.journal.duration_ns, |rows| rows.span_ns).max(1);
    let columns = if operations.is_some() { columns_within(&counted, options.max_cells) } else { 0 };
    let picture = Picture {
        comparison: &comparison,
        drawn: &drawn,
        counted: &counted,
        operations: &operations,
        span_ns,
        columns,
    };
    let packed =
        in_parallel(counted.len(), options.threads, &|_, _| {}, &|index| Ok(picture.allocator(index)))?;
    let (allocators, mut blocks): (Vec<AllocatorFacts>, Vec<Vec<Block>>) = packed.into_iter().unzip();
    blocks.push(vec![frames_block(&comparison.journal.frames)]);
    let blocks: Vec<Block> = blocks.into_iter().flatten().collect();
    let (calls, drawn) =
        (allocators.iter().map(|one| one.calls).sum(), counted.iter().filter(|run| run.is_some()).count());
    let facts = picture.facts(allocators, row_range(&comparison, &counted));
    Ok(Report { html: page::assemble(&facts, &blocks), calls, drawn, columns })
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
fn drawn_run(result: &AllocatorResult) -> Option<usize> {
    let inside = |run: &Run| run.inside_ns.values().sum::<f64>();
    let mut kept: Vec<usize> = (0..result.runs.len()).filter(|run| result.runs[*run].raw.is_some()).collect();
    kept.sort_by(|a, b| inside(&result.runs[*a]).total_cmp(&inside(&result.runs[*b])));
    kept.get(kept.len().saturating_sub(1) / 2).copied()
}

fn read_operations(
    folder: &Path,
    comparison: &Comparison,
    drawn: &[Option<usize>],
) -> Result<Option<Operations>, ReportError> {
    if drawn.iter().all(Option::is_none) || !folder.join(OPERATIONS_FILE).exists() {
        return Ok(None);
    }
    let runs =
        comparison.allocators.iter().zip(drawn).filter_map(|(result, run)| Some(&result.runs[(*run)?]));
    let mut asked: Vec<u64> = runs.flat_map(|run| run.outliers.iter().map(|outlier| outlier.row)).collect();
    asked.sort_unstable();
    asked.dedup();
    Operations::read(folder, comparison.journal.duration_ns, &comparison.journal.frames, &asked).map(Some)
}

fn count_drawn(
    folder: &Path,
    comparison: &Comparison,
    drawn: &[Option<usize>],
    operations: &Operations,
    index: usize,
) -> Result<Option<CountedRun>, ReportError> {
    let run = drawn[index].map(|run| &comparison.allocators[index].runs[run]);
    let Some(raw) = run.and_then(|run| run.raw.as_ref()) else { return Ok(None) };
    let scale = LatencyScale::new(comparison.clock.ticks_per_ns);
    count_run(&folder.join(raw), operations, &scale).map(Some)
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
    let mut tiles: Vec<Tiles> = counted.iter().flatten().flat_map(|run| run.tiles.iter().cloned()).collect();
    let mut columns = FINEST_COLUMNS;
    while columns > FEWEST_COLUMNS && tiles.iter().map(Tiles::cells).sum::<usize>() > max_cells {
        tiles = tiles.iter().map(Tiles::halve).collect();
        columns /= 2;
    }
    columns
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

/// What all parts of the page are made from.
struct Picture<'a> {
    comparison: &'a Comparison,
    drawn: &'a [Option<usize>],
    counted: &'a [Option<CountedRun>],
    operations: &'a Option<Operations>,
    span_ns: u64,
    columns: usize,
}

impl Picture<'_> {
    /// The run that is drawn; where no raw rows were kept the first, for its memory.
    fn run(&self, index: usize) -> Option<&Run> {
        self.comparison.allocators[index].runs.get(self.drawn[index].unwrap_or(0))
    }

    fn allocator(&self, index: usize) -> (AllocatorFacts, Vec<Block>) {
        let result = &self.comparison.allocators[index];
        let (run, counted) = (self.run(index), self.counted[index].as_ref());
        let mut facts = AllocatorFacts {
            name: result.name.clone(),
            version: result.version.clone(),
            floor: result.name == FLOOR,
            failure: result.failure.clone(),
            runs: result.runs.len(),
            drawn_run: if counted.is_some() { self.drawn[index].map_or(0, |run| run + 1) } else { 0 },
            operations: summarize(result, self.comparison.clock.ticks_per_ns, Calls::All),
            undisturbed: summarize(result, self.comparison.clock.ticks_per_ns, Calls::Undisturbed),
            figures: figures(&result.runs),
            memory: run.map_or(Vec::new(), |run| self.curve(run, counted, |sample| sample.resident)),
            tiles: BTreeMap::new(),
            outlier_count: 0,
            calls: 0,
        };
        let mut blocks = Vec::new();
        if let (Some(counted), Some(run)) = (counted, run) {
            self.tile_blocks(index, counted, &mut facts, &mut blocks);
            let (outliers, count) = self.outliers_block(index, run);
            facts.outlier_count = count;
            blocks.push(outliers);
            blocks.push(self.frame_block(index, counted));
        }
        (facts, blocks)
    }

    fn tile_blocks(
        &self,
        index: usize,
        counted: &CountedRun,
        facts: &mut AllocatorFacts,
        blocks: &mut Vec<Block>,
    ) {
        for (kind, tiles) in counted.tiles.iter().enumerate().filter(|(_, tiles)| tiles.cells() > 0) {
            let mut tiles = tiles.clone();
            while tiles.columns() > self.columns {
                tiles = tiles.halve();
            }
            let name = OPERATION_NAMES[kind];
            let block = Block::new(format!("tiles-{index}-{name}"), &tiles.encode());
            facts.calls += tiles.calls();
            facts.tiles.insert(
                name,
                TileFacts { block: block.id.clone(), cells: tiles.cells(), calls: tiles.calls() },
            );
            blocks.push(block);
        }
    }

    /// Slow calls by rising time, column by column: times since the last, operation, size, thread, ticks, cause.
    fn outliers_block(&self, index: usize, run: &Run) -> (Block, usize) {
        let detail = |row| self.operations.as_ref().and_then(|operations| operations.detail(row));
        let mut found: Vec<_> =
            run.outliers.iter().filter_map(|outlier| Some((detail(outlier.row)?, outlier))).collect();
        found.sort_by_key(|(detail, _)| (detail.time, detail.row));
        let mut stream = Stream::default();
        let mut previous = 0;
        for (detail, _) in &found {
            stream.varint(detail.time - previous);
            previous = detail.time;
        }
        found.iter().for_each(|(detail, _)| stream.byte(detail.kind));
        found.iter().for_each(|(detail, _)| stream.varint(detail.size));
        found.iter().for_each(|(detail, _)| stream.varint(u64::from(detail.thread)));
        found.iter().for_each(|(_, outlier)| stream.varint(u64::from(outlier.ticks)));
        found.iter().for_each(|(_, outlier)| stream.byte(outlier.cause));
        (Block::new(format!("outliers-{index}"), &stream.finish()), found.len())
    }

    /// Nanoseconds inside calls in each frame, then the part of them in interrupted calls.
    fn frame_block(&self, index: usize, counted: &CountedRun) -> Block {
        let mut stream = Stream::default();
        for ticks in counted.frame_ticks.iter().chain(&counted.frame_interrupted_ticks) {
            stream.varint((*ticks as f64 / self.comparison.clock.ticks_per_ns).round() as u64);
        }
        Block::new(format!("frames-{index}"), &stream.finish())
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

    fn facts(&self, allocators: Vec<AllocatorFacts>, row_range: [u16; 2]) -> Facts {
        let comparison = self.comparison;
        let contenders: Vec<Contender<'_>> = allocators.iter().map(contender).collect();
        let verdict = judge(comparison, &contenders);
        let mut journal = comparison.journal.clone();
        let frame_count = std::mem::take(&mut journal.frames).len();
        let occurs = |name: &&str| allocators.iter().any(|one| one.operations.contains_key(*name));
        Facts {
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
            row_range,
            curve_points_per_nine: crate::summary::CURVE_POINTS_PER_NINE as u32,
            frame_count,
            live: self.live(),
            allocators,
            verdict,
        }
    }

    /// The live bytes are the journal's, so the first run that sampled them tells them for all.
    fn live(&self) -> Vec<[f64; 2]> {
        let sampled = |run: &&Run| run.memory.iter().any(|sample| sample.live > 0);
        let runs = 0..self.comparison.allocators.len();
        let found = runs.filter_map(|index| Some((index, self.run(index).filter(sampled)?))).next();
        found.map_or(Vec::new(), |(index, run)| {
            self.curve(run, self.counted[index].as_ref(), |sample| sample.live)
        })
    }
}

fn contender(facts: &AllocatorFacts) -> Contender<'_> {
    Contender {
        name: &facts.name,
        operations: &facts.operations,
        undisturbed: &facts.undisturbed,
        peak_bytes: facts.figures.get("peak").copied(),
        runs: facts.runs,
    }
}

fn figures(runs: &[Run]) -> BTreeMap<&'static str, Spread> {
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
    of.into_iter()
        .filter_map(|(name, value)| Some((name, Spread::of(runs.iter().map(|run| value(run) as f64))?)))
        .collect()
}

fn clock(comparison: &Comparison) -> ClockFacts {
    let (pair, ticks_per_ns) = (&comparison.clock.empty_pair.0, comparison.clock.ticks_per_ns);
    let at = |quantile: f64| short(pair.value_at_quantile(quantile) as f64 / ticks_per_ns);
    let empty_pair = if pair.is_empty() { Vec::new() } else { [0.5, 0.99, 0.999].map(at).to_vec() };
    let step_ns = short(clock_step_ticks(comparison) as f64 / ticks_per_ns);
    ClockFacts { name: comparison.clock.name.clone(), ticks_per_ns, step_ns, empty_pair }
}

fn frames_block(frames: &[u64]) -> Block {
    let mut stream = Stream::default();
    let mut previous = 0;
    for mark in frames {
        stream.varint(mark.saturating_sub(previous));
        previous = previous.max(*mark);
    }
    Block::new("frame-marks".into(), &stream.finish())
}
