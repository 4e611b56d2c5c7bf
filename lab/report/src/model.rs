//! The facts that the page's scripts read: JSON beside the binary blocks. Field by field what `page/*.js` names.

use crate::contest::Leaders;
use crate::operations::Lane;
use crate::pairs::PairFacts;
use crate::statistics::Spread;
use crate::summary::OperationSummary;
use crate::verdict::Verdict;
use keel_results::{JournalFacts, Machine, Settings};
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything but the blocks.
#[derive(Debug, Serialize)]
pub struct Facts {
    /// Begins the names of this comparison's blocks: empty for the first of a page.
    pub prefix: String,
    /// Version of the results' format: 1 does not tell sleeping from being interrupted.
    pub format: u32,
    /// Names of the bits of an outlier's system calls.
    pub system_calls: [&'static str; 10],
    /// What the comparison is called where there are several.
    pub label: String,
    /// Version of Keel that measured, and its wall-clock start.
    pub keel_version: String,
    /// See `keel_version`; RFC 3339.
    pub started: String,
    /// Where it was measured.
    pub machine: Machine,
    /// What was replayed; its frame marks are in the block `frame-marks`.
    pub journal: JournalFacts,
    /// How.
    pub settings: Settings,
    /// The instrument.
    pub clock: ClockFacts,
    /// Operations that occur, in the order of their switch.
    pub operations: Vec<&'static str>,
    /// The time axis is `0..span_ns` of the journal's time.
    pub span_ns: u64,
    /// Time columns of the tiles; 0 if no raw rows were kept.
    pub columns: usize,
    /// See [`crate::tiles::ROWS_PER_OCTAVE`].
    pub rows_per_octave: u32,
    /// Lowest and highest latency row that any allocator but the floor uses.
    pub row_range: [u16; 2],
    /// Rows of latency that a plane of sizes has.
    pub latency_rows: usize,
    /// Threads, busiest first; the last may stand for all further ones.
    pub lanes: Vec<Lane>,
    /// Columns of the block `lanes`.
    pub lane_columns: usize,
    /// Number of windows of `window_ns`, the stand-in for audio buffers; 0 if there are none.
    pub windows: usize,
    /// See `windows`.
    pub window_ns: u64,
    /// Whether the replay followed a schedule, so that there are blocks `lateness-<index>`.
    pub lateness: bool,
    /// Calls whose latency is known under every allocator: length of the blocks `probes-<index>`.
    pub probes: usize,
    /// Blocks released, and blocks still live at the end; None if the results do not tell.
    pub lifetimes: Option<[u64; 2]>,
    /// Steps of lifetime in the block `lifetimes`, in all and in a doubling.
    pub lifetime_steps: usize,
    /// See `lifetime_steps`.
    pub lifetime_steps_per_octave: u32,
    /// Points of a percentile curve for each factor of ten.
    pub curve_points_per_nine: u32,
    /// Number of frame marks; 0 hides the frames.
    pub frame_count: usize,
    /// One entry an allocator, in the comparison's order.
    pub allocators: Vec<AllocatorFacts>,
    /// Bytes asked for and live, `[time, bytes]`, in journal time.
    pub live: Vec<[f64; 2]>,
    /// Who may be lowest in what.
    pub leaders: Leaders,
    /// The same without interrupted calls; empty if they are not known.
    pub calm_leaders: Leaders,
    /// Each two allocators, figure by figure.
    pub pairs: Vec<PairFacts>,
    /// The same without interrupted calls; empty if they are not known.
    pub calm_pairs: Vec<PairFacts>,
    /// The opening.
    pub verdict: Verdict,
}

/// The instrument.
#[derive(Debug, Serialize)]
pub struct ClockFacts {
    /// `tsc` or `clock_monotonic`.
    pub name: String,
    /// Ticks in a ns.
    pub ticks_per_ns: f64,
    /// The step in which it counts, ns: some machines' counters advance many ticks at a time.
    pub step_ns: f64,
    /// An empty pair of readings at p50, p99 and p99.9, ns; empty if not measured.
    pub empty_pair: Vec<f64>,
}

/// One allocator.
#[derive(Debug, Serialize)]
pub struct AllocatorFacts {
    /// Its name and version.
    pub name: String,
    /// See `name`.
    pub version: String,
    /// Whether it is the floor of the instrument and no contender.
    pub floor: bool,
    /// Why it could not run.
    pub failure: Option<String>,
    /// Number of its runs, and which of them (from 1) is drawn; 0 if none is.
    pub runs: usize,
    /// See `runs`.
    pub drawn_run: usize,
    /// Latencies by operation.
    pub operations: BTreeMap<String, OperationSummary>,
    /// The same without the calls that the system interrupted; empty if that was not measured.
    pub undisturbed: BTreeMap<String, OperationSummary>,
    /// Whole-run figures by name, over runs: `peak`, `throughput` (ns an operation in runs that do not time each
    /// call), `minor_faults`, `major_faults`, `elapsed`, `cpu`, `waited`, `voluntary_switches`, `involuntary_switches`.
    pub figures: BTreeMap<&'static str, Spread>,
    /// Time inside the calls of a frame, over runs: `mean`, `p50` ... , `worst`; empty without frames.
    pub frames: BTreeMap<String, Spread>,
    /// Resident bytes of the drawn run, `[time, bytes]`, in journal time.
    pub memory: Vec<[f64; 2]>,
    /// Blocks of the tiles by operation.
    pub tiles: BTreeMap<&'static str, TileFacts>,
    /// Blocks of size and latency by operation.
    pub planes: BTreeMap<&'static str, CellFacts>,
    /// Number of outliers in the block `outliers-<index>`.
    pub outlier_count: usize,
    /// Calls of the drawn run that the tiles hold.
    pub calls: u64,
}

/// One block of cells.
#[derive(Debug, Serialize)]
pub struct CellFacts {
    /// The element's id.
    pub block: String,
    /// Its cells.
    pub cells: usize,
}

/// One block of tiles.
#[derive(Debug, Serialize)]
pub struct TileFacts {
    /// The element's id.
    pub block: String,
    /// Its cells and calls.
    pub cells: usize,
    /// See `cells`.
    pub calls: u64,
}
