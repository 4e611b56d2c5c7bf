//! The table of function pointers through which the player drives an allocator.
//!
//! A peer is a shared library that exports one symbol, [`SYMBOL`], of type [`Table`]. The pointers
//! are the allocator's own functions where those have C's signatures, so that every allocator is
//! called in the same way: by one indirect call. The peers' packages are separate workspaces and
//! include this file.

use std::ffi::{c_char, c_int, c_void};

/// The name of the exported [`Table`].
pub const SYMBOL: &std::ffi::CStr = c"keel_peer";

/// The version of the layout of [`Table`]. A library with another version is refused.
pub const ABI: u32 = 1;

/// An allocator, as C functions.
///
/// Every function may be called from any thread. `aligned` takes the alignment first, a power of
/// two of at least 8. A thread calls `thread_init` before its first use of the allocator and
/// `thread_exit` after its last.
#[repr(C)]
pub struct Table {
    /// [`ABI`].
    pub abi: u32,
    /// 1 if the fields after `teardown` exist; 0 in libraries without them.
    pub has_hints: u32,
    /// Writes the allocator's version as text, with a NUL at its end, into a buffer of the given
    /// size. Valid after `init`.
    pub version: unsafe extern "C" fn(*mut c_char, usize),
    /// `malloc(size)`.
    pub malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    /// `free(block)`.
    pub free: unsafe extern "C" fn(*mut c_void),
    /// `calloc(count, size)`.
    pub calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    /// `realloc(block, size)`.
    pub realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    /// `aligned_alloc(alignment, size)`; the size need not be a multiple of the alignment.
    pub aligned: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    /// `malloc_usable_size(block)`, if the allocator has it.
    pub usable_size: Option<unsafe extern "C" fn(*mut c_void) -> usize>,
    /// Before anything else; 0 on success.
    pub init: Option<unsafe extern "C" fn() -> c_int>,
    /// See above.
    pub thread_init: Option<unsafe extern "C" fn()>,
    /// See above.
    pub thread_exit: Option<unsafe extern "C" fn()>,
    /// After all threads have ended.
    pub teardown: Option<unsafe extern "C" fn()>,
    /// `free_sized(block, size)`: frees a block that was allocated without an alignment, with its
    /// requested size. `None`, here and below, if the allocator has no such function: then free is
    /// called.
    pub free_sized: Option<unsafe extern "C" fn(*mut c_void, usize)>,
    /// `operator delete(block, alignment)`: frees a block of `aligned`, with its alignment.
    pub free_aligned: Option<unsafe extern "C" fn(*mut c_void, usize)>,
    /// `free_aligned_sized(block, alignment, size)`: with both.
    pub free_aligned_sized: Option<unsafe extern "C" fn(*mut c_void, usize, usize)>,
    /// Writes the names of these three functions, separated by spaces, into a buffer as `version`
    /// does; `free` for `None`.
    pub hint_names: Option<unsafe extern "C" fn(*mut c_char, usize)>,
}

/// Copies `text` into a C buffer, truncated to fit and terminated by a NUL. For the `version`
/// functions of peers.
///
/// # Safety
/// `buffer` must be valid for writes of `bytes` bytes.
pub unsafe fn put_text(text: &str, buffer: *mut c_char, bytes: usize) {
    if bytes == 0 {
        return;
    }
    let length = text.len().min(bytes - 1);
    // SAFETY: `length < bytes`, and the caller guarantees the buffer.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), length);
        *buffer.add(length) = 0;
    }
}
