//! The model: the live blocks, their addresses and their expected contents.

use crate::{Library, Operation, pattern};
use std::collections::BTreeMap;
use std::ffi::c_void;

/// A broken guarantee, with the observation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation:?}: {what}")]
pub struct Broken {
    /// The operation that revealed it (not always the one that caused it).
    pub operation: Operation,
    /// The guarantee, and the actual state.
    pub what: String,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    address: usize,
    size: usize,
    /// The bytes that the pattern covers: the size, or the usable size after [`Operation::Fill`].
    filled: usize,
    seed: u64,
}

/// Executes operations on an allocator and checks each against the guarantees of `malloc`.
#[derive(Debug)]
pub struct Model {
    library: Library,
    slots: Vec<Option<Block>>,
    /// Live ranges by first address: the requested bytes, at least one, so that empty blocks are
    /// unique.
    ranges: BTreeMap<usize, usize>,
    next_seed: u64,
}

impl Model {
    /// A model without live blocks, with room for `slots` blocks.
    pub fn new(library: Library, slots: usize) -> Self {
        Self { library, slots: vec![None; slots], ranges: BTreeMap::new(), next_seed: 1 }
    }

    /// Executes one operation. Slots are taken modulo the number of slots.
    pub fn perform(&mut self, operation: Operation) -> Result<(), Broken> {
        let outcome = match operation {
            Operation::Malloc { slot, size } => self.malloc(slot, size),
            Operation::Calloc { slot, count, size } => self.calloc(slot, count, size),
            Operation::Realloc { slot, size } => self.realloc(slot, size.max(1)),
            Operation::Aligned { slot, size, shift, c11 } => {
                self.aligned(slot, size, 8 << shift, c11)
            }
            Operation::Free { slot } => self.free(slot),
            Operation::Fill { slot } => self.fill(slot),
        };
        outcome.map_err(|what| Broken { operation, what })
    }

    /// Checks every live block and frees it.
    pub fn finish(mut self) -> Result<(), Broken> {
        (0..self.slots.len()).try_for_each(|slot| self.perform(Operation::Free { slot }))
    }

    fn malloc(&mut self, slot: usize, size: usize) -> Result<(), String> {
        self.free(slot)?;
        // SAFETY: malloc may be called with any size.
        let block = unsafe { (self.library.malloc)(size) };
        self.take(slot, block, size, if size <= 8 { 8 } else { 16 })
    }

    fn calloc(&mut self, slot: usize, count: usize, size: usize) -> Result<(), String> {
        self.free(slot)?;
        // SAFETY: calloc may be called with any two numbers.
        let block = unsafe { (self.library.calloc)(count, size) };
        let bytes = count * size;
        if !block.is_null() {
            // SAFETY: the allocator granted that many bytes; calloc has initialised them.
            let contents = unsafe { std::slice::from_raw_parts(block.cast::<u8>(), bytes) };
            if let Some(at) = contents.iter().position(|&byte| byte != 0) {
                return Err(format!(
                    "calloc gave {:#04x} at offset {at} of {bytes}, not zero",
                    contents[at]
                ));
            }
        }
        self.take(slot, block, bytes, if bytes <= 8 { 8 } else { 16 })
    }

    fn aligned(
        &mut self,
        slot: usize,
        size: usize,
        alignment: usize,
        c11: bool,
    ) -> Result<(), String> {
        self.free(slot)?;
        if c11 {
            let size = size.next_multiple_of(alignment);
            // SAFETY: the alignment is a power of two that divides the size.
            let block = unsafe { (self.library.aligned_alloc)(alignment, size) };
            return self.take(slot, block, size, alignment);
        }
        let mut block = std::ptr::null_mut();
        // SAFETY: the result has a place to go, and the alignment is a power of two of at least a
        // pointer's size.
        let status = unsafe { (self.library.posix_memalign)(&raw mut block, alignment, size) };
        if status != 0 {
            return Err(format!("posix_memalign failed with status {status}"));
        }
        self.take(slot, block, size, alignment)
    }

    fn realloc(&mut self, slot: usize, size: usize) -> Result<(), String> {
        let index = slot % self.slots.len();
        let old = self.slots[index].take();
        if let Some(old) = old {
            check(&old)?;
            self.ranges.remove(&old.address);
        }
        let address = old.map_or(std::ptr::null_mut(), |old| old.address as *mut c_void);
        // SAFETY: the address is of a live block of this allocator, or NULL.
        let block = unsafe { (self.library.realloc)(address, size) };
        if let (Some(old), false) = (old, block.is_null()) {
            let kept = old.filled.min(size).min(old.size);
            // SAFETY: the allocator granted `size` bytes, of which the first `kept` were
            // initialised by us.
            let contents = unsafe { std::slice::from_raw_parts(block.cast::<u8>(), kept) };
            if let Some(at) = pattern::first_damage(contents, old.filled, old.seed) {
                return Err(format!(
                    "realloc from {} to {size} lost the contents at offset {at}",
                    old.size
                ));
            }
        }
        self.take(slot, block, size, if size <= 8 { 8 } else { 16 })
    }

    fn free(&mut self, slot: usize) -> Result<(), String> {
        let index = slot % self.slots.len();
        let block = self.slots[index].take();
        if let Some(block) = block {
            check(&block)?;
            self.ranges.remove(&block.address);
        }
        // SAFETY: a live block of this allocator, which is not used again, or NULL.
        unsafe {
            (self.library.free)(
                block.map_or(std::ptr::null_mut(), |block| block.address as *mut c_void),
            )
        };
        Ok(())
    }

    fn fill(&mut self, slot: usize) -> Result<(), String> {
        let index = slot % self.slots.len();
        let Some(mut block) = self.slots[index] else { return Ok(()) };
        // SAFETY: a live block of this allocator.
        let usable = unsafe { (self.library.usable_size)(block.address as *mut c_void) };
        if usable < block.size {
            return Err(format!("the usable size of {} bytes is only {usable}", block.size));
        }
        self.ranges.remove(&block.address);
        self.claim(block.address, usable)?;
        block.filled = usable;
        write(&block);
        self.slots[index] = Some(block);
        Ok(())
    }

    /// Checks a new block, stores it, and fills it.
    fn take(
        &mut self,
        slot: usize,
        block: *mut c_void,
        size: usize,
        alignment: usize,
    ) -> Result<(), String> {
        let address = block as usize;
        if address == 0 {
            return Err(format!("no memory for {size} bytes"));
        }
        if !address.is_multiple_of(alignment) {
            return Err(format!("{address:#x} is not aligned to {alignment}"));
        }
        self.claim(address, size)?;
        let block = Block { address, size, filled: size, seed: self.next_seed };
        self.next_seed += 1;
        write(&block);
        let index = slot % self.slots.len();
        self.slots[index] = Some(block);
        Ok(())
    }

    fn claim(&mut self, address: usize, size: usize) -> Result<(), String> {
        let end = address + size.max(1);
        if let Some((&start, &taken)) = self.ranges.range(..end).next_back()
            && start + taken.max(1) > address
        {
            return Err(format!(
                "{address:#x} of {size} bytes overlaps {start:#x} of {taken} bytes, which is live"
            ));
        }
        self.ranges.insert(address, size);
        Ok(())
    }
}

/// The block's bytes; only to be used while it is live.
fn contents<'a>(block: Block) -> &'a mut [u8] {
    // SAFETY: the allocator granted these bytes, `claim` has made sure that no other live block has
    // them, and the model holds no second reference; they may be uninitialised, but are only read
    // where the pattern was written.
    unsafe { std::slice::from_raw_parts_mut(block.address as *mut u8, block.filled) }
}

fn write(block: &Block) {
    pattern::fill(contents(*block), block.seed);
}

fn check(block: &Block) -> Result<(), String> {
    match pattern::first_damage(contents(*block), block.filled, block.seed) {
        None => Ok(()),
        Some(at) => Err(format!(
            "the contents of {:#x}, {} bytes, are damaged at offset {at}",
            block.address, block.size
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::path::Path;

    fn sound() -> Library {
        Library::load(Path::new("libc.so.6")).unwrap()
    }

    fn what_breaks(library: Library, operations: &[Operation]) -> Option<String> {
        let mut model = Model::new(library, 4);
        let broken = operations.iter().find_map(|&operation| model.perform(operation).err());
        broken.map(|broken| broken.what)
    }

    #[test]
    fn the_c_library_keeps_its_promises() {
        let operations = [
            Operation::Malloc { slot: 0, size: 100 },
            Operation::Calloc { slot: 1, count: 3, size: 70 },
            Operation::Fill { slot: 0 },
            Operation::Realloc { slot: 0, size: 5000 },
            Operation::Aligned { slot: 2, size: 10, shift: 9, c11: true },
            Operation::Malloc { slot: 1, size: 0 },
        ];
        assert_eq!(what_breaks(sound(), &operations), None);
    }

    #[test]
    fn overlapping_blocks_are_found() {
        unsafe extern "C" fn always_the_same(_size: usize) -> *mut c_void {
            static BLOCK: [u128; 8] = [0; 8];
            std::ptr::from_ref(&BLOCK).cast_mut().cast()
        }
        let library = Library { malloc: always_the_same, ..sound() };
        let operations =
            [Operation::Malloc { slot: 0, size: 0 }, Operation::Malloc { slot: 1, size: 0 }];
        assert!(what_breaks(library, &operations).unwrap().contains("overlaps"));
    }

    #[test]
    fn a_calloc_that_does_not_clear_is_found() {
        unsafe extern "C" fn dirty(count: usize, size: usize) -> *mut c_void {
            // SAFETY: the block is written within its size.
            unsafe {
                let block = libc::malloc(count * size);
                libc::memset(block, 0, count * size - 1);
                *block.cast::<u8>().add(count * size - 1) = 1;
                block
            }
        }
        let library = Library { calloc: dirty, ..sound() };
        let broken =
            what_breaks(library, &[Operation::Calloc { slot: 0, count: 5, size: 9 }]).unwrap();
        assert_eq!(broken, "calloc gave 0x01 at offset 44 of 45, not zero");
    }

    #[test]
    fn a_realloc_that_loses_a_byte_is_found() {
        unsafe extern "C" fn forgetful(block: *mut c_void, size: usize) -> *mut c_void {
            // SAFETY: the block is live or NULL; the byte changed is within it.
            unsafe {
                let block = libc::realloc(block, size);
                *block.cast::<u8>().add(42) ^= 1;
                block
            }
        }
        let library = Library { realloc: forgetful, ..sound() };
        let operations =
            [Operation::Malloc { slot: 0, size: 43 }, Operation::Realloc { slot: 0, size: 90 }];
        assert_eq!(
            what_breaks(library, &operations).unwrap(),
            "realloc from 43 to 90 lost the contents at offset 42"
        );
    }

    #[test]
    fn weak_alignment_is_found() {
        unsafe extern "C" fn weak(_alignment: usize, size: usize) -> *mut c_void {
            // SAFETY: the result is inside of a block that has room for it.
            unsafe { libc::malloc(size + 32).cast::<u8>().add(16).cast() }
        }
        let library = Library { aligned_alloc: weak, ..sound() };
        let operations = [Operation::Aligned { slot: 0, size: 10, shift: 13, c11: true }];
        assert!(what_breaks(library, &operations).unwrap().contains("is not aligned to 65536"));
    }
}
