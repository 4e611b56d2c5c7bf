//! Writes into fresh blocks, as a program would. The policies are those of
//! [`keel_plan::Orders::touch`].

/// Write nothing.
pub const NONE: u8 = 0;
/// Write the first byte.
pub const FIRST: u8 = 1;
/// Write a byte in every page of the block.
pub const PAGE: u8 = 2;
/// Write all of it.
pub const ALL: u8 = 3;

const PAGE_BYTES: usize = 4096;

/// Touches bytes `from..size` of a block: the first byte, then the first byte of each further page.
/// Every page is written once, whatever the block's offset in its first page.
///
/// # Safety
/// `block` must be valid for writes of `size` bytes.
#[inline(always)]
pub unsafe fn touch<const POLICY: u8>(block: *mut u8, from: usize, size: usize) {
    if POLICY == NONE || from >= size {
        return;
    }
    // SAFETY: all writes are inside `from..size`. They are volatile, because the compiler must not
    // remove them.
    unsafe {
        if POLICY == ALL {
            std::ptr::write_bytes(block.add(from), 0x5a, size - from);
            return;
        }
        block.add(from).write_volatile(1);
        if POLICY == PAGE {
            let address = block.addr();
            let mut at = ((address + from) | (PAGE_BYTES - 1)).wrapping_add(1) - address;
            while at < size {
                block.add(at).write_volatile(1);
                at += PAGE_BYTES;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written<const POLICY: u8>(offset: usize, from: usize, size: usize) -> Vec<usize> {
        #[repr(align(4096))]
        struct Room([u8; 5 * PAGE_BYTES]);
        let mut room = Box::new(Room([0; 5 * PAGE_BYTES]));
        // SAFETY: callers keep `offset + size` inside the room.
        unsafe { touch::<POLICY>(room.0.as_mut_ptr().add(offset), from, size) };
        (0..room.0.len()).filter(|&at| room.0[at] != 0).collect()
    }

    #[test]
    fn every_page_of_the_block_is_written_once() {
        assert_eq!(written::<PAGE>(0, 0, 1), [0]);
        assert_eq!(written::<PAGE>(16, 0, 2 * PAGE_BYTES), [16, PAGE_BYTES, 2 * PAGE_BYTES]);
        assert_eq!(written::<PAGE>(4080, 0, 17), [4080, PAGE_BYTES]);
        assert_eq!(written::<PAGE>(4080, 0, 16), [4080]);
        assert_eq!(written::<PAGE>(0, 0, 3 * PAGE_BYTES), [0, PAGE_BYTES, 2 * PAGE_BYTES]);
    }

    #[test]
    fn a_grown_block_is_written_from_its_old_end() {
        assert_eq!(written::<PAGE>(16, 100, 2 * PAGE_BYTES), [116, PAGE_BYTES, 2 * PAGE_BYTES]);
        assert!(written::<PAGE>(16, 100, 100).is_empty());
        assert!(written::<ALL>(16, 100, 50).is_empty());
    }

    #[test]
    fn the_other_policies_write_nothing_one_byte_or_all() {
        assert!(written::<NONE>(0, 0, 5000).is_empty());
        assert_eq!(written::<FIRST>(32, 0, 5000), [32]);
        assert_eq!(written::<ALL>(8, 0, 5000).len(), 5000);
    }
}
