//! The self-test before every run: actions with known effects, and whether the detectors report
//! them.
//!
//! The counts are part of every result and show how reliable the causes are on that machine.

use crate::causes::{CauseDetector, Detectors};
use crate::clock::Clock;
use crate::clocked::{SLOW_NS, timed};
use crate::interrupt_probe::InterruptProbe;
use crate::kernel_calls;
use crate::system;
use keel_plan::{
    CAUSE_FAULT, CAUSE_INTERRUPT, CAUSE_INTERRUPTED, CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT,
    CAUSE_SYSCALL, Control, SELF_TESTS, SelfTest,
};
use std::sync::atomic::Ordering::Relaxed;

const QUIET: u32 = 1000;
const TRIES: u32 = 20;

/// Tests every detector, stores the counts, and returns the detectors that work. To be called once,
/// while the process has one thread.
pub fn run<C: Clock>(control: &Control, ticks_per_ns: f64) -> Detectors {
    let available = Detectors {
        flag: crate::interruption::self_test(),
        interrupts: InterruptProbe::works(),
        calls: kernel_calls::install(),
    };
    let mut found = [(0, 0); SELF_TESTS.len()];
    let mut trial = Trial::<C> {
        detector: CauseDetector::of_this_thread(available, SLOW_NS, ticks_per_ns),
        clock: std::marker::PhantomData,
    };
    found[SelfTest::Quiet as usize] = trial.count(QUIET, 0, || {});
    found[SelfTest::Sleep as usize] = trial.sleeps();
    found[SelfTest::Signal as usize] = trial.signals();
    found[SelfTest::Fault as usize] = trial.faults();
    found[SelfTest::Map as usize] = trial.count(TRIES, CAUSE_SYSCALL, map_and_unmap);
    trial.detector.dismiss();
    for (place, (tried, seen)) in control.self_test.iter().zip(found) {
        place[0].store(tried, Relaxed);
        place[1].store(seen, Relaxed);
    }
    let all = |test: SelfTest| found[test as usize].0 == found[test as usize].1;
    Detectors {
        flag: available.flag && all(SelfTest::Sleep) && all(SelfTest::Signal),
        interrupts: available.interrupts,
        calls: available.calls && all(SelfTest::Map),
    }
}

struct Trial<C> {
    detector: CauseDetector,
    clock: std::marker::PhantomData<C>,
}

impl<C: Clock> Trial<C> {
    /// Executes an action `times` times. Returns how often, and how often one of the causes
    /// `wanted` was detected; if that is 0, how often there was a false alarm.
    fn count(&mut self, times: u32, wanted: u32, mut act: impl FnMut()) -> (u32, u32) {
        let detected = (0..times).filter(|_| {
            let (_, call) = timed::<C>(&mut self.detector, || {
                act();
                std::ptr::null_mut()
            });
            let cause = self.detector.cause(call.end.saturating_sub(call.begin), call.observation);
            match wanted {
                // The system may interrupt an empty window at any time, but the window itself never
                // faults, calls or sleeps.
                0 => cause & (CAUSE_FAULT | CAUSE_SYSCALL | CAUSE_SLEPT) != 0,
                wanted => cause & wanted != 0,
            }
        });
        (times, detected.count() as u32)
    }

    /// Sleeps. A sleep that the kernel did not count does not count here: if a virtual processor is
    /// stopped, the timer may be due before the thread has slept.
    fn sleeps(&mut self) -> (u32, u32) {
        let (mut tried, mut detected) = (0, 0);
        for _ in 0..5 * TRIES {
            let before = system::thread_usage().voluntary_switches;
            let (_, seen) = self.count(1, CAUSE_SLEPT, || system::sleep_ns(50_000));
            if system::thread_usage().voluntary_switches != before {
                tried += 1;
                detected += seen;
            }
            if tried == TRIES {
                break;
            }
        }
        (tried, detected)
    }

    /// Signals to the thread itself, which its handler ignores.
    fn signals(&mut self) -> (u32, u32) {
        let mut action: libc::sigaction = {
            // SAFETY: all zeroes is a valid sigaction.
            unsafe { std::mem::zeroed() }
        };
        action.sa_sigaction = ignore as *const () as usize;
        let mut before = action;
        // SAFETY: installs a handler that does nothing for the time of the test, then restores the
        // former one.
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

    /// First writes to fresh pages, each in a separate mapping, so that each write faults.
    fn faults(&mut self) -> (u32, u32) {
        let mut pages =
            (0..TRIES).filter_map(|_| system::anonymous(4096, 0)).collect::<Vec<_>>().into_iter();
        self.count(TRIES, CAUSE_FAULT, || {
            if let Some(page) = pages.next() {
                // SAFETY: a fresh page that nothing else uses.
                unsafe { page.as_ptr().write_volatile(1) }
            }
        })
    }
}

extern "C" fn ignore(_: libc::c_int) {}

fn map_and_unmap() {
    if let Some(page) = system::anonymous(4096, 0) {
        // SAFETY: the mapping just made.
        unsafe { libc::munmap(page.as_ptr().cast(), 4096) };
    }
}

/// Whether a hardware interrupt is detected: spins until there is one, at most 50 ms. For `keel
/// doctor`.
pub fn detects_an_interrupt<C: Clock>(detectors: Detectors, ticks_per_ns: f64) -> bool {
    let mut detector = CauseDetector::of_this_thread(detectors, 0.0, 1.0);
    let end = C::now() + (5e7 * ticks_per_ns) as u64;
    while C::now() < end {
        let (_, call) = timed::<C>(&mut detector, std::ptr::null_mut);
        if detector.cause(call.end.saturating_sub(call.begin), call.observation) & CAUSE_INTERRUPT
            != 0
        {
            return true;
        }
    }
    false
}
