//! The instrument around single calls.
//!
//! ```text
//! timed    arm flag · clock · CALL · clock · read     then empty windows, as long as the calls
//! counted  usage · trap on · CALL · trap off · usage  no clock: counting is slower than the call
//! ```
//!
//! A call during which the thread was preempted is excluded and counted separately. The thread
//! cannot detect that a hypervisor stopped the processor. Therefore empty windows of 1 µs are timed
//! on the same thread, for as long in total as the calls took. The excess of the longest window is
//! the machine's own noise, and an allocator is judged by the excess of its slowest call over this
//! noise.

use crate::trap::Trap;
use hdrhistogram::Histogram;
use keel_player::clock::{self, Clock, Counter, Monotonic};
use keel_player::interruption::{self, Flag, Seen};
use keel_player::system;
use keel_workloads::{Counted, Event};
use std::sync::OnceLock;

/// The mode of watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Time them.
    Timed,
    /// Count their page faults and system calls.
    Counted,
}

/// Facts about this machine that all watches share.
struct Machine {
    counter: bool,
    flag: bool,
    ticks_per_ns: f64,
}

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| {
        let counter = clock::trustworthy();
        let ticks_per_ns = if counter { clock::ticks_per_ns::<Counter>() } else { 1.0 };
        Machine { counter, flag: interruption::self_test(), ticks_per_ns }
    })
}

/// Ticks of the clock now.
pub fn now() -> u64 {
    if machine().counter { Counter::begin() } else { Monotonic::begin() }
}

/// The way to detect that the thread was preempted.
enum Guard {
    Flag(Flag),
    /// The kernel's counts of switches, read before and after: slower, but outside of the window.
    Usage,
}

/// Calls of one kind by one thread.
pub struct Watch {
    tally: Tally,
    counter: bool,
    guard: Guard,
    /// Ticks of calls for which no empty windows have been timed yet.
    debt: u64,
    /// Ticks of an empty window.
    window: u64,
    /// Whether empty windows follow the calls directly, or only in [`Watch::time_windows`].
    at_once: bool,
    trap: Option<Trap>,
}

impl Watch {
    /// For calls by the calling thread.
    pub fn new(event: &'static str, mode: Mode) -> Watch {
        let machine = machine();
        let guard =
            if machine.flag { Guard::Flag(Flag::of_this_thread(true)) } else { Guard::Usage };
        let mut watch = Watch {
            tally: Tally::new(event, mode),
            counter: machine.counter,
            guard,
            debt: 0,
            window: (1000.0 * machine.ticks_per_ns) as u64,
            at_once: true,
            trap: (mode == Mode::Counted).then(Trap::of_this_thread),
        };
        watch.find_floor();
        watch
    }

    /// Times empty windows only in [`Watch::time_windows`], so that the caller can measure their
    /// time.
    pub fn with_windows_later(mut self) -> Watch {
        self.at_once = false;
        self
    }

    /// The median of empty pairs of clock readings.
    fn find_floor(&mut self) {
        let mut pairs = [0; 501];
        for pair in &mut pairs {
            *pair = self.window(|| ()).1;
        }
        pairs.sort_unstable();
        self.tally.floor = pairs[pairs.len() / 2];
    }

    /// Makes a call and records it.
    #[inline(always)]
    pub fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        if self.trap.is_some() {
            return self.count(call);
        }
        let (result, ticks, whole) = self.window(call);
        self.record(ticks, whole);
        result
    }

    #[inline(always)]
    fn window<T>(&mut self, call: impl FnOnce() -> T) -> (T, u64, bool) {
        match self.guard {
            Guard::Flag(flag) => {
                flag.arm();
                let (result, ticks) = self.clocked(call);
                let seen = flag.look();
                if seen == Seen::Unknown {
                    // The allocator uses rseq itself.
                    self.guard = Guard::Usage;
                }
                (result, ticks, seen != Seen::Interrupted)
            }
            Guard::Usage => {
                let before = switches();
                let (result, ticks) = self.clocked(call);
                (result, ticks, switches() == before)
            }
        }
    }

    #[inline(always)]
    fn clocked<T>(&self, call: impl FnOnce() -> T) -> (T, u64) {
        if self.counter {
            let begin = Counter::begin();
            let result = call();
            (result, Counter::end().saturating_sub(begin))
        } else {
            let begin = Monotonic::begin();
            let result = call();
            (result, Monotonic::end().saturating_sub(begin))
        }
    }

    #[inline]
    fn record(&mut self, ticks: u64, whole: bool) {
        if !whole {
            self.tally.interrupted += 1;
            return;
        }
        self.tally.enter(ticks);
        self.debt += ticks;
        if self.at_once && self.debt >= self.window {
            self.time_windows();
        }
    }

    /// Times the empty windows that are due.
    #[inline(never)]
    pub fn time_windows(&mut self) {
        let length = self.window;
        while self.debt >= length {
            self.debt -= length;
            let counter = self.counter;
            let ((), ticks, whole) = self.window(|| spin(counter, length));
            if whole {
                self.tally.enter_noise(ticks.saturating_sub(length));
            }
        }
    }

    fn count<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let before = system::thread_usage();
        let (system_call, result) = match &self.trap {
            Some(trap) => trap.watch(call),
            None => (None, call()),
        };
        let after = system::thread_usage();
        let faults =
            after.minor_faults + after.major_faults - before.minor_faults - before.major_faults;
        let counted = &mut self.tally.counted;
        counted.calls += 1;
        counted.faults += faults;
        counted.faulting_calls += u64::from(faults > 0);
        if let Some(made) = system_call {
            *counted.system_calls.get_or_insert(0) += u64::from(made);
        }
        result
    }

    /// Ends the watch and restores its thread.
    pub fn leave(mut self) -> Tally {
        match self.guard {
            Guard::Flag(flag) => flag.disarm(),
            Guard::Usage => self.tally.detected_by = "rusage",
        }
        self.tally
    }

    /// The same, without other tallies.
    pub fn finish(self, findings: &mut Findings) {
        self.leave().finish(findings);
    }
}

/// The measurements of one kind of call, by one or several threads.
pub struct Tally {
    event: &'static str,
    mode: Mode,
    detected_by: &'static str,
    calls: Histogram<u64>,
    sum: u64,
    worst: u64,
    interrupted: u64,
    noise: u64,
    floor: u64,
    counted: Counted,
}

impl Tally {
    /// An empty tally, for times that are measured elsewhere; otherwise see [`Watch`].
    pub fn new(event: &'static str, mode: Mode) -> Tally {
        Tally {
            event,
            mode,
            detected_by: "rseq",
            calls: Histogram::new_with_bounds(1, 1 << 42, 3)
                .unwrap_or_else(|_| std::process::abort()),
            sum: 0,
            worst: 0,
            interrupted: 0,
            noise: 0,
            floor: 0,
            counted: Counted { event: event.to_owned(), ..Counted::default() },
        }
    }

    /// As [`Tally::new`], for times in which preemption cannot be detected or is part of the
    /// measurement.
    pub fn undetected(event: &'static str, mode: Mode) -> Tally {
        Tally { detected_by: "nothing", ..Tally::new(event, mode) }
    }

    /// Adds a call, in ticks.
    #[inline]
    pub fn enter(&mut self, ticks: u64) {
        self.calls.saturating_record(ticks);
        self.sum += ticks;
        self.worst = self.worst.max(ticks);
    }

    /// Adds a sample of the machine's noise, in ticks.
    pub fn enter_noise(&mut self, ticks: u64) {
        self.noise = self.noise.max(ticks);
    }

    /// Adds another thread's tally of the same kind of call.
    pub fn merge(&mut self, other: &Tally) {
        // Both have the same bounds.
        let _ = self.calls.add(&other.calls);
        self.sum += other.sum;
        self.worst = self.worst.max(other.worst);
        self.interrupted += other.interrupted;
        self.noise = self.noise.max(other.noise);
        self.floor = self.floor.max(other.floor);
        self.detected_by = other.detected_by;
        self.counted.add(&other.counted);
    }

    /// Adds the tally to the results, unless it is empty.
    pub fn finish(self, findings: &mut Findings) {
        if self.mode == Mode::Counted {
            if self.counted.calls > 0 {
                findings.counted.push(self.counted);
            }
            return;
        }
        let ns = |ticks: u64| ticks as f64 / machine().ticks_per_ns;
        let calls = self.calls.len();
        findings.events.push(Event {
            event: self.event.to_owned(),
            calls,
            interrupted: self.interrupted,
            detected_by: self.detected_by.to_owned(),
            mean_ns: ns(self.sum) / calls.max(1) as f64,
            percentiles_ns: keel_results::PERCENTILES.map(|percentile| {
                // The bucket's upper end may exceed the longest call.
                ns(self.calls.value_at_quantile(percentile.fraction).min(self.worst))
            }),
            worst_ns: ns(self.worst),
            floor_ns: ns(self.floor),
            noise_ns: ns(self.noise),
        });
    }
}

/// The results of a workload's watches.
#[derive(Default)]
pub struct Findings {
    /// Of timed runs.
    pub events: Vec<Event>,
    /// Of counted runs.
    pub counted: Vec<Counted>,
    /// Resident bytes, if the workload measures memory.
    pub resident: Option<u64>,
}

fn switches() -> u64 {
    let usage = system::thread_usage();
    usage.voluntary_switches + usage.involuntary_switches
}

fn spin(counter: bool, length: u64) {
    let now = || if counter { Counter::now() } else { Monotonic::now() };
    let begin = now();
    while now().wrapping_sub(begin) < length {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(watch: Watch) -> Findings {
        let mut findings = Findings::default();
        watch.finish(&mut findings);
        findings
    }

    #[test]
    fn faults_and_system_calls_are_counted_by_call() {
        let Some(fresh) = system::anonymous(64 << 12, 0) else { return };
        let mut watch = Watch::new("call", Mode::Counted);
        for page in 0..64 {
            // SAFETY: inside the mapping.
            watch.time(|| unsafe { fresh.as_ptr().add(page << 12).write_volatile(1) });
        }
        for _ in 0..36 {
            watch.time(|| std::hint::black_box(0));
        }
        for _ in 0..7 {
            // SAFETY: returns a number.
            watch.time(|| unsafe { libc::getppid() });
        }
        let counted = &events(watch).counted[0];
        assert_eq!((counted.calls, counted.faults, counted.faulting_calls), (107, 64, 64));
        assert!(counted.system_calls.is_none_or(|calls| calls == 7), "{counted:?}");
    }

    #[test]
    fn a_call_that_sleeps_is_left_out_and_a_slow_one_is_not() {
        let mut watch = Watch::new("call", Mode::Timed);
        for _ in 0..5 {
            watch.time(|| system::sleep_ns(1_000_000));
        }
        for _ in 0..200 {
            watch.time(|| std::hint::black_box(0));
        }
        let slow = machine().ticks_per_ns * 50_000.0;
        let counter = machine().counter;
        (0..20).for_each(|_| watch.time(|| spin(counter, slow as u64)));
        let event = &events(watch).events[0];
        assert!(event.interrupted >= 5, "{event:?}");
        assert!(event.calls >= 200 && event.calls + event.interrupted == 225, "{event:?}");
        assert!(event.worst_ns >= 50_000.0, "{event:?}");
        assert!(
            event.percentiles_ns.is_sorted() && event.percentiles_ns[0] < 50_000.0,
            "{event:?}"
        );
    }

    #[test]
    fn two_threads_make_one_event() {
        let (mut one, mut other) =
            (Tally::new("call", Mode::Timed), Tally::new("call", Mode::Timed));
        one.enter(10);
        other.enter(30);
        other.enter_noise(7);
        one.merge(&other);
        let mut findings = Findings::default();
        one.finish(&mut findings);
        let event = &findings.events[0];
        assert_eq!(event.calls, 2);
        assert!((event.worst_ns - 30.0 / machine().ticks_per_ns).abs() < 1e-6);
        assert!((event.mean_ns - 20.0 / machine().ticks_per_ns).abs() < 1e-6);
        assert!(event.noise_ns > 0.0);
    }
}
