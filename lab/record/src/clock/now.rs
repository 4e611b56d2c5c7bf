//! The clocks of this machine, now.

use super::{Clock, Moment};
use crate::ring;

impl Clock {
    /// Starts a clock. It must be calibrated, some milliseconds later, before its first use.
    pub fn start(kind: u32) -> Clock {
        let first = moment(kind);
        Clock { kind, first, latest: first, ns_per_tick: 1.0 }
    }

    /// `CLOCK_TSC` if the processor's counter has a constant rate in all power states, else
    /// `CLOCK_MONOTONIC`.
    pub fn best_kind() -> u32 {
        let even = if cfg!(target_arch = "x86_64") {
            let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
            let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
            let has = |name| flags.split_whitespace().any(|flag| flag == name);
            has("constant_tsc") && has("nonstop_tsc")
        } else {
            cfg!(target_arch = "aarch64")
        };
        if even { ring::CLOCK_TSC } else { ring::CLOCK_MONOTONIC }
    }

    /// Reads both clocks again, and updates the frequency.
    pub fn calibrate(&mut self) {
        self.latest = moment(self.kind);
        self.set_frequency();
    }

    /// The present time, in ticks. Later memory reads of this thread happen after it.
    pub fn now(&self) -> u64 {
        let now = ticks(self.kind);
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        now
    }
}

/// Reads both clocks several times and keeps the closest pair, so that an interrupt between two
/// readings has no effect.
fn moment(kind: u32) -> Moment {
    let mut best = (u64::MAX, Moment { ticks: 0, raw_ns: 0 });
    for _ in 0..8 {
        let before = ticks(kind);
        let raw_ns = clock_ns(libc::CLOCK_MONOTONIC_RAW);
        let after = ticks(kind);
        let width = after.saturating_sub(before);
        if width < best.0 {
            best = (width, Moment { ticks: before + width / 2, raw_ns });
        }
    }
    best.1
}

/// Reads the counter. Nothing that this thread does afterwards is executed before the read. A
/// memory fence alone does not ensure this, because reading a counter is not a memory access.
fn ticks(kind: u32) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if kind == ring::CLOCK_TSC {
        // SAFETY: SSE2 and the time stamp counter are a part of x86-64.
        return unsafe {
            let ticks = std::arch::x86_64::_rdtsc();
            std::arch::x86_64::_mm_lfence();
            ticks
        };
    }
    #[cfg(target_arch = "aarch64")]
    if kind == ring::CLOCK_TSC {
        let ticks: u64;
        // SAFETY: reads the virtual counter, which user space may.
        unsafe {
            std::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack))
        };
        return ticks;
    }
    let _ = kind;
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_agree_with_the_raw_clock() {
        for kind in [Clock::best_kind(), ring::CLOCK_MONOTONIC] {
            let before = clock_ns(libc::CLOCK_MONOTONIC_RAW);
            let mut clock = Clock::start(kind);
            let began = clock_ns(libc::CLOCK_MONOTONIC_RAW);
            std::thread::sleep(std::time::Duration::from_millis(30));
            clock.calibrate();
            let least = clock_ns(libc::CLOCK_MONOTONIC_RAW) - began;
            let measured = clock.nanoseconds(clock.now());
            let most = clock_ns(libc::CLOCK_MONOTONIC_RAW) - before;
            // These bounds hold however long the pauses between these lines are. The two clocks
            // differ by less than the tolerance.
            let tolerance = 100_000 + most / 1000;
            assert!(
                (least - tolerance..most + tolerance).contains(&measured),
                "{measured} ns, not from {least} to {most} ns"
            );
            assert_eq!(clock.nanoseconds(clock.first.ticks) / 1_000_000, 0);
        }
    }
}
