//! Raw events of one process, ring by ring, become the rows of its journal.
//!
//! Order. Each ring is in order. Across rings, times decide; for two operations that depend on each other they are as
//! right as the processors' counters agree (`journal/ring.h`, ORDER). Where those are off, it shows as a birth at an
//! address that still lives, or a release of an address that does not. The matching event then lies within
//! [`SKEW_NS`] in another ring; that ring is taken up to it first. What is left over really happened unseen.
//!
//! Completeness. The collector notes the time W, then reads the rings. All that an event stamped before W depends on
//! was published before W, so it is here. Hence rows up to W can be written and no later round contradicts them; an
//! event that was stamped before W and published after it concerns nothing written, and gets W's time (`late`).
//!
//! Cost: O(log rings) an event, and a hash table of the live blocks.

use crate::clock::Clock;
use crate::ring::{RawEvent, op};
use keel_journal::{Event, Metadata, Op};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// How far the times of two threads may be inverted; processors whose counters differ by more are not fit for a clock.
const SKEW_NS: u64 = 10_000;

/// An inversion may uncover another; a chain of real ones is short.
const CHAIN_MAX: u32 = 16;

/// Receives the rows; `false` when it can take no more.
pub trait RowSink {
    /// Takes one row.
    fn push(&mut self, event: &Event) -> bool;
}

impl<F: FnMut(&Event) -> bool> RowSink for F {
    fn push(&mut self, event: &Event) -> bool {
        self(event)
    }
}

/// What the rows do not say.
#[derive(Default, Debug)]
pub struct Facts {
    /// The metadata's threads, in order of appearance: kernel id and name.
    pub threads: Vec<(u64, String)>,
    /// Times of the frame marks, ns.
    pub frames: Vec<u64>,
    /// Frees and reallocs of blocks whose birth was not seen.
    pub foreign: u64,
    /// What was mended, by kind.
    pub repairs: BTreeMap<String, u64>,
    /// Rows given to the sink.
    pub rows: u64,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<RawEvent>,
    /// Time of the last event that came in; a ring's times never go back.
    last_time: u64,
    /// Serial number of the thread that writes here.
    thread: u32,
    /// Its front event is being written further up the stack.
    suspended: bool,
    /// It stands in the heap, perhaps with an earlier time than its front's.
    queued: bool,
}

#[derive(Default)]
struct Thread {
    id: u64,
    name: String,
    /// Its number in the journal, from its first row on.
    index: Option<u32>,
    /// Reallocs under way, innermost last.
    reallocs: Vec<Realloc>,
}

struct Realloc {
    address: u64,
    /// The object given up; 0: its birth was not seen.
    object: u64,
    begin: u64,
    frame: u32,
}

/// One process's rings on their way into rows.
pub struct Assembler {
    rings: Vec<Ring>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    threads: FxHashMap<u32, Thread>,
    live: FxHashMap<u64, u64>,
    clock: Clock,
    /// Subtracted from all times, ns.
    origin: u64,
    objects: u64,
    last_row: u64,
    /// The latest time of anything, beginnings of reallocs included, ns.
    last_moment: u64,
    /// Ticks up to which rows were written.
    written_until: u64,
    late: u64,
    inverted: u64,
    reissued: u64,
    open: bool,
    facts: Facts,
}

impl Assembler {
    /// For a recording that began at `origin` ticks.
    pub fn new(clock: Clock, origin: u64) -> Assembler {
        Assembler {
            rings: Vec::new(),
            heap: BinaryHeap::new(),
            threads: FxHashMap::default(),
            live: FxHashMap::default(),
            clock,
            origin: clock.nanoseconds(origin),
            objects: 0,
            last_row: 0,
            last_moment: 0,
            written_until: 0,
            late: 0,
            inverted: 0,
            reissued: 0,
            open: true,
            facts: Facts::default(),
        }
    }

    /// The same process runs another program now: its blocks, threads and rings are gone, its rows go on.
    pub fn exec(&mut self, names: &Names) {
        self.retire_threads(names);
        self.rings.clear();
        self.heap.clear();
        self.live.clear();
        self.threads.clear();
        self.written_until = 0;
    }

    /// Whether the sink still takes rows.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Adds what was read from a ring, in its order.
    pub fn add(&mut self, ring: usize, events: &[RawEvent]) {
        if self.rings.len() <= ring {
            self.rings.resize_with(ring + 1, Ring::default);
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

    /// Writes the rows up to the time `until` (ticks), which the collector noted before it read the rings.
    pub fn write(&mut self, clock: Clock, until: u64, sink: &mut dyn RowSink) {
        self.clock = clock;
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
    }

    /// Forgets events later than `ticks`: the program had stopped recording.
    pub fn cut(&mut self, ticks: u64) {
        for ring in &mut self.rings {
            let kept = ring.events.partition_point(|event| event.time <= ticks);
            ring.events.truncate(kept);
        }
    }

    /// The end: threads, frames and counts.
    pub fn finish(mut self, names: &Names) -> Facts {
        self.retire_threads(names);
        for (kind, count) in
            [("late", self.late), ("inverted", self.inverted), ("unseen_free", self.reissued)]
        {
            if count > 0 {
                self.facts.repairs.insert(kind.to_owned(), count);
            }
        }
        self.facts
    }

    fn retire_threads(&mut self, names: &Names) {
        for thread in self.threads.values_mut() {
            if let Some(index) = thread.index.take() {
                let name = Some(std::mem::take(&mut thread.name)).filter(|name| !name.is_empty());
                let name = name.or_else(|| names.threads.get(&thread.id).cloned());
                self.facts.threads[index as usize].1 = name.unwrap_or_else(|| names.program.clone());
            }
        }
    }

    /// Takes the front event of a ring into the journal.
    fn advance(&mut self, ring: usize, depth: u32, sink: &mut dyn RowSink) {
        let Some(event) = self.rings[ring].events.pop_front() else { return };
        if event.creates() && self.live.contains_key(&event.address) {
            self.resolve(ring, &event, RawEvent::releases, depth, sink);
            if self.live.remove(&event.address).is_some() {
                self.reissued += 1;
            }
        } else if event.releases() && !self.live.contains_key(&event.address) {
            self.resolve(ring, &event, RawEvent::creates, depth, sink);
        }
        self.apply(ring, &event, sink);
    }

    /// Takes another ring up to the event at the same address that must have come first, if there is one.
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
        let limit = event.time.saturating_add(self.clock.ticks_in(SKEW_NS));
        let is_match = |other: &RawEvent| other.address == event.address && wanted(other);
        let found = self.rings.iter().enumerate().filter(|(other, queue)| *other != ring && !queue.suspended);
        let found = found.filter_map(|(other, queue)| {
            let near = queue.events.iter().take_while(|other| other.time <= limit);
            near.enumerate().find(|(_, event)| is_match(event)).map(|(at, event)| (event.time, other, at))
        });
        let Some((_, other, at)) = found.min() else { return };
        self.inverted += 1;
        self.rings[ring].suspended = true;
        for _ in 0..=at {
            self.advance(other, depth + 1, sink);
        }
        self.rings[ring].suspended = false;
    }

    fn apply(&mut self, ring: usize, event: &RawEvent, sink: &mut dyn RowSink) {
        let time = self.clock.nanoseconds(event.time).saturating_sub(self.origin).max(self.last_row);
        self.last_moment = self.last_moment.max(time);
        match event.op() {
            op::MALLOC => self.born(ring, Op::Malloc, event, time, sink),
            op::CALLOC => self.born(ring, Op::Calloc, event, time, sink),
            op::ALIGNED => self.born(ring, Op::Aligned, event, time, sink),
            op::REALLOC_NULL => self.born(ring, Op::Realloc, event, time, sink),
            op::FREE => {
                let released = self.live.remove(&event.address).unwrap_or(0);
                self.released(ring, released, time, sink);
            }
            op::REALLOC_BEGIN => {
                let object = self.live.remove(&event.address).unwrap_or(0);
                let frame = self.facts.frames.len() as u32;
                let realloc = Realloc { address: event.address, object, begin: time, frame };
                self.thread(ring).reallocs.push(realloc);
            }
            op::REALLOC_END => self.realloc_ended(ring, event, time, sink),
            op::THREAD_BEGIN => {
                let serial = event.size as u32;
                self.rings[ring].thread = serial;
                self.threads.entry(serial).or_default().id = event.address;
            }
            op::THREAD_END => {
                let bytes: Vec<u8> =
                    [event.address, event.size].iter().flat_map(|half| half.to_le_bytes()).collect();
                let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                self.thread(ring).name = String::from_utf8_lossy(bytes).into_owned();
            }
            op::FRAME => {
                // A row belongs to the frame by its time alone, so a mark shares its nanosecond with nothing before it.
                let mark = time.max(self.last_moment + 1);
                self.facts.frames.push(mark);
                self.last_row = mark;
                self.last_moment = mark;
            }
            _ => *self.facts.repairs.entry("unknown_operation".to_owned()).or_default() += 1,
        }
    }

    fn thread(&mut self, ring: usize) -> &mut Thread {
        let serial = self.rings[ring].thread;
        self.threads.entry(serial).or_default()
    }

    fn born(&mut self, ring: usize, op: Op, event: &RawEvent, time: u64, sink: &mut dyn RowSink) {
        let align = if op == Op::Aligned { event.extra() } else { 0 };
        self.objects += 1;
        self.live.insert(event.address, self.objects);
        let frame = self.facts.frames.len() as u32;
        let created = self.objects;
        let row =
            Event { time, begin: time, thread: 0, op, size: event.size, align, created, released: 0, frame };
        self.row(ring, row, sink);
    }

    fn released(&mut self, ring: usize, released: u64, time: u64, sink: &mut dyn RowSink) {
        let op = if released == 0 { Op::ForeignFree } else { Op::Free };
        let frame = self.facts.frames.len() as u32;
        let row = Event { time, begin: time, thread: 0, op, size: 0, align: 0, created: 0, released, frame };
        self.row(ring, row, sink);
    }

    fn realloc_ended(&mut self, ring: usize, event: &RawEvent, time: u64, sink: &mut dyn RowSink) {
        let thread = self.thread(ring);
        // Those above the match were left by a jump out of a signal handler.
        let same = |realloc: &Realloc| realloc.address & ((1 << 48) - 1) == event.extra();
        let Some(at) = thread.reallocs.iter().rposition(same) else {
            *self.facts.repairs.entry("realloc_without_begin".to_owned()).or_default() += 1;
            return;
        };
        thread.reallocs.truncate(at + 1);
        let Some(realloc) = thread.reallocs.pop() else { return };
        if event.address == 0 {
            if event.size == 0 {
                self.released(ring, realloc.object, time, sink);
            } else if realloc.object != 0 {
                self.live.insert(realloc.address, realloc.object);
            }
            return;
        }
        self.objects += 1;
        self.live.insert(event.address, self.objects);
        let (created, released, size) = (self.objects, realloc.object, event.size);
        let row = if released == 0 {
            let (op, frame) = (Op::ForeignRealloc, self.facts.frames.len() as u32);
            Event { time, begin: time, thread: 0, op, size, align: 0, created, released, frame }
        } else {
            let (begin, frame) = (realloc.begin.min(time), realloc.frame);
            Event { time, begin, thread: 0, op: Op::Realloc, size, align: 0, created, released, frame }
        };
        self.row(ring, row, sink);
    }

    fn row(&mut self, ring: usize, mut row: Event, sink: &mut dyn RowSink) {
        let serial = self.rings[ring].thread;
        let thread = self.threads.entry(serial).or_default();
        row.thread = *thread.index.get_or_insert_with(|| {
            self.facts.threads.push((thread.id, String::new()));
            self.facts.threads.len() as u32 - 1
        });
        self.last_row = row.time;
        self.facts.foreign += u64::from(matches!(row.op, Op::ForeignFree | Op::ForeignRealloc));
        self.facts.rows += 1;
        self.open = self.open && sink.push(&row);
    }
}

/// Names of threads that did not tell theirs by ending.
#[derive(Default)]
pub struct Names {
    /// Those found in /proc, by kernel id.
    pub threads: FxHashMap<u64, String>,
    /// For the others: the program's.
    pub program: String,
}

/// Puts the facts into the metadata.
pub fn describe(facts: Facts, metadata: &mut Metadata) {
    let threads = facts.threads.into_iter().map(|(id, name)| keel_journal::Thread { id, name });
    metadata.threads = threads.collect();
    metadata.frames = facts.frames;
    metadata.foreign = facts.foreign;
    metadata.repairs = facts.repairs;
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
