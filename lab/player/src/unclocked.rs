//! A thread's part of the plan without a clock around each call: what the calls cost together, which an instrument of
//! twenty nanoseconds a call cannot show. Nothing is recorded but when the thread began and ended.
//!
//! What stands between two calls is itself a part of the time, so it is little:
//!
//! ```text
//! stretch     up to 64 steps, none so far ahead of the slowest thread that it would have to wait
//!   announce  the first of its rows, once
//!   step      fetch the slot of a later step · call · touch · keep the block for those who will use it
//! ```
//!
//! Others see a thread up to a stretch behind where it is, which only makes them more careful. Before a thread waits it
//! announces the very row at which it does: so no two threads ever wait for each other.

use crate::account;
use crate::clock::Clock;
use crate::own;
use crate::perform::{Complaints, Part, report};
use crate::telling;
use crate::touch;
use crate::wait::{add, announce};
use keel_allocators::table::Table;
use keel_plan::{Kind, Op, Slot, ThreadState};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Steps between two announcements.
const STRETCH: usize = 64;
/// The slot of the step so many further on is fetched: some 60 ns ahead, about what memory takes.
const AHEAD: usize = 12;

/// Executes the part at once; a schedule is not followed.
///
/// # Safety
/// As for [`crate::perform::perform`].
pub unsafe fn perform<C: Clock>(part: Part<'_>) {
    // SAFETY: passed on.
    unsafe {
        match part.orders.touch {
            _ if part.orders.account => account::perform::<C>(part),
            touch::FIRST => perform_as::<C, { touch::FIRST }>(part),
            touch::PAGE => perform_as::<C, { touch::PAGE }>(part),
            touch::ALL => perform_as::<C, { touch::ALL }>(part),
            _ => perform_as::<C, { touch::NONE }>(part),
        }
    }
}

unsafe fn perform_as<C: Clock, const TOUCH: u8>(part: Part<'_>) {
    let state = &part.states[part.index];
    let (first_usage, first_cpu) = (own::thread_usage(), own::thread_cpu_ns());
    let from = C::now();
    // SAFETY: passed on.
    unsafe {
        if part.states.len() == 1 {
            perform_alone::<TOUCH>(&part);
        } else {
            perform_among_others::<C, TOUCH>(&part);
        }
    }
    let until = C::end();
    announce(state, u32::MAX);
    state.first_ticks.store(from.wrapping_sub(part.origin), Relaxed);
    state.last_ticks.store(until.wrapping_sub(part.origin), Relaxed);
    report(state, first_usage, first_cpu);
}

/// The only thread: nobody is waited for, and nobody waits.
unsafe fn perform_alone<const TOUCH: u8>(part: &Part<'_>) {
    let hand = Hand::new(part);
    let mut start = 0;
    while let Some(first) = part.steps.get(start) {
        announce(&part.states[part.index], first.row);
        let end = part.steps.len().min(start + STRETCH);
        // SAFETY: passed on.
        start = unsafe { hand.stretch::<TOUCH, false>(start, end, &|_, _| {}) };
    }
}

unsafe fn perform_among_others<C: Clock, const TOUCH: u8>(part: &Part<'_>) {
    let state = &part.states[part.index];
    let hand = Hand::new(part);
    let (mut start, mut limit) = (0, 0);
    while let Some(first) = part.steps.get(start) {
        announce(state, first.row);
        if first.row >= limit {
            limit = hold::<C>(part, first.row);
        }
        let next = &part.steps[start..part.steps.len().min(start + STRETCH)];
        // Rows rise within a thread.
        let count = match next.last() {
            Some(last) if last.row < limit => next.len(),
            _ => next.partition_point(|step| step.row < limit),
        };
        let wait = &|step: &Op, slot: &Slot| await_object::<C>(part, state, step, slot);
        // SAFETY: passed on.
        start = unsafe { hand.stretch::<TOUCH, true>(start, start + count, wait) };
    }
}

/// Waits until `row` is no longer too far ahead; the limit below which no waiting is needed, beyond `row`.
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

/// What performs steps.
struct Hand<'a> {
    steps: &'a [Op],
    slots: &'a [Slot],
    table: &'a Table,
    complaints: Complaints<'a>,
}

impl<'a> Hand<'a> {
    fn new(part: &Part<'a>) -> Hand<'a> {
        let Part { steps, slots, table, control, .. } = *part;
        Hand { steps, slots, table, complaints: Complaints(control) }
    }

    /// Performs the steps `start..end`; the step at which to go on. `wait` is called for objects of others. Only where
    /// `SHARED` are slots given tags, by which others know that an object is there.
    #[inline(always)]
    unsafe fn stretch<const TOUCH: u8, const SHARED: bool>(
        &self,
        start: usize,
        end: usize,
        wait: &impl Fn(&Op, &Slot),
    ) -> usize {
        let ahead = if end + AHEAD <= self.steps.len() { AHEAD } else { 0 };
        let (slots, table) = (self.slots.as_ptr(), self.table);
        // SAFETY: `start..end` and what lies `ahead` of it are steps of ours; slots are in range, blocks live and ours
        // by the plan; fresh blocks have the size asked for.
        unsafe {
            let (mut at, end) = (self.steps.as_ptr().add(start), self.steps.as_ptr().add(end));
            while at < end {
                prefetch(slots.add((*at.add(ahead)).slot as usize));
                let step = &*at;
                let slot = &*slots.add(step.slot as usize);
                match step.kind() {
                    Kind::Malloc => {
                        let block = (table.malloc)(step.argument as usize).cast::<u8>();
                        self.keep::<TOUCH, SHARED>(step, slot, block, step.argument as usize);
                    }
                    Kind::Free => (table.free)(slot.block.load(Relaxed).cast()),
                    Kind::FreeSized => {
                        telling::free_sized(table, slot.block.load(Relaxed).cast(), step.argument as usize);
                    }
                    Kind::Await => wait(step, slot),
                    _ => at = self.rare::<TOUCH, SHARED>(at),
                }
                at = at.add(1);
            }
            at.offset_from_unsigned(self.steps.as_ptr())
        }
    }

    /// The less frequent calls; the last step that was a part of it.
    #[inline(never)]
    unsafe fn rare<const TOUCH: u8, const SHARED: bool>(&self, mut at: *const Op) -> *const Op {
        // SAFETY: as in `stretch`; the plan has a step after each `High`, which it serves.
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
                    telling::free_sized(self.table, old, size);
                    return at;
                }
                Kind::FreeAligned => {
                    telling::free_aligned(self.table, old, step.align());
                    return at;
                }
                Kind::FreeAlignedSized => {
                    telling::free_aligned_sized(self.table, old, step.align(), size);
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
            self.keep::<TOUCH, SHARED>(step, slot, block.cast(), size);
            at
        }
    }

    unsafe fn resize<const TOUCH: u8, const SHARED: bool>(&self, step: &Op, slot: &Slot, size: usize) {
        // Where there is no old block, the slot may still name that of an object long gone.
        let (old, held) = match step.is_fresh() {
            true => (std::ptr::null_mut(), 0),
            false => (slot.block.load(Relaxed), slot.size.load(Relaxed) as usize),
        };
        // SAFETY: as in `stretch`.
        unsafe {
            let block = (self.table.realloc)(old.cast(), size).cast::<u8>();
            if block.is_null() {
                // It leaves its old block alive, and in the slot.
                self.complaints.refused(step.row);
                slot.tag.store(step.row.wrapping_add(1), Release);
                return;
            }
            touch::touch::<TOUCH>(block, held, size);
            settle::<SHARED>(step, slot, block, size);
        }
    }

    /// Touches a fresh block and puts it where those who will use it find it.
    #[inline(always)]
    unsafe fn keep<const TOUCH: u8, const SHARED: bool>(
        &self,
        step: &Op,
        slot: &Slot,
        block: *mut u8,
        size: usize,
    ) {
        if block.is_null() {
            self.complaints.refused(step.row);
        } else {
            // SAFETY: a fresh block of this size.
            unsafe { touch::touch::<TOUCH>(block, 0, size) };
        }
        settle::<SHARED>(step, slot, block, size);
    }
}

#[inline(always)]
fn settle<const SHARED: bool>(step: &Op, slot: &Slot, block: *mut u8, size: usize) {
    slot.block.store(block, Relaxed);
    slot.size.store(size.min(u32::MAX as usize) as u32, Relaxed);
    if SHARED {
        slot.tag.store(step.row.wrapping_add(1), Release);
    }
}

/// Asks for the line of a slot, to be written soon.
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
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) slot, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = slot;
}
