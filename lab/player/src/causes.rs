//! The causes of slow calls: four detectors together.
//!
//! | detector | detects | used for |
//! | --- | --- | --- |
//! | [`Flag`] (rseq) | preemption, migration, signals, sleep | every call, a nanosecond |
//! | [`kernel_calls`] | system calls, by kind | every call, a nanosecond |
//! | [`InterruptProbe`] (GS) | hardware interrupts | every call, a nanosecond |
//! | RUSAGE_THREAD | page faults; sleep or preemption | slow calls, after the clock |
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
    last: Usage,
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
    /// For the calling thread. Calls of `slow_ticks` and more are examined.
    pub fn of_this_thread(detectors: Detectors, slow_ticks: u64) -> CauseDetector {
        CauseDetector {
            flag: Flag::of_this_thread(detectors.flag),
            probe: InterruptProbe::of_this_thread(detectors.interrupts),
            calls_known: detectors.calls,
            slow_ticks,
            last: system::thread_usage(),
            made_call: false,
        }
    }

    /// Arms the detectors, directly before a call.
    #[inline(always)]
    pub fn before(&mut self) {
        if self.flag.look() == Seen::Interrupted {
            // An interruption between calls: its switches must not be attributed to the next call.
            self.last = self.usage();
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
    }

    /// Reads the counters between two calls that would otherwise follow each other: the kernel
    /// displaces cache lines of the next call, which is marked.
    fn usage(&mut self) -> Usage {
        self.made_call = true;
        system::thread_usage()
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
                self.last = self.usage();
            }
            return cause;
        }
        if !self.calls_known {
            cause |= CAUSE_SYSCALL_UNKNOWN;
        }
        let now = self.usage();
        let faults = now.faults() - self.last.faults();
        let slept = now.voluntary_switches != self.last.voluntary_switches;
        let preempted = now.involuntary_switches != self.last.involuntary_switches;
        self.last = now;
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
            Seen::Interrupted if preempted || !slept => cause | CAUSE_INTERRUPTED,
            Seen::Unknown if preempted => cause | CAUSE_INTERRUPTED,
            // Faults clear the probe as well, so that it means nothing for calls with faults.
            Seen::Nothing if observation.interrupted && faults == 0 => cause | CAUSE_INTERRUPT,
            _ => cause,
        }
    }

    /// Restores the thread's state.
    pub fn dismiss(self) {
        self.flag.disarm();
    }
}
