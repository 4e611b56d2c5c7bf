//! A loop whose duration shows whether another program uses the other hardware thread of the core.
//!
//! An empty pair of clock readings shows the processor's frequency. It consists of fences, which
//! wait, so it hardly needs the units that the two hardware threads of a core share: on an EPYC VM
//! it took 52 ticks beside a neighbour and without one, while a loop of 400 turns took 189 ns
//! instead of 110. A turn is one taken branch; without a neighbour the core executes one in each
//! cycle.

use crate::clock::Clock;

/// Turns of the loop: 70 ns.
const TURNS: u64 = 256;
/// Loops of which the shortest counts: others may be interrupted, and the first ones find their
/// code and the predictions of their branches cold.
const LOOPS: u32 = 8;

/// The present duration of the loop, ticks; 0 if it is unknown for this processor.
#[cold]
#[inline(never)] // the count of instructions an operation leaves it out
pub fn loop_ticks<C: Clock>() -> u64 {
    let one = || {
        let begin = C::begin();
        let known = turn(TURNS);
        if known { C::end().saturating_sub(begin) } else { 0 }
    };
    (0..LOOPS).map(|_| one()).min().unwrap_or(0)
}

/// Counts the turns down, and jumps back to the label 2.
#[cfg(target_arch = "x86_64")]
macro_rules! count_down {
    () => {
        "dec {turns}; jnz 2b"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! count_down {
    () => {
        "subs {turns}, {turns}, #1; b.ne 2b"
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
fn turn(turns: u64) -> bool {
    // SAFETY: counts a register down, which is discarded.
    unsafe {
        std::arch::asm!(
            ".p2align 6",
            "2:",
            count_down!(),
            turns = inout(reg) turns => _,
            options(nomem, nostack)
        );
    }
    true
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn turn(_: u64) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Counter, Monotonic};

    #[test]
    fn the_loop_has_a_length_that_the_clock_shows() {
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            // A turn takes at least a quarter of a nanosecond.
            assert!((0..100).all(|_| loop_ticks::<Monotonic>() >= 25));
            assert!(loop_ticks::<Counter>() > 0);
        }
    }
}
