//! The functions that free a block with hints: its size, its alignment, or both.
//!
//! ```text
//!           size               alignment           both
//! C23       free_sized(p, n)                       free_aligned_sized(p, a, n)
//! mimalloc  free_size(p, n)    free_aligned(p, a)  free_size_aligned(p, n, a)
//! jemalloc  sdallocx(p, n, 0)                      sdallocx(p, n, log2 a)
//! C++       _ZdlPvm(p, n)      _ZdlPv(p, a)        _ZdlPvm(p, n, a)
//! ```
//!
//! C++'s operators count only if they are in the same object as malloc: those of a C++ library
//! ignore the size.

use keel_allocators::table::{Table, put_text};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

type Two = unsafe extern "C" fn(*mut c_void, usize);
type Three = unsafe extern "C" fn(*mut c_void, usize, usize);
type Flags = unsafe extern "C" fn(*mut c_void, usize, c_int);

/// A function with its name.
type Found<F> = Option<(F, &'static str)>;

/// The function that takes the size before the alignment, and jemalloc's `sdallocx`.
static SIZE_FIRST: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static SDALLOCX: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// The result of [`names`].
static NAMES: OnceLock<String> = OnceLock::new();

/// Stores the functions that `find` finds in a table.
pub fn find(table: &mut Table, find: &dyn Fn(&str) -> Option<*mut c_void>) {
    let sdallocx = find("sdallocx");
    SDALLOCX.store(sdallocx.unwrap_or_default(), Relaxed);
    let sized = two(find, &["free_sized", "free_size", "_ZdlPvm"])
        .or(sdallocx.map(|_| (sdallocx_size as Two, "sdallocx")));
    let aligned = two(find, &["free_aligned", "_ZdlPvSt11align_val_t"]);
    let both = alignment_first(find)
        .or_else(|| size_first(find))
        .or(sdallocx.map(|_| (sdallocx_both as Three, "sdallocx")));
    table.has_hints = 1;
    table.free_sized = sized.map(|(function, _)| function);
    table.free_aligned = aligned.map(|(function, _)| function);
    table.free_aligned_sized = both.map(|(function, _)| function);
    table.hint_names = Some(names);
    let named = [sized.map(|one| one.1), aligned.map(|one| one.1), both.map(|one| one.1)];
    // A process loads one allocator.
    let _ = NAMES.set(named.map(|name| name.unwrap_or("free")).join(" "));
}

/// The names of the three functions; `free` for a missing one.
pub fn named(table: &Table) -> String {
    let Some(names) = table.hint_names.filter(|_| table.has_hints == 1) else {
        return "free free free".to_owned();
    };
    let mut buffer = [0 as c_char; 256];
    // SAFETY: the buffer's own size; the function ends the text with a NUL.
    unsafe {
        names(buffer.as_mut_ptr(), buffer.len());
        CStr::from_ptr(buffer.as_ptr()).to_string_lossy().into_owned()
    }
}

fn first(
    find: &dyn Fn(&str) -> Option<*mut c_void>,
    names: &[&'static str],
) -> Option<(*mut c_void, &'static str)> {
    names.iter().find_map(|name| find(name).map(|function| (function, *name)))
}

fn two(find: &dyn Fn(&str) -> Option<*mut c_void>, names: &[&'static str]) -> Found<Two> {
    let (function, name) = first(find, names)?;
    // SAFETY: functions of these names have this type; see the table above.
    Some((unsafe { std::mem::transmute::<*mut c_void, Two>(function) }, name))
}

fn alignment_first(find: &dyn Fn(&str) -> Option<*mut c_void>) -> Found<Three> {
    let (function, name) = first(find, &["free_aligned_sized"])?;
    // SAFETY: C23's function has this type.
    Some((unsafe { std::mem::transmute::<*mut c_void, Three>(function) }, name))
}

fn size_first(find: &dyn Fn(&str) -> Option<*mut c_void>) -> Found<Three> {
    let (function, name) = first(find, &["free_size_aligned", "_ZdlPvmSt11align_val_t"])?;
    SIZE_FIRST.store(function, Relaxed);
    Some((swapped, name))
}

unsafe extern "C" fn swapped(block: *mut c_void, alignment: usize, size: usize) {
    // SAFETY: only set to a function of this type, and before any call of this one; the caller
    // guarantees the block.
    unsafe {
        std::mem::transmute::<*mut c_void, Three>(SIZE_FIRST.load(Relaxed))(block, size, alignment)
    }
}

unsafe extern "C" fn sdallocx_size(block: *mut c_void, size: usize) {
    // SAFETY: as in `swapped`.
    unsafe { std::mem::transmute::<*mut c_void, Flags>(SDALLOCX.load(Relaxed))(block, size, 0) }
}

unsafe extern "C" fn sdallocx_both(block: *mut c_void, alignment: usize, size: usize) {
    let flags = alignment.trailing_zeros() as c_int;
    // SAFETY: as in `swapped`. The flags hold log2 of the alignment.
    unsafe { std::mem::transmute::<*mut c_void, Flags>(SDALLOCX.load(Relaxed))(block, size, flags) }
}

unsafe extern "C" fn names(buffer: *mut c_char, bytes: usize) {
    // SAFETY: the caller's buffer.
    unsafe { put_text(NAMES.get().map_or("free free free", String::as_str), buffer, bytes) }
}

/// Calls `free_sized`, or free if there is none.
///
/// # Safety
/// The block is live, of this allocator, and was allocated with this size and without an alignment.
#[inline(always)]
pub unsafe fn free_sized(table: &Table, block: *mut c_void, size: usize) {
    // SAFETY: passed on.
    unsafe {
        match table.free_sized {
            Some(free_sized) => free_sized(block, size),
            None => (table.free)(block),
        }
    }
}

/// Calls `free_aligned`, or free if there is none.
///
/// # Safety
/// The block is live, of this allocator, and was allocated with this alignment.
#[inline(always)]
pub unsafe fn free_aligned(table: &Table, block: *mut c_void, alignment: usize) {
    // SAFETY: passed on.
    unsafe {
        match table.free_aligned {
            Some(free_aligned) => free_aligned(block, alignment),
            None => (table.free)(block),
        }
    }
}

/// Calls `free_aligned_sized`, or free if there is none.
///
/// # Safety
/// The block is live, of this allocator, and was allocated with this alignment and size.
#[inline(always)]
pub unsafe fn free_aligned_sized(table: &Table, block: *mut c_void, alignment: usize, size: usize) {
    // SAFETY: passed on.
    unsafe {
        match table.free_aligned_sized {
            Some(free_aligned_sized) => free_aligned_sized(block, alignment, size),
            None => (table.free)(block),
        }
    }
}
