//! The null allocator: the floor of the instrument. It costs a few instructions, returns writable
//! memory, and keeps no record of it.
//!
//! Each thread has a window of 16 MiB of addresses, which maps the same 1 MiB of memory repeatedly.
//! A block is the next piece of the window's first 256 KiB; after their end the next block is again
//! at the start. Its memory is therefore as warm as that of an allocator that reuses the block
//! freed last. Larger blocks begin at the window's start. Long-lived blocks share memory with later
//! ones, which is harmless because no step reads them. All pages are present from the start:
//! touching a block never faults, and no two threads write to the same cache line. Blocks too large
//! for a window come from one window of 1 GiB that all threads share, and larger ones from mmap
//! (these fault and are never freed).
//!
//! `calloc` does not clear, `realloc` does not copy, and the contents of blocks are undefined.

use crate::system;
use keel_allocators::table::{ABI, Table, put_text};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const WINDOW: usize = 16 << 20;
const WARM: usize = 256 << 10;
const MEMORY: usize = 1 << 20;
const LARGE: usize = 1 << 30;

/// Base of the shared window; 0 if it could not be mapped.
static LARGE_BASE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NEXT: Cell<usize> = const { Cell::new(0) };
    static BASE: Cell<usize> = const { Cell::new(0) };
    static END: Cell<usize> = const { Cell::new(0) };
}

/// Maps `MEMORY` bytes repeatedly over a fresh range of `bytes`. Returns its base, aligned to
/// `bytes`, or 0.
fn window(bytes: usize) -> usize {
    // SAFETY: a constant name; the result is checked.
    let memory = unsafe { libc::memfd_create(c"keel-null".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: a descriptor of our own.
    if memory < 0 || unsafe { libc::ftruncate(memory, MEMORY as libc::off_t) } != 0 {
        return 0;
    }
    let Some(range) = system::anonymous(2 * bytes, libc::MAP_NORESERVE) else { return 0 };
    let base = range.as_ptr().addr().next_multiple_of(bytes);
    for at in (base..base + bytes).step_by(MEMORY) {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE;
        // SAFETY: inside the range just reserved, which nothing else uses.
        let part = unsafe { libc::mmap(at as *mut c_void, MEMORY, protection, flags, memory, 0) };
        if part == libc::MAP_FAILED {
            return 0;
        }
    }
    // SAFETY: from here on the mappings keep the memory alive.
    unsafe { libc::close(memory) };
    base
}

unsafe extern "C" fn init() -> c_int {
    let base = window(LARGE);
    LARGE_BASE.store(base, Relaxed);
    c_int::from(base == 0)
}

unsafe extern "C" fn thread_init() {
    let base = window(WINDOW);
    BASE.set(base);
    NEXT.set(base);
    END.set(if base == 0 { 0 } else { base + WARM });
}

#[inline(always)]
fn take(alignment: usize, size: usize) -> *mut c_void {
    let start = NEXT.get().wrapping_add(alignment - 1) & !(alignment - 1);
    let end = start.wrapping_add(size.wrapping_add(15) & !15);
    if end <= END.get() && start <= end {
        NEXT.set(end);
        return start as *mut c_void;
    }
    wrap(alignment, size)
}

#[cold]
fn wrap(alignment: usize, size: usize) -> *mut c_void {
    if alignment <= WINDOW && size <= WINDOW && BASE.get() != 0 {
        NEXT.set(BASE.get() + if size < WARM { (size + 15) & !15 } else { 0 });
        return BASE.get() as *mut c_void;
    }
    if alignment <= LARGE && size <= LARGE {
        return LARGE_BASE.load(Relaxed) as *mut c_void;
    }
    let Some(bytes) = size.checked_add(alignment) else { return null_mut() };
    let Some(range) = system::anonymous(bytes, libc::MAP_NORESERVE) else { return null_mut() };
    range.as_ptr().map_addr(|address| address.next_multiple_of(alignment)).cast()
}

unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    take(16, size)
}

unsafe extern "C" fn free(_: *mut c_void) {}

unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    count.checked_mul(size).map_or(null_mut(), |bytes| take(16, bytes))
}

unsafe extern "C" fn realloc(_: *mut c_void, size: usize) -> *mut c_void {
    take(16, size)
}

unsafe extern "C" fn aligned(alignment: usize, size: usize) -> *mut c_void {
    take(alignment.max(16), size)
}

unsafe extern "C" fn free_pair(_: *mut c_void, _: usize) {}

unsafe extern "C" fn free_triple(_: *mut c_void, _: usize, _: usize) {}

unsafe extern "C" fn hint_names(buffer: *mut c_char, bytes: usize) {
    // SAFETY: the caller's buffer.
    unsafe { put_text("nothing nothing nothing", buffer, bytes) }
}

unsafe extern "C" fn version(buffer: *mut c_char, bytes: usize) {
    // SAFETY: the caller's buffer.
    unsafe { put_text("does nothing: its times are the cost of measuring", buffer, bytes) }
}

/// Its table.
pub static TABLE: Table = Table {
    abi: ABI,
    has_hints: 1,
    version,
    malloc,
    free,
    calloc,
    realloc,
    aligned,
    usable_size: None,
    init: Some(init),
    thread_init: Some(thread_init),
    thread_exit: None,
    teardown: None,
    free_sized: Some(free_pair),
    free_aligned: Some(free_pair),
    free_aligned_sized: Some(free_triple),
    hint_names: Some(hint_names),
};
