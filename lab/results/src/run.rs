//! One run, as stored in `results.json`.

use crate::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One replay in one fresh process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// Index in the interleaved schedule of all runs, from 0.
    pub position: u32,
    /// Index of its round. An allocator runs at most once in a round.
    pub round: u32,
    /// First to last operation, ns.
    pub elapsed_ns: u64,
    /// CPU time of the replaying threads while replaying, ns.
    pub cpu_ns: u64,
    /// CPU time of all other threads of the process during the run, ns: those of the allocator.
    pub background_cpu_ns: u64,
    /// Sum of the time spent inside calls, ns, by operation name.
    pub inside_ns: BTreeMap<String, f64>,
    /// Latencies in ticks by operation name ([`crate::OPERATIONS`]).
    pub latency: BTreeMap<String, Histogram>,
    /// Calls that `latency` does not contain, by operation name: those directly after a system call
    /// of the instrument ([`crate::CAUSE_FOLLOWS_DETECTOR`]). `inside_ns` contains them. An
    /// operation of which such calls are more than a twentieth has none: `latency` contains them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, u64>,
    /// The part of `latency` that was interrupted ([`crate::CAUSE_INTERRUPTED`]) while the kernel
    /// did nothing for the call: no page fault, no system call, no wait. Operations without such a
    /// call are left out.
    pub interrupted: BTreeMap<String, Histogram>,
    /// Lateness (actual start minus scheduled start) in ns; empty at pace `max`.
    pub lateness: Option<Histogram>,
    /// Time spent waiting for objects of other threads, ns, all threads.
    pub waited_ns: u64,
    /// How often a thread had to wait for an object of another thread.
    pub waits: u64,
    /// Time spent waiting because a thread was too far ahead of the others, ns, all threads.
    pub throttled_ns: u64,
    /// Time that the hypervisor took from this machine's processors during the run, ns, summed over
    /// processors.
    pub stolen_ns: u64,
    /// Processor time of other programs on this machine during the run, ns, in steps of about 10
    /// ms.
    pub other_programs_ns: u64,
    /// Duration of an empty pair of clock readings between the calls of this run, ns. It is longer
    /// than in other runs if the processor was slower. 0 if unknown.
    pub empty_pair_ns: f64,
    /// Duration of a loop of 256 turns between the calls of this run, ns. It is longer than in
    /// other runs if another program used the other hardware thread of the core. 0 if unknown:
    /// several threads of a journal may disturb each other.
    pub loop_ns: f64,
    /// The interference that exceeded its bound (`slow processor`, `stolen time`, `other
    /// programs`).
    pub interference: Vec<String>,
    /// Bytes that all threads read between calls, to evict caches
    /// ([`crate::Settings::evict_bytes`]).
    pub evicted_bytes: u64,
    /// Minor and major page faults while replaying.
    pub minor_faults: u64,
    /// See `minor_faults`.
    pub major_faults: u64,
    /// Context switches while replaying.
    pub voluntary_switches: u64,
    /// See `voluntary_switches`.
    pub involuntary_switches: u64,
    /// Peak resident bytes of the allocator: the process's anonymous pages, less those that the
    /// player held at the start. By the kernel's high-water mark where it can be reset, otherwise
    /// the largest reading. Since Linux 6.2 the kernel's number may be wrong by 128 KiB for each
    /// processor.
    pub peak_rss_bytes: u64,
    /// Resident bytes over time, as `peak_rss_bytes` counts them.
    pub memory: Vec<MemorySample>,
    /// Calls above the 99.9th percentile of their operation, worst first, at most 20,000 a run.
    pub outliers: Vec<Outlier>,
    /// All calls above the 99.9th percentile of their operation, by cause: see
    /// [`crate::cause_word`].
    pub slow_causes: BTreeMap<String, CauseCount>,
    /// Time inside calls by frame; None if the journal has no frames.
    pub frames: Option<FrameSums>,
    /// Resident against live memory; None if memory was never read.
    pub fragmentation: Option<Fragmentation>,
    /// File of the raw rows, relative to the folder; None if this run's rows were not kept.
    pub raw: Option<String>,
}

impl Run {
    /// The calls of an operation, with those that `latency` does not contain.
    pub fn calls(&self, operation: &str) -> u64 {
        self.latency.get(operation).map_or(0, |counts| counts.0.len())
            + self.left_out.get(operation).copied().unwrap_or(0)
    }
}

/// A reading of memory in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemorySample {
    /// ns since the run's start.
    pub time: u64,
    /// Resident bytes of the allocator.
    pub resident: u64,
    /// Requested bytes that are live at that time (sum over the journal's objects).
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
    /// A set of `CAUSE_*` bits.
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

/// The slow calls of a run by cause: see [`crate::Run::slow_causes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CauseCount {
    /// Calls.
    pub calls: u64,
    /// Time inside them, ns.
    pub ns: f64,
    /// The longest, ns.
    pub worst_ns: f64,
}

/// Time inside calls by frame of the recorded program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrameSums {
    /// ns in each frame, all threads together.
    pub all_threads: Histogram,
    /// The same without interrupted calls; None if interruptions were not recorded.
    pub uninterrupted: Option<Histogram>,
    /// ns in each frame of the thread that spent most in it.
    pub busiest_thread: Histogram,
    /// The frames with the largest sums, worst first, at most 100.
    pub worst: Vec<Frame>,
}

/// One frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// Its index, as in `operations.parquet`.
    pub frame: u32,
    /// Calls in it.
    pub calls: u32,
    /// ns inside calls, all threads.
    pub ns: f64,
    /// The same of the busiest thread.
    pub busiest_ns: f64,
}

/// Ratios of resident to live memory. 1 is perfect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fragmentation {
    /// Peak resident bytes over peak live bytes, each at its own time.
    pub peaks: f64,
    /// Resident over live at the time of peak resident.
    pub at_peak: f64,
    /// Mean of resident over mean of live, over the run's time.
    pub over_time: f64,
    /// Resident over live at the end.
    pub at_end: f64,
}

/// A run without a clock around each call, which measures the cost of all calls together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Throughput {
    /// Round in which it ran.
    pub round: u32,
    /// First to last operation, ns.
    pub elapsed_ns: u64,
    /// CPU time of the replaying threads, ns.
    pub cpu_ns: u64,
    /// CPU time of the process's other threads, ns.
    pub background_cpu_ns: u64,
    /// Operations.
    pub operations: u64,
    /// See [`Run::stolen_ns`].
    pub stolen_ns: u64,
    /// See [`Run::other_programs_ns`].
    pub other_programs_ns: u64,
    /// Duration of an empty pair of clock readings before and after the calls of this run, ns. It
    /// is not comparable with that of a run with the clock. 0 if unknown.
    pub empty_pair_ns: f64,
    /// See [`Run::loop_ns`]; before and after the calls.
    pub loop_ns: f64,
    /// See [`Run::interference`].
    pub interference: Vec<String>,
}

/// Internal fragmentation: usable bytes beyond the requested bytes, from a run that asks for every
/// block's usable size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsableExcess {
    /// Usable bytes of all blocks at the peak of live bytes.
    pub usable_at_peak: u64,
    /// Requested bytes at that time.
    pub live_at_peak: u64,
    /// Usable bytes of all blocks over the whole run.
    pub usable_total: u64,
    /// Requested bytes of the same blocks.
    pub requested_total: u64,
}
