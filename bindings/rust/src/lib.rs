//! Keel as Rust's global allocator: a general-purpose `malloc` with bounded slow paths.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: keel::Keel = keel::Keel;
//!
//! let numbers: Vec<u64> = (0..1000).collect();
//! assert!(keel::contains(numbers.as_ptr()));
//! ```
//!
//! [`GlobalAlloc::alloc_zeroed`] does not clear large memory that is known to be zero. A large
//! `Vec` grows in place if the memory behind it is free, and one that grows to 4 MiB or more moves
//! without being copied where the system supports that. Alignments up to 16 cost nothing extra.
//!
//! Options are read from the environment (`KEEL_*`, and mimalloc's names); the C header
//! `keel/runtime.h` documents them.
//!
//! # Features
//!
//! - `override`: also replaces the `malloc` family and the C++ operators for all code in the
//!   program.
//! - `system`: links an installed `libkeel_api` (with `override`: `libkeel`) instead of compiling
//!   Keel; from `KEEL_LIB_DIR` if that is set when the crate is built.
//! - `secure`: the secure flavour, which ends the program when it misuses the heap.
//! - `debug`: the debug flavour, which also prints the call stacks that led to the misuse.
//!
//! # Platforms
//!
//! Linux on x86-64.
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

use std::alloc::{GlobalAlloc, Layout};

pub mod sys;

/// The allocator. It has no state: all values are the same allocator, which Keel's C functions use
/// too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keel;

/// True if every block of that size has that alignment: 16, or 8 for blocks of at most 8 bytes.
const fn is_natural(size: usize, alignment: usize) -> bool {
    alignment <= 8 || (alignment == 16 && size > 8)
}

// SAFETY: kl_malloc and its family return blocks of at least the requested size and alignment that
// belong to the caller until kl_free; they may be called from every thread and do not unwind.
unsafe impl GlobalAlloc for Keel {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and any power of two is allowed.
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
        // SAFETY: the caller got the block from this allocator, with this layout.
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
        // SAFETY: the caller got the block from this allocator, with this layout, and new_size is
        // not
        // 0. kl_realloc keeps the natural alignment.
        unsafe {
            if is_natural(new_size, layout.align()) {
                sys::kl_realloc(block.cast(), new_size).cast()
            } else {
                sys::kl_aligned_realloc(block.cast(), layout.align(), new_size).cast()
            }
        }
    }
}

/// Returns true if the address is in a block of Keel. Blocks of at most 64 KiB may be live or free.
/// Larger ones must be live, and only their first 64 KiB count.
pub fn contains<T>(address: *const T) -> bool {
    // SAFETY: any address is allowed.
    unsafe { sys::kl_contains(address.cast()) }
}

/// Returns the number of usable bytes of a block, at least the requested size; 0 for null and for
/// blocks of another allocator.
///
/// # Safety
///
/// `block` is null, the start of a live block, or not a block of Keel.
pub unsafe fn usable_size<T>(block: *const T) -> usize {
    // SAFETY: the caller's contract.
    unsafe { sys::kl_usable_size(block.cast()) }
}

/// Returns the usable size that a block of `size` requested bytes would have. For sizes above
/// 64 KiB it is a minimum.
pub fn good_size(size: usize) -> usize {
    // SAFETY: any size is allowed.
    unsafe { sys::kl_good_size(size) }
}

/// With `force`, returns unused memory to the system, which takes milliseconds for gigabytes: the
/// unused memory of this thread, of ended threads, and that no thread owns. Without `force`, the
/// same as [`thread_idle`].
pub fn collect(force: bool) {
    // SAFETY: may be called at any time.
    unsafe { sys::kl_collect(force) }
}

/// Starts the keeper: a thread that obtains memory before the program needs it and returns memory
/// that the program has not needed for a while. By default it starts by itself once Keel uses 2 MiB
/// more than at the start and a second thread allocates. Returns true if the keeper runs.
pub fn start_keeper() -> bool {
    // SAFETY: may be called at any time except from a constructor, and Rust runs no constructors.
    unsafe { sys::kl_keeper_start() }
}

/// Makes at least `bytes` of memory ready for blocks of up to 64 KiB and keeps that much ready from
/// now on (0: as the demand requires). Returns the number of bytes that could be made ready.
pub fn warm(bytes: usize) -> usize {
    // SAFETY: may be called at any time.
    unsafe { sys::kl_warm(bytes) }
}

/// Says that the calling thread has nothing to do at the moment, for example between two frames,
/// and does its housekeeping. Takes at most about 0.1 ms.
pub fn thread_idle() {
    // SAFETY: may be called at any time.
    unsafe { sys::kl_thread_idle() }
}

/// Says that the calling thread has deadlines: it gets a private reserve of up to `spare_bytes` of
/// warm memory (at most 2 MiB), and its calls do no housekeeping. 0 ends this mode. Returns false
/// if there is no memory.
pub fn thread_set_realtime(spare_bytes: usize) -> bool {
    // SAFETY: may be called at any time.
    unsafe { sys::kl_thread_set_realtime(spare_bytes) }
}

/// Limits the memory that Keel holds to `bytes` (0: no limit); allocations beyond the limit fail.
/// Returns the previous limit.
pub fn limit(bytes: usize) -> usize {
    // SAFETY: may be called at any time.
    unsafe { sys::kl_limit(bytes) }
}

/// Returns the version of the library in use: major, minor, patch.
pub fn version() -> (u32, u32, u32) {
    // SAFETY: may be called at any time.
    let number = unsafe { sys::kl_version() }.unsigned_abs();
    (number / 10000, number / 100 % 100, number % 100)
}

/// Returns the statistics of the process as one JSON object: sizes, threads, heaps, counts, and how
/// long the slow paths took.
pub fn stats_json() -> String {
    let mut text: Vec<u8> = Vec::new();
    loop {
        // SAFETY: it writes at most `capacity` bytes, including the terminating 0, and returns the
        // length of the whole text without the 0.
        let length = unsafe { sys::kl_stats_json(text.as_mut_ptr().cast(), text.capacity()) };
        if length < text.capacity() {
            // SAFETY: `length` bytes have been written.
            unsafe { text.set_len(length) };
            return String::from_utf8_lossy(&text).into_owned();
        }
        text.reserve(length + 1024); // the text may grow meanwhile, also because of this vector
    }
}
