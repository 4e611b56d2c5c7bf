//! rpmalloc as a peer. It needs a call when a thread starts and when it ends.

#[allow(dead_code, reason = "the player's side of the file")]
#[path = "../../../allocators/src/table.rs"]
mod table;

use rpmalloc_sys as rp;
use std::ffi::{c_char, c_int};

mod corrected {
    unsafe extern "C" {
        // The crate declares this function without its argument.
        pub fn rpmalloc_thread_finalize(release_caches: std::ffi::c_int);
    }
}

unsafe extern "C" fn version(buffer: *mut c_char, bytes: usize) {
    // rpmalloc has no function that returns its version.
    // SAFETY: the caller's buffer.
    unsafe { table::put_text(env!("PEER_CRATE"), buffer, bytes) }
}

unsafe extern "C" fn init() -> c_int {
    // SAFETY: called once, before anything else.
    unsafe { rp::rpmalloc_initialize() }
}

unsafe extern "C" fn thread_exit() {
    // SAFETY: the calling thread was initialised. 1: release its caches, as rpmalloc's own thread
    // hook does.
    unsafe { corrected::rpmalloc_thread_finalize(1) }
}

/// See `table.rs`.
#[unsafe(no_mangle)]
pub static keel_peer: table::Table = table::Table {
    abi: table::ABI,
    has_hints: 0,
    version,
    malloc: rp::rpmalloc,
    free: rp::rpfree,
    calloc: rp::rpcalloc,
    realloc: rp::rprealloc,
    aligned: rp::rpaligned_alloc,
    usable_size: Some(rp::rpmalloc_usable_size),
    init: Some(init),
    thread_init: Some(rp::rpmalloc_thread_initialize),
    thread_exit: Some(thread_exit),
    teardown: None,
    free_sized: None,
    free_aligned: None,
    free_aligned_sized: None,
    hint_names: None,
};
