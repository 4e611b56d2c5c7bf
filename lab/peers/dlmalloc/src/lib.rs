//! dlmalloc as a peer: the Rust port that WebAssembly uses, with one heap for all threads behind
//! one lock.

#[allow(dead_code, reason = "the player's side of the file")]
#[path = "../../../allocators/src/table.rs"]
mod table;

use dlmalloc::Dlmalloc;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

static HEAP: Mutex<Dlmalloc> = Mutex::new(Dlmalloc::new());

fn heap() -> MutexGuard<'static, Dlmalloc> {
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: any size is allowed.
    unsafe { heap().c_malloc(size).cast() }
}

unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: the caller guarantees that the block is ours and live.
    unsafe { heap().c_free(block.cast()) }
}

unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else { return null_mut() };
    // SAFETY: any size is allowed; malloc guarantees an alignment of 16.
    unsafe { heap().calloc(bytes, 16).cast() }
}

unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller guarantees that the block is ours and live.
    unsafe { heap().c_realloc(block.cast(), size).cast() }
}

unsafe extern "C" fn aligned(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: the alignment is a power of two.
    unsafe { heap().c_memalign(alignment, size).cast() }
}

unsafe extern "C" fn version(buffer: *mut c_char, bytes: usize) {
    // SAFETY: the caller's buffer.
    unsafe {
        table::put_text(
            concat!(
                env!("PEER_CRATE"),
                ", one heap behind a \
        lock"
            ),
            buffer,
            bytes,
        )
    }
}

/// See `table.rs`.
#[unsafe(no_mangle)]
pub static keel_peer: table::Table = table::Table {
    abi: table::ABI,
    has_hints: 0,
    version,
    malloc,
    free,
    calloc,
    realloc,
    aligned,
    usable_size: None,
    init: None,
    thread_init: None,
    thread_exit: None,
    teardown: None,
    free_sized: None,
    free_aligned: None,
    free_aligned_sized: None,
    hint_names: None,
};
