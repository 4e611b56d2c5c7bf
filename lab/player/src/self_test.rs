//! Before every run: things that are known to happen, done on purpose, and whether the witnesses tell them.
//!
//! The numbers are a part of every result, so that a reader sees what the causes are worth on that machine.

use crate::clock::Clock;
use crate::kernel_calls;
use crate::own;
use crate::perform::{SLOW_NS, timed};
use crate::tripwire::Tripwire;
use crate::witness::{Senses, Witness};
use keel_plan::{
    CAUSE_FAULT, CAUSE_INTERRUPT, CAUSE_INTERRUPTED, CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT, CAUSE_SYSCALL,
    Control, SELF_TESTS, SelfTest,
};
use std::sync::atomic::Ordering::Relaxed;

const QUIET: u32 = 1000;
const TRIES: u32 = 20;

/// Tries every witness; writes down what was seen, and returns which of them may be believed. To be called once, by
/// the only thread of the process.
pub fn run<C: Clock>(control: &Control, ticks_per_ns: f64) -> Senses {
    let hoped = Senses {
        flag: crate::interruption::self_test(),
        tripwire: Tripwire::works(),
        calls: kernel_calls::install(),
    };
    let mut found = [(0, 0); SELF_TESTS.len()];
    let mut trial = Trial::<C> {
        witness: Witness::of_this_thread(hoped, (SLOW_NS * ticks_per_ns) as u64),
        clock: std::marker::PhantomData,
    };
    found[SelfTest::Quiet as usize] = trial.count(QUIET, 0, || {});
    found[SelfTest::Sleep as usize] = trial.sleeps();
    found[SelfTest::Signal as usize] = trial.signals();
    found[SelfTest::Fault as usize] = trial.faults();
    found[SelfTest::Map as usize] = trial.count(TRIES, CAUSE_SYSCALL, map_and_unmap);
    trial.witness.dismiss();
    for (place, (tried, seen)) in control.self_test.iter().zip(found) {
        place[0].store(tried, Relaxed);
        place[1].store(seen, Relaxed);
    }
    let all = |test: SelfTest| found[test as usize].0 == found[test as usize].1;
    Senses {
        flag: hoped.flag && all(SelfTest::Sleep) && all(SelfTest::Signal),
        tripwire: hoped.tripwire,
        calls: hoped.calls && all(SelfTest::Map),
    }
}

struct Trial<C> {
    witness: Witness,
    clock: std::marker::PhantomData<C>,
}

impl<C: Clock> Trial<C> {
    /// How often it was done, and how often told: as `wanted`, or, where that is 0, as something that cannot be.
    fn count(&mut self, times: u32, wanted: u32, mut act: impl FnMut()) -> (u32, u32) {
        let told = (0..times).filter(|_| {
            let (_, call) = timed::<C>(&mut self.witness, || {
                act();
                std::ptr::null_mut()
            });
            let cause = self.witness.cause(call.end.saturating_sub(call.begin), call.evidence);
            match wanted {
                // The system may interrupt a quiet window any time; the window itself faults, calls and sleeps never.
                0 => cause & (CAUSE_FAULT | CAUSE_SYSCALL | CAUSE_SLEPT) != 0,
                wanted => cause & wanted != 0,
            }
        });
        (times, told.count() as u32)
    }

    /// Sleeps. One that the kernel did not count was none: a virtual processor that was stopped may find the timer due
    /// before it has left the thread.
    fn sleeps(&mut self) -> (u32, u32) {
        let (mut tried, mut told) = (0, 0);
        for _ in 0..5 * TRIES {
            let before = own::thread_usage().voluntary_switches;
            let (_, seen) = self.count(1, CAUSE_SLEPT, || own::sleep_ns(50_000));
            if own::thread_usage().voluntary_switches != before {
                tried += 1;
                told += seen;
            }
            if tried == TRIES {
                break;
            }
        }
        (tried, told)
    }

    /// Signals to the thread itself, which its handler ignores.
    fn signals(&mut self) -> (u32, u32) {
        let mut action: libc::sigaction = {
            // SAFETY: all zeroes is a valid sigaction.
            unsafe { std::mem::zeroed() }
        };
        action.sa_sigaction = ignore as *const () as usize;
        let mut before = action;
        // SAFETY: a handler that does nothing, put in place while we send, and the former one put back.
        unsafe {
            libc::sigaction(libc::SIGUSR2, &raw const action, &raw mut before);
            let thread = libc::pthread_self();
            let found = self.count(TRIES, CAUSE_INTERRUPTED | CAUSE_INTERRUPTED_UNKNOWN, || {
                libc::pthread_kill(thread, libc::SIGUSR2);
            });
            libc::sigaction(libc::SIGUSR2, &raw const before, std::ptr::null_mut());
            found
        }
    }

    /// First writes to fresh pages, each of a mapping of its own, so that no fault serves two.
    fn faults(&mut self) -> (u32, u32) {
        let mut pages = (0..TRIES).filter_map(|_| own::anonymous(4096, 0)).collect::<Vec<_>>().into_iter();
        self.count(TRIES, CAUSE_FAULT, || {
            if let Some(page) = pages.next() {
                // SAFETY: a fresh page that nobody else knows of.
                unsafe { page.as_ptr().write_volatile(1) }
            }
        })
    }
}

extern "C" fn ignore(_: libc::c_int) {}

fn map_and_unmap() {
    if let Some(page) = own::anonymous(4096, 0) {
        // SAFETY: the mapping just made.
        unsafe { libc::munmap(page.as_ptr().cast(), 4096) };
    }
}

/// Whether a hardware interrupt is told: spins until one comes, at most 50 ms. For `keel doctor`.
pub fn meets_an_interrupt<C: Clock>(senses: Senses, ticks_per_ns: f64) -> bool {
    let mut witness = Witness::of_this_thread(senses, 0);
    let end = C::now() + (5e7 * ticks_per_ns) as u64;
    while C::now() < end {
        let (_, call) = timed::<C>(&mut witness, std::ptr::null_mut);
        if witness.cause(call.end.saturating_sub(call.begin), call.evidence) & CAUSE_INTERRUPT != 0 {
            return true;
        }
    }
    false
}
