//! The facts about the instrument, collected over the runs.

use crate::digest::{count, growing};
use keel_plan::{Results, SELF_TESTS};
use keel_results::{Clock, Frequency, Histogram, Instrument, SelfTest};
use std::sync::atomic::Ordering::Relaxed;

/// Collects the facts.
pub struct InstrumentLog {
    frequency: Frequency,
    empty_pairs: Histogram,
    clock_code: u32,
    /// Ticks of each run: see [`Instrument::stores_in_flight_ns`].
    stores: [Vec<f64>; 2],
    found: Instrument,
}

impl InstrumentLog {
    /// Before the first run.
    pub fn new() -> InstrumentLog {
        let test = |what: &&str| SelfTest { action: (*what).to_owned(), ..SelfTest::default() };
        let found = Instrument {
            interruptions: true,
            system_calls: true,
            interrupts: true,
            locked: true,
            self_test: SELF_TESTS.iter().map(test).collect(),
            stores_in_flight_ns: [0.0; 2],
            clock_fallback: None,
        };
        InstrumentLog {
            frequency: Frequency::default(),
            empty_pairs: growing(),
            clock_code: 0,
            stores: Default::default(),
            found,
        }
    }

    /// Adds the facts of a run.
    pub fn read(&mut self, results: &Results) {
        let control = results.control();
        self.clock_code = control.clock.load(Relaxed);
        self.found.interruptions &= control.interruptions.load(Relaxed) == 1;
        self.found.system_calls &= control.syscalls.load(Relaxed) == 1;
        self.found.interrupts &= control.interrupts.load(Relaxed) == 1;
        self.found.locked &= control.locked.load(Relaxed) == 1;
        if self.clock_code != 1 {
            self.found.clock_fallback = Some(control.message());
        }
        for (test, [tried, detected]) in self.found.self_test.iter_mut().zip(&control.self_test) {
            test.tried += u64::from(tried.load(Relaxed));
            test.detected += u64::from(detected.load(Relaxed));
        }
        for (all, ticks) in self.stores.iter_mut().zip(&control.stores_in_flight) {
            all.push(ticks.load(Relaxed) as f64);
        }
        self.frequency.add(
            (control.prepare_ticks.load(Relaxed), control.prepare_ns.load(Relaxed)),
            (control.end_ticks.load(Relaxed), control.end_ns.load(Relaxed)),
        );
        for ticks in results.empty_pairs() {
            count(&mut self.empty_pairs, u64::from(ticks.load(Relaxed)), 1);
        }
    }

    /// The frequency from all runs so far.
    pub fn frequency(&self) -> Frequency {
        self.frequency
    }

    /// For the results, without the step.
    pub fn clock(&self) -> Clock {
        let name = match self.clock_code {
            1 if cfg!(target_arch = "aarch64") => "cntvct",
            1 => "tsc",
            _ => "clock_monotonic",
        };
        Clock {
            name: name.to_owned(),
            ticks_per_ns: self.frequency.ticks_per_ns(),
            empty_pair: self.empty_pairs.clone(),
            step_ticks: 0,
            deviation_ppm: self.frequency.deviation_ppm(),
        }
    }

    /// For the results.
    pub fn instrument(&self) -> Instrument {
        let ns = |ticks: &Vec<f64>| {
            let median = keel_results::median(ticks.iter().copied()).unwrap_or(0.0);
            median / self.frequency.ticks_per_ns()
        };
        let stores_in_flight_ns = [ns(&self.stores[0]), ns(&self.stores[1])];
        Instrument { stores_in_flight_ns, ..self.found.clone() }
    }
}
