//! The contents of `results.json`.

use crate::{Clock, Instrument, Intervals, Paired, Run, Throughput, UsableExcess};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the result format that this crate reads and writes.
pub const RESULTS_VERSION: u32 = 3;

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
    /// Which causes the instrument detects, and how reliably.
    pub instrument: Instrument,
    /// One entry for each allocator, in the order asked for. The floor is the one named `null`.
    pub allocators: Vec<AllocatorResult>,
    /// Allocators compared in pairs, figure by figure.
    pub paired: Vec<Paired>,
    /// Notes for readers of the numbers (more threads than cores, causes unknown ...), in
    /// sentences.
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

/// Facts about the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JournalFacts {
    /// File name without folders.
    pub name: String,
    /// The recorded program and arguments.
    pub program: String,
    /// The allocator that the program used when it was recorded: the path of the object file; empty
    /// if it is unknown.
    pub allocator: String,
    /// The environment variables that configured it and other allocators.
    pub settings: BTreeMap<String, String>,
    /// Other allocators in the program.
    pub other_allocators: Vec<OtherAllocator>,
    /// The program's memory while it was recorded; None if it was not measured.
    pub program_memory: Option<ProgramMemory>,
    /// The paths of the object files that called it.
    pub modules: Vec<String>,
    /// Operations replayed, by name ([`crate::OPERATIONS`]).
    pub operations: BTreeMap<String, u64>,
    /// Frees that passed a size or an alignment to the allocator: `free_sized`, `free_aligned`,
    /// `free_aligned_sized`. They were replayed as such.
    pub frees: BTreeMap<String, u64>,
    /// Frees that passed a size or alignment other than the requested one. They were replayed as
    /// plain frees, because a wrong hint can corrupt an allocator.
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
    /// Sum of all requested sizes, without the prologue.
    pub total_bytes: u64,
    /// Blocks that were live when the recording began. They are allocated before the clock starts
    /// and counted in no figure.
    pub prologue_blocks: u64,
    /// Their bytes.
    pub prologue_bytes: u64,
    /// Frame marks, ns since the journal's start.
    pub frames: Vec<u64>,
}

/// An allocator in the recorded program besides [`JournalFacts::allocator`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OtherAllocator {
    /// Its name; empty if it is only known by its object file.
    pub name: String,
    /// The object file.
    pub path: String,
    /// Whether it answered calls that the journal contains.
    pub recorded: bool,
}

/// The memory of the recorded program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramMemory {
    /// The most resident bytes that are not of a file and not shared.
    pub peak_bytes: u64,
    /// The bytes in live blocks at that moment.
    pub live_bytes: u64,
    /// Calls of mmap by the program itself for writable memory without a file.
    pub mapped_calls: u64,
    /// The sum of their bytes.
    pub mapped_bytes: u64,
}

/// How a journal was replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// `max`, `1x`, `4x`, `compressed`.
    pub pace: String,
    /// Bytes that each thread read between two calls, to evict caches, until the next call was due;
    /// 0: none.
    pub evict_bytes: u64,
    /// Whether they read less in most pauses, as the program did by the journal's samples;
    /// `evict_bytes` is then the most.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub evict_recorded: bool,
    /// `none`, `first-byte`, `page`, `all`.
    pub touch: String,
    /// Whether touching is inside the timed window.
    pub touch_timed: bool,
    /// Runs of each allocator, at least.
    pub runs: u32,
    /// The most runs of an allocator whose p50 or p99.9 is not yet precise.
    pub max_runs: u32,
    /// Seed of the random order of runs.
    pub seed: u64,
    /// Whether all operations ran on one thread in journal order.
    pub serial: bool,
    /// The command line, for the record.
    pub command: Vec<String>,
}

impl Settings {
    /// The number of runs of each allocator: `1 run`, `5 runs`, `5 to 12 runs`.
    pub fn runs_in_words(&self) -> String {
        match self.runs {
            1 if self.max_runs <= 1 => "1 run".to_owned(),
            runs if self.max_runs > runs => format!("{runs} to {} runs", self.max_runs),
            runs => format!("{runs} runs"),
        }
    }
}

/// All runs of one allocator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocatorResult {
    /// Name on the command line: `keel`, `glibc`, `mimalloc`, ...
    pub name: String,
    /// What a reader must know when comparing it, in a few words (`port, one lock`); empty for
    /// most.
    pub remark: String,
    /// Its version, as far as it reports one.
    pub version: String,
    /// Environment variables that were set for it, and their values.
    pub environment: Vec<(String, String)>,
    /// Its runs in the order they were executed.
    pub runs: Vec<Run>,
    /// Runs without a clock around each call.
    pub throughput: Vec<Throughput>,
    /// The intervals of its figures, ns.
    pub intervals: Intervals,
    /// Runs that were repeated because of interference; they count in no figure.
    pub discarded: Vec<DiscardedRun>,
    /// For each of [`JournalFacts::frees`], the function of the allocator that was called; `free`
    /// if it has no such function.
    pub free_functions: BTreeMap<String, String>,
    /// Internal fragmentation; None if the allocator does not report usable sizes.
    pub usable_excess: Option<UsableExcess>,
    /// Why it could not run, if it could not; a sentence for people.
    pub failure: Option<String>,
}

impl AllocatorResult {
    /// The name with its remark, for people: `dlmalloc (port, one lock)`.
    pub fn label(&self) -> String {
        if self.remark.is_empty() {
            self.name.clone()
        } else {
            format!("{} ({})", self.name, self.remark)
        }
    }

    /// The run that stands for all: of the runs with raw rows, the one with the median time inside
    /// calls. None if no rows were kept.
    pub fn median_run(&self) -> Option<usize> {
        let inside = |run: &usize| self.runs[*run].inside_ns.values().sum::<f64>();
        let mut kept: Vec<usize> =
            (0..self.runs.len()).filter(|run| self.runs[*run].raw.is_some()).collect();
        kept.sort_by(|one, other| inside(one).total_cmp(&inside(other)));
        kept.get(kept.len().saturating_sub(1) / 2).copied()
    }
}

/// A run that does not count, because of interference. Interference is detected from the state of
/// the machine, never from the run's own measurements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiscardedRun {
    /// Whether it was a run without a clock around each call. It has no position and no time inside
    /// calls.
    pub unclocked: bool,
    /// See [`Run::position`].
    pub position: u32,
    /// See [`Run::round`].
    pub round: u32,
    /// See [`Run::interference`].
    pub interference: Vec<String>,
    /// See [`Run::elapsed_ns`].
    pub elapsed_ns: u64,
    /// Time inside all calls, ns.
    pub inside_ns: f64,
    /// See [`Run::empty_pair_ns`].
    pub empty_pair_ns: f64,
    /// See [`Run::loop_ns`].
    pub loop_ns: f64,
    /// See [`Run::stolen_ns`].
    pub stolen_ns: u64,
    /// See [`Run::other_programs_ns`].
    pub other_programs_ns: u64,
}
