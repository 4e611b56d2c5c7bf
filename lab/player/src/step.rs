//! One step of a thread: the call, and the bookkeeping directly before and after it.

use crate::part::{Errors, Part};
use crate::{free_hints, touch, verify};
use keel_allocators::table::Table;
use keel_plan::{Kind, Op, Slot};
use std::ffi::c_void;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Measures a call.
pub(crate) trait Meter {
    /// The measurement.
    type Seen;
    fn around(&mut self, call: impl FnOnce() -> *mut u8) -> (*mut u8, Self::Seen);
}

/// Measures nothing.
pub(crate) struct Unmetered;

impl Meter for Unmetered {
    type Seen = ();

    #[inline(always)]
    fn around(&mut self, call: impl FnOnce() -> *mut u8) -> (*mut u8, ()) {
        (call(), ())
    }
}

/// Makes the call of a step.
#[inline(always)]
pub(crate) unsafe fn step_call<M: Meter, const TOUCH: u8, const INSIDE: bool>(
    part: &Part<'_>,
    step: Op,
    slot: &Slot,
    size: usize,
    meter: &mut M,
    errors: &Errors<'_>,
) -> M::Seen {
    let kind = step.kind();
    // Without an old block, the slot may still hold the address of a former object.
    let (old, held) = match step.is_fresh() {
        true => (std::ptr::null_mut(), 0),
        false => (slot.block.load(Relaxed), slot.size.load(Relaxed) as usize),
    };
    let releases = matches!(kind.class(), Kind::Free | Kind::Realloc);
    if part.orders.verify && releases {
        // SAFETY: the block is live and has at least this size.
        unsafe { verify::check(old, held, slot.tag.load(Relaxed), step.row, errors) };
    }
    // SAFETY: guaranteed by the caller.
    let (block, seen) =
        unsafe { allocator_call::<M, TOUCH, INSIDE>(part.table, step, (old, held), size, meter) };
    if kind.class() == Kind::Free {
        return seen;
    }
    // SAFETY: a fresh block of this size, or null.
    unsafe { publish(part, step, slot, block, size, errors) };
    seen
}

/// Calls the allocator's function of a step's kind under the meter.
///
/// # Safety
/// The old block is live, or null if the step has none.
#[inline(always)]
unsafe fn allocator_call<M: Meter, const TOUCH: u8, const INSIDE: bool>(
    table: &Table,
    step: Op,
    (old, held): (*mut u8, usize),
    size: usize,
    meter: &mut M,
) -> (*mut u8, M::Seen) {
    let touched = |block: *mut c_void, from: usize| {
        let block = block.cast::<u8>();
        if INSIDE && !block.is_null() {
            // SAFETY: a block of this size, which the allocator has just returned.
            unsafe { touch::touch::<TOUCH>(block, from, size) };
        }
        block
    };
    let null = std::ptr::null_mut::<u8>();
    // SAFETY: in all calls below, the plan guarantees that blocks are live and ours; fresh blocks
    // have the requested size.
    unsafe {
        match step.kind() {
            Kind::Free => meter.around(|| {
                (table.free)(old.cast::<c_void>());
                null
            }),
            Kind::FreeSized => meter.around(|| {
                free_hints::free_sized(table, old.cast(), size);
                null
            }),
            Kind::FreeAligned => meter.around(|| {
                free_hints::free_aligned(table, old.cast(), step.align());
                null
            }),
            Kind::FreeAlignedSized => meter.around(|| {
                free_hints::free_aligned_sized(table, old.cast(), step.align(), size);
                null
            }),
            Kind::Realloc => meter.around(|| touched((table.realloc)(old.cast(), size), held)),
            Kind::Calloc => meter.around(|| touched((table.calloc)(1, size), 0)),
            Kind::Aligned => meter.around(|| touched((table.aligned)(step.align(), size), 0)),
            _ => meter.around(|| touched((table.malloc)(size), 0)),
        }
    }
}

/// Stores a fresh block in its slot, where later steps find it.
#[inline(always)]
unsafe fn publish(
    part: &Part<'_>,
    step: Op,
    slot: &Slot,
    block: *mut u8,
    size: usize,
    errors: &Errors<'_>,
) {
    let tag = step.row.wrapping_add(1);
    if block.is_null() {
        errors.refused(step.row);
    }
    if part.orders.verify {
        // SAFETY: guaranteed by the caller.
        unsafe { verify_fresh(step, slot, block, size, errors) };
    }
    // After a failed realloc the old block is still live and in the slot.
    if !(block.is_null() && step.kind() == Kind::Realloc) {
        slot.block.store(block, Relaxed);
        slot.size.store(size.min(u32::MAX as usize) as u32, Relaxed);
    }
    slot.tag.store(tag, Release);
}

#[cold]
unsafe fn verify_fresh(step: Op, slot: &Slot, block: *mut u8, size: usize, errors: &Errors<'_>) {
    if block.is_null() {
        return;
    }
    let checked = size.min(u32::MAX as usize);
    // SAFETY: a fresh block of this size; after a realloc it begins with the contents of the old
    // block.
    unsafe {
        match step.kind() {
            Kind::Calloc => verify::check_zero(block, checked, step.row, errors),
            Kind::Realloc if !step.is_fresh() => {
                let kept = checked.min(slot.size.load(Relaxed) as usize);
                verify::check(block, kept, slot.tag.load(Relaxed), step.row, errors);
            }
            Kind::Aligned if !block.addr().is_multiple_of(step.align()) => errors.corrupt(step.row),
            _ => {}
        }
        if !block.addr().is_multiple_of(if size >= 16 { 16 } else { 8 }) {
            errors.corrupt(step.row);
        }
        verify::fill(block, checked, step.row.wrapping_add(1));
    }
}
