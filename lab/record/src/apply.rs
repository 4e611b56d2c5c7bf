//! Applies the ordered events of one process to its live blocks, and writes the rows.

use crate::caches::Levels;
use crate::clock::Clock;
use crate::live::{Live, Realloc, SKIPPED};
use crate::origins::Origins;
use crate::prologue::Early;
use crate::ring::{RawEvent, op};
use crate::rows::{Facts, Filter, Names, RowSink, Taken};
use keel_journal::{CALL, CALLS_END, Event, FreeHint, Mark, Metadata, Op, Origin, Requested};
use rustc_hash::{FxHashMap, FxHashSet};

/// The most calls that may wait, each of which is a mark. More would make the metadata too large.
const MOST_CALLS: u64 = 1 << 20;

/// A century, about the range of a journal's times. Later times are invalid.
const LATEST_NS: u64 = 100 * 366 * 86_400 * 1_000_000_000;

/// The text of the mark of a call: the ring has the first letter of its kind, then its name.
fn call_text(named: &[u8]) -> String {
    let kind =
        keel_journal::CALL_KINDS.into_iter().find(|kind| named.starts_with(&kind.as_bytes()[..1]));
    let name = String::from_utf8_lossy(named.get(1..).unwrap_or_default());
    format!("{CALL}{} {name}", kind.unwrap_or("other"))
}

#[derive(Clone, Default)]
struct Ring {
    /// Serial number of the thread that writes to this ring.
    thread: u32,
    /// The text of a mark that is not complete yet.
    text: Vec<u8>,
    /// Ticks that the call took which is reported next.
    took: Option<u64>,
}

#[derive(Clone, Default)]
struct Thread {
    id: u64,
    name: String,
    /// Its number in the journal; assigned with its first row.
    index: Option<u32>,
    /// Reallocs that have begun and not ended, innermost last.
    reallocs: Vec<Realloc>,
}

/// Threads that are kept in any case, and stacks and their calls.
const THREADS_MIN: usize = 1024;
const STACKS_MIN: usize = 1 << 16;

/// The state of one process after the events applied so far.
#[derive(Clone)]
pub struct Applier {
    pub clock: Clock,
    pub origins: Origins,
    rings: Vec<Ring>,
    threads: FxHashMap<u32, Thread>,
    /// Threads from which on those are forgotten that no row can name.
    threads_max: usize,
    /// The size of `origins` from which on stacks are forgotten.
    stacks_max: usize,
    live: FxHashMap<u64, Live>,
    /// Until rows are wanted: the time at which they are, ns, and the live blocks.
    early: Option<(u64, Early)>,
    /// Subtracted from all times, ns.
    origin: u64,
    /// From the start of the recording to the time 0 of the rows, ns.
    left_out: u64,
    objects: u64,
    last_row: u64,
    /// The latest time of any event up to a limit, including beginnings of reallocs, ns.
    last_moment: u64,
    /// The sink's last answer.
    taken: Taken,
    max_operations: u64,
    /// Calls that may wait.
    calls: u64,
    /// Blocks that were replaced at their address without a recorded free.
    reissued: u64,
    facts: Facts,
}

impl Applier {
    /// Creates the state of a recording that began at `origin` ticks.
    pub fn new(clock: Clock, origin: u64, filter: &Filter) -> Applier {
        Applier {
            clock,
            origins: Origins::new(&filter.skip_modules),
            rings: Vec::new(),
            threads: FxHashMap::default(),
            threads_max: THREADS_MIN,
            stacks_max: STACKS_MIN,
            live: FxHashMap::default(),
            early: (filter.after_ns > 0).then(|| (filter.after_ns, Early::default())),
            origin: clock.nanoseconds(origin),
            left_out: 0,
            objects: 0,
            last_row: 0,
            last_moment: 0,
            taken: Taken::More,
            max_operations: filter.max_operations,
            calls: 0,
            reissued: 0,
            facts: Facts::default(),
        }
    }

    /// Sets the number of rings.
    pub fn resize_rings(&mut self, count: usize) {
        self.rings.resize_with(count, Ring::default);
    }

    /// Operations written, and bytes in live blocks.
    pub fn progress(&self) -> (u64, u64) {
        (self.facts.rows.saturating_sub(self.facts.prologue), self.facts.live_bytes)
    }

    /// The sink's last answer.
    pub fn taken(&self) -> Taken {
        self.taken
    }

    /// Whether rows are not yet wanted.
    pub fn is_early(&self) -> bool {
        self.early.is_some()
    }

    /// Fills in the metadata that is known so far.
    pub fn known(&self, metadata: &mut Metadata) {
        known(&self.facts, &self.origins, &self.threads, metadata);
    }

    #[cfg(test)]
    pub fn known_stacks(&self) -> usize {
        self.origins.size()
    }

    #[cfg(test)]
    pub fn known_paths(&self) -> usize {
        self.origins.paths()
    }

    #[cfg(test)]
    pub fn known_threads(&self) -> usize {
        self.threads.len()
    }

    /// Whether a block is live at this address.
    pub fn is_live(&self, address: u64) -> bool {
        self.live.contains_key(&address)
    }

    /// Ends the block at an address that another allocation returned: its free was not recorded.
    pub fn drop_reissued(&mut self, address: u64) {
        if let Some(block) = self.live.remove(&address) {
            self.facts.live_bytes = self.facts.live_bytes.wrapping_sub(block.asked.size());
            self.reissued += u64::from(block.object != SKIPPED);
            if let Some((_, early)) = &mut self.early {
                early.release(block.object);
            }
        }
    }

    /// Rows are wanted from this time (ticks) on.
    pub fn begin_span_at(&mut self, ticks: u64, sink: &mut dyn RowSink) {
        if let Some((start, _)) = &mut self.early {
            *start = self.clock.nanoseconds(ticks).saturating_sub(self.origin);
        }
        self.begin_span(sink);
    }

    /// The latest time of any event, ns.
    pub fn last_moment(&self) -> u64 {
        self.last_moment
    }

    /// From the start of the recording to the time 0 of the rows, ns.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Ends the rows, and returns threads, frames and counts.
    pub fn finish(mut self, names: &Names) -> Facts {
        self.retire_threads(names);
        let unnamed = self.origins.unnamed();
        (self.facts.modules, self.facts.stacks) = self.origins.finish();
        #[cfg(target_os = "linux")]
        if let Some(code) = &names.code {
            code.name(&mut self.facts.stacks);
        }
        self.facts.unnamed = unnamed;
        if self.reissued > 0 {
            self.facts.repairs.insert("unseen_free".to_owned(), self.reissued);
        }
        self.facts
    }

    fn retire_threads(&mut self, names: &Names) {
        for thread in self.threads.values_mut() {
            if let Some(index) = thread.index.take() {
                let name = Some(std::mem::take(&mut thread.name)).filter(|name| !name.is_empty());
                let seen = names.threads.get(&thread.id);
                let name = name.or_else(|| Some(seen?.name.clone()));
                let known = &mut self.facts.threads[index as usize];
                known.name = name.unwrap_or_else(|| names.program.clone());
                known.policy = seen.map(|seen| seen.policy.clone()).unwrap_or_default();
            }
        }
    }

    /// Applies the next event of a ring. Events must come in an order that respects their
    /// dependencies.
    pub fn apply(&mut self, ring: usize, event: &RawEvent, origin: Origin, sink: &mut dyn RowSink) {
        if self.early.as_ref().is_some_and(|(start, _)| {
            self.clock.nanoseconds(event.time).saturating_sub(self.origin) >= *start
        }) {
            self.begin_span(sink);
        }
        let time = self.clock.nanoseconds(event.time).saturating_sub(self.origin);
        let time = time.min(LATEST_NS).max(self.last_row);
        if self.taken != Taken::Enough {
            self.last_moment = self.last_moment.max(time);
        }
        match event.op() {
            op::MALLOC => self.allocate(ring, Op::Malloc, event, time, origin, sink),
            op::CALLOC => self.allocate(ring, Op::Calloc, event, time, origin, sink),
            op::ALIGNED => self.allocate(ring, Op::Aligned, event, time, origin, sink),
            op::REALLOC_NULL => self.allocate(ring, Op::Realloc, event, time, origin, sink),
            op::FREE => {
                let block = self.take_live(event.address);
                self.freed(ring, block, event, time, origin, sink);
            }
            op::REALLOC_BEGIN => {
                let old = self.take_live(event.address);
                let frame = self.facts.frames.len() as u32;
                let realloc = Realloc { address: event.address, old, begin: time, frame, origin };
                self.thread(ring).reallocs.push(realloc);
            }
            op::REALLOC_END => self.realloc_ended(ring, event, time, sink),
            op::THREAD_BEGIN => {
                let serial = event.size as u32;
                self.rings[ring].thread = serial;
                self.forget_threads();
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
                self.mark(ring, Mark { time, text, ..Mark::default() });
            }
            op::TOOK => self.rings[ring].took = Some(event.address),
            op::CALL => self.called(ring, event, time, origin),
            op::FRAME => {
                // Only the time assigns a row to its frame, so a mark must be later than every
                // earlier event.
                let mark = time.max(self.last_moment + 1);
                if self.early.is_none() {
                    self.facts.frames.push(mark);
                }
                self.last_row = mark;
                self.last_moment = mark;
            }
            op::CACHES => self.sampled(event),
            op::UNLOADED => self.origins.unloaded(event.address, event.size),
            _ => *self.facts.repairs.entry("unknown_operation".to_owned()).or_default() += 1,
        }
    }

    fn mark(&mut self, ring: usize, mark: Mark) {
        if self.early.is_none() {
            let thread = self.thread_index(ring);
            self.facts.marks.push(Mark { thread, ..mark });
        }
    }

    /// A call that may wait becomes a mark with a stack.
    fn called(&mut self, ring: usize, event: &RawEvent, time: u64, origin: Origin) {
        let took_ns = self.rings[ring].took.take().map(|ticks| self.clock.duration(ticks));
        if self.calls >= MOST_CALLS {
            return;
        }
        self.calls += 1;
        let mut text = call_text(&event.text());
        if self.calls == MOST_CALLS {
            CALLS_END.clone_into(&mut text);
        }
        let stack = (origin.stack != Origin::NONE).then_some(origin.stack);
        self.mark(ring, Mark { time, text, stack, took_ns, ..Mark::default() });
    }

    /// While no rows are wanted: forgets threads that have ended and of whose blocks none is live.
    /// Before the next time, as many threads must begin as are kept, so it takes constant time for
    /// each thread and each block.
    fn forget_threads(&mut self) {
        let Some((_, early)) =
            self.early.as_ref().filter(|_| self.threads.len() >= self.threads_max)
        else {
            return;
        };
        let running = self.rings.iter().map(|ring| ring.thread);
        let kept: FxHashSet<u32> = running.chain(early.threads()).collect();
        self.threads.retain(|serial, _| kept.contains(serial));
        self.threads_max = (2 * self.threads.len()).max(THREADS_MIN);
    }

    /// Whether stacks should be forgotten, while no rows are wanted.
    pub fn has_many_stacks(&self) -> bool {
        self.early.is_some() && self.origins.size() >= self.stacks_max
    }

    /// Forgets stacks and modules of which no block is live. Before the next time, what is known
    /// must double, so it takes constant time for each. `queued`: the origins of events that are
    /// not applied yet.
    pub fn forget_stacks(&mut self, queued: impl Iterator<Item = u64>) {
        let Some((_, early)) = &mut self.early else { return };
        let reallocs = self.threads.values_mut().flat_map(|thread| &mut thread.reallocs);
        let used = early.origins().chain(reallocs.map(|realloc| &mut realloc.origin));
        self.origins.forget_stacks(queued, used);
        self.stacks_max = (2 * self.origins.size()).max(STACKS_MIN);
    }

    /// A sample of the caches: a pause, and the time of a reading after it.
    fn sampled(&mut self, event: &RawEvent) {
        if self.early.is_some() {
            return;
        }
        if let Some(levels) = Levels::of_this_machine() {
            self.facts.caches.sizes.clone_from(&levels.sizes);
            let pause = self.clock.duration(event.address);
            self.facts.caches.add(pause, levels.evicted(event.size));
        }
    }

    fn thread(&mut self, ring: usize) -> &mut Thread {
        let serial = self.rings[ring].thread;
        self.threads.entry(serial).or_default()
    }

    /// Removes a block from the live ones. A block that was not recorded has no object and no size.
    fn take_live(&mut self, address: u64) -> Live {
        let block = self.live.remove(&address).unwrap_or_default();
        self.facts.live_bytes = self.facts.live_bytes.wrapping_sub(block.asked.size());
        block
    }

    fn insert_live(&mut self, address: u64, object: u64, asked: Requested) {
        // The sum of the sizes that a program reports may exceed 2^64; the frees undo the wrapping.
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
        let (size, align) =
            if op == Op::Aligned { event.size_and_align() } else { (event.size_asked(), 0) };
        if self.origins.is_skipped(origin.module) {
            self.facts.skipped += 1;
            return self.insert_live(event.address, SKIPPED, Requested::new(size, align));
        }
        self.objects += 1;
        self.insert_live(event.address, self.objects, Requested::new(size, align));
        let row = Event { op, size, align, created: self.objects, ..self.blank(time) };
        self.row(ring, row, origin, sink);
    }

    /// A row with its time only.
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
        let free_hint =
            if block.object == 0 { FreeHint::NONE } else { block.asked.hint(size, align) };
        let row = Event { free_hint, ..self.blank(time) };
        self.released(ring, block.object, row, origin, sink);
    }

    fn released(
        &mut self,
        ring: usize,
        released: u64,
        row: Event,
        origin: Origin,
        sink: &mut dyn RowSink,
    ) {
        if released == SKIPPED || (released == 0 && self.origins.is_skipped(origin.module)) {
            self.facts.skipped += 1;
            return;
        }
        let op = if released == 0 { Op::ForeignFree } else { Op::Free };
        self.row(ring, Event { op, released, ..row }, origin, sink);
    }

    fn realloc_ended(&mut self, ring: usize, event: &RawEvent, time: u64, sink: &mut dyn RowSink) {
        let thread = self.thread(ring);
        // A jump out of a signal handler left those above the match.
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
                self.insert_live(realloc.address, realloc.old.object, realloc.old.asked);
            }
            return;
        }
        let (released, size) = (realloc.old.object, event.size_asked());
        let asked = Requested::new(size, 0);
        let skipped = released == 0 && self.origins.is_skipped(origin.module);
        if skipped || released == SKIPPED {
            self.facts.skipped += 1;
            return self.insert_live(event.address, SKIPPED, asked);
        }
        self.objects += 1;
        self.insert_live(event.address, self.objects, asked);
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
        self.push(&row, origin, sink);
    }

    fn push(&mut self, row: &Event, origin: Origin, sink: &mut dyn RowSink) {
        if self.taken == Taken::Enough {
            return;
        }
        self.facts.foreign += u64::from(matches!(row.op, Op::ForeignFree | Op::ForeignRealloc));
        self.facts.rows += 1;
        self.facts.allocated_bytes = self.facts.allocated_bytes.saturating_add(row.size);
        let Applier { facts, origins, threads, taken, .. } = self;
        if *taken == Taken::More {
            *taken = sink.push(row, origin, &|metadata| known(facts, origins, threads, metadata));
        }
        let operations = facts.rows - facts.prologue.min(facts.rows);
        if *taken == Taken::More && operations > 0 && operations == self.max_operations {
            *taken = Taken::Enough;
        }
    }

    /// Rows are wanted from here on. The first ones allocate the live blocks, at time 0.
    fn begin_span(&mut self, sink: &mut dyn RowSink) {
        let Some((start, early)) = self.early.take() else { return };
        self.origin += start;
        self.left_out = start;
        (self.last_row, self.last_moment) = (0, 0);
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
            self.push(&row, block.origin, sink);
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
        facts.threads.push(keel_journal::Thread { id: thread.id, ..Default::default() });
        facts.threads.len() as u32 - 1
    })
}

fn known(
    facts: &Facts,
    origins: &Origins,
    threads: &FxHashMap<u32, Thread>,
    metadata: &mut Metadata,
) {
    metadata.threads.clone_from(&facts.threads);
    for thread in threads.values() {
        if let Some(known) = thread.index.and_then(|index| metadata.threads.get_mut(index as usize))
        {
            known.name.clone_from(&thread.name);
        }
    }
    metadata.frames.clone_from(&facts.frames);
    metadata.marks.clone_from(&facts.marks);
    metadata.caches.clone_from(&facts.caches);
    metadata.foreign = facts.foreign;
    metadata.prologue = facts.prologue;
    metadata.modules = origins.modules().to_vec();
    metadata.stacks = origins.stacks().clone();
}
