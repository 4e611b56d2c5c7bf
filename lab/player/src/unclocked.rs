//! A thread's part of the plan without a clock around each call. It measures the cost of all calls
//! together, which an instrument of twenty nanoseconds a call would hide. Only the thread's start
//! and end are recorded.
//!
//! The work between two calls is part of the measured time, so there is little of it:
//!
//! ```text
//! batch       up to 64 steps, all within the limit to which the thread runs without waiting
//!   announce  the first of its rows, once
//!   step      prefetch the slot of a later step · call · touch · store the block in its slot
//! ```
//!
//! The announced row of a thread can be up to a batch behind its actual row. This only makes the
//! other threads wait earlier. Before a thread waits, it announces the row at which it does, so
//! that no two threads wait for each other.

use crate::clock::Clock;
use crate::free_hints;
use crate::part::{Errors, Part, Start};
use crate::speed::loop_ticks;
use crate::touch;
use crate::wait::{add, announce};
use keel_allocators::table::Table;
use keel_plan::{Kind, Op, Slot, ThreadState};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Steps between two announcements.
const BATCH: usize = 64;
/// Measurements of the processor's speed before and after the part: about 3 µs each.
const SPEED_SAMPLES: u32 = 16;
/// Empty pairs in each such measurement.
const SPEED_PAIRS: u32 = 8;
/// How many steps ahead slots are prefetched: about 60 ns, the latency of memory.
const PREFETCH_DISTANCE: usize = 12;

/// Executes the part without a schedule.
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
    measure_speed::<C>(state);
    let at_start = Start::now();
    let from = C::now();
    // SAFETY: passed on.
    unsafe {
        if part.states.len() == 1 {
            perform_alone::<TOUCH>(&part);
        } else {
            perform_with_others::<C, TOUCH>(&part);
        }
    }
    let until = C::end();
    announce(state, u32::MAX);
    state.first_ticks.store(from.wrapping_sub(part.origin), Relaxed);
    state.last_ticks.store(until.wrapping_sub(part.origin), Relaxed);
    at_start.report(state);
    measure_speed::<C>(state);
}

/// Measures the duration of an empty pair of clock readings and of a loop (speed.rs), which show
/// the processor's speed. They are measured outside of the part, so they cost nothing there.
#[cold]
fn measure_speed<C: Clock>(state: &ThreadState) {
    let pair = || {
        let begin = C::begin();
        C::end().saturating_sub(begin)
    };
    for _ in 0..SPEED_SAMPLES {
        add(&state.pair_ticks, (0..SPEED_PAIRS).map(|_| pair()).min().unwrap_or(0));
        add(&state.loop_ticks, loop_ticks::<C>());
        add(&state.pair_count, 1);
    }
}

/// A single thread, which never waits.
unsafe fn perform_alone<const TOUCH: u8>(part: &Part<'_>) {
    let executor = Executor::new(part);
    let mut start = 0;
    while let Some(first) = part.steps.get(start) {
        announce(&part.states[part.index], first.row);
        let end = part.steps.len().min(start + BATCH);
        // SAFETY: passed on.
        start = unsafe { executor.batch::<TOUCH, false>(start, end, &|_, _| {}) };
    }
}

unsafe fn perform_with_others<C: Clock, const TOUCH: u8>(part: &Part<'_>) {
    let state = &part.states[part.index];
    let executor = Executor::new(part);
    let (mut start, mut limit) = (0, 0);
    while let Some(first) = part.steps.get(start) {
        announce(state, first.row);
        if first.row >= limit {
            limit = hold::<C>(part, first.row);
        }
        let next = &part.steps[start..part.steps.len().min(start + BATCH)];
        // Rows rise within a thread.
        let count = match next.last() {
            Some(last) if last.row < limit => next.len(),
            _ => next.partition_point(|step| step.row < limit),
        };
        let wait = &|step: &Op, slot: &Slot| await_object::<C>(part, state, step, slot);
        // SAFETY: passed on.
        start = unsafe { executor.batch::<TOUCH, true>(start, start + count, wait) };
    }
}

/// Waits until `row` is not too far ahead. Returns the limit below which no wait is needed; it is
/// above `row`.
#[cold]
fn hold<C: Clock>(part: &Part<'_>, row: u32) -> u32 {
    let (limit, _) = part.hold::<C>(row);
    limit.max(row.saturating_add(1))
}

#[inline(always)]
fn await_object<C: Clock>(part: &Part<'_>, state: &ThreadState, step: &Op, slot: &Slot) {
    if slot.tag.load(Acquire) != step.argument {
        announce(state, step.row);
        let from = C::now();
        part.waiter.object(slot, step.argument);
        add(&state.waits, 1);
        add(&state.waited_ticks, C::now().wrapping_sub(from));
    }
}

/// Executes steps.
struct Executor<'a> {
    steps: &'a [Op],
    slots: &'a [Slot],
    table: &'a Table,
    errors: Errors<'a>,
}

impl<'a> Executor<'a> {
    fn new(part: &Part<'a>) -> Executor<'a> {
        let Part { steps, slots, table, control, .. } = *part;
        Executor { steps, slots, table, errors: Errors(control) }
    }

    /// Executes the steps `start..end` and returns the index of the next step. `wait` is called for
    /// objects of other threads. Only if `SHARED`, slots get tags, by which other threads recognize
    /// objects.
    #[inline(always)]
    unsafe fn batch<const TOUCH: u8, const SHARED: bool>(
        &self,
        start: usize,
        end: usize,
        wait: &impl Fn(&Op, &Slot),
    ) -> usize {
        let ahead = if end + PREFETCH_DISTANCE <= self.steps.len() { PREFETCH_DISTANCE } else { 0 };
        let (slots, table) = (self.slots.as_ptr(), self.table);
        // SAFETY: `start..end` and the steps `ahead` of it are in range. The plan guarantees that
        // slots are in range and that blocks are live and ours. Fresh blocks have the requested
        // size.
        unsafe {
            let (mut at, end) = (self.steps.as_ptr().add(start), self.steps.as_ptr().add(end));
            while at < end {
                prefetch(slots.add((*at.add(ahead)).slot as usize));
                let step = &*at;
                let slot = &*slots.add(step.slot as usize);
                match step.kind() {
                    Kind::Malloc => {
                        let block = (table.malloc)(step.argument as usize).cast::<u8>();
                        self.store::<TOUCH, SHARED>(step, slot, block, step.argument as usize);
                    }
                    Kind::Free => (table.free)(slot.block.load(Relaxed).cast()),
                    Kind::FreeSized => {
                        free_hints::free_sized(
                            table,
                            slot.block.load(Relaxed).cast(),
                            step.argument as usize,
                        );
                    }
                    Kind::Await => wait(step, slot),
                    _ => at = self.rare::<TOUCH, SHARED>(at),
                }
                at = at.add(1);
            }
            at.offset_from_unsigned(self.steps.as_ptr())
        }
    }

    /// Executes one of the less frequent calls and returns its last step.
    #[inline(never)]
    unsafe fn rare<const TOUCH: u8, const SHARED: bool>(&self, mut at: *const Op) -> *const Op {
        // SAFETY: as in `batch`; the plan has a step after each `High`.
        unsafe {
            let mut size = (*at).argument as usize;
            if (*at).kind() == Kind::High {
                at = at.add(1);
                size = size << 32 | (*at).argument as usize;
            }
            let step = &*at;
            let slot = &self.slots[step.slot as usize];
            let old = slot.block.load(Relaxed).cast();
            let block = match step.kind() {
                Kind::FreeSized => {
                    free_hints::free_sized(self.table, old, size);
                    return at;
                }
                Kind::FreeAligned => {
                    free_hints::free_aligned(self.table, old, step.align());
                    return at;
                }
                Kind::FreeAlignedSized => {
                    free_hints::free_aligned_sized(self.table, old, step.align(), size);
                    return at;
                }
                Kind::Calloc => (self.table.calloc)(1, size),
                Kind::Aligned => (self.table.aligned)(step.align(), size),
                Kind::Realloc => {
                    self.resize::<TOUCH, SHARED>(step, slot, size);
                    return at;
                }
                _ => (self.table.malloc)(size),
            };
            self.store::<TOUCH, SHARED>(step, slot, block.cast(), size);
            at
        }
    }

    unsafe fn resize<const TOUCH: u8, const SHARED: bool>(
        &self,
        step: &Op,
        slot: &Slot,
        size: usize,
    ) {
        // Without an old block, the slot may still hold the address of a former object.
        let (old, held) = match step.is_fresh() {
            true => (std::ptr::null_mut(), 0),
            false => (slot.block.load(Relaxed), slot.size.load(Relaxed) as usize),
        };
        // SAFETY: as in `batch`.
        unsafe {
            let block = (self.table.realloc)(old.cast(), size).cast::<u8>();
            if block.is_null() {
                // The old block is still live and in the slot.
                self.errors.refused(step.row);
                slot.tag.store(step.row.wrapping_add(1), Release);
                return;
            }
            touch::touch::<TOUCH>(block, held, size);
            publish::<SHARED>(step, slot, block, size);
        }
    }

    /// Touches a fresh block and stores it in its slot, where later steps find it.
    #[inline(always)]
    unsafe fn store<const TOUCH: u8, const SHARED: bool>(
        &self,
        step: &Op,
        slot: &Slot,
        block: *mut u8,
        size: usize,
    ) {
        if block.is_null() {
            self.errors.refused(step.row);
        } else {
            // SAFETY: a fresh block of this size.
            unsafe { touch::touch::<TOUCH>(block, 0, size) };
        }
        publish::<SHARED>(step, slot, block, size);
    }
}

#[inline(always)]
fn publish<const SHARED: bool>(step: &Op, slot: &Slot, block: *mut u8, size: usize) {
    slot.block.store(block, Relaxed);
    slot.size.store(size.min(u32::MAX as usize) as u32, Relaxed);
    if SHARED {
        slot.tag.store(step.row.wrapping_add(1), Release);
    }
}

/// Prefetches the cache line of a slot for writing.
#[inline(always)]
fn prefetch(slot: *const Slot) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(slot.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint; it never faults.
    unsafe {
        std::arch::asm!("prfm pstl1keep, \
            [{}]", in(reg) slot, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = slot;
}
