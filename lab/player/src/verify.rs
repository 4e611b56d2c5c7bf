//! Under `--verify`: every block carries a pattern of its own from birth to death. An allocator that hands out memory
//! twice, moves a block without its contents, or gives `calloc` used memory, is found by it. All outside the clock.

use crate::perform::Complaints;

fn pattern(tag: u32) -> u8 {
    // Neighbouring rows differ, and 0 (fresh memory) is never a pattern.
    ((tag.wrapping_mul(0x9e37_79b9) >> 24) | 1) as u8
}

/// Fills a block, from `from` on, with the pattern of the object that it now holds.
///
/// # Safety
/// `block` must be valid for writes of `size` bytes.
pub unsafe fn fill(block: *mut u8, size: usize, tag: u32) {
    if !block.is_null() {
        // SAFETY: the caller vouches for the block.
        unsafe { std::ptr::write_bytes(block, pattern(tag), size) }
    }
}

/// Checks the first `size` bytes for the pattern of object `tag`.
///
/// # Safety
/// `block` must be valid for reads of `size` bytes.
pub unsafe fn check(block: *const u8, size: usize, tag: u32, row: u32, complaints: &Complaints<'_>) {
    // SAFETY: the caller vouches for the block.
    if !block.is_null() && !unsafe { holds(block, size, pattern(tag)) } {
        complaints.corrupt(row);
    }
}

/// Checks that a fresh block of `calloc` is all zero.
///
/// # Safety
/// As for [`check`].
pub unsafe fn check_zero(block: *const u8, size: usize, row: u32, complaints: &Complaints<'_>) {
    // SAFETY: the caller vouches for the block.
    if !block.is_null() && !unsafe { holds(block, size, 0) } {
        complaints.corrupt(row);
    }
}

unsafe fn holds(block: *const u8, size: usize, value: u8) -> bool {
    // SAFETY: the callers vouch for the block.
    unsafe { std::slice::from_raw_parts(block, size) }.iter().all(|&byte| byte == value)
}
