//! The clock around each call.
//!
//! `lfence; rdtsc` before and `rdtscp; lfence` after: the first keeps earlier work out of the window, the second waits
//! for the call to be done and keeps later work out. Never CPUID, which traps in a virtual machine (over 3 us seen).
//! The pair itself costs some tens of ticks; its distribution is published beside the results and never subtracted.

/// A clock read around a call. Ticks; see [`ticks_per_ns`].
pub trait Clock {
    /// Before: nothing earlier is still under way.
    fn begin() -> u64;
    /// After: the call is done, and nothing later has begun.
    fn end() -> u64;
    /// Any time.
    fn now() -> u64;
    /// Its number in [`keel_plan::Control::clock`].
    const CODE: u32;
}

/// The processor's own counter, constant in frequency.
pub struct Counter;

/// CLOCK_MONOTONIC, where the processor's counter cannot be trusted. A tick is a nanosecond.
pub struct Monotonic;

#[cfg(target_arch = "x86_64")]
impl Clock for Counter {
    const CODE: u32 = 1;

    #[inline(always)]
    fn begin() -> u64 {
        use std::arch::x86_64::{_mm_lfence, _rdtsc};
        // SAFETY: SSE2 and the time stamp counter are a part of x86-64.
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    }

    #[inline(always)]
    fn end() -> u64 {
        use std::arch::x86_64::{__rdtscp, _mm_lfence};
        let mut processor = 0;
        // SAFETY: RDTSCP was found by `trustworthy`; `processor` is ours.
        unsafe {
            let ticks = __rdtscp(&raw mut processor);
            _mm_lfence();
            ticks
        }
    }

    #[inline(always)]
    fn now() -> u64 {
        // SAFETY: as above.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}

#[cfg(target_arch = "aarch64")]
impl Clock for Counter {
    const CODE: u32 = 1;

    #[inline(always)]
    fn begin() -> u64 {
        Self::now()
    }

    #[inline(always)]
    fn end() -> u64 {
        Self::now()
    }

    #[inline(always)]
    fn now() -> u64 {
        let ticks: u64;
        // SAFETY: the virtual counter is readable from user space on Linux; ISB keeps the order around it.
        unsafe { std::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack)) };
        ticks
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Clock for Counter {
    const CODE: u32 = 2;

    fn begin() -> u64 {
        crate::own::monotonic_ns()
    }

    fn end() -> u64 {
        crate::own::monotonic_ns()
    }

    fn now() -> u64 {
        crate::own::monotonic_ns()
    }
}

impl Clock for Monotonic {
    const CODE: u32 = 2;

    #[inline(always)]
    fn begin() -> u64 {
        crate::own::monotonic_ns()
    }

    #[inline(always)]
    fn end() -> u64 {
        crate::own::monotonic_ns()
    }

    #[inline(always)]
    fn now() -> u64 {
        crate::own::monotonic_ns()
    }
}

/// Whether [`Counter`] runs at one frequency, through all states of sleep, and has RDTSCP.
pub fn trustworthy() -> bool {
    if !cfg!(target_arch = "x86_64") {
        return cfg!(target_arch = "aarch64");
    }
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    ["constant_tsc", "nonstop_tsc", "rdtscp"].iter().all(|flag| flags.split(' ').any(|word| word == *flag))
}

/// Ticks of `C` in a nanosecond, measured against CLOCK_MONOTONIC for 10 ms. Good to about 1e-5, which serves the
/// player's thresholds and waits; results are converted by replay, which measures longer.
pub fn ticks_per_ns<C: Clock>() -> f64 {
    let first = pair::<C>();
    while crate::own::monotonic_ns() < first.1 + 10_000_000 {
        std::hint::spin_loop();
    }
    let last = pair::<C>();
    last.0.wrapping_sub(first.0) as f64 / (last.1 - first.1) as f64
}

/// Ticks of `C` and CLOCK_MONOTONIC (ns) at one moment: of some tries, the one in which the two readings were closest,
/// since the thread may be preempted between them.
pub fn pair<C: Clock>() -> (u64, u64) {
    let tries = (0..50).map(|_| {
        let before = C::begin();
        let ns = crate::own::monotonic_ns();
        let width = C::end().saturating_sub(before);
        (width, before + width / 2, ns)
    });
    tries.min_by_key(|&(width, ..)| width).map_or((0, 0), |(_, ticks, ns)| (ticks, ns))
}
