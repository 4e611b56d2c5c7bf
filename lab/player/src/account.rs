//! A thread's part of the plan once more, for what its blocks hold beyond what was asked for: each block is asked
//! its usable size when it comes and when it goes. Slower than a run that is timed, and without meaning for its time.

use crate::clock::Clock;
use crate::own;
use crate::perform::{Complaints, Part, Unmetered, report, step_call};
use crate::touch;
use crate::wait::announce;
use keel_plan::{Kind, Op, Slot};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Executes the part at once; a schedule is not followed.
///
/// # Safety
/// As for [`crate::perform::perform`].
pub unsafe fn perform<C: Clock>(part: Part<'_>) {
    let state = &part.states[part.index];
    let complaints = Complaints(part.control);
    let (mut limit, mut high) = (part.first_limit(), 0usize);
    let (first_usage, first_cpu) = (own::thread_usage(), own::thread_cpu_ns());
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
                // SAFETY: what the slot holds is live until the call; the caller vouches for the plan.
                unsafe {
                    leave(&part, *step, slot);
                    step_call::<_, { touch::NONE }, true>(
                        &part,
                        *step,
                        slot,
                        size,
                        &mut Unmetered,
                        &complaints,
                    );
                }
                if kind.class() != Kind::Free {
                    // SAFETY: what the slot holds is live after the call.
                    unsafe { enter(&part, slot, size as u64) };
                }
            }
        }
    }
    let until = C::end();
    announce(state, u32::MAX);
    state.first_ticks.store(from.wrapping_sub(part.origin), Relaxed);
    state.last_ticks.store(until.wrapping_sub(part.origin), Relaxed);
    report(state, first_usage, first_cpu);
}

/// What a block holds, if the allocator can tell; a null block nothing.
unsafe fn usable(part: &Part<'_>, slot: &Slot) -> u64 {
    let block = slot.block.load(Relaxed);
    match part.table.usable_size {
        // SAFETY: a live block of this allocator.
        Some(usable_size) if !block.is_null() => unsafe { usable_size(block.cast()) as u64 },
        _ => 0,
    }
}

/// A block is about to be released. Sizes of 4 GiB and more are known to slots as that less a byte; so are they here.
unsafe fn leave(part: &Part<'_>, step: Op, slot: &Slot) {
    if step.is_fresh() || !matches!(step.kind().class(), Kind::Free | Kind::Realloc) {
        return;
    }
    // SAFETY: passed on.
    let usable = unsafe { usable(part, slot) };
    part.control.live[0].fetch_sub(u64::from(slot.size.load(Relaxed)), Relaxed);
    part.control.live[1].fetch_sub(usable, Relaxed);
}

/// A block was made. Where threads make blocks at the same time, the moment of the peak is sharp to those few.
pub(crate) unsafe fn enter(part: &Part<'_>, slot: &Slot, asked: u64) {
    let control = part.control;
    let asked = asked.min(u64::from(u32::MAX));
    // SAFETY: passed on.
    let usable = unsafe { usable(part, slot) };
    let live = control.live[0].fetch_add(asked, Relaxed) + asked;
    let live_usable = control.live[1].fetch_add(usable, Relaxed) + usable;
    control.total[0].fetch_add(asked, Relaxed);
    control.total[1].fetch_add(usable, Relaxed);
    if control.live_at_peak[0].fetch_max(live, Relaxed) < live {
        control.live_at_peak[1].store(live_usable, Relaxed);
    }
}
