//! mimalloc as a peer. The package `mimalloc2` includes this file too: an older generation with the
//! same functions.

#[allow(dead_code, reason = "the player's side of the file")]
#[path = "../../../allocators/src/table.rs"]
mod table;

use libmimalloc_sys as mi;
use std::ffi::{c_char, c_int, c_void};

// The crate declares these only with its feature `extended`, which also compiles more of the
// library.
unsafe extern "C" {
    fn mi_version() -> c_int;
    fn mi_calloc(count: usize, size: usize) -> *mut c_void;
    fn mi_usable_size(block: *const c_void) -> usize;
    fn mi_free_size(block: *mut c_void, size: usize);
    fn mi_free_aligned(block: *mut c_void, alignment: usize);
    fn mi_free_size_aligned(block: *mut c_void, size: usize, alignment: usize);
}

unsafe extern "C" fn version(buffer: *mut c_char, bytes: usize) {
    // SAFETY: takes nothing, returns a constant.
    let number = unsafe { mi_version() };
    // Major, then two digits of minor and two of patch; three single digits before 3.3 and 2.3.
    let [major, minor, patch] = match number {
        10_000.. => [number / 10_000, number / 100 % 100, number % 100],
        _ => [number / 100, number / 10 % 10, number % 10],
    };
    let text = format!("{major}.{minor}.{patch} ({})", env!("PEER_CRATE"));
    // SAFETY: the caller's buffer.
    unsafe { table::put_text(&text, buffer, bytes) }
}

unsafe extern "C" fn aligned(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: as the caller guarantees; only the order of the arguments differs.
    unsafe { mi::mi_malloc_aligned(size, alignment) }
}

unsafe extern "C" fn usable_size(block: *mut c_void) -> usize {
    // SAFETY: as the caller guarantees.
    unsafe { mi_usable_size(block) }
}

unsafe extern "C" fn free_aligned_sized(block: *mut c_void, alignment: usize, size: usize) {
    // SAFETY: as the caller guarantees; only the order of the arguments differs.
    unsafe { mi_free_size_aligned(block, size, alignment) }
}

unsafe extern "C" fn hint_names(buffer: *mut c_char, bytes: usize) {
    // SAFETY: the caller's buffer.
    unsafe { table::put_text("mi_free_size mi_free_aligned mi_free_size_aligned", buffer, bytes) }
}

/// See `table.rs`.
#[unsafe(no_mangle)]
pub static keel_peer: table::Table = table::Table {
    abi: table::ABI,
    has_hints: 1,
    version,
    malloc: mi::mi_malloc,
    free: mi::mi_free,
    calloc: mi_calloc,
    realloc: mi::mi_realloc,
    aligned,
    usable_size: Some(usable_size),
    init: None,
    thread_init: None,
    thread_exit: None,
    teardown: None,
    free_sized: Some(mi_free_size),
    free_aligned: Some(mi_free_aligned),
    free_aligned_sized: Some(free_aligned_sized),
    hint_names: Some(hint_names),
};
