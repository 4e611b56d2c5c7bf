//! The part of a call that the timed window does not contain: stores in flight.
//!
//! The instruction that ends the window waits for all instructions before it, but a store is
//! complete for the program as soon as it is in the store buffer. It reaches the cache later, which
//! takes long if its line is in no cache. The difference between a window that waits for the store
//! buffer and one that does not is measured once before each run, and is a part of the results.
//! Only x86-64 has an instruction that empties a line from all caches; elsewhere the difference is
//! stated as 0.

use crate::clock::Clock;
use keel_plan::{Control, STORED_LINES};
use std::sync::atomic::Ordering::Relaxed;

/// Measures and stores the ticks for each of [`STORED_LINES`].
pub fn measure<C: Clock>(control: &Control) {
    for (place, count) in control.stores_in_flight.iter().zip(STORED_LINES) {
        place.store(in_flight::<C>(count), Relaxed);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn in_flight<C: Clock>(_: usize) -> u64 {
    0
}

#[cfg(target_arch = "x86_64")]
use of_x86_64::in_flight;

#[cfg(target_arch = "x86_64")]
mod of_x86_64 {
    use crate::clock::Clock;
    use keel_plan::STORED_LINES;
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};

    /// Tries for each number of lines, of which the median counts.
    const TRIES: usize = 101;
    const LINE: usize = 64;
    const MOST_LINES: usize = STORED_LINES[1];

    #[repr(align(4096))]
    struct Lines([u8; MOST_LINES * LINE]);

    pub fn in_flight<C: Clock>(count: usize) -> u64 {
        let mut lines = Lines([1; MOST_LINES * LINE]);
        let mut window = |stored: usize, waits: bool| {
            let mut ticks: Vec<u64> =
                (0..TRIES).map(|_| once::<C>(&mut lines, stored, waits)).collect();
            ticks.sort_unstable();
            ticks[TRIES / 2]
        };
        // The wait itself takes some time, also without stores.
        let wait = window(0, true).saturating_sub(window(0, false));
        window(count, true).saturating_sub(window(count, false)).saturating_sub(wait)
    }

    /// A window with stores to the first `stored` lines, which are in no cache.
    fn once<C: Clock>(lines: &mut Lines, stored: usize, waits: bool) -> u64 {
        let base = lines.0.as_mut_ptr();
        // SAFETY: SSE2 is a part of x86-64; all addresses are inside of `lines`.
        unsafe {
            for line in 0..MOST_LINES {
                _mm_clflush(base.add(line * LINE));
            }
            _mm_mfence();
            let begin = C::begin();
            for line in 0..stored {
                base.add(line * LINE).write_volatile(2);
            }
            if waits {
                _mm_mfence();
            }
            C::end().saturating_sub(begin)
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::clock::{Counter, trustworthy};

    #[test]
    fn a_window_does_not_contain_its_stores() {
        let [_, most] = STORED_LINES;
        // A line of memory is farther away than 30 ticks on every processor; where other work
        // displaces the measurement, some try succeeds.
        let found = (0..20).any(|_| in_flight::<Counter>(most) > 30);
        assert!(found || !trustworthy());
    }
}
