//! What happened to a call beside its own work: the four witnesses together.
//!
//! | witness | tells | when it is asked |
//! | --- | --- | --- |
//! | [`Flag`] (rseq) | preempted, migrated, signalled, or asleep | every call, a nanosecond |
//! | [`kernel_calls`] | which system calls were made | every call, a nanosecond |
//! | [`Tripwire`] (GS) | a hardware interrupt was served | every call, a nanosecond |
//! | RUSAGE_THREAD | page faults; whether it slept or was preempted | slow calls, after the clock |
//!
//! Each is made ready right before the call, so what happens between two calls is told of neither.

use crate::interruption::{Flag, Seen};
use crate::kernel_calls;
use crate::own::{self, Usage};
use crate::tripwire::Tripwire;
use keel_plan::{
    CAUSE_FAULT, CAUSE_INTERRUPT, CAUSE_INTERRUPTED, CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT, CAUSE_SYSCALL,
    CAUSE_SYSCALL_UNKNOWN, Record,
};

/// Which witnesses can be heard on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Senses {
    /// [`Flag`].
    pub flag: bool,
    /// [`Tripwire`].
    pub tripwire: bool,
    /// [`kernel_calls`].
    pub calls: bool,
}

/// The witnesses of one thread.
pub struct Witness {
    flag: Flag,
    wire: Tripwire,
    calls_known: bool,
    slow_ticks: u64,
    last: Usage,
}

/// What was seen when a call had just ended.
#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    flag: Seen,
    touched: bool,
    calls: u32,
}

impl Witness {
    /// For the calling thread. Calls of `slow_ticks` and more are looked into.
    pub fn of_this_thread(senses: Senses, slow_ticks: u64) -> Witness {
        Witness {
            flag: Flag::of_this_thread(senses.flag),
            wire: Tripwire::of_this_thread(senses.tripwire),
            calls_known: senses.calls,
            slow_ticks,
            last: own::thread_usage(),
        }
    }

    /// Makes ready, right before a call.
    #[inline(always)]
    pub fn before(&mut self) {
        if self.flag.look() == Seen::Interrupted {
            // Between the calls: its switches must not be taken for the next call's.
            self.refresh();
        }
        if self.wire.touched() {
            self.wire.stretch();
        }
        kernel_calls::forget();
        self.flag.arm();
    }

    /// Right after a call.
    #[inline(always)]
    pub fn after(&self) -> Evidence {
        Evidence { flag: self.flag.look(), touched: self.wire.touched(), calls: kernel_calls::seen() }
    }

    /// Between calls something may have happened (a sleep, an untimed touch): begin anew.
    pub fn refresh(&mut self) {
        self.last = own::thread_usage();
    }

    /// The cause word of a record: see [`Record::cause`].
    #[inline(always)]
    pub fn cause(&mut self, ticks: u64, evidence: Evidence) -> u32 {
        if ticks < self.slow_ticks && evidence.calls == 0 && evidence.flag == Seen::Nothing {
            return 0;
        }
        self.cause_of_odd(ticks, evidence)
    }

    #[cold]
    fn cause_of_odd(&mut self, ticks: u64, evidence: Evidence) -> u32 {
        let mut cause = Record::with_calls(if self.calls_known { evidence.calls } else { 0 });
        if evidence.flag == Seen::Unknown {
            cause |= CAUSE_INTERRUPTED_UNKNOWN;
        }
        if cause >> Record::CALLS_SHIFT != 0 {
            cause |= CAUSE_SYSCALL;
        }
        if ticks < self.slow_ticks {
            // No interruption is as short: it lay between the flag and the clock.
            if evidence.flag == Seen::Interrupted {
                self.refresh();
            }
            return cause;
        }
        if !self.calls_known {
            cause |= CAUSE_SYSCALL_UNKNOWN;
        }
        let now = own::thread_usage();
        let faults = now.faults() - self.last.faults();
        let slept = now.voluntary_switches != self.last.voluntary_switches;
        let preempted = now.involuntary_switches != self.last.involuntary_switches;
        self.last = now;
        if faults > 0 {
            cause |= CAUSE_FAULT | Record::with_faults(faults);
        }
        // A fault may sleep as well, on the lock of the address space; a call that slept without one asked for it.
        if slept && evidence.flag != Seen::Nothing {
            cause |= if faults > 0 { CAUSE_SLEPT } else { CAUSE_SLEPT | CAUSE_SYSCALL };
        }
        match evidence.flag {
            // Neither switch: it was a signal, or work that the kernel does on the way back from a timer tick.
            Seen::Interrupted if preempted || !slept => cause | CAUSE_INTERRUPTED,
            Seen::Unknown if preempted => cause | CAUSE_INTERRUPTED,
            // Faults touch the wire themselves, so beside them it says nothing.
            Seen::Nothing if evidence.touched && faults == 0 => cause | CAUSE_INTERRUPT,
            _ => cause,
        }
    }

    /// Leaves the thread as it was.
    pub fn dismiss(self) {
        self.flag.disarm();
    }
}
