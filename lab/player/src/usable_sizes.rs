//! Executes a thread's part of the plan and sums up the usable sizes of its blocks, to compute
//! internal fragmentation. It calls the allocator's usable-size function after each allocation and
//! before each free; the time of such a run means nothing.

use crate::clock::Clock;
use crate::part::{Errors, Part, Start};
use crate::step::{Meter, step_call};
use crate::touch;
use crate::wait::announce;
use keel_plan::{Kind, Op, Slot};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Executes the part without a schedule.
///
/// # Safety
/// As for [`crate::perform::perform`].
pub unsafe fn perform<C: Clock>(part: Part<'_>) {
    let state = &part.states[part.index];
    let errors = Errors(part.control);
    let (mut limit, mut high) = (part.first_limit(), 0usize);
    let at_start = Start::now();
    let from = C::now();
    for step in part.steps {
        let _ = part.keep_pace::<C>(step.row, &mut limit);
        let slot = &part.slots[step.slot as usize];
        match step.kind() {
            Kind::Await => {
                if slot.tag.load(Acquire) != step.argument {
                    part.waiter.object(slot, step.argument);
                }
            }
            Kind::High => high = (step.argument as usize) << 32,
            kind => {
                let size = high | step.argument as usize;
                high = 0;
                let mut adds = Adds { part: &part, kind: kind.class(), slot, size: size as u64 };
                // SAFETY: the slot's block is live until the call; the caller guarantees the plan.
                unsafe {
                    subtract(&part, *step, slot);
                    step_call::<_, { touch::NONE }, true>(
                        &part, *step, slot, size, &mut adds, &errors,
                    );
                }
            }
        }
    }
    let until = C::end();
    announce(state, u32::MAX);
    state.first_ticks.store(from.wrapping_sub(part.origin), Relaxed);
    state.last_ticks.store(until.wrapping_sub(part.origin), Relaxed);
    at_start.report(state);
}

/// Adds the block that a call returns, before other threads can find and free it.
struct Adds<'a> {
    part: &'a Part<'a>,
    kind: Kind,
    slot: &'a Slot,
    size: u64,
}

impl Meter for Adds<'_> {
    type Seen = ();

    fn around(&mut self, call: impl FnOnce() -> *mut u8) -> (*mut u8, ()) {
        let block = call();
        // After a failed realloc the old block is still live and in the slot.
        let kept = block.is_null() && self.kind == Kind::Realloc;
        let live = if kept { self.slot.block.load(Relaxed) } else { block };
        if self.kind != Kind::Free {
            // SAFETY: this thread has just obtained the block.
            unsafe { add(self.part, live, self.size) };
        }
        (block, ())
    }
}

/// The usable size of a block; 0 for a null block, or if the allocator does not report it.
unsafe fn usable(part: &Part<'_>, block: *mut u8) -> u64 {
    match part.table.usable_size {
        // SAFETY: a live block of this allocator.
        Some(usable_size) if !block.is_null() => unsafe { usable_size(block.cast()) as u64 },
        _ => 0,
    }
}

/// Subtracts a block that is about to be freed. Slots cap sizes at `u32::MAX`, and so do these
/// sums.
unsafe fn subtract(part: &Part<'_>, step: Op, slot: &Slot) {
    if step.is_fresh() || !matches!(step.kind().class(), Kind::Free | Kind::Realloc) {
        return;
    }
    // SAFETY: passed on.
    let usable = unsafe { usable(part, slot.block.load(Relaxed)) };
    part.control.live[0].fetch_sub(u64::from(slot.size.load(Relaxed)), Relaxed);
    part.control.live[1].fetch_sub(usable, Relaxed);
}

/// Adds an allocated block. The peak is exact up to the blocks that other threads allocate at the
/// same time.
pub(crate) unsafe fn add(part: &Part<'_>, block: *mut u8, requested: u64) {
    let control = part.control;
    let requested = requested.min(u64::from(u32::MAX));
    // SAFETY: passed on.
    let usable = unsafe { usable(part, block) };
    let live = control.live[0].fetch_add(requested, Relaxed) + requested;
    let live_usable = control.live[1].fetch_add(usable, Relaxed) + usable;
    control.total[0].fetch_add(requested, Relaxed);
    control.total[1].fetch_add(usable, Relaxed);
    if control.live_at_peak[0].fetch_max(live, Relaxed) < live {
        control.live_at_peak[1].store(live_usable, Relaxed);
    }
}
