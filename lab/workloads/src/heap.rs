//! The allocator under test, with the touches that every user of memory makes.

use crate::watch::{Mode, Watch};
use keel_allocators::table::Table;
use std::time::Duration;

/// An allocator's table of functions, through whose pointers calls go straight, and how much is asked of it.
pub struct Heap {
    table: &'static Table,
    /// 1 for what the workloads name; less to warm up, and much less in tests.
    scale: f64,
    mode: Mode,
}

/// A block on its way to another thread.
pub struct Block(pub *mut u8);

// SAFETY: a block of memory has no thread of its own; whoever holds the Block owns it.
unsafe impl Send for Block {}

impl Heap {
    /// `scale` is above 0 and at most 1.
    pub fn new(table: &'static Table, scale: f64, mode: Mode) -> Heap {
        Heap { table, scale, mode }
    }

    /// How much is asked of it.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// What watches are to do.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The same allocator at another scale.
    pub fn at_scale(&self, scale: f64) -> Heap {
        Heap { table: self.table, scale, mode: self.mode }
    }

    /// So many, or fewer when less is asked for; at least one.
    pub fn scaled(&self, count: u64) -> u64 {
        ((count as f64 * self.scale) as u64).max(1)
    }

    /// So long, or shorter when less is asked for.
    pub fn delay(&self, time: Duration) -> Duration {
        time.mul_f64(self.scale)
    }

    /// A watch over calls of this kind by the calling thread.
    pub fn watch(&self, event: &'static str) -> Watch {
        Watch::new(event, self.mode)
    }

    /// A block whose first byte has been written. Aborts the process when the allocator has no memory: a benchmark that
    /// went on would measure something else.
    #[inline]
    pub fn malloc(&self, size: usize) -> *mut u8 {
        let block = self.malloc_untouched(size);
        touch(block);
        block
    }

    /// A block as the allocator returns it, or NULL. What is done with it aborts as `malloc` does.
    #[inline]
    pub fn malloc_untouched(&self, size: usize) -> *mut u8 {
        // SAFETY: any size may be asked for.
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
        // SAFETY: any size may be asked for.
        unsafe { (self.table.calloc)(1, size) }.cast::<u8>()
    }

    /// The block resized; it may move.
    #[inline]
    pub fn realloc(&self, block: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: callers pass what this heap returned and go on with the result.
        unsafe { (self.table.realloc)(block.cast(), size) }.cast::<u8>()
    }

    /// Gives a block back; NULL is allowed.
    #[inline]
    pub fn free(&self, block: *mut u8) {
        // SAFETY: callers pass what this heap returned, once.
        unsafe { (self.table.free)(block.cast()) }
    }

    /// Runs `body` between the allocator's own preparation for a thread and its end.
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
    // SAFETY: every workload asks for at least one byte.
    unsafe { block.write_volatile(1) };
}
