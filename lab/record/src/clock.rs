//! Converts the recording's clock to nanoseconds since the recording began.

#[cfg(target_os = "linux")]
mod now;

use crate::ring;

/// One moment, read from both clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    pub ticks: u64,
    /// CLOCK_MONOTONIC_RAW, ns.
    pub raw_ns: u64,
}

/// Converts ticks. The frequency is measured between the session's start and the latest
/// calibration, so its error shrinks as the recording goes on (1e-5 after 5 ms, 1e-8 after
/// 10 s). Conversion starts from the latest moment.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    kind: u32,
    first: Moment,
    latest: Moment,
    ns_per_tick: f64,
}

impl Clock {
    /// The clock of a recording with these first and last moments.
    pub fn between(kind: u32, first: Moment, latest: Moment) -> Clock {
        let mut clock = Clock { kind, first, latest, ns_per_tick: 1.0 };
        clock.set_frequency();
        clock
    }

    fn set_frequency(&mut self) {
        let ticks = self.latest.ticks.saturating_sub(self.first.ticks);
        let raw_ns = self.latest.raw_ns.saturating_sub(self.first.raw_ns);
        if self.kind == ring::CLOCK_TSC && ticks > 0 && raw_ns > 0 {
            self.ns_per_tick = raw_ns as f64 / ticks as f64;
        }
    }

    /// Nanoseconds since the session's start; 0 for earlier ticks.
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        let distance = ticks.wrapping_sub(self.latest.ticks) as i64 as f64 * self.ns_per_tick;
        let latest = if self.kind == ring::CLOCK_TSC {
            self.latest.raw_ns.saturating_sub(self.first.raw_ns)
        } else {
            self.latest.ticks.saturating_sub(self.first.ticks)
        };
        (latest as f64 + distance).max(0.0) as u64
    }

    /// Nanoseconds as ticks.
    pub fn ticks_in(&self, nanoseconds: u64) -> u64 {
        (nanoseconds as f64 / self.ns_per_tick) as u64
    }

    /// A duration in ticks as nanoseconds.
    pub fn duration(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick) as u64
    }

    /// Ticks per second.
    pub fn hz(&self) -> f64 {
        1e9 / self.ns_per_tick
    }

    /// The name in the metadata.
    pub fn name(&self) -> &'static str {
        if self.kind == ring::CLOCK_TSC { "tsc" } else { "clock_monotonic" }
    }
}
