//! The causes of slow calls: five detectors together.
//!
//! | detector | detects | used for |
//! | --- | --- | --- |
//! | [`Flag`] (rseq) | preemption, migration, signals, sleep | every call, a nanosecond |
//! | [`kernel_calls`] | system calls, by kind | every call, a nanosecond |
//! | [`InterruptProbe`] (GS) | hardware interrupts | every call, a nanosecond |
//! | RUSAGE_THREAD | page faults; sleep or preemption | slow calls, after the clock |
//! | the thread's clock | work of the call itself, in spite of preemption | the same |
//!
//! All are armed directly before the call, so that events between two calls are attributed to
//! neither. RUSAGE_THREAD is a system call. It displaces cache lines that the next call needs, so
//! this call is marked if it is short ([`keel_plan::CAUSE_FOLLOWS_DETECTOR`]), and percentiles do
//! not count it.

use crate::interrupt_probe::InterruptProbe;
use crate::interruption::{Flag, Seen};
use crate::kernel_calls;
use crate::system::{self, Usage};
use keel_plan::{
    CAUSE_FAULT, CAUSE_FOLLOWS_DETECTOR, CAUSE_INTERRUPT, CAUSE_INTERRUPTED,
    CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT, CAUSE_SYSCALL, CAUSE_SYSCALL_UNKNOWN, Record,
};

/// Calls of this length, ns, are rarely spared by the timer of the kernel, which interrupts every 1
/// to 10 ms.
const LONG_NS: f64 = 1e6;

/// The time, and the processor time of the calling thread. The second one excludes what the
/// hypervisor took where Linux knows of that.
#[derive(Clone, Copy, Debug)]
struct ThreadTime {
    monotonic_ns: u64,
    cpu_ns: u64,
}

impl ThreadTime {
    fn now() -> ThreadTime {
        ThreadTime { monotonic_ns: system::monotonic_ns(), cpu_ns: system::thread_cpu_ns() }
    }
}

/// The detectors that work on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detectors {
    /// [`Flag`].
    pub flag: bool,
    /// [`InterruptProbe`].
    pub interrupts: bool,
    /// [`kernel_calls`].
    pub calls: bool,
}

/// The detectors of one thread.
pub struct CauseDetector {
    flag: Flag,
    probe: InterruptProbe,
    calls_known: bool,
    slow_ticks: u64,
    ticks_per_ns: f64,
    last: Usage,
    /// When `last` was read after the thread may not have run; from then on it ran.
    last_time: ThreadTime,
    /// Whether the detectors made a system call since the end of the last call.
    made_call: bool,
}

/// The state of the detectors directly after a call.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    flag: Seen,
    interrupted: bool,
    calls: u32,
}

impl CauseDetector {
    /// For the calling thread. Calls of `slow_ns` and more are examined.
    pub fn of_this_thread(detectors: Detectors, slow_ns: f64, ticks_per_ns: f64) -> CauseDetector {
        CauseDetector {
            flag: Flag::of_this_thread(detectors.flag),
            probe: InterruptProbe::of_this_thread(detectors.interrupts),
            calls_known: detectors.calls,
            slow_ticks: (slow_ns * ticks_per_ns) as u64,
            ticks_per_ns,
            last: system::thread_usage(),
            last_time: ThreadTime::now(),
            made_call: false,
        }
    }

    /// Arms the detectors, directly before a call.
    #[inline(always)]
    pub fn before(&mut self) {
        if self.flag.look() == Seen::Interrupted {
            // An interruption between calls: its switches must not be attributed to the next call.
            self.refresh_between(true);
        }
        if self.probe.is_cleared() {
            self.probe.arm();
        }
        kernel_calls::forget();
        self.flag.arm();
    }

    /// Reads the detectors, directly after a call.
    #[inline(always)]
    pub fn after(&self) -> Observation {
        Observation {
            flag: self.flag.look(),
            interrupted: self.probe.is_cleared(),
            calls: kernel_calls::seen(),
        }
    }

    /// Reads the counters again after events between calls that were longer than the reading itself
    /// (a sleep, an untimed touch).
    pub fn refresh(&mut self) {
        self.last = system::thread_usage();
        self.last_time = ThreadTime::now();
    }

    /// The same between two calls that would otherwise follow each other: the kernel displaces
    /// cache lines of the next call, which is marked. The clocks take twice as long as the
    /// counters, so they are read only if the thread may not have run for a while.
    fn refresh_between(&mut self, may_have_waited: bool) {
        self.made_call = true;
        self.last = system::thread_usage();
        if may_have_waited {
            self.last_time = ThreadTime::now();
        }
    }

    /// The cause word of a record: see [`Record::cause`].
    #[inline(always)]
    pub fn cause(&mut self, ticks: u64, observation: Observation) -> u32 {
        let follows = std::mem::take(&mut self.made_call) && ticks < self.slow_ticks;
        let follows = if follows { CAUSE_FOLLOWS_DETECTOR } else { 0 };
        if ticks < self.slow_ticks && observation.calls == 0 && observation.flag == Seen::Nothing {
            return follows;
        }
        self.cause_of_unusual(ticks, observation) | follows
    }

    #[cold]
    fn cause_of_unusual(&mut self, ticks: u64, observation: Observation) -> u32 {
        let mut cause = Record::with_calls(if self.calls_known { observation.calls } else { 0 });
        if observation.flag == Seen::Unknown {
            cause |= CAUSE_INTERRUPTED_UNKNOWN;
        }
        if cause >> Record::CALLS_SHIFT != 0 {
            cause |= CAUSE_SYSCALL;
        }
        if ticks < self.slow_ticks {
            // No interruption is that short: it happened between the flag and the clock.
            if observation.flag == Seen::Interrupted {
                self.refresh_between(true);
            }
            return cause;
        }
        if !self.calls_known {
            cause |= CAUSE_SYSCALL_UNKNOWN;
        }
        let (before, time_before) = (self.last, self.last_time);
        self.refresh_between(observation.flag != Seen::Nothing);
        let faults = self.last.faults() - before.faults();
        let slept = self.last.voluntary_switches != before.voluntary_switches;
        let preempted = self.last.involuntary_switches != before.involuntary_switches;
        let worked = observation.flag != Seen::Nothing && self.worked(ticks, time_before);
        if faults > 0 {
            cause |= CAUSE_FAULT | Record::with_faults(faults);
        }
        // A fault can sleep as well, on the lock of the address space. A call that slept without a
        // fault made a system call.
        if slept && observation.flag != Seen::Nothing {
            cause |= if faults > 0 { CAUSE_SLEPT } else { CAUSE_SLEPT | CAUSE_SYSCALL };
        }
        match observation.flag {
            // Neither kind of switch: a signal, or work of the kernel on the return from a timer
            // tick.
            _ if worked => cause,
            Seen::Interrupted if preempted || !slept => cause | CAUSE_INTERRUPTED,
            Seen::Unknown if preempted => cause | CAUSE_INTERRUPTED,
            // Faults clear the probe as well, so that it means nothing for calls with faults.
            Seen::Nothing if observation.interrupted && faults == 0 => cause | CAUSE_INTERRUPT,
            _ => cause,
        }
    }

    /// Whether a call that was interrupted spent most of its time on the processor, and is so long
    /// that the timer alone interrupts it. Such a call is long because of its own work: the C
    /// library's free, for example, joins a million small blocks in 45 ms. The time in which the
    /// thread did not run since the counters were read before is not less than that of the call.
    fn worked(&self, ticks: u64, before: ThreadTime) -> bool {
        let call_ns = ticks as f64 / self.ticks_per_ns;
        let now = self.last_time;
        let ran = now.cpu_ns.saturating_sub(before.cpu_ns);
        let waited = now.monotonic_ns.saturating_sub(before.monotonic_ns).saturating_sub(ran);
        call_ns >= LONG_NS && waited as f64 <= call_ns / 2.0
    }

    /// Restores the thread's state.
    pub fn dismiss(self) {
        self.flag.disarm();
    }
}
