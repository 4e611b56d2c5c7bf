//! The allocator under test, with the writes of a program that uses the memory.

use crate::watch::{Mode, Watch};
use keel_allocators::table::Table;
use std::time::Duration;

/// An allocator's table of functions, and the scale of the workload.
pub struct Heap {
    table: &'static Table,
    /// 1 for the full workload, less for the warm-up, and much less in tests.
    scale: f64,
    mode: Mode,
}

/// A block that is passed to another thread.
pub struct Block(pub *mut u8);

// SAFETY: memory belongs to no thread; the owner of the Block owns it.
unsafe impl Send for Block {}

impl Heap {
    /// `scale` is above 0 and at most 1.
    pub fn new(table: &'static Table, scale: f64, mode: Mode) -> Heap {
        Heap { table, scale, mode }
    }

    /// The scale of the workload.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The mode of watches.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The same allocator at another scale.
    pub fn at_scale(&self, scale: f64) -> Heap {
        Heap { table: self.table, scale, mode: self.mode }
    }

    /// `count` times the scale, at least 1.
    pub fn scaled(&self, count: u64) -> u64 {
        ((count as f64 * self.scale) as u64).max(1)
    }

    /// `time` times the scale.
    pub fn delay(&self, time: Duration) -> Duration {
        time.mul_f64(self.scale)
    }

    /// A watch for calls of this kind by the calling thread.
    pub fn watch(&self, event: &'static str) -> Watch {
        Watch::new(event, self.mode)
    }

    /// A block whose first byte has been written. Aborts the process if the allocator has no
    /// memory: the measurement would be meaningless.
    #[inline]
    pub fn malloc(&self, size: usize) -> *mut u8 {
        let block = self.malloc_untouched(size);
        touch(block);
        block
    }

    /// A block as the allocator returns it, or NULL. Touching NULL aborts, as in `malloc`.
    #[inline]
    pub fn malloc_untouched(&self, size: usize) -> *mut u8 {
        // SAFETY: any size is allowed.
        unsafe { (self.table.malloc)(size) }.cast::<u8>()
    }

    /// Writes one byte in each 4 KiB of a block.
    #[inline]
    pub fn touch_pages(&self, block: *mut u8, size: usize) {
        touch(block);
        for offset in (4096..size).step_by(4096) {
            // SAFETY: the block has `size` bytes.
            unsafe { block.add(offset).write_volatile(1) };
        }
    }

    /// As `malloc`, with one byte written in each 4 KiB.
    #[inline]
    pub fn malloc_touched(&self, size: usize) -> *mut u8 {
        let block = self.malloc_untouched(size);
        self.touch_pages(block, size);
        block
    }

    /// A zeroed block, its first byte written.
    #[inline]
    pub fn calloc(&self, size: usize) -> *mut u8 {
        let block = self.calloc_untouched(size);
        touch(block);
        block
    }

    /// A zeroed block as the allocator returns it, or NULL.
    #[inline]
    pub fn calloc_untouched(&self, size: usize) -> *mut u8 {
        // SAFETY: any size is allowed.
        unsafe { (self.table.calloc)(1, size) }.cast::<u8>()
    }

    /// The block resized; it may move.
    #[inline]
    pub fn realloc(&self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: callers pass a block of this heap and continue with the result.
        unsafe { (self.table.realloc)(block.cast(), size) }.cast::<u8>()
    }

    /// Frees a block; NULL is allowed.
    #[inline]
    pub fn free(&self, block: *mut u8) {
        // SAFETY: callers pass a block of this heap, once.
        unsafe { (self.table.free)(block.cast()) }
    }

    /// Runs `body` between the allocator's functions for the start and the end of a thread.
    pub fn thread<T>(&self, body: impl FnOnce() -> T) -> T {
        if let Some(enter) = self.table.thread_init {
            // SAFETY: called once, first, on this thread.
            unsafe { enter() };
        }
        let result = body();
        if let Some(leave) = self.table.thread_exit {
            // SAFETY: called once, last, on this thread.
            unsafe { leave() };
        }
        result
    }
}

#[inline]
fn touch(block: *mut u8) {
    if block.is_null() {
        std::process::abort();
    }
    // SAFETY: every workload requests at least one byte.
    unsafe { block.write_volatile(1) };
}
