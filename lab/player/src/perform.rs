//! Executes one thread's part of the plan in the kind of run that was ordered.

use crate::clock::Clock;
use crate::part::Part;
use crate::{clocked, unclocked, usable_sizes};

/// Executes the part, from its first call to its last.
///
/// # Safety
/// The plan must be one that replay compiled: slots are in range, and every object is freed once,
/// by a thread that may know it. `records` must have room for a record for each timed step.
pub unsafe fn perform<C: Clock>(part: Part<'_>) {
    // SAFETY: passed on.
    unsafe {
        match (part.orders.unclocked, part.orders.usable_sizes) {
            (false, _) => clocked::perform::<C>(part),
            (true, false) => unclocked::perform::<C>(part),
            (true, true) => usable_sizes::perform::<C>(part),
        }
    }
}
