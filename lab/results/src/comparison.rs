//! The contents of `results.json`.

use crate::{
    CauseCount, Fragmentation, FrameSums, Histogram, Instrument, Intervals, Paired, Slop, Throughput,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the result format that this crate writes. 2 added what `facts.rs` holds, and tells sleeping apart
/// from being interrupted; 1 is still read.
pub const RESULTS_VERSION: u32 = 2;

/// One journal replayed on several allocators, several times each, interleaved.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Comparison {
    /// [`RESULTS_VERSION`].
    pub version: u32,
    /// Version of Keel that measured.
    pub keel_version: String,
    /// Wall-clock start, RFC 3339.
    pub started: String,
    /// The machine it was measured on.
    pub machine: Machine,
    /// What was replayed.
    pub journal: JournalFacts,
    /// How it was replayed.
    pub settings: Settings,
    /// The clock.
    pub clock: Clock,
    /// What could be told of causes, and how well.
    pub instrument: Instrument,
    /// One entry for each allocator, in the order asked for. The floor is the one named `null`.
    pub allocators: Vec<AllocatorResult>,
    /// Allocators compared in pairs, figure by figure.
    pub paired: Vec<Paired>,
    /// Remarks that a reader of the numbers must know (more threads than cores, causes unknown ...), plain sentences.
    pub notes: Vec<String>,
}

/// Facts about the machine, for comparing comparisons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// CPU model.
    pub cpu: String,
    /// Online CPUs that the process may use.
    pub cpus: u32,
    /// Total memory, bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// C library and version.
    pub libc: String,
    /// Transparent huge pages: `always`, `madvise`, `never`.
    pub huge_pages: String,
    /// Frequency governor, or empty.
    pub governor: String,
    /// Hypervisor, or empty on bare metal.
    pub hypervisor: String,
}

/// What the report says of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JournalFacts {
    /// File name without folders.
    pub name: String,
    /// The recorded program and arguments.
    pub program: String,
    /// Operations replayed, by [`op name`](https://docs.rs) as in the journal: `malloc`, `free`, ...
    pub operations: BTreeMap<String, u64>,
    /// Of the frees those that told their allocator more than the address, by `free_sized`, `free_aligned` and
    /// `free_aligned_sized`; they were replayed as such.
    pub frees: BTreeMap<String, u64>,
    /// Frees that told another size or alignment than was asked for. They were replayed as plain ones, since an
    /// allocator that believes them would be broken by them.
    pub wrong_frees: u64,
    /// Operations not replayed (foreign frees), by name.
    pub skipped: BTreeMap<String, u64>,
    /// Threads in the journal.
    pub threads: u32,
    /// Frees by another thread than the allocating one.
    pub cross_thread_frees: u64,
    /// Recorded duration, ns.
    pub duration_ns: u64,
    /// Peak of live bytes, and objects live at that moment.
    pub peak_live_bytes: u64,
    /// See `peak_live_bytes`.
    pub peak_live_objects: u64,
    /// Sum of all sizes asked for, the prologue left out.
    pub total_bytes: u64,
    /// Blocks that lived when the recording began: made before the clock starts, and in no figure of calls.
    pub prologue_blocks: u64,
    /// Their bytes.
    pub prologue_bytes: u64,
    /// Frame marks, ns since the journal's start.
    pub frames: Vec<u64>,
}

/// How a journal was replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// `max`, `1x`, `4x`, `gapless`.
    pub pace: String,
    /// `none`, `first-byte`, `page`, `all`.
    pub touch: String,
    /// Whether touching is inside the timed window.
    pub touch_timed: bool,
    /// Runs of each allocator, at least.
    pub runs: u32,
    /// Runs of an allocator whose medians do not settle, at most; 0 in results that know only one number.
    pub most_runs: u32,
    /// Seed of the random order of runs.
    pub seed: u64,
    /// Whether all operations ran on one thread in journal order.
    pub serial: bool,
    /// The command line, for the record.
    pub command: Vec<String>,
}

impl Settings {
    /// How many runs each allocator had: `1 run`, `5 runs`, `5 to 12 runs`.
    pub fn runs_in_words(&self) -> String {
        match self.runs {
            1 if self.most_runs <= 1 => "1 run".to_owned(),
            runs if self.most_runs > runs => format!("{runs} to {} runs", self.most_runs),
            runs => format!("{runs} runs"),
        }
    }
}

/// The instrument and its floor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// `tsc` or `clock_monotonic`.
    pub name: String,
    /// Ticks in a nanosecond; divides every `ticks` of this folder.
    pub ticks_per_ns: f64,
    /// Ticks of an empty pair of clock readings.
    pub empty_pair: Histogram,
    /// The smallest difference that the clock shows, ticks; 0 if unknown.
    pub step_ticks: u64,
    /// How far the frequency measured over single runs strays from `ticks_per_ns`, parts in a million, at most.
    pub stray_ppm: f64,
}

/// All runs of one allocator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocatorResult {
    /// Name on the command line: `keel`, `system`, `mimalloc`, ...
    pub name: String,
    /// Its version, as far as it tells.
    pub version: String,
    /// Environment variables that were set for it, and their values.
    pub environment: Vec<(String, String)>,
    /// Its runs in the order they were executed.
    pub runs: Vec<Run>,
    /// Runs without a clock around each call.
    pub throughput: Vec<Throughput>,
    /// Where its figures lie, ns.
    pub intervals: Intervals,
    /// Runs that were disturbed and made again; they count in no figure.
    pub set_aside: Vec<SetAside>,
    /// For each of [`JournalFacts::frees`] the function of the allocator that was called; `free` where it has none for
    /// that.
    pub frees_by: BTreeMap<String, String>,
    /// Internal fragmentation, if it can tell usable sizes.
    pub slop: Option<Slop>,
    /// Why it could not run, if it could not; a sentence for people.
    pub failure: Option<String>,
}

/// A run that does not count, because the machine disturbed it and it was made again. Whether a run is disturbed is
/// told by what the machine did, never by what the run measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SetAside {
    /// See [`Run::position`].
    pub position: u32,
    /// See [`Run::round`].
    pub round: u32,
    /// See [`Run::disturbed`].
    pub disturbed: Vec<String>,
    /// See [`Run::elapsed_ns`].
    pub elapsed_ns: u64,
    /// Time inside all calls, ns.
    pub inside_ns: f64,
    /// See [`Run::empty_pair_ns`].
    pub empty_pair_ns: f64,
    /// See [`Run::stolen_ns`].
    pub stolen_ns: u64,
    /// See [`Run::foreign_ns`].
    pub foreign_ns: u64,
}

/// One replay in one fresh process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// Position in the whole interleaved schedule, from 0.
    pub position: u32,
    /// Its round: in each, every allocator ran once.
    pub round: u32,
    /// First to last operation, ns.
    pub elapsed_ns: u64,
    /// CPU time of the replaying threads while replaying, ns.
    pub cpu_ns: u64,
    /// Sum of the time spent inside calls, ns, by operation name.
    pub inside_ns: BTreeMap<String, f64>,
    /// Latencies in ticks by operation name (`malloc`, `free`, `calloc`, `realloc`, `aligned`).
    pub latency: BTreeMap<String, Histogram>,
    /// Of `latency` the calls that were interrupted ([`crate::CAUSE_INTERRUPTED`]); operations without one are left
    /// out.
    pub interrupted: BTreeMap<String, Histogram>,
    /// Lateness (actual start minus scheduled start) in ns; empty at pace `max`.
    pub lateness: Option<Histogram>,
    /// Time spent waiting for objects of other threads, ns, all threads.
    pub waited_ns: u64,
    /// How often a thread found an object not yet there.
    pub waits: u64,
    /// Time spent waiting because a thread was too far ahead of the others, ns, all threads.
    pub held_ns: u64,
    /// Time that the hypervisor took from this machine's processors during the run, ns, all of them.
    pub stolen_ns: u64,
    /// Processor time of other programs on this machine during the run, ns, in steps of about 10 ms.
    pub foreign_ns: u64,
    /// What an empty pair of clock readings took between the calls of this run, ns: longer than in other runs where the
    /// processor itself was slowed. 0 if unknown.
    pub empty_pair_ns: f64,
    /// By what the run was disturbed beyond the bounds (`slowed`, `stolen`, `others`), if it counts all the same.
    pub disturbed: Vec<String>,
    /// Minor and major page faults while replaying.
    pub minor_faults: u64,
    /// See `minor_faults`.
    pub major_faults: u64,
    /// Context switches while replaying.
    pub voluntary_switches: u64,
    /// See `voluntary_switches`.
    pub involuntary_switches: u64,
    /// Peak resident bytes of the allocator: the process's anonymous pages less what the player itself held at the
    /// start.
    pub peak_rss_bytes: u64,
    /// Resident bytes over time, as `peak_rss_bytes` counts them.
    pub memory: Vec<MemorySample>,
    /// Calls above the 99.9th percentile of their operation, worst first, at most 20,000 a run.
    pub outliers: Vec<Outlier>,
    /// All calls above the 99.9th percentile of their operation, by cause: see [`crate::cause_word`].
    pub slow_causes: BTreeMap<String, CauseCount>,
    /// Time inside calls by frame; None if the journal has no frames.
    pub frames: Option<FrameSums>,
    /// Resident against live memory; None if memory was never read.
    pub fragmentation: Option<Fragmentation>,
    /// File of the raw rows, relative to the folder; None if this run's rows were not kept.
    pub raw: Option<String>,
}

/// A reading of memory in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemorySample {
    /// ns since the run's start.
    pub time: u64,
    /// Resident bytes of the allocator.
    pub resident: u64,
    /// Bytes asked for and live at that time (sum over the journal's objects).
    pub live: u64,
}

/// A slow call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outlier {
    /// Row in `operations.parquet`.
    pub row: u64,
    /// ns since the run's start.
    pub start: u64,
    /// Ticks inside the call.
    pub ticks: u32,
    /// What is known of why: a set of `CAUSE_*` bits.
    pub cause: u8,
    /// Page faults in it; 255 for as many or more.
    #[serde(skip_serializing_if = "is_zero")]
    pub faults: u32,
    /// System calls in it: a set, see [`crate::system_calls`].
    #[serde(skip_serializing_if = "is_zero")]
    pub calls: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}
