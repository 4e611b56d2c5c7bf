//! TLSF as a peer: the crate rlsf, with one pool for all threads behind one lock.
//!
//! The pool is a reservation of address space that grows in place, a MiB at a time, and never
//! shrinks. After the first system call there are none, so that the algorithm itself is measured.
//! Contention for the lock is part of the result.

#[allow(dead_code, reason = "the player's side of the file")]
#[path = "../../../allocators/src/table.rs"]
mod table;

use rlsf::{FlexSource, FlexTlsf};
use std::alloc::Layout;
use std::ffi::{c_char, c_void};
use std::ptr::{NonNull, null_mut, slice_from_raw_parts_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

const STEP: usize = 1 << 20;
/// Tried in this order; strict overcommit or a limit on address space may refuse the larger ones.
const RESERVATIONS: [usize; 4] = [64 << 30, 16 << 30, 4 << 30, 1 << 30];
/// The alignment that `malloc` guarantees on this platform.
const ALIGNMENT: usize = 16;

struct Reservation {
    bytes: usize,
}

// SAFETY: `alloc` returns the reservation once; growth stays inside it.
unsafe impl FlexSource for Reservation {
    unsafe fn alloc(&mut self, min_size: usize) -> Option<NonNull<[u8]>> {
        if self.bytes != 0 {
            return None;
        }
        for bytes in RESERVATIONS {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a fresh mapping.
            let base = unsafe {
                libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
            };
            if base != libc::MAP_FAILED {
                self.bytes = bytes;
                let length =
                    min_size.checked_next_multiple_of(STEP).filter(|&length| length <= bytes)?;
                return NonNull::new(slice_from_raw_parts_mut(base.cast::<u8>(), length));
            }
        }
        None
    }

    unsafe fn realloc_inplace_grow(
        &mut self,
        _: NonNull<[u8]>,
        min_new_len: usize,
    ) -> Option<usize> {
        min_new_len.checked_next_multiple_of(STEP).filter(|&length| length <= self.bytes)
    }

    fn supports_realloc_inplace_grow(&self) -> bool {
        true
    }

    fn is_contiguous_growable(&self) -> bool {
        true
    }

    fn min_align(&self) -> usize {
        4096
    }
}

type Pool = FlexTlsf<Reservation, usize, usize, { usize::BITS as usize }, { usize::BITS as usize }>;

static POOL: Mutex<Pool> = Mutex::new(Pool::new(Reservation { bytes: 0 }));

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The alignment class of a block. rlsf places its header directly before a block of small
/// alignment, whose address is then 16 modulo the granularity of 32. A block of larger alignment is
/// at a multiple of the granularity.
fn alignment_of(block: NonNull<u8>) -> usize {
    if block.addr().get().is_multiple_of(rlsf::GRANULARITY) { rlsf::GRANULARITY } else { ALIGNMENT }
}

fn allocate(size: usize, alignment: usize) -> *mut u8 {
    let Ok(layout) = Layout::from_size_align(size.max(1), alignment) else { return null_mut() };
    pool().allocate(layout).map_or(null_mut(), NonNull::as_ptr)
}

unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    allocate(size, ALIGNMENT).cast()
}

unsafe extern "C" fn free(block: *mut c_void) {
    if let Some(block) = NonNull::new(block.cast::<u8>()) {
        // SAFETY: the caller guarantees that the block is ours and live.
        unsafe { pool().deallocate(block, alignment_of(block)) }
    }
}

unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else { return null_mut() };
    let block = allocate(bytes, ALIGNMENT);
    if !block.is_null() {
        // SAFETY: a fresh block of this size. A pool does not know which of its bytes the kernel
        // has zeroed.
        unsafe { block.write_bytes(0, bytes) }
    }
    block.cast()
}

unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    let Some(old) = NonNull::new(block.cast::<u8>()) else {
        return allocate(size, ALIGNMENT).cast();
    };
    let Ok(layout) = Layout::from_size_align(size.max(1), alignment_of(old)) else {
        return null_mut();
    };
    // SAFETY: the caller guarantees that the block is ours and live; its alignment class is kept.
    unsafe { pool().reallocate(old, layout).map_or(null_mut(), NonNull::as_ptr).cast() }
}

unsafe extern "C" fn aligned(alignment: usize, size: usize) -> *mut c_void {
    allocate(size, alignment.max(ALIGNMENT)).cast()
}

unsafe extern "C" fn usable_size(block: *mut c_void) -> usize {
    // SAFETY: the caller guarantees that the block is ours and live.
    NonNull::new(block.cast::<u8>())
        .map_or(0, |block| unsafe { Pool::allocation_usable_size(block) })
}

unsafe extern "C" fn version(buffer: *mut c_char, bytes: usize) {
    // SAFETY: the caller's buffer.
    unsafe {
        table::put_text(
            concat!(
                env!("PEER_CRATE"),
                ", one pool behind a \
        lock"
            ),
            buffer,
            bytes,
        )
    }
}

/// See `table.rs`.
#[unsafe(no_mangle)]
pub static keel_peer: table::Table = table::Table {
    abi: table::ABI,
    has_hints: 0,
    version,
    malloc,
    free,
    calloc,
    realloc,
    aligned,
    usable_size: Some(usable_size),
    init: None,
    thread_init: None,
    thread_exit: None,
    teardown: None,
    free_sized: None,
    free_aligned: None,
    free_aligned_sized: None,
    hint_names: None,
};
