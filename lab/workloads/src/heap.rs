//! The allocator under test, with the touches that every user of memory makes.

use keel_allocators::table::Table;

/// An allocator's table of functions; calls go straight through its pointers.
pub struct Heap(pub &'static Table);

/// A block on its way to another thread.
pub struct Block(pub *mut u8);

// SAFETY: a block of memory has no thread of its own; whoever holds the Block owns it.
unsafe impl Send for Block {}

impl Heap {
    /// A block whose first byte has been written. Aborts the process when the allocator has no memory: a benchmark that
    /// went on would measure something else.
    #[inline]
    pub fn malloc(&self, size: usize) -> *mut u8 {
        let block = self.malloc_untouched(size);
        touch(block);
        block
    }

    /// A block as the allocator returns it. Aborts as `malloc` does.
    #[inline]
    pub fn malloc_untouched(&self, size: usize) -> *mut u8 {
        // SAFETY: any size may be asked for.
        unsafe { (self.0.malloc)(size) }.cast::<u8>()
    }

    /// Writes one byte in each 4 KiB of a block.
    pub fn touch_pages(&self, block: *mut u8, size: usize) {
        touch(block);
        for offset in (0..size).step_by(4096) {
            // SAFETY: the block has `size` bytes.
            unsafe { block.add(offset).write_volatile(1) };
        }
    }

    /// As `malloc`, with one byte written in each 4 KiB.
    pub fn malloc_touched(&self, size: usize) -> *mut u8 {
        let block = self.malloc_untouched(size);
        self.touch_pages(block, size);
        block
    }

    /// A zeroed block.
    #[inline]
    pub fn calloc(&self, size: usize) -> *mut u8 {
        // SAFETY: any size may be asked for.
        let block = unsafe { (self.0.calloc)(1, size) }.cast::<u8>();
        touch(block);
        block
    }

    /// Gives a block back; NULL is allowed.
    #[inline]
    pub fn free(&self, block: *mut u8) {
        // SAFETY: callers pass what this heap returned, once.
        unsafe { (self.0.free)(block.cast()) }
    }

    /// Runs `body` between the allocator's own preparation for a thread and its end.
    pub fn thread(&self, body: impl FnOnce()) {
        if let Some(enter) = self.0.thread_init {
            // SAFETY: called once, first, on this thread.
            unsafe { enter() };
        }
        body();
        if let Some(leave) = self.0.thread_exit {
            // SAFETY: called once, last, on this thread.
            unsafe { leave() };
        }
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
