//! The clock and the instrument, as stored in `results.json`.

use crate::Histogram;
use serde::{Deserialize, Serialize};

/// The clock and its floor.
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
    /// The largest deviation of a single run's frequency from `ticks_per_ns`, parts per million.
    pub deviation_ppm: f64,
}

/// What the instrument detects, and how reliably.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Instrument {
    /// Whether preemptions, signals and waits were detected in every run.
    pub interruptions: bool,
    /// Whether system calls were.
    pub system_calls: bool,
    /// Whether hardware interrupts were.
    pub interrupts: bool,
    /// Whether the result arrays were locked in memory in every run.
    pub locked: bool,
    /// Actions done on purpose before each run, and how often they were detected; summed over the
    /// runs.
    pub self_test: Vec<SelfTest>,
    /// What latencies do not contain: the time in which stores to 1 and to 16 lines that are in no
    /// cache reach it after the end of the window, ns, the median of the runs. 0 if unknown.
    pub stores_in_flight_ns: [f64; 2],
    /// Why the processor's counter was not used, if it was not; a sentence.
    pub clock_fallback: Option<String>,
}

/// One kind of action done on purpose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SelfTest {
    /// `sleep`, `signal`, `fault`, `mmap`; `quiet` for an empty window.
    pub action: String,
    /// How often it was done.
    pub tried: u64,
    /// How often it was detected; for `quiet`, the number of false alarms.
    pub detected: u64,
}
