//! Executes a script ([`keel_plan::Script`]) on one thread. The clock is read only at the ends of
//! segments, and between two calls there is only the reading of a step.

use crate::{free_hints, system};
use keel_allocators::table::Table;
use keel_plan::{Call, Reading, Script, Step};
use std::ffi::c_void;
use std::ptr::null_mut;

const PAGE_BYTES: usize = 4096;

/// Executes all steps and writes a reading for each segment.
///
/// # Errors
/// A sentence, if there is no memory for the slots.
///
/// # Safety
/// The table is initialised, in this thread too.
pub unsafe fn play(table: &Table, script: &Script) -> Result<(), String> {
    let slots = slots(script.slots as usize)?;
    let baseline = system::anonymous_resident();
    let (mut from, steps) = (0, script.steps());
    for (segment, end) in script.ends().iter().enumerate() {
        let end = (*end as usize).min(steps.len());
        let part = steps.get(from..end).unwrap_or_default();
        let start = system::monotonic_ns();
        // SAFETY: guaranteed by the caller.
        let refused = unsafe {
            if script.touch {
                perform::<true>(table, part, slots)
            } else {
                perform::<false>(table, part, slots)
            }
        };
        let ns = system::monotonic_ns() - start;
        let resident = system::anonymous_resident().saturating_sub(baseline);
        script.record(segment, Reading { ns, resident, refused });
        from = end;
    }
    Ok(())
}

/// Executes the steps; returns the number of calls that returned no memory.
#[inline(never)]
pub(crate) unsafe fn perform<const TOUCH: bool>(
    table: &Table,
    steps: &[[u64; 2]],
    slots: &mut [*mut c_void],
) -> u64 {
    let mut refused = 0;
    for words in steps {
        let step = Step::from_words(words);
        let size = step.size as usize;
        let Some(slot) = slots.get_mut(step.slot as usize) else { continue };
        // SAFETY: an initialised allocator gets its own blocks back, each once: a free empties the
        // slot.
        unsafe {
            let align = 1 << step.align_log2;
            let block = match step.call {
                Call::FreeSized => {
                    free_hints::free_sized(table, std::mem::replace(slot, null_mut()), size);
                    continue;
                }
                Call::FreeAligned => {
                    free_hints::free_aligned(table, std::mem::replace(slot, null_mut()), align);
                    continue;
                }
                Call::FreeAlignedSized => {
                    free_hints::free_aligned_sized(
                        table,
                        std::mem::replace(slot, null_mut()),
                        align,
                        size,
                    );
                    continue;
                }
                Call::Malloc => (table.malloc)(size),
                Call::Free => {
                    (table.free)(std::mem::replace(slot, null_mut()));
                    continue;
                }
                Call::Calloc => (table.calloc)(1, size),
                Call::Realloc => (table.realloc)(*slot, size),
                Call::Aligned => (table.aligned)(align, size),
            };
            if block.is_null() {
                // A block that realloc could not move stays in its slot.
                refused += 1;
                continue;
            }
            *slot = block;
            if TOUCH {
                for at in (0..size).step_by(PAGE_BYTES) {
                    block.cast::<u8>().add(at).write_volatile(1);
                }
            }
        }
    }
    refused
}

/// Room for the addresses of blocks.
pub(crate) fn slots(count: usize) -> Result<&'static mut [*mut c_void], String> {
    let bytes = count.max(1) * size_of::<*mut c_void>();
    let memory = system::anonymous(bytes, libc::MAP_POPULATE)
        .ok_or_else(|| format!("there is no memory for the addresses of {count} blocks"))?;
    // SAFETY: fresh zeroed memory of this size, never unmapped and not used elsewhere; zero is a
    // null pointer.
    Ok(unsafe { std::slice::from_raw_parts_mut(memory.as_ptr().cast(), count) })
}
