//! `keel-player --self-test`: the capabilities of this machine, one fact a line, for `keel doctor`.
//!
//! ```text
//! clock tsc                       or: clock clock_monotonic, with a line `clock_fault`
//! ticks_per_ns 2.6
//! empty_pair_ns 20.1 20.1 30.2    best, median, p99.9
//! step_ns 10.0
//! stores_ns 80.0 300.0            stores to 1 and to 16 lines, after the window has ended
//! pace 3.5 1.171                  percent of a second in which the processor was slower, and the
//!                                 largest factor; missing if the clock's steps are about as long
//!                                 as an empty pair
//! test sleep 20 20                action, tried, detected
//! sense flag yes                  flag, tripwire, calls; and whether an interrupt was detected
//! ```

use crate::causes::CauseDetector;
use crate::clock::{self, Clock};
use crate::clocked::empty_pair;
use crate::{self_test, stores};
use keel_plan::{Control, EMPTY_PAIRS, Header, Results, SELF_TESTS, SharedError};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Windows in which the processor's speed is measured, and their length.
const WINDOWS: usize = 200;
const WINDOW_NS: f64 = 5e6;
/// An empty pair that is longer than in the fastest window by this factor means a slower processor,
/// as in a comparison.
const SLOWED: f64 = 1.015;

/// Empty pairs of fewer ticks do not show the speed.
const COARSE: f64 = 8.0;

/// The share of a second in which the processor was slower, and the ratio of the slowest window's
/// empty pair to the fastest's. None if the clock is too coarse.
fn pace<C: Clock>(detector: &mut CauseDetector, ticks_per_ns: f64) -> Option<(f64, f64)> {
    let window = |_| {
        let until = C::now() + (WINDOW_NS * ticks_per_ns) as u64;
        let (mut sum, mut looks) = (0u64, 0u64);
        while C::now() < until {
            // The minimum of several pairs excludes interrupted ones.
            sum += (0..8).map(|_| empty_pair::<C>(detector)).min().unwrap_or(0);
            looks += 1;
        }
        sum as f64 / looks.max(1) as f64
    };
    let windows: Vec<f64> = (0..WINDOWS).map(window).collect();
    let least = windows.iter().copied().fold(f64::INFINITY, f64::min);
    let slowed = windows.iter().filter(|&&pair| pair > SLOWED * least).count();
    let most = windows.iter().copied().fold(0.0, f64::max);
    (least >= COARSE).then(|| (slowed as f64 / WINDOWS as f64, most / least))
}

/// The facts, as text.
///
/// # Errors
/// No shared memory.
pub fn facts<C: Clock>() -> Result<String, SharedError> {
    let results = Results::create(&Header::default())?;
    let control: &Control = results.control();
    let ticks_per_ns = clock::ticks_per_ns::<C>();
    let detectors = self_test::run::<C>(control, ticks_per_ns);
    let mut pairs = vec![0u64; EMPTY_PAIRS];
    let mut detector = CauseDetector::of_this_thread(detectors, f64::INFINITY, 1.0);
    pairs.iter_mut().for_each(|pair| *pair = empty_pair::<C>(&mut detector));
    let pace = pace::<C>(&mut detector, ticks_per_ns);
    detector.dismiss();
    pairs.sort_unstable();
    let ns =
        |quantile: f64| pairs[(quantile * (EMPTY_PAIRS - 1) as f64) as usize] as f64 / ticks_per_ns;
    let step =
        pairs.windows(2).map(|two| two[1] - two[0]).filter(|&step| step > 0).min().unwrap_or(0);
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = writeln!(text, "clock {}", if C::CODE == 1 { "counter" } else { "clock_monotonic" });
    let _ = writeln!(text, "ticks_per_ns {ticks_per_ns:.6}");
    let _ = writeln!(text, "empty_pair_ns {:.1} {:.1} {:.1}", ns(0.0), ns(0.5), ns(0.999));
    let _ = writeln!(text, "step_ns {:.2}", step as f64 / ticks_per_ns);
    stores::measure::<C>(control);
    let [one, many] = &control.stores_in_flight;
    let stores = |ticks: &AtomicU64| ticks.load(Relaxed) as f64 / ticks_per_ns;
    let _ = writeln!(text, "stores_ns {:.1} {:.1}", stores(one), stores(many));
    if let Some((slowed, most)) = pace {
        let _ = writeln!(text, "pace {:.1} {most:.3}", slowed * 100.0);
    }
    for (action, [tried, detected]) in SELF_TESTS.iter().zip(&control.self_test) {
        let _ = writeln!(text, "test {action} {} {}", tried.load(Relaxed), detected.load(Relaxed));
    }
    let word = |yes: bool| if yes { "yes" } else { "no" };
    let _ = writeln!(text, "sense flag {}", word(detectors.flag));
    let _ = writeln!(text, "sense calls {}", word(detectors.calls));
    let _ = writeln!(text, "sense tripwire {}", word(detectors.interrupts));
    let met = detectors.interrupts && self_test::detects_an_interrupt::<C>(detectors, ticks_per_ns);
    let _ = writeln!(text, "sense interrupt_met {}", word(met));
    let locked = results.memory().lock();
    let _ = writeln!(text, "sense lock {}", word(locked));
    Ok(text)
}
