//! The facts that the page's scripts read, as JSON beside the binary blocks. The field names are
//! those that `page/*.js` uses.

use crate::counts::Lane;
use crate::encode::Block;
use crate::figures::{AllocatorFigures, Leaders, NINES};
use crate::verdict::{Hitch, PairFacts, PairPhrases, SlowCalls, Verdict};
use keel_results::{JournalFacts, Machine, PERCENTILES, Settings};
use serde::Serialize;
use std::collections::BTreeMap;

/// One comparison of the page.
pub struct Part {
    /// Its facts.
    pub facts: Facts,
    /// Its blocks.
    pub blocks: Vec<Block>,
}

/// Everything but the blocks.
#[derive(Debug, Serialize)]
pub struct Facts {
    /// Begins the names of this comparison's blocks: empty for the first comparison of a page.
    pub prefix: String,
    /// Name of the comparison among several.
    pub label: String,
    /// Version of Keel that measured.
    pub keel_version: String,
    /// Wall-clock start of the measurement; RFC 3339.
    pub started: String,
    /// The machine that measured.
    pub machine: Machine,
    /// The journal that was replayed. Its frame marks are in the block `frame-marks`.
    pub journal: JournalFacts,
    /// Settings of the replay.
    pub settings: Settings,
    /// The clock.
    pub clock: ClockFacts,
    /// Operations that occur, in the order of their switch.
    pub operations: Vec<&'static str>,
    /// The time axis is `0..span_ns` of journal time.
    pub span_ns: u64,
    /// Time columns of the tiles; 0 if no raw rows were kept.
    pub columns: usize,
    /// See [`crate::counts::ROWS_PER_OCTAVE`].
    pub rows_per_octave: u32,
    /// Lowest and highest latency row that any allocator but the floor uses.
    pub row_range: [u16; 2],
    /// Latency rows of a plane of sizes.
    pub latency_rows: usize,
    /// Threads, busiest first; the last one may stand for all further threads.
    pub lanes: Vec<Lane>,
    /// Columns of the block `lanes`.
    pub lane_columns: usize,
    /// Number of windows of `window_ns`, which stand for audio buffers; 0 if there are none.
    pub windows: usize,
    /// Length of a window.
    pub window_ns: u64,
    /// Whether the replay followed a schedule, so that blocks `lateness-<index>` exist.
    pub lateness: bool,
    /// Length of the blocks `probes-<index>`: calls whose latency is known under every allocator.
    pub probes: usize,
    /// Blocks freed, and blocks still live at the end; None if the results do not record it.
    pub lifetimes: Option<[u64; 2]>,
    /// Lifetime steps in the block `lifetimes`.
    pub lifetime_steps: usize,
    /// Lifetime steps in a doubling.
    pub lifetime_steps_per_octave: u32,
    /// The percentiles of tables and charts, in rising order.
    pub percentiles: [PercentileFacts; PERCENTILES.len()],
    /// Labels of the axis of percentiles: `[position in nines, text]`.
    pub nines: [(f64, &'static str); NINES.len()],
    /// Points of a percentile curve for each factor of ten in `1 - quantile`.
    pub curve_points_per_nine: u32,
    /// Number of frame marks; 0 hides the frames.
    pub frame_count: usize,
    /// One entry for each allocator, in the order of the comparison.
    pub allocators: Vec<AllocatorFacts>,
    /// Live bytes, `[journal time, bytes]`.
    pub live: Vec<[f64; 2]>,
    /// The allocators that may be lowest in each figure.
    pub leaders: Leaders,
    /// The same without interrupted calls; empty if they are not known.
    pub calm_leaders: Leaders,
    /// Each two allocators, figure by figure.
    pub pairs: Vec<PairFacts>,
    /// The same without interrupted calls; empty if they are not known.
    pub calm_pairs: Vec<PairFacts>,
    /// The sentences on a pair, with placeholders in braces.
    pub pair_phrases: PairPhrases,
    /// The opening of the page.
    pub verdict: Verdict,
    /// The slowest calls, described: at most two.
    pub hitches: Vec<Hitch>,
    /// The call sites with the most time over the budget; None if the journal had no stacks.
    pub call_sites: Option<CallSites>,
    /// The call sites that keep memory resident; None if the results do not have them.
    pub pinned: Option<PinnedFacts>,
    /// The tree of all call stacks, in the blocks `block-stacks` and `block-stack-names`; None if
    /// the journal had no stacks.
    pub stacks: Option<StackFacts>,
    /// Causes and verdicts of all slow calls, by the numbers in the blocks `outliers-<index>`.
    pub slow_calls: SlowCalls,
}

/// The call sites of the slow frames and calls.
#[derive(Debug, Serialize)]
pub struct CallSites {
    /// The time that the calls of a frame may take together, ns.
    pub budget_ns: f64,
    /// A longer call is slow, ns.
    pub slow_ns: f64,
    /// Number of all call sites.
    pub count: usize,
    /// The call sites with the largest values.
    pub rows: Vec<CallSite>,
}

/// A call site and its values.
#[derive(Debug, Serialize)]
pub struct CallSite {
    /// The calls, from the call site outwards: `function (file:line)`.
    pub calls: Vec<String>,
    /// For each allocator: calls, time in ns, time over the budget in ns, slow calls, calls with
    /// page faults, bytes; None if the rows of none of its runs were kept.
    pub values: Vec<Option<[u64; 6]>>,
    /// What the same calls cost with each allocator, in sentences.
    pub same_calls: String,
}

/// Resident memory at one moment, by call site.
#[derive(Clone, Debug, Serialize)]
pub struct PinnedFacts {
    /// `peak` or `end`.
    pub moment: String,
    /// Live, pinned and free bytes of each allocator; None if they were not read.
    pub totals: Vec<Option<[u64; 3]>>,
    /// Number of all call sites that pin memory.
    pub count: usize,
    /// The call sites with the most pinned bytes.
    pub rows: Vec<PinnedSite>,
}

/// A call site that pins memory.
#[derive(Clone, Debug, Serialize)]
pub struct PinnedSite {
    /// The calls, from the call site outwards: `function (file:line)`.
    pub calls: Vec<String>,
    /// Pinned bytes on each allocator; None if they were not read.
    pub bytes: Vec<Option<u64>>,
}

/// The tree of all call stacks.
#[derive(Debug, Serialize)]
pub struct StackFacts {
    /// Calls in the tree. Call 0 is the whole program.
    pub nodes: usize,
    /// Calls with small values that are not in the tree.
    pub left_out: usize,
    /// The parts of equal length into which the time axis is divided.
    pub parts: u32,
    /// Rows of values, each of a call and a part.
    pub rows: usize,
    /// The values of a row.
    pub columns: Vec<StackColumn>,
}

/// A value of the call stacks.
#[derive(Debug, Serialize)]
pub struct StackColumn {
    /// As in `keel blame`.
    pub name: &'static str,
    /// `count`, `bytes` or `duration` (ns).
    pub unit: &'static str,
    /// Index of the allocator; None for a property of the program.
    pub allocator: Option<usize>,
}

/// A percentile, as [`PERCENTILES`] defines it.
#[derive(Debug, Serialize)]
pub struct PercentileFacts {
    /// Its key in the facts: `p999`.
    pub column: &'static str,
    /// Its name on the page: `p99.9`.
    pub label: &'static str,
    /// Its position on the axis of percentiles: 3 for p99.9.
    pub nines: f64,
}

/// The clock of the measurement.
#[derive(Debug, Serialize)]
pub struct ClockFacts {
    /// `tsc` or `clock_monotonic`.
    pub name: String,
    /// Ticks per ns.
    pub ticks_per_ns: f64,
    /// The step of the clock, ns: the counters of some machines advance many ticks at a time.
    pub step_ns: f64,
    /// An empty pair of readings at p50, p99 and p99.9, ns; empty if not measured.
    pub empty_pair: Vec<f64>,
    /// See [`keel_results::Instrument::stores_in_flight_ns`].
    pub stores_in_flight: [f64; 2],
}

/// One allocator.
#[derive(Debug, Serialize)]
pub struct AllocatorFacts {
    /// Its figures.
    #[serde(flatten)]
    pub figures: AllocatorFigures,
    /// The run that is drawn, from 1; 0 if none is.
    pub median_run: usize,
    /// Resident bytes of the median run, `[journal time, bytes]`.
    pub memory: Vec<[f64; 2]>,
    /// Its blocks.
    #[serde(flatten)]
    pub blocks: RunBlocks,
}

/// The blocks of a median run.
#[derive(Debug, Default, Serialize)]
pub struct RunBlocks {
    /// Blocks of the tiles by operation.
    pub tiles: BTreeMap<&'static str, TileFacts>,
    /// Blocks of size and latency by operation.
    pub planes: BTreeMap<&'static str, CellFacts>,
    /// Number of slow calls in the block `outliers-<index>`.
    pub outlier_count: usize,
    /// Calls of the median run that the tiles hold.
    pub calls: u64,
}

/// One block of cells.
#[derive(Debug, Serialize)]
pub struct CellFacts {
    /// The id of its element.
    pub block: String,
    /// Number of its cells.
    pub cells: usize,
}

/// One block of tiles.
#[derive(Debug, Serialize)]
pub struct TileFacts {
    /// The id of its element.
    pub block: String,
    /// Number of its cells.
    pub cells: usize,
    /// Calls in all cells.
    pub calls: u64,
}
