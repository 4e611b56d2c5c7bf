//! snmalloc as a peer.

#[allow(dead_code, reason = "the player's side of the file")]
#[path = "../../../allocators/src/table.rs"]
mod table;

use snmalloc_sys as sn;
use std::ffi::{c_char, c_void};

unsafe extern "C" {
    fn sn_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn sn_free_sized(block: *mut c_void, size: usize);
    fn sn_free_aligned_sized(block: *mut c_void, alignment: usize, size: usize);
}

unsafe extern "C" fn version(buffer: *mut c_char, bytes: usize) {
    // snmalloc has no function that returns its version; the crate follows the library's releases.
    // SAFETY: the caller's buffer.
    unsafe { table::put_text(env!("PEER_CRATE"), buffer, bytes) }
}

unsafe extern "C" fn usable_size(block: *mut c_void) -> usize {
    // SAFETY: as the caller guarantees.
    unsafe { sn::sn_malloc_usable_size(block.cast_const()) }
}

unsafe extern "C" fn hint_names(buffer: *mut c_char, bytes: usize) {
    // SAFETY: the caller's buffer.
    unsafe { table::put_text("sn_free_sized free sn_free_aligned_sized", buffer, bytes) }
}

/// See `table.rs`.
#[unsafe(no_mangle)]
pub static keel_peer: table::Table = table::Table {
    abi: table::ABI,
    has_hints: 1,
    version,
    malloc: sn::sn_malloc,
    free: sn::sn_free,
    calloc: sn::sn_calloc,
    realloc: sn::sn_realloc,
    aligned: sn_memalign,
    usable_size: Some(usable_size),
    init: None,
    thread_init: None,
    thread_exit: None,
    teardown: None,
    free_sized: Some(sn_free_sized),
    free_aligned: None,
    free_aligned_sized: Some(sn_free_aligned_sized),
    hint_names: Some(hint_names),
};
