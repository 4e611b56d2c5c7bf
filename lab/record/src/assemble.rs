//! Merges the raw events of one process's rings into the rows of its journal.
//!
//! Order. Each ring is in order. Events of different rings are ordered by their times. For two
//! operations that depend on each other, the times are as exact as the processors' counters agree
//! (`journal/ring.h`, ORDER). If the counters differ, an event allocates an address that is still
//! live, or releases an address that is not. Then the matching event is in another ring, at most
//! [`SKEW_NS`] later, and that ring is processed up to it first. If there is no such event, the
//! matching operation was not recorded.
//!
//! Completeness. The collector reads the clock (time W), then the rings. Everything that an event
//! with a time before W depends on was published before W, so it has been read. Hence rows up to W
//! can be written, and no later round contradicts them. An event with a time before W that was
//! published after W depends on no row written so far, and gets the time W (`late`).
//!
//! Cost: O(log rings) per event, and a hash table of the live blocks.

use crate::apply::Applier;
use crate::clock::Clock;
use crate::origins::Mapping;
use crate::ring::{RawEvent, op};
use crate::rows::{Facts, Filter, Names, RowSink, Taken};
use keel_journal::{Metadata, Origin};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The largest inversion of the times of two threads. If the counters of two processors differ by
/// more, they cannot serve as a clock.
pub const SKEW_NS: u64 = 10_000;

/// Resolving one inversion may reveal another; real chains are short.
const CHAIN_MAX: u32 = 16;

#[derive(Clone, Default)]
struct Ring {
    events: VecDeque<RawEvent>,
    /// The path of code that was unloaded, as far as it has been read.
    path: Vec<u8>,
    /// Time of the last event added; the times of a ring never decrease.
    last_time: u64,
    /// Its front event is being written by a caller (recursion in `resolve`).
    suspended: bool,
    /// It is in the heap, perhaps with an earlier time than that of its front event.
    queued: bool,
}

/// Converts the events of one process's rings to rows.
#[derive(Clone)]
pub struct Assembler {
    rings: Vec<Ring>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    applier: Applier,
    /// Ticks up to which rows were written.
    written_until: u64,
    /// No event is later, ticks.
    end: u64,
    late: u64,
    inverted: u64,
}

impl Assembler {
    /// Creates the assembler of a recording that began at `origin` ticks.
    pub fn new(clock: Clock, origin: u64, filter: &Filter) -> Assembler {
        Assembler {
            rings: Vec::new(),
            heap: BinaryHeap::new(),
            applier: Applier::new(clock, origin, filter),
            written_until: 0,
            end: u64::MAX,
            late: 0,
            inverted: 0,
        }
    }

    /// Sets where the program's code is mapped from now on.
    pub fn map(&mut self, mappings: &[Mapping]) {
        self.applier.origins.map(mappings);
    }

    /// The module and the stack of an event with an origin.
    pub fn origin(&mut self, ring: usize, event: &RawEvent) -> Origin {
        self.applier.origins.resolve(ring, event.extra())
    }

    /// Operations written, and bytes in live blocks.
    pub fn progress(&self) -> (u64, u64) {
        self.applier.progress()
    }

    /// Whether the sink still accepts rows.
    pub fn is_open(&self) -> bool {
        self.applier.taken() == Taken::More
    }

    /// Whether the rows ended at a limit.
    pub fn is_limited(&self) -> bool {
        self.applier.taken() == Taken::Enough
    }

    /// Rows are wanted from the time on up to which the events were applied.
    pub fn begin_span(&mut self, sink: &mut dyn RowSink) {
        self.applier.begin_span_at(self.written_until, sink);
    }

    /// The latest calibration.
    pub fn clock(&self) -> Clock {
        self.applier.clock
    }

    /// The latest time of any event, ns.
    pub fn last_moment(&self) -> u64 {
        self.applier.last_moment()
    }

    /// From the start of the recording to the time 0 of the rows, ns.
    pub fn left_out(&self) -> u64 {
        self.applier.left_out()
    }

    /// Whether rows are not yet wanted.
    pub fn is_early(&self) -> bool {
        self.applier.is_early()
    }

    /// Fills in the metadata that is known so far.
    pub fn known(&self, metadata: &mut Metadata) {
        self.applier.known(metadata);
    }

    /// Adds events read from a ring, in their order.
    pub fn add(&mut self, ring: usize, events: &[RawEvent]) {
        if self.rings.len() <= ring {
            self.rings.resize_with(ring + 1, Ring::default);
            self.applier.resize_rings(ring + 1);
        }
        let queue = &mut self.rings[ring];
        for event in events {
            let mut event = *event;
            if event.time < self.written_until {
                self.late += 1;
                event.time = self.written_until;
            }
            event.time = event.time.max(queue.last_time);
            queue.last_time = event.time;
            match event.op() {
                op::STACK => {
                    self.applier.origins.add_frames(ring, &event);
                    continue;
                }
                op::PATH => {
                    queue.path.extend(event.text());
                    continue;
                }
                op::UNLOADED => {
                    let path = std::mem::take(&mut queue.path);
                    let code = Mapping {
                        start: event.address,
                        end: event.size,
                        offset: event.extra(),
                        path: String::from_utf8_lossy(&path).into_owned(),
                    };
                    self.applier.origins.announce_unloading(event.time, code);
                }
                _ if event.has_origin() => {
                    self.applier.origins.keep_frames(ring, event.extra());
                }
                _ => {}
            }
            queue.events.push_back(event);
        }
        self.enqueue(ring);
    }

    fn enqueue(&mut self, ring: usize) {
        let queue = &mut self.rings[ring];
        if let (false, Some(first)) = (queue.queued, queue.events.front()) {
            queue.queued = true;
            self.heap.push(Reverse((first.time, ring)));
        }
    }

    /// Writes the rows up to the time `until` (ticks), at which the collector began to read the
    /// rings.
    pub fn write(&mut self, clock: Clock, until: u64, sink: &mut dyn RowSink) {
        self.applier.clock = clock;
        while let Some(&Reverse((time, ring))) = self.heap.peek() {
            if time > until {
                break;
            }
            self.heap.pop();
            self.rings[ring].queued = false;
            let next = self.heap.peek().map_or(u64::MAX, |Reverse((time, _))| *time).min(until);
            while self.rings[ring].events.front().is_some_and(|event| event.time <= next) {
                self.advance(ring, 0, sink);
            }
            self.enqueue(ring);
        }
        self.written_until = self.written_until.max(until);
        if self.applier.has_many_stacks() {
            let queued = self.rings.iter().flat_map(|ring| &ring.events);
            let queued = queued.filter(|event| event.has_origin()).map(RawEvent::extra);
            self.applier.forget_stacks(queued);
        }
    }

    /// Discards events later than `ticks`, when the program had stopped recording.
    pub fn cut(&mut self, ticks: u64) {
        self.end = ticks;
        for ring in &mut self.rings {
            let kept = ring.events.partition_point(|event| event.time <= ticks);
            ring.events.truncate(kept);
        }
    }

    /// Ends the rows, and returns threads, frames and counts.
    pub fn finish(self, names: &Names) -> Facts {
        let mut facts = self.applier.finish(names);
        for (kind, count) in [("late", self.late), ("inverted", self.inverted)] {
            if count > 0 {
                facts.repairs.insert(kind.to_owned(), count);
            }
        }
        facts
    }

    /// Writes the front event of a ring to the journal.
    fn advance(&mut self, ring: usize, depth: u32, sink: &mut dyn RowSink) {
        let Some(event) = self.rings[ring].events.pop_front() else { return };
        if event.creates() && self.applier.is_live(event.address) {
            self.resolve(ring, &event, RawEvent::releases, depth, sink);
            self.applier.drop_reissued(event.address);
        } else if event.releases() && !self.applier.is_live(event.address) {
            self.resolve(ring, &event, RawEvent::creates, depth, sink);
        }
        // Resolved now, in the order of the times, among the unloadings of code.
        let origin = match event.has_origin() {
            true => self.applier.origins.resolve(ring, event.extra()),
            false => Origin::UNKNOWN,
        };
        self.applier.apply(ring, &event, origin, sink);
    }

    /// Finds the event at the same address that must have come first, if there is one, and
    /// processes its ring up to it.
    fn resolve(
        &mut self,
        ring: usize,
        event: &RawEvent,
        wanted: fn(&RawEvent) -> bool,
        depth: u32,
        sink: &mut dyn RowSink,
    ) {
        if depth >= CHAIN_MAX {
            return;
        }
        let limit = event.time.saturating_add(self.applier.clock.ticks_in(SKEW_NS));
        let is_match = |other: &RawEvent| other.address == event.address && wanted(other);
        let found = self
            .rings
            .iter()
            .enumerate()
            .filter(|(other, queue)| *other != ring && !queue.suspended);
        let found = found.filter_map(|(other, queue)| {
            let near = queue.events.iter().take_while(|other| other.time <= limit);
            near.enumerate()
                .find(|(_, event)| is_match(event))
                .map(|(at, event)| (event.time, other, at))
        });
        let Some((_, other, at)) = found.min() else { return };
        self.inverted += 1;
        self.rings[ring].suspended = true;
        for _ in 0..=at {
            self.advance(other, depth + 1, sink);
        }
        self.rings[ring].suspended = false;
    }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
