//! The live blocks: a hash table by address.
//!
//! A bucket is one cache line with slots for four blocks whose addresses hash to it. A lookup
//! always compares all four addresses. Which slot matches, and whether the line allocates or frees,
//! is not predictable, so the code does not branch on it. A block whose bucket is full strays to
//! the next bucket with a free slot. The table is at most half full, so few blocks stray.
//!
//! With the number of live blocks of large programs, most buckets are outside the caches;
//! [`Live::warm`] loads many of them in parallel.

use keel_journal::Requested;
use rustc_hash::FxHashMap;

/// Slots of a bucket.
const SLOTS: usize = 4;

#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Bucket {
    /// 0 for an empty slot.
    addresses: [u64; SLOTS],
    blocks: [Packed; SLOTS],
}

/// The facts about a block in one word: its number, and in the upper bits its requested size or
/// [`Packed::ELSEWHERE`]. In the first slot, [`Packed::STRAYS`] is a flag of the bucket.
#[derive(Clone, Copy, Default)]
struct Packed(u64);

impl Packed {
    const SHIFT: u32 = 48;
    /// Blocks that hash to this bucket are in other buckets, because it was full.
    const STRAYS: u64 = 1 << 47;
    const OBJECT: u64 = Packed::STRAYS - 1;
    /// The size does not fit, or there is an alignment: they are in [`Live::unusual`].
    const ELSEWHERE: u64 = 0xffff;

    #[inline]
    fn new(object: u64, asked: Requested) -> Packed {
        let fits = (asked.size() < Packed::ELSEWHERE) & asked.align().is_none();
        let size = if fits { asked.size() } else { Packed::ELSEWHERE };
        Packed(size << Packed::SHIFT | object & Packed::OBJECT)
    }

    #[inline]
    const fn object(self) -> u64 {
        self.0 & Packed::OBJECT
    }

    #[inline]
    const fn is_elsewhere(self) -> bool {
        self.0 >> Packed::SHIFT == Packed::ELSEWHERE
    }
}

impl Bucket {
    /// The first slot with this address; `SLOTS` if none has it.
    #[inline]
    fn slot_of(&self, address: u64) -> usize {
        let slots = self.addresses.iter().enumerate().rev();
        slots.fold(SLOTS, |found, (slot, other)| if *other == address { slot } else { found })
    }

    #[inline]
    fn has_strays(&self) -> bool {
        self.blocks[0].0 & Packed::STRAYS != 0
    }

    /// Fills a slot, or empties it.
    #[inline]
    fn put(&mut self, slot: usize, address: u64, block: Packed) {
        self.addresses[slot] = address;
        self.blocks[slot].0 = block.0 | self.blocks[slot].0 & Packed::STRAYS;
    }
}

/// Blocks by address, which is never 0.
pub(crate) struct Live {
    /// Their number is a power of two.
    buckets: Vec<Bucket>,
    count: usize,
    /// Number of strays of each bucket that has any.
    strays: FxHashMap<usize, u64>,
    /// The requests that do not fit into their slots, by address.
    unusual: FxHashMap<u64, Requested>,
}

/// A live block: its number, below 2^47, and its request.
pub(crate) type Block = (u64, Requested);

const LEAST_BUCKETS: usize = 1 << 8;
/// 2^64 divided by the golden ratio: distributes neighbouring addresses over distant buckets.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Live {
    pub fn new() -> Live {
        Live {
            buckets: vec![Bucket::default(); LEAST_BUCKETS],
            count: 0,
            strays: FxHashMap::default(),
            unusual: FxHashMap::default(),
        }
    }

    /// The bucket to which an address hashes.
    #[inline]
    fn preferred_bucket(&self, address: u64) -> usize {
        (address.wrapping_mul(SPREAD) >> (64 - self.buckets.len().trailing_zeros())) as usize
    }

    /// Loads the buckets of these addresses into the caches. No branch depends on the loaded
    /// values, so the processor loads them in parallel.
    pub fn warm(&self, addresses: impl Iterator<Item = u64>) {
        let read = addresses.fold(0, |read, address| {
            read ^ self.buckets[self.preferred_bucket(address)].addresses[0]
        });
        std::hint::black_box(read);
    }

    /// The fast path for nearly every line: inserts a block at a free address, or removes the block
    /// at the address. Returns the number of the removed block, 0 if none. Otherwise returns `None`
    /// and changes nothing; then call [`Live::insert`] or [`Live::remove`].
    #[inline]
    pub fn exchange(&mut self, address: u64, comes: bool, block: Block) -> Option<u64> {
        let preferred = self.preferred_bucket(address);
        let is_full = self.is_full();
        let bucket = &mut self.buckets[preferred];
        let (found, free) = (bucket.slot_of(address), bucket.slot_of(0));
        let slot = if comes { free } else { found };
        if (slot >= SLOTS) | (comes & ((found < SLOTS) | bucket.has_strays() | is_full)) {
            return None;
        }
        let slot = slot % SLOTS;
        let gone = bucket.blocks[slot];
        let new = if comes { Packed::new(block.0, block.1) } else { Packed::default() };
        if gone.is_elsewhere() | new.is_elsewhere() {
            return None;
        }
        bucket.put(slot, if comes { address } else { 0 }, new);
        self.count = self.count.wrapping_add(usize::from(comes)).wrapping_sub(usize::from(!comes));
        // An empty slot has the number 0.
        Some(gone.object())
    }

    /// Inserts a block at an address; returns the block that it replaces.
    pub fn insert(&mut self, address: u64, block: Block) -> Option<Block> {
        let before = self.remove(address);
        if self.is_full() {
            self.grow();
        }
        let packed = Packed::new(block.0, block.1);
        if packed.is_elsewhere() {
            self.unusual.insert(address, block.1);
        }
        self.add(address, packed);
        before
    }

    /// Removes the block at an address.
    pub fn remove(&mut self, address: u64) -> Option<Block> {
        let (index, slot) = self.find(address)?;
        let block = self.buckets[index].blocks[slot];
        self.buckets[index].put(slot, 0, Packed::default());
        self.count -= 1;
        let preferred = self.preferred_bucket(address);
        if index != preferred {
            self.forget_stray(preferred);
        }
        let unusual = if block.is_elsewhere() { self.unusual.remove(&address) } else { None };
        Some((
            block.object(),
            unusual.unwrap_or_else(|| Requested::new(block.0 >> Packed::SHIFT, 0)),
        ))
    }

    /// Whether half of the slots are used.
    #[inline]
    fn is_full(&self) -> bool {
        self.count >= self.buckets.len() * SLOTS / 2
    }

    /// The bucket and the slot of an address.
    #[inline]
    fn find(&self, address: u64) -> Option<(usize, usize)> {
        let preferred = self.preferred_bucket(address);
        let bucket = &self.buckets[preferred];
        let slot = bucket.slot_of(address);
        if address == 0 {
            None
        } else if slot < SLOTS {
            Some((preferred, slot))
        } else if bucket.has_strays() {
            self.find_stray(preferred, address)
        } else {
            None
        }
    }

    #[cold]
    fn find_stray(&self, preferred: usize, address: u64) -> Option<(usize, usize)> {
        let mut index = preferred;
        let mut unseen = self.strays.get(&preferred).copied().unwrap_or(0);
        while unseen > 0 {
            index = self.after(index);
            for (slot, other) in self.buckets[index].addresses.iter().enumerate() {
                if *other == address {
                    return Some((index, slot));
                }
                unseen -= u64::from(*other != 0 && self.preferred_bucket(*other) == preferred);
            }
        }
        None
    }

    fn after(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    /// Inserts a block at an address without one; the table must have a free slot.
    fn add(&mut self, address: u64, block: Packed) {
        let preferred = self.preferred_bucket(address);
        let mut index = preferred;
        let mut slot = self.buckets[index].slot_of(0);
        while slot == SLOTS {
            index = self.after(index);
            slot = self.buckets[index].slot_of(0);
        }
        self.buckets[index].put(slot, address, block);
        self.count += 1;
        if index != preferred {
            self.note_stray(preferred);
        }
    }

    #[cold]
    fn note_stray(&mut self, preferred: usize) {
        *self.strays.entry(preferred).or_default() += 1;
        self.buckets[preferred].blocks[0].0 |= Packed::STRAYS;
    }

    #[cold]
    fn forget_stray(&mut self, preferred: usize) {
        let Some(strays) = self.strays.get_mut(&preferred) else { return };
        *strays -= 1;
        if *strays == 0 {
            self.strays.remove(&preferred);
            self.buckets[preferred].blocks[0].0 &= !Packed::STRAYS;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![Bucket::default(); self.buckets.len() * 2];
        self.count = 0;
        self.strays.clear();
        for bucket in std::mem::replace(&mut self.buckets, larger) {
            for (address, block) in bucket.addresses.into_iter().zip(bucket.blocks) {
                if address != 0 {
                    self.add(address, Packed(block.0 & !Packed::STRAYS));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LEAST_BUCKETS, Live, SLOTS};
    use keel_journal::Requested;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// Random operations, by the fast path where possible, give the same results as the
        /// standard table. There are few addresses, and half of them hash to the same few buckets,
        /// so that many stray.
        #[test]
        fn it_is_a_map(
            steps in prop::collection::vec((0_u64..3000, any::<bool>(), any::<bool>()), 0..6000)
        ) {
            let (mut live, mut model) = (Live::new(), HashMap::new());
            for (object, (number, comes, short)) in (1..).zip(steps) {
                let address = address(number);
                let align = [0, 0, 0, 64][object as usize % 4];
                let block = (object, Requested::new(object * 50, align));
                let known = model.get(&address).copied();
                let gone = if short { live.exchange(address, comes, block) } else { None };
                if let Some(gone) = gone {
                    prop_assert_eq!(known.map(|(object, _)| object), (!comes).then_some(gone));
                    prop_assert!(gone != 0 || comes);
                } else if comes {
                    prop_assert_eq!(live.insert(address, block), known);
                } else {
                    prop_assert_eq!(live.remove(address), known);
                }
                if comes { model.insert(address, block) } else { model.remove(&address) };
                prop_assert_eq!(live.count, model.len());
            }
            for (address, block) in model {
                prop_assert_eq!(live.remove(address), Some(block));
            }
            let is_empty =
                |bucket: &super::Bucket| bucket.addresses == [0; SLOTS] && !bucket.has_strays();
            prop_assert!(live.buckets.iter().all(is_empty));
            prop_assert!(live.strays.is_empty() && live.unusual.is_empty());
        }
    }

    /// The bucket is the upper bits of the product.
    fn address(number: u64) -> u64 {
        /// The inverse of [`super::SPREAD`] modulo 2^64.
        const BACK: u64 = 0xf1de_83e1_9937_733d;
        assert_eq!(super::SPREAD.wrapping_mul(BACK), 1, "modulo 2^64");
        let product = if number & 1 == 0 { number << 52 } else { ((number % 40) << 56) | number };
        BACK.wrapping_mul(product + 1)
    }

    #[test]
    fn blocks_that_stray_are_found_and_counted() {
        let mut live = Live::new();
        let block = |number: u64| (number, Requested::default());
        let odd = |number| address(number * 80 + 1);
        for number in 0..20 {
            assert_eq!(live.preferred_bucket(odd(number)), live.preferred_bucket(odd(0)));
            assert_eq!(
                live.exchange(odd(number), true, block(number + 1)).is_some(),
                number < SLOTS as u64
            );
            live.insert(odd(number), block(number + 1));
        }
        assert!(
            live.buckets.len() == LEAST_BUCKETS
                && live.strays[&live.preferred_bucket(odd(0))] == 16
        );
        for number in (0..20).rev() {
            assert_eq!(live.remove(odd(number)), Some(block(number + 1)));
            assert_eq!(live.remove(odd(number)), None);
        }
    }
}
