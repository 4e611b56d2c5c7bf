//! A thread's part of the plan without a clock around each call: what the calls cost together, which an instrument of
//! twenty nanoseconds a call cannot show. Nothing is recorded but when the thread began and ended.

use crate::clock::Clock;
use crate::own;
use crate::perform::{Complaints, Meter, Part, report, step_call};
use crate::touch;
use crate::wait::{add, announce};
use keel_plan::Kind;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

struct Nothing;

impl Meter for Nothing {
    type Seen = ();

    #[inline(always)]
    fn around(&mut self, call: impl FnOnce() -> *mut u8) -> (*mut u8, ()) {
        (call(), ())
    }
}

/// Executes the part at once; a schedule is not followed.
///
/// # Safety
/// As for [`crate::perform::perform`].
pub unsafe fn perform<C: Clock>(part: Part<'_>) {
    // SAFETY: passed on.
    unsafe {
        match part.orders.touch {
            touch::FIRST => perform_as::<C, { touch::FIRST }>(part),
            touch::PAGE => perform_as::<C, { touch::PAGE }>(part),
            touch::ALL => perform_as::<C, { touch::ALL }>(part),
            _ => perform_as::<C, { touch::NONE }>(part),
        }
    }
}

unsafe fn perform_as<C: Clock, const TOUCH: u8>(part: Part<'_>) {
    let state = &part.states[part.index];
    let complaints = Complaints(part.control);
    let alone = part.states.len() == 1;
    let (mut limit, mut high) = (if alone { u32::MAX } else { 0 }, 0usize);
    let (first_usage, first_cpu) = (own::thread_usage(), own::thread_cpu_ns());
    let from = C::now();
    for step in part.steps {
        announce(state, step.row);
        if step.row >= limit && !alone {
            let from = C::now();
            let slept;
            (limit, slept) = part.waiter.others(part.states, part.index, step.row, part.skew);
            if slept {
                add(&state.held_ticks, C::now().wrapping_sub(from));
            }
        }
        let slot = &part.slots[step.slot as usize];
        match step.kind() {
            Kind::Await => {
                if slot.tag.load(Acquire) != step.argument {
                    let from = C::now();
                    part.waiter.object(slot, step.argument);
                    add(&state.waits, 1);
                    add(&state.waited_ticks, C::now().wrapping_sub(from));
                }
            }
            Kind::High => high = (step.argument as usize) << 32,
            _ => {
                let size = high | step.argument as usize;
                high = 0;
                // SAFETY: the caller vouches for the plan.
                unsafe { step_call::<_, TOUCH, true>(&part, *step, slot, size, &mut Nothing, &complaints) };
            }
        }
    }
    let until = C::end();
    announce(state, u32::MAX);
    state.first_ticks.store(from.wrapping_sub(part.origin), Relaxed);
    state.last_ticks.store(until.wrapping_sub(part.origin), Relaxed);
    report(state, first_usage, first_cpu);
}
