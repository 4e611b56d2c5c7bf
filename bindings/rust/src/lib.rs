//! Keel as Rust's global allocator: a general-purpose `malloc` whose slow paths
//! have a bound.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: keel::Keel = keel::Keel;
//!
//! let numbers: Vec<u64> = (0..1000).collect();
//! assert!(keel::contains(numbers.as_ptr()));
//! ```
//!
//! Memory is zeroed only where it is not known to be zero ([`GlobalAlloc::alloc_zeroed`]), a `Vec` that grows stays
//! where it is when the memory behind it is free, and above 16 MiB it moves without being copied. Alignments up to 16
//! take the same path as none.
//!
//! Options are read from the environment (`KEEL_*`, and mimalloc's names), as the C header `keel/runtime.h` tells.
//!
//! # Features
//!
//! - `override`: the `malloc` family and the C++ operators of all that is linked into the program are Keel's too.
//! - `system`: links an installed `libkeel_api` (with `override`: `libkeel`) instead of compiling Keel; from
//!   `KEEL_LIB_DIR` if that is set when the crate is built.
//! - `secure`, `debug`: names kept for flavours of Keel that do not exist yet; the build ends and says so.
//!
//! # Platforms
//!
//! Linux on x86-64.
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_char;

pub mod sys;

/// The allocator. It has no state of its own: all values of it are the same allocator, which is also that of Keel's C
/// functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keel;

/// True if every block of that size is aligned so anyhow: to 16, and to 8 if it is of at most 8 bytes.
const fn is_natural(size: usize, alignment: usize) -> bool {
    alignment <= 8 || (alignment == 16 && size > 8)
}

// SAFETY: kl_malloc and its family give blocks of at least the size, aligned as asked for, that nobody else has until
// kl_free; they may be called from every thread, and do not unwind.
unsafe impl GlobalAlloc for Keel {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: they may be called with any size and every power of two.
        unsafe {
            if is_natural(layout.size(), layout.align()) {
                sys::kl_malloc(layout.size()).cast()
            } else {
                sys::kl_aligned_alloc(layout.align(), layout.size()).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for alloc.
        unsafe {
            if is_natural(layout.size(), layout.align()) {
                sys::kl_zalloc(layout.size()).cast()
            } else {
                sys::kl_aligned_calloc(layout.align(), 1, layout.size()).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller has the block from this allocator, with this layout.
        unsafe {
            if is_natural(layout.size(), layout.align()) {
                sys::kl_free_sized(block.cast(), layout.size());
            } else {
                sys::kl_free_aligned_sized(block.cast(), layout.align(), layout.size());
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller has the block from this allocator, with this layout, and new_size is not 0.
        // kl_realloc keeps the alignment that every block has.
        unsafe {
            if is_natural(new_size, layout.align()) {
                sys::kl_realloc(block.cast(), new_size).cast()
            } else {
                sys::kl_aligned_realloc(block.cast(), layout.align(), new_size).cast()
            }
        }
    }
}

/// True if the address is in memory that holds blocks of Keel's; of blocks above 64 KiB only the start is recognised.
pub fn contains<T>(address: *const T) -> bool {
    // SAFETY: any address may be asked about.
    unsafe { sys::kl_contains(address.cast()) }
}

/// Bytes that may be used at a block, at least what was asked for; 0 for null and for what is not Keel's.
///
/// # Safety
///
/// `block` is null, no block of Keel's, or the start of a live one.
pub unsafe fn usable_size<T>(block: *const T) -> usize {
    // SAFETY: as the caller promises.
    unsafe { sys::kl_usable_size(block.cast()) }
}

/// The size that a block of `size` bytes really has: asking for less gains nothing.
pub fn good_size(size: usize) -> usize {
    // SAFETY: any size may be asked about.
    unsafe { sys::kl_good_size(size) }
}

/// With `force` gives all memory that is not in use back to the system, which may take milliseconds a gigabyte; without
/// only what [`thread_idle`] does.
pub fn collect(force: bool) {
    // SAFETY: may be called at any time.
    unsafe { sys::kl_collect(force) }
}

/// Starts the keeper: a thread that fetches memory before the program needs it and gives it back when it has not for a
/// while. It starts by itself once a second thread allocates. True: it runs.
pub fn start_keeper() -> bool {
    // SAFETY: may be called at any time but from a constructor, in which Rust runs nothing.
    unsafe { sys::kl_keeper_start() }
}

/// Has at least so many bytes ready for blocks of up to 64 KiB, now and from now on (0: as the demand calls for). The
/// memory that could be made ready.
pub fn warm(bytes: usize) -> usize {
    // SAFETY: may be called at any time.
    unsafe { sys::kl_warm(bytes) }
}

/// Tells that this thread has nothing to do just now, between two frames say: housekeeping of at most about 0.1 ms.
pub fn thread_idle() {
    // SAFETY: may be called at any time.
    unsafe { sys::kl_thread_idle() }
}

/// Gives this thread, which has deadlines to keep, up to so many bytes of warm memory of its own (at most 2 MiB), and
/// leaves housekeeping to others; 0 ends that. False: there is no memory.
pub fn thread_set_realtime(spare_bytes: usize) -> bool {
    // SAFETY: may be called at any time.
    unsafe { sys::kl_thread_set_realtime(spare_bytes) }
}

/// Holds at most so many bytes from now on (0: no limit): what would go beyond fails. The limit before.
pub fn limit(bytes: usize) -> usize {
    // SAFETY: may be called at any time.
    unsafe { sys::kl_limit(bytes) }
}

/// Major, minor and patch number of the Keel that runs.
pub fn version() -> (u32, u32, u32) {
    // SAFETY: may be called at any time.
    let number = unsafe { sys::kl_version() }.unsigned_abs();
    (number / 10000, number / 100 % 100, number % 100)
}

/// The statistics of the process as one JSON object: sizes, threads, heaps, counts, and how long the slow paths took.
pub fn stats_json() -> String {
    let mut text: Vec<u8> = Vec::new();
    loop {
        // SAFETY: it writes at most as many bytes as the vector has room for, of which a 0 is the last, and returns how
        // many others the whole text has.
        let length = unsafe { sys::kl_stats_json(text.as_mut_ptr().cast::<c_char>(), text.capacity()) };
        if length < text.capacity() {
            // SAFETY: so many have been written.
            unsafe { text.set_len(length) };
            return String::from_utf8_lossy(&text).into_owned();
        }
        text.reserve(length + 1024); // what is told may grow meanwhile, by this very vector too
    }
}
