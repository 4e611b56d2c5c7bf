//! The due time of each operation, in ns since the run's start.

use crate::Pace;
use keel_journal::Event;

/// The longest pause that pace `compressed` leaves.
const LONGEST_GAP_NS: u64 = 1_000_000;

pub struct Pacer {
    pace: Pace,
    last_time: u64,
    /// Pauses left out so far, ns.
    skipped: u64,
}

impl Pacer {
    pub fn new(pace: Pace) -> Pacer {
        Pacer { pace, last_time: 0, skipped: 0 }
    }

    pub fn is_paced(&self) -> bool {
        self.pace != Pace::Max
    }

    /// The due time of a call. Times of the journal never decrease, but `begin` of a realloc is
    /// before its `time`.
    pub fn due(&mut self, event: &Event) -> u64 {
        match self.pace {
            Pace::Max => 0,
            Pace::Times(times) => (event.begin as f64 / times) as u64,
            Pace::Compressed => {
                let gap = event.time.saturating_sub(self.last_time);
                self.skipped += gap.saturating_sub(LONGEST_GAP_NS);
                self.last_time = self.last_time.max(event.time);
                let inside = event.time - event.begin.min(event.time);
                let time = event.time.saturating_sub(self.skipped);
                time.saturating_sub(inside.min(gap))
            }
        }
    }
}
