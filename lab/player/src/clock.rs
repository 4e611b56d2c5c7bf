//! The clock around each call.
//!
//! ```text
//! lfence   earlier work is complete
//! rdtsc
//! lfence   the call does not begin before the reading: else 10 ns of it are missing
//!   call
//! rdtscp   waits for the end of the call, but not for its stores (see stores.rs)
//! lfence   later work does not begin before the reading
//! ```
//!
//! CPUID is not used: it traps in a virtual machine (over 3 µs measured). The pair itself costs
//! some tens of ticks. Its distribution is part of the results and is never subtracted.
//! `tests/bias.rs` measures calls of known cost.

/// A clock read around a call. Ticks; see [`ticks_per_ns`].
pub trait Clock {
    /// Before a call: earlier work is complete, and the call has not begun.
    fn begin() -> u64;
    /// After a call: the call is complete, and later work has not begun.
    fn end() -> u64;
    /// At any other time.
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
            let ticks = _rdtsc();
            _mm_lfence();
            ticks
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
        // SAFETY: the virtual counter is readable from user space on Linux; ISB keeps the order
        // around it.
        unsafe {
            std::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack))
        };
        ticks
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Clock for Counter {
    const CODE: u32 = 2;

    fn begin() -> u64 {
        crate::system::monotonic_ns()
    }

    fn end() -> u64 {
        crate::system::monotonic_ns()
    }

    fn now() -> u64 {
        crate::system::monotonic_ns()
    }
}

impl Clock for Monotonic {
    const CODE: u32 = 2;

    #[inline(always)]
    fn begin() -> u64 {
        crate::system::monotonic_ns()
    }

    #[inline(always)]
    fn end() -> u64 {
        crate::system::monotonic_ns()
    }

    #[inline(always)]
    fn now() -> u64 {
        crate::system::monotonic_ns()
    }
}

/// Why [`Counter`] cannot be used here, as a clause; None if it can: it runs at one frequency, also
/// in sleep states, can be read in order, and the kernel has not found it unstable.
pub fn fault() -> Option<String> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Some("this processor's counter is not known to Keel".to_owned());
    }
    if cfg!(target_arch = "aarch64") {
        // The architecture guarantees a constant frequency and one count for all processors.
        return None;
    }
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let sources = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    fault_of(&text, std::fs::read_to_string(sources).ok().as_deref())
}

fn fault_of(cpuinfo: &str, sources: Option<&str>) -> Option<String> {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let missing = ["constant_tsc", "nonstop_tsc", "rdtscp"]
        .into_iter()
        .find(|flag| !flags.split_whitespace().any(|word| word == *flag));
    if let Some(flag) = missing {
        return Some(format!("the processor does not have `{flag}`"));
    }
    match sources {
        Some(text) if !text.split_whitespace().any(|word| word == "tsc") => {
            Some("the kernel found the time stamp counter unstable".to_owned())
        }
        _ => None,
    }
}

/// Whether [`Counter`] can be used: [`fault`] finds none.
pub fn trustworthy() -> bool {
    fault().is_none()
}

/// Ticks of `C` per nanosecond, measured against CLOCK_MONOTONIC for 10 ms. The precision of about
/// 1e-5 is enough for the player's thresholds and waits. Replay measures longer to convert results.
pub fn ticks_per_ns<C: Clock>() -> f64 {
    let first = pair::<C>();
    while crate::system::monotonic_ns() < first.1 + 10_000_000 {
        std::hint::spin_loop();
    }
    let last = pair::<C>();
    last.0.wrapping_sub(first.0) as f64 / (last.1 - first.1) as f64
}

/// Simultaneous readings of `C` (ticks) and CLOCK_MONOTONIC (ns). The thread may be preempted
/// between the two, so the closest of several pairs is returned.
pub fn pair<C: Clock>() -> (u64, u64) {
    let tries = (0..50).map(|_| {
        let before = C::begin();
        let ns = crate::system::monotonic_ns();
        let width = C::end().saturating_sub(before);
        (width, before + width / 2, ns)
    });
    tries.min_by_key(|&(width, ..)| width).map_or((0, 0), |(_, ticks, ns)| (ticks, ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "model name\t: x\nflags\t\t: fpu tsc rdtscp constant_tsc nonstop_tsc\n";

    #[test]
    fn an_unstable_counter_is_refused_with_its_missing_property() {
        assert_eq!(fault_of(SOUND, Some("tsc kvm-clock\n")), None);
        assert_eq!(fault_of(SOUND, None), None);
        let said = |text: &str, sources| fault_of(text, sources).unwrap_or_default();
        assert!(said(&SOUND.replace("nonstop_tsc", ""), None).contains("`nonstop_tsc`"));
        assert!(said("", None).contains("`constant_tsc`"));
        assert!(said(SOUND, Some("hpet acpi_pm\n")).contains("unstable"));
    }
}
