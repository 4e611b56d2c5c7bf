//! The live blocks: what is known of the one at an address.
//!
//! Open addressing with linear probing, at most half full, and nothing left behind by what was removed: a look-up
//! nearly always reads one line of memory, where a table of the standard kind reads two. With as many live blocks as
//! large programs have, most of those lines lie outside of the caches; [`Live::warm`] asks for many at once.

/// A place of the table; empty if `address` is 0.
#[derive(Clone, Copy, Default)]
struct Place<T> {
    address: u64,
    block: T,
}

/// Blocks by address, which is never 0.
pub(crate) struct Live<T> {
    /// A power of two of them.
    places: Vec<Place<T>>,
    count: usize,
}

const LEAST_PLACES: usize = 1 << 10;
/// 2^64 by the golden ratio: neighbouring addresses come to lie far apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl<T: Copy + Default> Live<T> {
    pub fn new() -> Live<T> {
        Live { places: vec![Place::default(); LEAST_PLACES], count: 0 }
    }

    /// Where the search for an address begins.
    #[inline]
    fn home(&self, address: u64) -> usize {
        (address.wrapping_mul(SPREAD) >> (64 - self.places.len().trailing_zeros())) as usize
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The place of an address, or the empty one where it would come.
    #[inline]
    fn find(&self, address: u64) -> usize {
        let mut place = self.home(address);
        while self.places[place].address != 0 && self.places[place].address != address {
            place = self.after(place);
        }
        place
    }

    /// Reads the places of these addresses and forgets them. No branch depends on what is read, so the processor waits
    /// for all of them together.
    pub fn warm(&self, addresses: impl Iterator<Item = u64>) {
        let read = addresses.fold(0, |read, address| read ^ self.places[self.home(address)].address);
        std::hint::black_box(read);
    }

    /// Puts a block at an address; returns the one that was there and is there no more.
    #[inline]
    pub fn insert(&mut self, address: u64, block: T) -> Option<T> {
        if self.count >= self.places.len() / 2 {
            self.grow();
        }
        let place = self.find(address);
        let before = std::mem::replace(&mut self.places[place], Place { address, block });
        self.count += usize::from(before.address == 0);
        (before.address != 0).then_some(before.block)
    }

    /// Takes away the block at an address.
    #[inline]
    pub fn remove(&mut self, address: u64) -> Option<T> {
        let place = self.find(address);
        let Place { address, block } = self.places[place];
        if address == 0 {
            return None;
        }
        self.count -= 1;
        self.close_gap(place);
        Some(block)
    }

    /// Empties a place and moves up what would not be found beyond it.
    #[inline]
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.places.len() - 1;
        let mut next = self.after(gap);
        while self.places[next].address != 0 {
            let distance = next.wrapping_sub(self.home(self.places[next].address)) & mask;
            // It may move into the gap if its search passes there.
            if distance >= next.wrapping_sub(gap) & mask {
                self.places[gap] = self.places[next];
                gap = next;
            }
            next = self.after(next);
        }
        self.places[gap] = Place::default();
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![Place::default(); self.places.len() * 2];
        for place in std::mem::replace(&mut self.places, larger) {
            if place.address != 0 {
                let free = self.find(place.address);
                self.places[free] = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Live;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// The same as the standard table, whatever comes; few addresses, so that gaps close in the midst of others.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0_u64..3000, any::<bool>()), 0..6000)) {
            let (mut live, mut model) = (Live::new(), HashMap::new());
            for (object, (address, inserts)) in (1..).zip(steps) {
                let address = (address + 1).wrapping_mul(0x10_0000_0000_0001);
                if inserts {
                    prop_assert_eq!(live.insert(address, object), model.insert(address, object));
                } else {
                    prop_assert_eq!(live.remove(address), model.remove(&address));
                }
                prop_assert_eq!(live.count, model.len());
            }
            for (address, object) in model {
                prop_assert_eq!(live.remove(address), Some(object));
            }
            prop_assert!(live.places.iter().all(|place| place.address == 0));
        }
    }
}
