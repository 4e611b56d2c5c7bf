//! What format 2 adds to the results: the instrument, confidence, causes, frames, fragmentation. All of it is optional,
//! so that what an older Keel wrote still reads.

use crate::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the instrument could tell, and how well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Instrument {
    /// Whether preemptions, signals and waits could be told in every run.
    pub interruptions: bool,
    /// Whether system calls could.
    pub system_calls: bool,
    /// Whether hardware interrupts could.
    pub interrupts: bool,
    /// Whether the result arrays were locked in memory in every run.
    pub locked: bool,
    /// What was done on purpose before each run, and how often it was told; summed over the runs.
    pub self_test: Vec<SelfTest>,
    /// Why the processor's counter was not used, if it was not; a sentence for people.
    pub clock_fallback: Option<String>,
}

/// One thing that was done on purpose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SelfTest {
    /// `sleep`, `signal`, `fault`, `mmap`; `quiet` for nothing at all.
    pub what: String,
    /// How often it was done.
    pub tried: u64,
    /// How often it was told; for `quiet`, how often something was told that was not so.
    pub told: u64,
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

/// A value and where the true one lies, with the confidence that the place where it stands names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// The interval's ends, `low <= value <= high`.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

/// Two allocators compared in one figure, round by round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Paired {
    /// Names of the two.
    pub a: String,
    /// See `a`.
    pub b: String,
    /// Operation (`malloc`, ..., `all`), or `run` for figures of the whole run.
    pub operation: String,
    /// `p50` ... `p99.999`, `mean`, `worst`; of a run `elapsed`, `throughput`, `peak`.
    pub figure: String,
    /// Rounds in which both ran.
    pub rounds: u32,
    /// b's figure over a's: geometric mean of the rounds' ratios, with its 95 % interval.
    pub ratio: Interval,
    /// What the data bears: `a` or `b` is lower, or empty. It takes an interval that excludes 1 after correction for
    /// the number of allocators, and a difference that the clock can show.
    pub lower: String,
}

/// Time inside calls by frame of the recorded program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrameSums {
    /// ns a frame, all threads together; one value for each frame.
    pub all_threads: Histogram,
    /// ns a frame of the thread that spent most in it.
    pub busiest_thread: Histogram,
    /// The frames with the largest sums, worst first, at most 100.
    pub worst: Vec<Frame>,
}

/// One frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// Its number, as in `operations.parquet`.
    pub frame: u32,
    /// Calls in it.
    pub calls: u32,
    /// ns inside calls, all threads.
    pub ns: f64,
    /// The same of the busiest thread.
    pub busiest_ns: f64,
}

/// How much more memory was resident than live, each in its own sense. 1 is perfect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fragmentation {
    /// Peak resident over peak live bytes, whenever each was: what a machine must have for what the program needs.
    pub peaks: f64,
    /// Resident over live at the moment of peak resident.
    pub at_peak: f64,
    /// Mean of resident over mean of live, over the run's time.
    pub over_time: f64,
    /// Resident over live at the end.
    pub at_end: f64,
}

/// A run without a clock around each call: what the calls cost together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Throughput {
    /// Round in which it ran.
    pub round: u32,
    /// First to last operation, ns.
    pub elapsed_ns: u64,
    /// CPU time of the replaying threads, ns.
    pub cpu_ns: u64,
    /// Operations.
    pub operations: u64,
}

/// What allocators keep beside the bytes asked for, from a run in which every block was asked its usable size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slop {
    /// Usable bytes of all blocks at the moment of most live bytes.
    pub usable_at_peak: u64,
    /// Bytes asked for at that moment.
    pub live_at_peak: u64,
    /// Usable bytes of every block ever made.
    pub usable_total: u64,
    /// Bytes asked for, of the same.
    pub asked_total: u64,
}

/// Intervals of an allocator's own figures, by operation and figure, at 95 % over its runs.
pub type Intervals = BTreeMap<String, BTreeMap<String, Interval>>;
