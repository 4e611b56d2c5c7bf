//! Google's TCMalloc as a peer. Its crate contains the library but declares few functions; the C
//! functions are declared here.

#[allow(dead_code, reason = "the player's side of the file")]
#[path = "../../../allocators/src/table.rs"]
mod table;

// Named so that the library is linked.
use libtcmalloc_sys as _;
use std::ffi::{c_char, c_void};

#[allow(non_snake_case, reason = "the library's names")]
unsafe extern "C" {
    fn TCMallocInternalMalloc(size: usize) -> *mut c_void;
    fn TCMallocInternalFree(block: *mut c_void);
    fn TCMallocInternalCalloc(count: usize, size: usize) -> *mut c_void;
    fn TCMallocInternalRealloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn TCMallocInternalMemalign(alignment: usize, size: usize) -> *mut c_void;
    fn TCMallocInternalMallocSize(block: *mut c_void) -> usize;
    fn TCMallocInternalFreeSized(block: *mut c_void, size: usize);
    fn TCMallocInternalDeleteAligned(block: *mut c_void, alignment: usize);
    fn TCMallocInternalFreeAlignedSized(block: *mut c_void, alignment: usize, size: usize);
}

unsafe extern "C" fn version(buffer: *mut c_char, bytes: usize) {
    // TCMalloc has no numbered versions.
    // SAFETY: the caller's buffer.
    unsafe { table::put_text(env!("PEER_CRATE"), buffer, bytes) }
}

unsafe extern "C" fn hint_names(buffer: *mut c_char, bytes: usize) {
    let names = concat!(
        "TCMallocInternalFreeSized ",
        "TCMallocInternalDeleteAligned ",
        "TCMallocInternalFreeAlignedSized"
    );
    // SAFETY: the caller's buffer.
    unsafe { table::put_text(names, buffer, bytes) }
}

/// See `table.rs`.
#[unsafe(no_mangle)]
pub static keel_peer: table::Table = table::Table {
    abi: table::ABI,
    has_hints: 1,
    version,
    malloc: TCMallocInternalMalloc,
    free: TCMallocInternalFree,
    calloc: TCMallocInternalCalloc,
    realloc: TCMallocInternalRealloc,
    aligned: TCMallocInternalMemalign,
    usable_size: Some(TCMallocInternalMallocSize),
    init: None,
    thread_init: None,
    thread_exit: None,
    teardown: None,
    free_sized: Some(TCMallocInternalFreeSized),
    free_aligned: Some(TCMallocInternalDeleteAligned),
    free_aligned_sized: Some(TCMallocInternalFreeAlignedSized),
    hint_names: Some(hint_names),
};
