//! A thread's part of the plan with a clock around each call. The outline is in `lib.rs`.

use crate::causes::{CauseDetector, Observation};
use crate::clock::Clock;
use crate::evict::Evictor;
use crate::part::{Errors, Part, Start};
use crate::speed::loop_ticks;
use crate::step::{Meter, step_call};
use crate::touch;
use crate::wait::{add, announce};
use keel_plan::{Kind, Record, Slot, ThreadState};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Calls of at least this length are examined: shorter than any page fault, longer than nearly
/// every other call.
pub const SLOW_NS: f64 = 250.0;

/// Calls between two measurements of the processor's speed: about 0.9 µs in 50 µs.
const SPEED_INTERVAL: usize = 1024;
/// Empty pairs in each such measurement.
const SPEED_PAIRS: u32 = 8;

/// Executes the part, from its first call to its last.
///
/// # Safety
/// As for [`crate::perform::perform`].
pub(crate) unsafe fn perform<C: Clock>(part: Part<'_>) {
    // SAFETY: passed on.
    unsafe {
        match (part.orders.touch, part.orders.touch_inside) {
            (touch::FIRST, true) => perform_as::<C, { touch::FIRST }, true>(part),
            (touch::FIRST, false) => perform_as::<C, { touch::FIRST }, false>(part),
            (touch::PAGE, true) => perform_as::<C, { touch::PAGE }, true>(part),
            (touch::PAGE, false) => perform_as::<C, { touch::PAGE }, false>(part),
            (touch::ALL, true) => perform_as::<C, { touch::ALL }, true>(part),
            (touch::ALL, false) => perform_as::<C, { touch::ALL }, false>(part),
            _ => perform_as::<C, { touch::NONE }, true>(part),
        }
    }
}

/// A timed call.
pub(crate) struct Timed {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) observation: Observation,
}

/// Measures with the clock and the detectors.
struct Timing<C> {
    detector: CauseDetector,
    clock: std::marker::PhantomData<C>,
}

impl<C: Clock> Meter for Timing<C> {
    type Seen = Timed;

    #[inline(always)]
    fn around(&mut self, call: impl FnOnce() -> *mut u8) -> (*mut u8, Timed) {
        timed::<C>(&mut self.detector, call)
    }
}

#[inline(always)]
pub(crate) fn timed<C: Clock>(
    detector: &mut CauseDetector,
    call: impl FnOnce() -> *mut u8,
) -> (*mut u8, Timed) {
    detector.before();
    let begin = C::begin();
    let block = call();
    let end = C::end();
    let observation = detector.after();
    (block, Timed { begin, end, observation })
}

unsafe fn perform_as<C: Clock, const TOUCH: u8, const INSIDE: bool>(part: Part<'_>) {
    let state = &part.states[part.index];
    let errors = Errors(part.control);
    let slow_ticks = (SLOW_NS * part.waiter.ticks_per_ns) as u64;
    let detector = CauseDetector::of_this_thread(part.detectors, SLOW_NS, part.waiter.ticks_per_ns);
    let mut timing = Timing::<C> { detector, clock: std::marker::PhantomData };
    let at_start = Start::now();
    let mut evictor = Evictor::new(part.evicted, part.orders.evict);
    let mut limit = part.first_limit();
    let (mut record, mut high, mut first, mut last) = (0usize, 0usize, None, 0);

    for step in part.steps {
        // A thread that is ahead of the others, or needs a block of another thread, has nothing to
        // do before its next call is due: one long sleep instead of many short ones.
        if (step.row >= limit || step.kind() == Kind::Await)
            && wait_for_schedule::<C>(&part, &mut evictor, record)
        {
            timing.detector.refresh();
        }
        if part.keep_pace::<C>(step.row, &mut limit) {
            timing.detector.refresh();
        }
        let slot = &part.slots[step.slot as usize];
        match step.kind() {
            Kind::Await => {
                if wait_for_object::<C>(&part, slot, step.argument) {
                    timing.detector.refresh();
                }
                continue;
            }
            Kind::High => {
                high = (step.argument as usize) << 32;
                continue;
            }
            _ => {}
        }
        if wait_for_schedule::<C>(&part, &mut evictor, record) {
            timing.detector.refresh();
        }
        let size = std::mem::take(&mut high) | step.argument as usize;
        // SAFETY: the caller guarantees the plan.
        let call = unsafe {
            step_call::<_, TOUCH, INSIDE>(&part, *step, slot, size, &mut timing, &errors)
        };
        let ticks = call.end.saturating_sub(call.begin);
        let cause = timing.detector.cause(ticks, call.observation);
        let start = call.begin.wrapping_sub(part.origin);
        let entry = Record { start, ticks: ticks.min(u64::from(u32::MAX)) as u32, cause };
        // SAFETY: there is one record for each timed step, and only this thread writes them.
        unsafe { part.records.add(record).write(entry) };
        record += 1;
        first.get_or_insert(start);
        last = call.end.wrapping_sub(part.origin);
        if record % SPEED_INTERVAL == 1 {
            measure_speed::<C>(state, &mut timing.detector);
        }
        if TOUCH != touch::NONE && !INSIDE && step.kind().class() != Kind::Free {
            // SAFETY: the block is live and of this size.
            if unsafe { touch_outside::<C, TOUCH>(slot, size) } >= slow_ticks {
                timing.detector.refresh();
            }
        }
    }
    announce(state, u32::MAX);
    timing.detector.dismiss();
    state.evicted_bytes.store(evictor.read_bytes(), Relaxed);
    state.first_ticks.store(first.unwrap_or(0), Relaxed);
    state.last_ticks.store(last, Relaxed);
    at_start.report(state);
}

/// Waits until the call of this number is due, if the run has a schedule; reports whether this
/// thread slept.
#[inline(always)]
fn wait_for_schedule<C: Clock>(part: &Part<'_>, evictor: &mut Evictor<'_>, record: usize) -> bool {
    let due = part.schedule.and_then(|schedule| schedule.get(record));
    due.is_some_and(|due| wait_until_due::<C>(part, evictor, *due))
}

/// Waits until another thread has allocated the object; reports whether this thread slept.
#[inline]
fn wait_for_object<C: Clock>(part: &Part<'_>, slot: &Slot, tag: u32) -> bool {
    if slot.tag.load(Acquire) == tag {
        return false;
    }
    let state = &part.states[part.index];
    let from = C::now();
    let slept = part.waiter.object(slot, tag);
    add(&state.waits, 1);
    add(&state.waited_ticks, C::now().wrapping_sub(from));
    slept
}

/// Waits until a call is due, ns since the run's start; reports whether this thread slept.
#[inline(always)]
fn wait_until_due<C: Clock>(part: &Part<'_>, evictor: &mut Evictor<'_>, due_ns: u64) -> bool {
    let due = part.origin + (due_ns as f64 * part.waiter.ticks_per_ns) as u64;
    if evictor.is_wanted() {
        evictor.read_until::<C>(due, due_ns);
    }
    part.waiter.time::<C>(due)
}

/// Touches a block after the clock has stopped. The old size of a realloc is not known here, so all
/// of the block is touched. Returns the ticks that it took.
#[inline(always)]
unsafe fn touch_outside<C: Clock, const TOUCH: u8>(slot: &Slot, size: usize) -> u64 {
    let from = C::now();
    let block = slot.block.load(Relaxed);
    if !block.is_null() {
        // SAFETY: a live block of this size.
        unsafe { touch::touch::<TOUCH>(block, 0, size) }
    }
    C::now().wrapping_sub(from)
}

/// Measures the present duration of an empty pair, and of a loop (speed.rs). The processor of a
/// virtual machine slows down for tenths of a second when another guest uses the same core. No
/// other counter shows this: no time is stolen and no frequency changes. The minimum of several
/// pairs excludes interrupted ones.
#[cold]
fn measure_speed<C: Clock>(state: &ThreadState, detector: &mut CauseDetector) {
    let least = (0..SPEED_PAIRS).map(|_| empty_pair::<C>(detector)).min().unwrap_or(0);
    add(&state.pair_ticks, least);
    add(&state.loop_ticks, loop_ticks::<C>());
    add(&state.pair_count, 1);
}

/// Ticks of an empty pair of clock readings, detectors included: the instrument's own cost.
pub fn empty_pair<C: Clock>(detector: &mut CauseDetector) -> u64 {
    let (_, call) = timed::<C>(detector, std::ptr::null_mut);
    call.end.saturating_sub(call.begin)
}
