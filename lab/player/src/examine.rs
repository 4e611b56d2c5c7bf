//! `keel-player --self-test`: what can be measured on this machine, a fact a line, for `keel doctor`.
//!
//! ```text
//! clock tsc                       or: clock clock_monotonic, with a line `clock_fault`
//! ticks_per_ns 2.6
//! empty_pair_ns 20.1 20.1 30.2    best, median, p99.9
//! step_ns 10.0
//! test sleep 20 20                what, tried, told
//! sense flag yes                  flag, tripwire, calls; and whether an interrupt was met
//! ```

use crate::clock::{self, Clock};
use crate::perform::empty_pair;
use crate::self_test;
use crate::witness::Witness;
use keel_plan::{Control, EMPTY_PAIRS, Header, Results, SELF_TESTS, SharedError};
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

/// The facts, as text.
///
/// # Errors
/// No shared memory.
pub fn facts<C: Clock>() -> Result<String, SharedError> {
    let results = Results::create(&Header::default())?;
    let control: &Control = results.control();
    let ticks_per_ns = clock::ticks_per_ns::<C>();
    let senses = self_test::run::<C>(control, ticks_per_ns);
    let mut pairs = vec![0u64; EMPTY_PAIRS];
    let mut witness = Witness::of_this_thread(senses, u64::MAX);
    pairs.iter_mut().for_each(|pair| *pair = empty_pair::<C>(&mut witness));
    witness.dismiss();
    pairs.sort_unstable();
    let ns = |quantile: f64| pairs[(quantile * (EMPTY_PAIRS - 1) as f64) as usize] as f64 / ticks_per_ns;
    let step = pairs.windows(2).map(|two| two[1] - two[0]).filter(|&step| step > 0).min().unwrap_or(0);
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = writeln!(text, "clock {}", if C::CODE == 1 { "counter" } else { "clock_monotonic" });
    let _ = writeln!(text, "ticks_per_ns {ticks_per_ns:.6}");
    let _ = writeln!(text, "empty_pair_ns {:.1} {:.1} {:.1}", ns(0.0), ns(0.5), ns(0.999));
    let _ = writeln!(text, "step_ns {:.2}", step as f64 / ticks_per_ns);
    for (what, [tried, told]) in SELF_TESTS.iter().zip(&control.self_test) {
        let _ = writeln!(text, "test {what} {} {}", tried.load(Relaxed), told.load(Relaxed));
    }
    let word = |yes: bool| if yes { "yes" } else { "no" };
    let _ = writeln!(text, "sense flag {}", word(senses.flag));
    let _ = writeln!(text, "sense calls {}", word(senses.calls));
    let _ = writeln!(text, "sense tripwire {}", word(senses.tripwire));
    let met = senses.tripwire && self_test::meets_an_interrupt::<C>(senses, ticks_per_ns);
    let _ = writeln!(text, "sense interrupt_met {}", word(met));
    let locked = results.memory().lock();
    let _ = writeln!(text, "sense lock {}", word(locked));
    Ok(text)
}
