//! The Rust mirror of `journal/ring.h`, which explains everything here. Both sides assert every
//! offset.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

pub const SESSION_VARIABLE: &str = "KEEL_RECORDER_SESSION";
/// The file with a line for each call of exec.
pub const EXECUTED_NAME: &str = "executed";
pub const CONTROL_MAGIC: u64 = 0x3130_4c52_5443_4c4b;
pub const SPOOL_MAGIC: u64 = 0x3130_474e_4952_4c4b;
pub const VERSION: u32 = 6;
/// Constants of a program's recording of itself, and of its chunks.
pub const LOG_MAGIC: u64 = 0x314c_4f4f_5053_4c4b;
pub const CHUNK_MAGIC: u64 = 0x314b_4e55_4843_4c4b;
pub const CHUNK_EVENTS: u32 = 1;
pub const CHUNK_MAPS: u32 = 2;
pub const CHUNK_END: u32 = 3;

pub const PAGE_BYTES: usize = 4096;
pub const RING_MAX: u32 = 8192;
pub const SPOOL_MAPS: u64 = PAGE_BYTES as u64 + RING_MAX as u64 * 16;
pub const MAPS_BYTES: u64 = 65536;
pub const SPOOL_RINGS: u64 = SPOOL_MAPS + MAPS_BYTES;
/// Set in an origin that names a stack.
pub const ORIGIN_STACK: u64 = 1 << 47;
const ALIGN_SHIFT: u32 = 58;
/// Set in a hint that contains a size.
const HINT_SIZE: u64 = 1 << 57;
/// Names of stacks in the table of a ring.
pub const RING_STACKS: usize = 256;

const LARGE_RINGS: u32 = 4;
const LARGE_RING_SLOTS: u32 = 32768;
const MIDDLE_RINGS: u32 = 64;
const MIDDLE_RING_SLOTS: u32 = 8192;
const SMALL_RINGS: u32 = 256;
const SMALL_RING_SLOTS: u32 = 2048;
const LEAST_RING_SLOTS: u32 = 512;

/// The operations of a slot, `enum kl_ring_op`.
pub mod op {
    pub const MALLOC: u8 = 1;
    pub const FREE: u8 = 2;
    pub const CALLOC: u8 = 3;
    pub const ALIGNED: u8 = 4;
    pub const REALLOC_NULL: u8 = 5;
    pub const REALLOC_BEGIN: u8 = 6;
    pub const REALLOC_END: u8 = 7;
    pub const THREAD_BEGIN: u8 = 8;
    pub const THREAD_END: u8 = 9;
    pub const FRAME: u8 = 10;
    pub const STACK: u8 = 11;
    pub const TEXT: u8 = 12;
    pub const MARK: u8 = 13;
    pub const THREAD_NAME: u8 = 14;
    pub const CACHES: u8 = 15;
    pub const UNLOADED: u8 = 16;
    pub const PATH: u8 = 17;
    pub const TOOK: u8 = 18;
    pub const CALL: u8 = 19;
    pub const SLOW: u8 = 20;
}

/// A slot in shared memory, `struct kl_ring_slot`.
#[repr(C)]
pub struct Slot {
    pub time: AtomicU64,
    pub address: AtomicU64,
    pub size: AtomicU64,
    pub word: AtomicU64,
}
const _: () = assert!(size_of::<Slot>() == 32);

/// A slot copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// Ticks of the recording's clock.
    pub time: u64,
    /// The block's address, or another value that depends on the operation.
    pub address: u64,
    /// Requested bytes, or another value that depends on the operation.
    pub size: u64,
    /// `extra << 16 | tag << 8 | op`.
    pub word: u64,
}

impl RawEvent {
    /// From the 32 bytes of a slot in a file.
    pub fn parse(bytes: &[u8]) -> RawEvent {
        let word = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
            u64::from_le_bytes(word)
        };
        RawEvent { time: word(0), address: word(1), size: word(2), word: word(3) }
    }

    pub fn op(&self) -> u8 {
        (self.word & 0xff) as u8
    }

    pub fn extra(&self) -> u64 {
        self.word >> 16
    }

    /// Requested bytes, limited to the largest size that a journal can hold.
    pub fn size_asked(&self) -> u64 {
        self.size.min(i64::MAX as u64)
    }

    /// Size and alignment of an `ALIGNED`.
    pub fn size_and_align(&self) -> (u64, u64) {
        (self.size & ((1 << ALIGN_SHIFT) - 1), self.align())
    }

    fn align(&self) -> u64 {
        1 << (self.size >> ALIGN_SHIFT).min(62)
    }

    /// The size and the alignment of a `FREE`'s hint.
    pub fn free_hint(&self) -> (Option<u64>, Option<u64>) {
        let size = (self.size & HINT_SIZE != 0).then_some(self.size & (HINT_SIZE - 1));
        (size, (self.size >> ALIGN_SHIFT != 0).then(|| self.align()))
    }

    /// Whether its extra is an origin.
    pub fn has_origin(&self) -> bool {
        (op::MALLOC..=op::REALLOC_BEGIN).contains(&self.op()) || self.op() == op::CALL
    }

    /// The sixteen bytes of text that it carries, up to the NUL.
    pub fn text(&self) -> Vec<u8> {
        let bytes = [self.address, self.size].into_iter().flat_map(u64::to_le_bytes);
        bytes.take_while(|byte| *byte != 0).collect()
    }

    /// Whether the event releases a block.
    pub fn releases(&self) -> bool {
        matches!(self.op(), op::FREE | op::REALLOC_BEGIN)
    }

    /// Whether the event makes its address the address of a new block.
    pub fn creates(&self) -> bool {
        match self.op() {
            op::MALLOC | op::CALLOC | op::ALIGNED | op::REALLOC_NULL => true,
            op::REALLOC_END => self.address != 0,
            _ => false,
        }
    }
}

/// `struct kl_ring`.
#[repr(C)]
pub struct RingHeader {
    pub head: AtomicU64,
    pub stalls: AtomicU64,
    pub stalled_ticks: AtomicU64,
    pub waiting: AtomicU32,
    touched_pages: u32,
    reserved1: [u64; 4],
    pub tail: AtomicU64,
    pub tail_bell: AtomicU32,
    reserved2: u32,
    reserved3: [u64; 6],
}
const _: () = assert!(size_of::<RingHeader>() == 128);
const _: () = assert!(offset_of!(RingHeader, waiting) == 24);
const _: () = assert!(offset_of!(RingHeader, tail) == 64);

pub const RING_NEW: u32 = 0;
pub const RING_OWNED: u32 = 2;

/// `struct kl_ring_entry`.
#[repr(C)]
pub struct RingEntry {
    pub offset: AtomicU64,
    pub slots: AtomicU32,
    pub state: AtomicU32,
}
const _: () = assert!(size_of::<RingEntry>() == 16);

/// `struct kl_spool`.
#[repr(C)]
pub struct SpoolHeader {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub ready: AtomicU32,
    pub pid: AtomicU32,
    pub prepared: AtomicU32,
    pub started_ticks: AtomicU64,
    pub wanted: AtomicU32,
    pub stopped: AtomicU32,
    pub stop_ticks: AtomicU64,
    pub maps_bytes: AtomicU32,
    pub clock: AtomicU32,
    pub ring_bell: AtomicU32,
    pub patched: AtomicU32,
    pub mapped_calls: AtomicU64,
    pub mapped_bytes: AtomicU64,
    /// See [`crate::namespace`]; 0: not known.
    pub pid_namespace: AtomicU64,
    reserved: [u64; 21],
    pub allocator: [u8; 256],
    pub program: [u8; 512],
    pub other_allocator: [u8; 256],
    pub arguments: [u8; PAGE_BYTES - 1280],
}
/// The header, read from a file.
pub struct ParsedHeader {
    pub version: u32,
    pub pid: u32,
    pub started_ticks: u64,
    pub clock: u32,
    pub allocator: Vec<u8>,
    pub program: Vec<u8>,
    pub arguments: Vec<u8>,
}

impl SpoolHeader {
    /// From the first page of a file.
    pub fn parse(page: &[u8]) -> ParsedHeader {
        let half =
            |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
        let part = |from: usize, to: usize| page[from..to].to_vec();
        let (allocator, program) =
            (offset_of!(SpoolHeader, allocator), offset_of!(SpoolHeader, program));
        let arguments = offset_of!(SpoolHeader, arguments);
        let started = offset_of!(SpoolHeader, started_ticks);
        ParsedHeader {
            version: half(offset_of!(SpoolHeader, version)),
            pid: half(offset_of!(SpoolHeader, pid)),
            started_ticks: u64::from(half(started)) | u64::from(half(started + 4)) << 32,
            clock: half(offset_of!(SpoolHeader, clock)),
            allocator: part(allocator, program),
            program: part(program, offset_of!(SpoolHeader, other_allocator)),
            arguments: part(arguments, PAGE_BYTES),
        }
    }
}
const _: () = assert!(size_of::<SpoolHeader>() == PAGE_BYTES);
const _: () = assert!(offset_of!(SpoolHeader, stop_ticks) == 40);
const _: () = assert!(offset_of!(SpoolHeader, ring_bell) == 56);
const _: () = assert!(offset_of!(SpoolHeader, mapped_calls) == 64);
const _: () = assert!(offset_of!(SpoolHeader, allocator) == 256);

pub const STOP_TOO_MANY_THREADS: u32 = 3;
pub const STOP_TOO_MANY_SAMPLES: u32 = 6;

pub const CLOCK_TSC: u32 = 0;
pub const CLOCK_MONOTONIC: u32 = 1;

/// `struct kl_control`.
#[repr(C)]
pub struct Control {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub clock: AtomicU32,
    pub follow: AtomicU32,
    pub root_pid: AtomicU32,
    pub reader_pid: AtomicU32,
    pub stop: AtomicU32,
    pub heartbeat: AtomicU64,
    pub bell: AtomicU32,
    pub sleeping: AtomicU32,
    pub spools: AtomicU32,
    pub failed: AtomicU32,
    pub stacks: AtomicU32,
    pub embedded: AtomicU32,
    pub sample_bytes: AtomicU64,
    pub sample_seed: AtomicU64,
    pub slow_ticks: AtomicU64,
    pub patches: AtomicU64,
    pub noted: AtomicU32,
    pub notes: [AtomicU8; PAGE_BYTES - 100],
}
const _: () = assert!(size_of::<Control>() == PAGE_BYTES);
const _: () = assert!(offset_of!(Control, heartbeat) == 32);

/// Slots of ring `index`.
pub fn ring_slots(index: u32) -> u32 {
    match index {
        0..LARGE_RINGS => LARGE_RING_SLOTS,
        LARGE_RINGS..MIDDLE_RINGS => MIDDLE_RING_SLOTS,
        MIDDLE_RINGS..SMALL_RINGS => SMALL_RING_SLOTS,
        _ => LEAST_RING_SLOTS,
    }
}

/// When only so many rings have not been taken yet, more of them are needed soon.
pub fn rings_ahead(prepared: u32) -> u32 {
    2 + prepared.min(1024) / 8
}

/// Bytes of a ring with this many slots, its header and its table of stacks.
pub fn ring_bytes(slots: u32) -> u64 {
    PAGE_BYTES as u64 + u64::from(slots) * size_of::<Slot>() as u64
}

/// Where ring `index` begins in the spool; for [`RING_MAX`], the spool's size.
pub fn ring_offset(index: u32) -> u64 {
    let large = index.min(LARGE_RINGS);
    let middle = index.min(MIDDLE_RINGS) - large;
    let small = index.min(SMALL_RINGS) - large - middle;
    let least = index - large - middle - small;
    SPOOL_RINGS
        + u64::from(large) * ring_bytes(LARGE_RING_SLOTS)
        + u64::from(middle) * ring_bytes(MIDDLE_RING_SLOTS)
        + u64::from(small) * ring_bytes(SMALL_RING_SLOTS)
        + u64::from(least) * ring_bytes(LEAST_RING_SLOTS)
}

/// The tag of the lap in which `index` falls.
pub fn lap_tag(index: u64, slots: u32) -> u8 {
    (((index >> slots.trailing_zeros()) + 1) & 0xff) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_contiguous() {
        let mut offset = SPOOL_RINGS;
        for index in 0..RING_MAX {
            assert_eq!(ring_offset(index), offset, "ring {index}");
            assert_eq!(offset % PAGE_BYTES as u64, 0);
            offset += ring_bytes(ring_slots(index));
        }
        assert_eq!(ring_offset(RING_MAX), offset);
    }

    #[test]
    fn free_hint_has_a_size_an_alignment_both_or_neither() {
        let free_hint =
            |size| RawEvent { time: 0, address: 16, size, word: u64::from(op::FREE) }.free_hint();
        assert_eq!(free_hint(0), (None, None));
        assert_eq!(free_hint(HINT_SIZE), (Some(0), None));
        assert_eq!(free_hint(HINT_SIZE | 77), (Some(77), None));
        assert_eq!(free_hint(6 << ALIGN_SHIFT), (None, Some(64)));
        assert_eq!(free_hint(u64::MAX), (Some(HINT_SIZE - 1), Some(1 << 62)));
    }

    #[test]
    fn tag_changes_with_each_lap() {
        assert_eq!(lap_tag(0, 2048), 1);
        assert_eq!(lap_tag(2047, 2048), 1);
        assert_eq!(lap_tag(2048, 2048), 2);
        assert_eq!(lap_tag(254 * 2048, 2048), 255);
        assert_eq!(lap_tag(255 * 2048, 2048), 0);
    }
}
