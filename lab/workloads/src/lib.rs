//! Synthetic allocation workloads: run by `keel-workload`, one fresh process each, and scheduled
//! from here.
//!
//! ```text
//! Bench::run   every workload on every contestant, interleaved  ->  Sample, ... (archived)
//! summary      samples  ->  median and range over the rounds
//! bars         samples, targets of Keel  ->  reached, or missed by a factor
//! suite        whole programs on several allocators  ->  SuiteRun, ... (in keel_results)
//! ```

pub mod bars;
mod schedule;
pub mod suite;
pub mod summary;

use keel_results::PERCENTILES;
pub use schedule::{Bench, Contestant, list};
use serde::{Deserialize, Serialize};

/// The purpose of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// The slowest single calls.
    Latency,
    /// The cost of all calls together.
    Throughput,
}

/// A workload as `keel-workload --list` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub suite: Suite,
    /// What it does, in a line.
    pub about: String,
}

/// How a run looks at calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pass {
    /// It times them.
    Timed,
    /// It counts their page faults and system calls, which takes longer than the calls.
    Counted,
}

/// One workload on one contestant, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The contestant's name.
    pub allocator: String,
    /// The workload's name.
    pub workload: String,
    /// See [`Pass`].
    pub pass: Pass,
    /// The round, from 0. Within a round every pair of workload and contestant runs once.
    pub round: u32,
    /// What `keel-workload` printed, or why there is nothing.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The result of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As measured.
    Measured(Measured),
    /// A sentence.
    Failed(String),
}

/// What one run measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// Pairs of malloc and free; 0 where single calls are timed.
    pub pairs: u64,
    /// Time that the pairs took, ns each. Less is better, as with everything here.
    pub ns_a_pair: f64,
    /// Time on processors, of all threads of the process, without the empty windows.
    pub cpu_seconds: f64,
    /// Peak resident bytes of the process.
    pub peak_rss: u64,
    /// Resident bytes beyond those from before, where the workload is about memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
    /// Calls of each kind, in a timed run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Calls of each kind, in a counted run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<Counted>,
}

/// Calls of one kind, timed. Times are those of the clock, with what reading it costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The calls.
    pub event: String,
    /// Calls that were not interrupted.
    pub calls: u64,
    /// Calls during which the thread was preempted; they are excluded from all other numbers.
    pub interrupted: u64,
    /// How interruptions were detected: `rseq`, `rusage` or `nothing`.
    pub detected_by: String,
    /// Mean.
    pub mean_ns: f64,
    /// [`PERCENTILES`].
    pub percentiles_ns: [f64; PERCENTILES.len()],
    /// The slowest.
    pub worst_ns: f64,
    /// The median of empty pairs of clock readings.
    pub floor_ns: f64,
    /// The excess of the longest empty window of the same run.
    pub noise_ns: f64,
}

impl Event {
    /// The slowest call less the machine's own noise; never negative.
    pub fn worst_excess_ns(&self) -> f64 {
        (self.worst_ns - self.noise_ns - self.floor_ns).max(0.0)
    }
}

/// Calls of one kind, counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// The calls.
    pub event: String,
    /// Their number.
    pub calls: u64,
    /// Page faults inside them.
    pub faults: u64,
    /// Calls with at least one.
    pub faulting_calls: u64,
    /// Calls with at least one system call; None if the kernel does not report them.
    pub system_calls: Option<u64>,
}

impl Counted {
    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Counted) {
        self.calls += other.calls;
        self.faults += other.faults;
        self.faulting_calls += other.faulting_calls;
        self.system_calls = match (self.system_calls, other.system_calls) {
            (Some(one), Some(two)) => Some(one + two),
            (one, two) => one.or(two),
        };
    }
}
