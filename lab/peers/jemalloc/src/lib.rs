//! jemalloc as a peer.

#[allow(dead_code, reason = "the player's side of the file")]
#[path = "../../../allocators/src/table.rs"]
mod table;

use std::ffi::{CStr, c_char, c_void};
use tikv_jemalloc_sys as je;

unsafe extern "C" fn version(buffer: *mut c_char, bytes: usize) {
    let mut text: *const c_char = std::ptr::null();
    let mut size = size_of::<*const c_char>();
    // SAFETY: "version" reads one pointer to a constant string into `text`, whose size is given.
    let own = unsafe {
        let name = c"version".as_ptr();
        je::mallctl(name, (&raw mut text).cast(), &raw mut size, std::ptr::null_mut(), 0);
        if text.is_null() {
            String::new()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    };
    // "5.3.1-0-g<commit>": the crate's version contains the commit already.
    let own = own.split('-').next().unwrap_or_default();
    let carrier = env!("PEER_CRATE").split('+').next().unwrap_or_default();
    // SAFETY: the caller's buffer.
    unsafe { table::put_text(&format!("{own} ({carrier})"), buffer, bytes) }
}

unsafe extern "C" fn usable_size(block: *mut c_void) -> usize {
    // SAFETY: as the caller guarantees.
    unsafe { je::malloc_usable_size(block.cast_const()) }
}

unsafe extern "C" fn aligned(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: as the caller guarantees. jemalloc does not require the size to be a multiple of the
    // alignment.
    unsafe { je::aligned_alloc(alignment, size) }
}

unsafe extern "C" fn free_sized(block: *mut c_void, size: usize) {
    // SAFETY: as the caller guarantees.
    unsafe { je::sdallocx(block, size, 0) }
}

unsafe extern "C" fn free_aligned_sized(block: *mut c_void, alignment: usize, size: usize) {
    // The flags hold log2 of the alignment, as MALLOCX_ALIGN.
    // SAFETY: as the caller guarantees.
    unsafe { je::sdallocx(block, size, alignment.trailing_zeros() as std::ffi::c_int) }
}

unsafe extern "C" fn hint_names(buffer: *mut c_char, bytes: usize) {
    // SAFETY: the caller's buffer.
    unsafe { table::put_text("sdallocx free sdallocx", buffer, bytes) }
}

/// See `table.rs`.
#[unsafe(no_mangle)]
pub static keel_peer: table::Table = table::Table {
    abi: table::ABI,
    has_hints: 1,
    version,
    malloc: je::malloc,
    free: je::free,
    calloc: je::calloc,
    realloc: je::realloc,
    aligned,
    usable_size: Some(usable_size),
    init: None,
    thread_init: None,
    thread_exit: None,
    teardown: None,
    free_sized: Some(free_sized),
    free_aligned: None,
    free_aligned_sized: Some(free_aligned_sized),
    hint_names: Some(hint_names),
};
