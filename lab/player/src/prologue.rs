//! The part of a thread before the run: it allocates the blocks that were live when the recording
//! began. They are touched and, under `verify`, filled like all others, but no clock runs, and no
//! figure contains these calls.

use crate::part::{Errors, Part};
use crate::step::{Unmetered, step_call};
use crate::{touch, usable_sizes};
use keel_plan::{Slot, calls};
use std::sync::atomic::Ordering::Relaxed;

/// Allocates the blocks of the part's prologue.
///
/// # Safety
/// As for [`crate::perform::perform`].
pub unsafe fn perform(part: &Part<'_>) {
    let errors = Errors(part.control);
    for (step, bytes) in calls(part.prologue) {
        let (slot, size) = (&part.slots[step.slot as usize], bytes as usize);
        // SAFETY: the caller guarantees the plan; the block is live after the call and has this
        // size.
        unsafe {
            step_call::<_, { touch::NONE }, true>(part, step, slot, size, &mut Unmetered, &errors);
            touch_as_ordered(part.orders.touch, slot, size);
            if part.orders.usable_sizes {
                usable_sizes::add(part, slot.block.load(Relaxed), bytes);
            }
        }
    }
}

unsafe fn touch_as_ordered(policy: u8, slot: &Slot, size: usize) {
    let block = slot.block.load(Relaxed);
    if block.is_null() {
        return;
    }
    // SAFETY: a live block of this size.
    unsafe {
        match policy {
            touch::FIRST => touch::touch::<{ touch::FIRST }>(block, 0, size),
            touch::PAGE => touch::touch::<{ touch::PAGE }>(block, 0, size),
            touch::ALL => touch::touch::<{ touch::ALL }>(block, 0, size),
            _ => {}
        }
    }
}
