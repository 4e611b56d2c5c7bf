//! Synthetic allocation workloads: run by `keel-workload`, one fresh process each, and scheduled from here.
//!
//! ```text
//! Bench::run   every workload on every contestant, interleaved  ->  Sample, Sample, ...   (plain data, archived)
//! summary      samples  ->  median and range over the rounds
//! bars         what Keel wants to reach  ->  reached, or missed by how much
//! ```

pub mod bars;
mod schedule;
pub mod summary;

pub use schedule::{Bench, Contestant, list};
use serde::{Deserialize, Serialize};

/// The quantiles that results hold, by their names.
pub const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("p99.999", 0.99999)];

/// What a workload is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// Single calls: which of them are slow.
    Latency,
    /// All calls together: what they cost.
    Throughput,
}

/// A workload as `keel-workload --list` tells of it.
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
    /// Which calls.
    pub event: String,
    /// Calls that ran through.
    pub calls: u64,
    /// Calls during which the thread was switched away; they are left out of all else.
    pub interrupted: u64,
    /// How that was told: `rseq`, `rusage` or `nothing`.
    pub told_by: String,
    /// Mean.
    pub mean_ns: f64,
    /// [`QUANTILES`].
    pub quantiles_ns: [f64; 5],
    /// The slowest.
    pub worst_ns: f64,
    /// The median of empty pairs of clock readings.
    pub floor_ns: f64,
    /// What the worst empty window of the same run took too long.
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
    /// Which calls.
    pub event: String,
    /// How many.
    pub calls: u64,
    /// Page faults inside them.
    pub faults: u64,
    /// Calls with at least one.
    pub faulting_calls: u64,
    /// Calls with at least one system call, where the kernel tells.
    pub system_calls: Option<u64>,
}

impl Counted {
    /// Adds what another thread counted.
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
