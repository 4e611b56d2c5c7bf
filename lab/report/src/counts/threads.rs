//! The lanes of the page: the busiest threads, and one lane for all others.

/// Number of lanes; the last one may stand for all further threads.
pub const LANES: usize = 16;

/// A thread of the journal.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Lane {
    /// Its number in the journal; None for the lane of all other threads.
    pub thread: Option<u32>,
    /// Its operations.
    pub operations: u64,
}

/// Threads in the order of first appearance; ranked by their operations at the end.
#[derive(Default)]
pub struct Slots {
    slot_of: std::collections::HashMap<u32, u8>,
    threads: Vec<u32>,
    counts: Vec<u64>,
    last: Option<(u32, u8)>,
}

impl Slots {
    /// Threads with their own slot; all later threads share one more.
    const MOST: usize = 255;

    pub fn extend(&mut self, threads: &[u32], lanes: &mut Vec<u8>) {
        for thread in threads {
            let slot = match self.last {
                Some((last, slot)) if last == *thread => slot,
                _ => self.slot(*thread),
            };
            self.last = Some((*thread, slot));
            self.counts[usize::from(slot)] += 1;
            lanes.push(slot);
        }
    }

    fn slot(&mut self, thread: u32) -> u8 {
        if let Some(slot) = self.slot_of.get(&thread) {
            return *slot;
        }
        let slot = self.threads.len().min(Slots::MOST);
        if slot == self.counts.len() {
            self.counts.push(0);
        }
        if slot < Slots::MOST {
            self.threads.push(thread);
        }
        self.slot_of.insert(thread, slot as u8);
        slot as u8
    }

    /// Turns slots into lanes, busiest first.
    pub fn rank(self, lanes: &mut [u8]) -> Vec<Lane> {
        let mut order: Vec<usize> = (0..self.counts.len()).collect();
        // The shared slot stands for no single thread: it is ranked last.
        order.sort_by_key(|slot| (*slot == Slots::MOST, std::cmp::Reverse(self.counts[*slot])));
        let mut lane_of = [0u8; Slots::MOST + 1];
        let mut ranked: Vec<Lane> = Vec::new();
        let own = if order.len() <= LANES && order.len() <= Slots::MOST {
            order.len()
        } else {
            LANES - 1
        };
        for (rank, slot) in order.into_iter().enumerate() {
            lane_of[slot] = rank.min(own) as u8;
            let operations = self.counts[slot];
            match ranked.get_mut(own).filter(|_| rank > own) {
                Some(others) => others.operations += operations,
                None => {
                    let thread = self.threads.get(slot).copied().filter(|_| rank < own);
                    ranked.push(Lane { thread, operations });
                }
            }
        }
        lanes.iter_mut().for_each(|lane| *lane = lane_of[usize::from(*lane)]);
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_threads_get_their_own_lanes() {
        let mut slots = Slots::default();
        let mut lanes = Vec::new();
        // Thread t makes t + 1 operations; 20 threads are more than there are lanes.
        (0..20u32).for_each(|thread| slots.extend(&vec![thread; thread as usize + 1], &mut lanes));
        let first_of = |thread: usize| thread * (thread + 1) / 2;
        let ranked = slots.rank(&mut lanes);
        assert_eq!(ranked.len(), LANES);
        assert_eq!(ranked[0], Lane { thread: Some(19), operations: 20 });
        assert_eq!(ranked[14], Lane { thread: Some(5), operations: 6 });
        assert_eq!(ranked[15], Lane { thread: None, operations: 1 + 2 + 3 + 4 + 5 });
        assert_eq!((lanes[first_of(19)], lanes[first_of(5)], lanes[first_of(4)]), (0, 14, 15));
        assert_eq!(ranked.iter().map(|lane| lane.operations).sum::<u64>(), lanes.len() as u64);
    }

    #[test]
    fn few_threads_need_no_shared_lane() {
        let mut slots = Slots::default();
        let mut lanes = Vec::new();
        slots.extend(&[7, 7, 3], &mut lanes);
        let ranked = slots.rank(&mut lanes);
        assert_eq!(
            ranked,
            [Lane { thread: Some(7), operations: 2 }, Lane { thread: Some(3), operations: 1 }]
        );
        assert_eq!(lanes, [0, 0, 1]);
    }
}
