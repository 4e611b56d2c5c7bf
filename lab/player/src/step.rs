//! One step of a thread: the call, and the bookkeeping directly before and after it.

use crate::part::{Errors, Part};
use crate::{free_hints, touch, verify};
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
    let table = part.table;
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
    // SAFETY: in all calls below, the plan guarantees that blocks are live and ours; fresh blocks
    // have the requested size.
    let (block, seen) = unsafe {
        match kind {
            Kind::Free => meter.around(|| {
                (table.free)(old.cast::<c_void>());
                std::ptr::null_mut()
            }),
            Kind::FreeSized => meter.around(|| {
                free_hints::free_sized(table, old.cast(), size);
                std::ptr::null_mut()
            }),
            Kind::FreeAligned => meter.around(|| {
                free_hints::free_aligned(table, old.cast(), step.align());
                std::ptr::null_mut()
            }),
            Kind::FreeAlignedSized => meter.around(|| {
                free_hints::free_aligned_sized(table, old.cast(), step.align(), size);
                std::ptr::null_mut()
            }),
            Kind::Realloc => meter.around(|| {
                let block = (table.realloc)(old.cast(), size).cast::<u8>();
                if INSIDE && !block.is_null() {
                    touch::touch::<TOUCH>(block, held, size);
                }
                block
            }),
            Kind::Calloc => meter.around(|| {
                let block = (table.calloc)(1, size).cast::<u8>();
                if INSIDE && !block.is_null() {
                    touch::touch::<TOUCH>(block, 0, size);
                }
                block
            }),
            Kind::Aligned => meter.around(|| {
                let block = (table.aligned)(step.align(), size).cast::<u8>();
                if INSIDE && !block.is_null() {
                    touch::touch::<TOUCH>(block, 0, size);
                }
                block
            }),
            _ => meter.around(|| {
                let block = (table.malloc)(size).cast::<u8>();
                if INSIDE && !block.is_null() {
                    touch::touch::<TOUCH>(block, 0, size);
                }
                block
            }),
        }
    };
    if kind.class() == Kind::Free {
        return seen;
    }
    // SAFETY: a fresh block of this size, or null.
    unsafe { publish(part, step, slot, block, size, errors) };
    seen
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
