//! The data of `keel bench --suite`: workloads run on several allocators, one process for each run.
//!
//! A folder holds `suite.json` (a [`SuiteHead`]) and `runs.jsonl` (a [`SuiteRun`] in each line, in
//! the order of the runs). The second file only grows, so that an interrupted suite can be
//! continued.

mod figures;
mod folder;

pub use figures::*;
pub use folder::{SUITE_FILE, SuiteError, SuiteLog};

use crate::Machine;
use serde::{Deserialize, Serialize};

/// The version of the format that this crate reads and writes.
pub const SUITE_VERSION: u32 = 1;

/// What is run, and where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SuiteHead {
    /// [`SUITE_VERSION`].
    pub version: u32,
    /// The version of Keel that measured.
    pub keel_version: String,
    /// The start, RFC 3339.
    pub started: String,
    /// The words after `keel`.
    pub command: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// `/proc/loadavg` before the first run.
    pub load_before: String,
    /// Whether this is the short form, with less work in each run.
    pub quick: bool,
    /// The size of the synthetic workloads; 1 is the full size.
    pub scale: f64,
    /// A run that takes longer is ended and recorded as failed, in seconds.
    pub limit_seconds: f64,
    /// Determines the order of the runs.
    pub seed: u64,
    /// The workloads, in the order of tables.
    pub workloads: Vec<SuiteWorkload>,
    /// The allocators, in the order of tables.
    pub allocators: Vec<SuiteAllocator>,
    /// Workloads that cannot run here, each with the reason.
    pub left_out: Vec<String>,
}

/// A workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SuiteWorkload {
    /// The suite that it belongs to: `synthetic`, `patterns`, `real` or `journals`.
    pub suite: String,
    /// Its name, unique within its suite.
    pub name: String,
    /// What it does.
    pub about: String,
    /// The parts of an allocator that determine its time; empty if there is no such text.
    pub stresses: String,
    /// Where the idea comes from.
    pub source: String,
    /// What must not be concluded from it.
    pub not_shown: String,
}

impl SuiteWorkload {
    /// `synthetic/larson`: unique within all suites.
    pub fn key(&self) -> String {
        format!("{}/{}", self.suite, self.name)
    }
}

/// An allocator, without the path of its library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SuiteAllocator {
    /// The name in tables.
    pub name: String,
    /// What a reader must know about it; empty for most.
    pub remark: String,
    /// The version, if it reports one.
    pub version: String,
    /// Environment variables, as `NAME=VALUE`.
    pub settings: Vec<String>,
}

/// One workload on one allocator, once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SuiteRun {
    /// [`SuiteWorkload::key`].
    pub workload: String,
    /// [`SuiteAllocator::name`].
    pub allocator: String,
    /// The round, from 0. In a round every workload runs once on every allocator.
    pub round: u32,
    /// The share of all processors that other programs and the hypervisor used during the run, from
    /// 0 to 1.
    #[serde(default)]
    pub others: f64,
    /// How the machine disturbed the run: `slow processor`, `stolen time`, `other programs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interference: Vec<String>,
    /// Runs that were repeated because the machine disturbed them more than this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discarded: Vec<SuiteDiscarded>,
    /// Why the calls were not timed, or the system calls not counted, although they should have
    /// been.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub incomplete: String,
    /// What was measured, or why there is nothing.
    #[serde(flatten)]
    pub outcome: SuiteOutcome,
}

/// A run that does not count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SuiteDiscarded {
    /// As [`SuiteRun::interference`].
    pub interference: Vec<String>,
    /// As [`SuiteMeasured::elapsed_s`].
    pub elapsed_s: f64,
    /// As [`SuiteMeasured::cpu_s`].
    pub cpu_s: f64,
    /// As [`SuiteMeasured::peak_bytes`].
    pub peak_bytes: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SuiteOutcome {
    /// As measured.
    Measured(SuiteMeasured),
    /// A clause: `it was ended by signal 11`.
    Failed(String),
}

impl Default for SuiteOutcome {
    fn default() -> Self {
        SuiteOutcome::Measured(SuiteMeasured::default())
    }
}

/// The figures of a run, of all processes of the workload together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SuiteMeasured {
    /// Elapsed time of the workload: of its loop if it reports that, else of the process.
    pub elapsed_s: f64,
    /// Processor time of all threads for the same part.
    pub cpu_s: f64,
    /// Elapsed time of the process, from its start to its end.
    pub process_elapsed_s: f64,
    /// Processor time in user mode, of the whole process.
    pub user_s: f64,
    /// Processor time in the kernel, of the whole process.
    pub system_s: f64,
    /// Peak resident bytes of the largest process.
    pub peak_bytes: u64,
    /// Resident bytes of all processes together, averaged over the time; absent for runs of a few
    /// milliseconds and for journals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_bytes: Option<u64>,
    /// Page faults without input or output.
    pub minor_faults: u64,
    /// Page faults with input or output.
    pub major_faults: u64,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because a thread was preempted.
    pub involuntary_switches: u64,
    /// Patterns, in a separate process: resident bytes a second after the end of the pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_bytes: Option<u64>,
    /// System calls of the whole process, counted in a separate process. For patterns this is the
    /// process of `after_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<u64>,
    /// The slowest call of the allocator, ns, in a separate process in which each call was timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_ns: Option<u64>,
    /// The time that 99.9 % of the calls of that process did not exceed, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_ns: Option<f64>,
    /// The median call of that process, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<f64>,
}

impl SuiteRun {
    /// The figures, unless the run failed.
    pub fn measured(&self) -> Option<&SuiteMeasured> {
        match &self.outcome {
            SuiteOutcome::Measured(measured) => Some(measured),
            SuiteOutcome::Failed(_) => None,
        }
    }
}

/// A suite with its runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Suite {
    /// What is run.
    #[serde(flatten)]
    pub head: SuiteHead,
    /// In the order in which they were made.
    pub runs: Vec<SuiteRun>,
}
