//! The table of function pointers through which the player drives an allocator.
//!
//! A peer is a shared library that exports one symbol, [`SYMBOL`], of type [`Table`]. The pointers lead straight to the
//! allocator's own functions where those have C's signatures, so that every allocator is called in the same way: one
//! indirect call, nothing in between. The peers' packages, which are workspaces of their own, include this very file.

use std::ffi::{c_char, c_int, c_void};

/// The name of the exported [`Table`].
pub const SYMBOL: &std::ffi::CStr = c"keel_peer";

/// The layout of [`Table`] that this file describes; a library with another number is refused.
pub const ABI: u32 = 1;

/// An allocator, as C functions.
///
/// Every function may be called from any thread. `aligned` takes the alignment first, a power of two of at least 8.
/// A thread calls `thread_init` before its first use of the allocator and `thread_exit` after its last.
#[repr(C)]
pub struct Table {
    /// [`ABI`].
    pub abi: u32,
    /// 1 if the fields behind `teardown` are there. Libraries from before they were have 0.
    pub telling: u32,
    /// Writes the allocator's version as text into a buffer of so many bytes, with a NUL at its end. Valid after
    /// `init`.
    pub version: unsafe extern "C" fn(*mut c_char, usize),
    /// `malloc(size)`.
    pub malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    /// `free(block)`.
    pub free: unsafe extern "C" fn(*mut c_void),
    /// `calloc(count, size)`.
    pub calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    /// `realloc(block, size)`.
    pub realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    /// `aligned_alloc(alignment, size)`, without the rule that the size be a multiple.
    pub aligned: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    /// `malloc_usable_size(block)`, where the allocator can tell.
    pub usable_size: Option<unsafe extern "C" fn(*mut c_void) -> usize>,
    /// Before anything else; 0 on success.
    pub init: Option<unsafe extern "C" fn() -> c_int>,
    /// See above.
    pub thread_init: Option<unsafe extern "C" fn()>,
    /// See above.
    pub thread_exit: Option<unsafe extern "C" fn()>,
    /// After all threads have ended.
    pub teardown: Option<unsafe extern "C" fn()>,
    /// `free_sized(block, size)`: like free, of a block that was asked for without an alignment, told the size that was
    /// asked for. `None`, here and below, where the allocator has nothing of its own for that: then free is called.
    pub free_sized: Option<unsafe extern "C" fn(*mut c_void, usize)>,
    /// `operator delete(block, alignment)`: of one that was made by `aligned`, told its alignment.
    pub free_aligned: Option<unsafe extern "C" fn(*mut c_void, usize)>,
    /// `free_aligned_sized(block, alignment, size)`: told both.
    pub free_aligned_sized: Option<unsafe extern "C" fn(*mut c_void, usize, usize)>,
    /// Writes what these three are called, three words, into a buffer as `version` does; `free` for one that is `None`.
    pub telling_names: Option<unsafe extern "C" fn(*mut c_char, usize)>,
}

/// Copies `text` into a C buffer, cut to fit and ended by a NUL. For the `version` functions of peers.
///
/// # Safety
/// `buffer` must be valid for writes of `bytes` bytes.
pub unsafe fn put_text(text: &str, buffer: *mut c_char, bytes: usize) {
    if bytes == 0 {
        return;
    }
    let length = text.len().min(bytes - 1);
    // SAFETY: `length < bytes`, and the caller vouches for the buffer.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), length);
        *buffer.add(length) = 0;
    }
}
