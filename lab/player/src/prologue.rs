//! What a thread does before the run: it makes the blocks that lived when the recording began. They are made, touched
//! and, under `verify`, filled like all others, but no clock runs, and no call of theirs is in any figure.

use crate::account;
use crate::perform::{Complaints, Part, Unmetered, step_call};
use crate::touch;
use keel_plan::{Slot, calls};
use std::sync::atomic::Ordering::Relaxed;

/// Makes the blocks of the part's prologue.
///
/// # Safety
/// As for [`crate::perform::perform`].
pub unsafe fn perform(part: &Part<'_>) {
    let complaints = Complaints(part.control);
    for (step, bytes) in calls(part.prologue) {
        let (slot, size) = (&part.slots[step.slot as usize], bytes as usize);
        // SAFETY: the caller vouches for the plan; the block is live after the call, and of this size.
        unsafe {
            step_call::<_, { touch::NONE }, true>(part, step, slot, size, &mut Unmetered, &complaints);
            touch_as_ordered(part.orders.touch, slot, size);
            if part.orders.account {
                account::enter(part, slot, bytes);
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
