//! Raw events of one process, ring by ring, become the rows of its journal.
//!
//! Order. Each ring is in order. Across rings, times decide; for two operations that depend on each other they are as
//! right as the processors' counters agree (`journal/ring.h`, ORDER). Where those are off, it shows as a birth at an
//! address that still lives, or a release of an address that does not. The matching event then lies within
//! [`SKEW_NS`] in another ring; that ring is taken up to it first. What is left over really happened unseen. Frees may
//! be early by design (`early_frees.rs`).
//!
//! Completeness. The collector notes the time W, then reads the rings. All that an event stamped before W depends on
//! was published before W, so it is here. Hence rows up to W can be written and no later round contradicts them; an
//! event that was stamped before W and published after it concerns nothing written, and gets W's time (`late`).
//!
//! Cost: O(log rings) an event, and a hash table of the live blocks.

use crate::clock::Clock;
use crate::early_frees::{EarlyFrees, Waiting};
use crate::live::{Live, Realloc, SKIPPED};
use crate::origins::{Mapping, Origins};
use crate::prologue::Early;
use crate::ring::{RawEvent, op};
use crate::rows::{Facts, Filter, Names, RowSink, Taken};
use keel_journal::{Event, FreeHint, Mark, Metadata, Op, Origin, Requested};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How far the times of two threads may be inverted; processors whose counters differ by more are not fit for a clock.
pub const SKEW_NS: u64 = 10_000;

/// A century, which is about what a journal's times can say: later ones are no times.
const LATEST_NS: u64 = 100 * 366 * 86_400 * 1_000_000_000;

/// An inversion may uncover another; a chain of real ones is short.
const CHAIN_MAX: u32 = 16;

#[derive(Default)]
struct Ring {
    events: VecDeque<(RawEvent, Origin)>,
    /// Time of the last event that came in; a ring's times never go back.
    last_time: u64,
    /// Serial number of the thread that writes here.
    thread: u32,
    /// Its front event is being written further up the stack.
    suspended: bool,
    /// Of a mark, so far.
    text: Vec<u8>,
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

/// One process's rings on their way into rows.
pub struct Assembler {
    rings: Vec<Ring>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    threads: FxHashMap<u32, Thread>,
    live: FxHashMap<u64, Live>,
    early_frees: EarlyFrees,
    origins: Origins,
    /// While rows are not yet wanted: when they are, ns, and the blocks that live.
    early: Option<(u64, Early)>,
    clock: Clock,
    /// Subtracted from all times, ns.
    origin: u64,
    objects: u64,
    last_row: u64,
    /// The latest time of anything, beginnings of reallocs included, ns.
    last_moment: u64,
    /// Ticks up to which rows were written.
    written_until: u64,
    /// Nothing comes after that, ticks.
    end: u64,
    late: u64,
    inverted: u64,
    reissued: u64,
    /// What the sink said last.
    taken: Taken,
    max_operations: u64,
    facts: Facts,
}

impl Assembler {
    /// For a recording that began at `origin` ticks.
    pub fn new(clock: Clock, origin: u64, filter: &Filter) -> Assembler {
        Assembler {
            rings: Vec::new(),
            heap: BinaryHeap::new(),
            threads: FxHashMap::default(),
            live: FxHashMap::default(),
            early_frees: EarlyFrees::new(),
            origins: Origins::new(&filter.skip_modules),
            early: (filter.after_ns > 0).then(|| (filter.after_ns, Early::default())),
            clock,
            origin: clock.nanoseconds(origin),
            objects: 0,
            last_row: 0,
            last_moment: 0,
            written_until: 0,
            end: u64::MAX,
            late: 0,
            inverted: 0,
            reissued: 0,
            taken: Taken::More,
            max_operations: filter.max_operations,
            facts: Facts::default(),
        }
    }

    /// The same process runs another program now: its blocks, threads and rings are gone, its rows go on.
    pub fn exec(&mut self, names: &Names) {
        self.retire_threads(names);
        self.rings.clear();
        self.heap.clear();
        self.live.clear();
        self.early_frees.clear();
        self.threads.clear();
        self.origins.exec();
        if let Some((_, early)) = &mut self.early {
            *early = Early::default();
        }
        self.facts.live_bytes = 0;
        self.written_until = 0;
    }

    /// The program's code lies there from now on.
    pub fn map(&mut self, mappings: &[Mapping]) {
        self.origins.map(mappings);
    }

    /// Operations written, and bytes in blocks that live.
    pub fn progress(&self) -> (u64, u64) {
        (self.facts.rows.saturating_sub(self.facts.prologue), self.facts.live_bytes)
    }

    /// Whether the sink still takes rows.
    pub fn is_open(&self) -> bool {
        self.taken == Taken::More
    }

    /// Whether rows ended at a limit.
    pub fn is_limited(&self) -> bool {
        self.taken == Taken::Enough
    }

    /// Whether rows are not yet wanted.
    pub fn is_early(&self) -> bool {
        self.early.is_some()
    }

    /// Puts into metadata what is known beside the rows by now.
    pub fn known(&self, metadata: &mut Metadata) {
        known(&self.facts, &self.origins, &self.threads, metadata);
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
            // Resolved now, while the mappings are those of the event's time.
            let origin = match event.op() {
                op::STACK => {
                    self.origins.add_frames(ring, &event);
                    continue;
                }
                _ if event.has_origin() => self.origins.resolve(ring, event.extra()),
                _ => Origin::UNKNOWN,
            };
            queue.events.push_back((event, origin));
        }
        self.enqueue(ring);
    }

    fn enqueue(&mut self, ring: usize) {
        let queue = &mut self.rings[ring];
        if let (false, Some(first)) = (queue.queued, queue.events.front()) {
            queue.queued = true;
            self.heap.push(Reverse((first.0.time, ring)));
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
            while self.rings[ring].events.front().is_some_and(|event| event.0.time <= next) {
                self.advance(ring, 0, sink);
            }
            self.enqueue(ring);
        }
        self.written_until = self.written_until.max(until);
        self.give_up_waiting(if until >= self.end { u64::MAX } else { until }, sink);
    }

    /// Forgets events later than `ticks`: the program had stopped recording.
    pub fn cut(&mut self, ticks: u64) {
        self.end = ticks;
        for ring in &mut self.rings {
            let kept = ring.events.partition_point(|event| event.0.time <= ticks);
            ring.events.truncate(kept);
        }
    }

    /// The end: threads, frames and counts.
    pub fn finish(mut self, names: &Names) -> Facts {
        self.retire_threads(names);
        (self.facts.modules, self.facts.stacks) = self.origins.finish();
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
        let Some((event, origin)) = self.rings[ring].events.pop_front() else { return };
        self.give_up_waiting(event.time, sink);
        if event.creates() && self.live.contains_key(&event.address) {
            self.resolve(ring, &event, RawEvent::releases, depth, sink);
            if let Some(block) = self.live.remove(&event.address) {
                self.facts.live_bytes = self.facts.live_bytes.wrapping_sub(block.asked.size());
                self.reissued += u64::from(block.object != SKIPPED);
                if let Some((_, early)) = &mut self.early {
                    early.release(block.object);
                }
            }
        } else if event.releases() && !self.live.contains_key(&event.address) {
            if event.op() == op::FREE {
                let (serial, skew) = (self.rings[ring].thread, self.clock.ticks_in(SKEW_NS));
                return self.early_frees.wait(ring, serial, event, origin, skew);
            }
            self.resolve(ring, &event, RawEvent::creates, depth, sink);
        }
        if !event.creates() {
            return self.apply(ring, &event, origin, sink);
        }
        let (before, after) = self.early_frees.at_birth(ring, event.address);
        if let Some(waiting) = before {
            self.apply_waiting(&waiting, sink);
        }
        self.apply(ring, &event, origin, sink);
        if let Some(waiting) = after {
            self.inverted += 1;
            self.apply_waiting(&waiting, sink);
            self.early_frees.displaced(event.address);
        }
    }

    /// Frees that have waited long enough by `now` are of blocks whose allocation was not recorded.
    fn give_up_waiting(&mut self, now: u64, sink: &mut dyn RowSink) {
        if self.early_frees.nobody_waits() {
            return;
        }
        let skew = self.clock.ticks_in(SKEW_NS);
        while let Some(waiting) = self.early_frees.given_up(now, skew) {
            self.apply_waiting(&waiting, sink);
        }
    }

    fn apply_waiting(&mut self, waiting: &Waiting, sink: &mut dyn RowSink) {
        let Waiting { ring, serial, event, origin, .. } = waiting;
        let thread = std::mem::replace(&mut self.rings[*ring].thread, *serial);
        self.apply(*ring, event, *origin, sink);
        self.rings[*ring].thread = thread;
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
            let near = queue.events.iter().take_while(|other| other.0.time <= limit);
            near.enumerate()
                .find(|(_, event)| is_match(&event.0))
                .map(|(at, event)| (event.0.time, other, at))
        });
        let Some((_, other, at)) = found.min() else { return };
        self.inverted += 1;
        self.rings[ring].suspended = true;
        for _ in 0..=at {
            self.advance(other, depth + 1, sink);
        }
        self.rings[ring].suspended = false;
    }

    fn apply(&mut self, ring: usize, event: &RawEvent, origin: Origin, sink: &mut dyn RowSink) {
        if self.early.as_ref().is_some_and(|(start, _)| {
            self.clock.nanoseconds(event.time).saturating_sub(self.origin) >= *start
        }) {
            self.begin_span(sink);
        }
        let time = self.clock.nanoseconds(event.time).saturating_sub(self.origin);
        let time = time.min(LATEST_NS).max(self.last_row);
        self.last_moment = self.last_moment.max(time);
        match event.op() {
            op::MALLOC => self.allocate(ring, Op::Malloc, event, time, origin, sink),
            op::CALLOC => self.allocate(ring, Op::Calloc, event, time, origin, sink),
            op::ALIGNED => self.allocate(ring, Op::Aligned, event, time, origin, sink),
            op::REALLOC_NULL => self.allocate(ring, Op::Realloc, event, time, origin, sink),
            op::FREE => {
                self.early_frees.ended(ring, event);
                let block = self.die(event.address);
                self.freed(ring, block, event, time, origin, sink);
            }
            op::REALLOC_BEGIN => {
                self.early_frees.ended(ring, event);
                let old = self.die(event.address);
                let frame = self.facts.frames.len() as u32;
                let realloc = Realloc { address: event.address, old, begin: time, frame, origin };
                self.thread(ring).reallocs.push(realloc);
            }
            op::REALLOC_END => self.realloc_ended(ring, event, time, sink),
            op::THREAD_BEGIN => {
                let serial = event.size as u32;
                self.rings[ring].thread = serial;
                self.threads.entry(serial).or_default().id = event.address;
            }
            op::THREAD_END if !self.thread(ring).name.is_empty() => {}
            op::THREAD_END | op::THREAD_NAME => {
                self.thread(ring).name = String::from_utf8_lossy(&event.text()).into_owned();
            }
            op::TEXT => self.rings[ring].text.extend(event.text()),
            op::MARK => {
                let mut text = std::mem::take(&mut self.rings[ring].text);
                text.extend(event.text());
                let text = String::from_utf8_lossy(&text).into_owned();
                let thread = if self.early.is_some() { 0 } else { self.thread_index(ring) };
                self.facts.marks.push(Mark { time, thread, text });
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

    /// Takes a block out of those that live; one that was never seen has no object and no size.
    fn die(&mut self, address: u64) -> Live {
        let block = self.live.remove(&address).unwrap_or_default();
        self.facts.live_bytes = self.facts.live_bytes.wrapping_sub(block.asked.size());
        block
    }

    fn live(&mut self, address: u64, object: u64, asked: Requested) {
        // The sizes that a program reports may exceed 2^64 in sum; wrapping is undone by the frees.
        self.facts.live_bytes = self.facts.live_bytes.wrapping_add(asked.size());
        self.live.insert(address, Live { object, asked });
    }

    fn allocate(
        &mut self,
        ring: usize,
        op: Op,
        event: &RawEvent,
        time: u64,
        origin: Origin,
        sink: &mut dyn RowSink,
    ) {
        let (size, align) = if op == Op::Aligned { event.size_and_align() } else { (event.size_asked(), 0) };
        if self.origins.is_skipped(origin.module) {
            self.facts.skipped += 1;
            return self.live(event.address, SKIPPED, Requested::new(size, align));
        }
        self.objects += 1;
        self.live(event.address, self.objects, Requested::new(size, align));
        let row = Event { op, size, align, created: self.objects, ..self.blank(time) };
        self.row(ring, row, origin, sink);
    }

    /// A row with nothing in it but its time.
    fn blank(&self, time: u64) -> Event {
        Event { frame: self.facts.frames.len() as u32, ..Event::at(time, Op::Malloc) }
    }

    fn freed(
        &mut self,
        ring: usize,
        block: Live,
        event: &RawEvent,
        time: u64,
        origin: Origin,
        sink: &mut dyn RowSink,
    ) {
        let (size, align) = event.free_hint();
        // The request of a block whose allocation was not recorded is unknown.
        let free_hint = if block.object == 0 { FreeHint::NONE } else { block.asked.hint(size, align) };
        let row = Event { free_hint, ..self.blank(time) };
        self.released(ring, block.object, row, origin, sink);
    }

    fn released(&mut self, ring: usize, released: u64, row: Event, origin: Origin, sink: &mut dyn RowSink) {
        if released == SKIPPED || (released == 0 && self.origins.is_skipped(origin.module)) {
            self.facts.skipped += 1;
            return;
        }
        let op = if released == 0 { Op::ForeignFree } else { Op::Free };
        self.row(ring, Event { op, released, ..row }, origin, sink);
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
        let origin = realloc.origin;
        if event.address == 0 {
            if event.size == 0 {
                self.released(ring, realloc.old.object, self.blank(time), origin, sink);
            } else if realloc.old.object != 0 {
                self.live(realloc.address, realloc.old.object, realloc.old.asked);
            }
            return;
        }
        let (released, size) = (realloc.old.object, event.size_asked());
        let asked = Requested::new(size, 0);
        let skipped = released == 0 && self.origins.is_skipped(origin.module);
        if skipped || released == SKIPPED {
            self.facts.skipped += 1;
            return self.live(event.address, SKIPPED, asked);
        }
        self.objects += 1;
        self.live(event.address, self.objects, asked);
        let row = Event { size, created: self.objects, released, ..self.blank(time) };
        let row = if released == 0 {
            Event { op: Op::ForeignRealloc, ..row }
        } else {
            Event { op: Op::Realloc, begin: realloc.begin.min(time), frame: realloc.frame, ..row }
        };
        self.row(ring, row, origin, sink);
    }

    /// The number in the journal of the thread that writes to this ring.
    fn thread_index(&mut self, ring: usize) -> u32 {
        index_of(&mut self.threads, &mut self.facts, self.rings[ring].thread)
    }

    fn row(&mut self, ring: usize, mut row: Event, origin: Origin, sink: &mut dyn RowSink) {
        self.last_row = row.time;
        if let Some((_, early)) = &mut self.early {
            return early.take(&row, origin, self.rings[ring].thread);
        }
        row.thread = self.thread_index(ring);
        self.give(&row, origin, sink);
    }

    fn give(&mut self, row: &Event, origin: Origin, sink: &mut dyn RowSink) {
        if self.taken == Taken::Enough {
            return;
        }
        self.facts.foreign += u64::from(matches!(row.op, Op::ForeignFree | Op::ForeignRealloc));
        self.facts.rows += 1;
        let Assembler { facts, origins, threads, taken, .. } = self;
        if *taken == Taken::More {
            *taken = sink.push(row, origin, &|metadata| known(facts, origins, threads, metadata));
        }
        let operations = facts.rows - facts.prologue.min(facts.rows);
        if *taken == Taken::More && operations > 0 && operations == self.max_operations {
            *taken = Taken::Enough;
        }
    }

    /// Rows are wanted from here on: first those for the blocks that live, at time 0.
    fn begin_span(&mut self, sink: &mut dyn RowSink) {
        let Some((start, early)) = self.early.take() else { return };
        self.origin += start;
        (self.last_row, self.last_moment) = (0, 0);
        self.facts.frames.clear();
        self.facts.marks.clear();
        let blocks = early.into_blocks();
        self.facts.prologue = blocks.len() as u64;
        let mut numbers = FxHashMap::default();
        for (index, block) in blocks.iter().enumerate() {
            numbers.insert(block.object, index as u64 + 1);
            let row = Event {
                thread: index_of(&mut self.threads, &mut self.facts, block.thread),
                size: block.size,
                align: block.align,
                created: index as u64 + 1,
                ..Event::at(0, block.op)
            };
            self.give(&row, block.origin, sink);
        }
        self.objects = blocks.len() as u64;
        let renumber = |object: &mut u64| {
            if *object != SKIPPED && *object != 0 {
                *object = numbers.get(object).copied().unwrap_or(0);
            }
        };
        self.live.values_mut().for_each(|block| renumber(&mut block.object));
        for realloc in self.threads.values_mut().flat_map(|thread| &mut thread.reallocs) {
            renumber(&mut realloc.old.object);
            (realloc.begin, realloc.frame) = (0, 0);
        }
    }
}

fn index_of(threads: &mut FxHashMap<u32, Thread>, facts: &mut Facts, serial: u32) -> u32 {
    let thread = threads.entry(serial).or_default();
    *thread.index.get_or_insert_with(|| {
        facts.threads.push((thread.id, String::new()));
        facts.threads.len() as u32 - 1
    })
}

fn known(facts: &Facts, origins: &Origins, threads: &FxHashMap<u32, Thread>, metadata: &mut Metadata) {
    metadata.threads = facts.threads.iter().map(|(id, name)| thread_named(*id, name)).collect();
    for thread in threads.values() {
        if let Some(known) = thread.index.and_then(|index| metadata.threads.get_mut(index as usize)) {
            known.name.clone_from(&thread.name);
        }
    }
    metadata.frames.clone_from(&facts.frames);
    metadata.marks.clone_from(&facts.marks);
    metadata.foreign = facts.foreign;
    metadata.prologue = facts.prologue;
    metadata.modules = origins.modules().to_vec();
    metadata.stacks = origins.stacks().clone();
}

fn thread_named(id: u64, name: &str) -> keel_journal::Thread {
    keel_journal::Thread { id, name: name.to_owned() }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
