//! The player's own allocator: a pointer that only moves forward, on mappings that the allocator
//! under test never sees.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

const CHUNK: usize = 1 << 20;

/// The player's global allocator. Thread-safe; it never frees memory (the player executes one run).
pub struct Bump {
    busy: AtomicBool,
    /// Next free address and end of the current chunk; only accessed by the thread that set `busy`.
    room: UnsafeCell<(usize, usize)>,
}

// SAFETY: `busy` excludes other threads from `room`.
unsafe impl Sync for Bump {}

impl Bump {
    /// Without a mapping.
    pub const fn new() -> Bump {
        Bump { busy: AtomicBool::new(false), room: UnsafeCell::new((0, 0)) }
    }

    fn take(room: &mut (usize, usize), layout: Layout) -> *mut u8 {
        let start = room.0.next_multiple_of(layout.align());
        let Some(end) = start.checked_add(layout.size()) else { return null_mut() };
        if room.0 != 0 && end <= room.1 {
            room.0 = end;
            return start as *mut u8;
        }
        let bytes = layout.size().saturating_add(layout.align()).saturating_add(CHUNK);
        let Some(chunk) = crate::system::anonymous(bytes, 0) else { return null_mut() };
        let start = chunk.as_ptr().addr().next_multiple_of(layout.align());
        *room = (start + layout.size(), chunk.as_ptr().addr() + bytes);
        start as *mut u8
    }
}

impl Default for Bump {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: blocks are disjoint parts of mappings.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        while self.busy.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // SAFETY: this thread has set `busy`.
        let block = Self::take(unsafe { &mut *self.room.get() }, layout);
        self.busy.store(false, Ordering::Release);
        block
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
