//! `--verify`: every block holds a pattern of its own from its allocation to its free. This detects
//! an allocator that returns memory twice, moves a block without its contents, or returns used
//! memory from `calloc`. The checks run while the clock does not.

use crate::part::Errors;

fn pattern(tag: u32) -> u8 {
    // Neighbouring rows have different patterns, and 0 (fresh memory) is never a pattern.
    ((tag.wrapping_mul(0x9e37_79b9) >> 24) | 1) as u8
}

/// Fills a block with the pattern of object `tag`.
///
/// # Safety
/// `block` must be valid for writes of `size` bytes.
pub unsafe fn fill(block: *mut u8, size: usize, tag: u32) {
    if !block.is_null() {
        // SAFETY: the caller guarantees the block.
        unsafe { std::ptr::write_bytes(block, pattern(tag), size) }
    }
}

/// Checks the first `size` bytes for the pattern of object `tag`.
///
/// # Safety
/// `block` must be valid for reads of `size` bytes.
pub unsafe fn check(block: *const u8, size: usize, tag: u32, row: u32, errors: &Errors<'_>) {
    // SAFETY: the caller guarantees the block.
    if !block.is_null() && !unsafe { holds(block, size, pattern(tag)) } {
        errors.corrupt(row);
    }
}

/// Checks that a fresh block of `calloc` is all zero.
///
/// # Safety
/// As for [`check`].
pub unsafe fn check_zero(block: *const u8, size: usize, row: u32, errors: &Errors<'_>) {
    // SAFETY: the caller guarantees the block.
    if !block.is_null() && !unsafe { holds(block, size, 0) } {
        errors.corrupt(row);
    }
}

unsafe fn holds(block: *const u8, size: usize, value: u8) -> bool {
    // SAFETY: the callers guarantee the block.
    unsafe { std::slice::from_raw_parts(block, size) }.iter().all(|&byte| byte == value)
}
