//! The C functions, which `keel/keel.h` and `keel/runtime.h` document. Functions that allocate
//! return null if there is no memory.

use std::ffi::{c_char, c_int, c_void};

#[allow(missing_docs)] // see above
unsafe extern "C" {
    pub fn kl_malloc(size: usize) -> *mut c_void;
    pub fn kl_zalloc(size: usize) -> *mut c_void;
    pub fn kl_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn kl_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    pub fn kl_expand(block: *mut c_void, size: usize) -> *mut c_void;
    pub fn kl_free(block: *mut c_void);
    pub fn kl_free_sized(block: *mut c_void, size: usize);
    pub fn kl_free_aligned_sized(block: *mut c_void, alignment: usize, size: usize);
    pub fn kl_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn kl_aligned_calloc(alignment: usize, count: usize, size: usize) -> *mut c_void;
    pub fn kl_aligned_realloc(block: *mut c_void, alignment: usize, size: usize) -> *mut c_void;
    pub fn kl_usable_size(block: *const c_void) -> usize;
    pub fn kl_good_size(size: usize) -> usize;
    pub fn kl_contains(address: *const c_void) -> bool;
    pub fn kl_collect(force: bool);
    pub fn kl_keeper_start() -> bool;
    pub fn kl_warm(bytes: usize) -> usize;
    pub fn kl_thread_idle();
    pub fn kl_thread_set_realtime(spare_bytes: usize) -> bool;
    pub fn kl_limit(bytes: usize) -> usize;
    pub fn kl_version() -> c_int;
    pub fn kl_stats_json(buffer: *mut c_char, size: usize) -> usize;
}
