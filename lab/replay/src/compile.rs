//! From a journal to a plan.
//!
//! The journal is read twice, by the same state machine of live objects and slots: the first pass
//! counts (the steps of each thread, the slots, facts about the journal), the second writes. So the
//! plan is laid out in shared memory at its exact size. Besides it only the live objects are in
//! memory, for journals of any length.

mod pacing;
mod slots;

use crate::{Error, Options, Source};
use keel_journal::{Event, FreeHint, Memory, Op as Operation};
use keel_plan::{Kind, Op, PROLOGUE_ROW, Plan, PlanShape, PlanWriter, ThreadShape};
use keel_results::{JournalFacts, OtherAllocator, ProgramMemory};
use pacing::Pacer;
use rustc_hash::FxHashMap;
use slots::Slots;

/// A plan and facts about its journal.
#[derive(Debug)]
pub struct Compiled {
    /// For the player.
    pub plan: Plan,
    /// For the report.
    pub facts: JournalFacts,
    /// The longest time that the schedule leaves without any operation, ns.
    pub longest_pause_ns: u64,
    /// Each frame that has operations, with its first row.
    pub frame_starts: Vec<(u32, u32)>,
}

/// One replayed operation, as it goes into `operations.parquet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operated {
    pub op: u8,
    pub size: u64,
    pub thread: u32,
    pub frame: u32,
    pub time: u64,
    /// Rows since the operation that allocated the freed block; 0 if none is freed, or one of the
    /// prologue.
    pub age: u32,
    /// Its call stack in the journal; [`keel_journal::Origin::NONE`] if none was recorded.
    pub stack: u32,
}

/// The output of the state machine.
trait Sink {
    fn step(&mut self, thread: usize, op: Op, due: u64);
    /// A step before the run: a block that was live when the recording began.
    fn prologue(&mut self, thread: usize, op: Op);
    fn operation(&mut self, operation: Operated) -> Result<(), Error>;
}

/// Compiles the journal; each replayed operation is passed to `operated`, in journal order.
pub(crate) fn compile_with(
    source: &dyn Source,
    options: &Options,
    operated: &mut dyn FnMut(Operated) -> Result<(), Error>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Compiled, Error> {
    let rows = source.rows();
    let mut count = Count::default();
    let mut machine = Machine::new(options);
    machine.feed(source, &mut count, &mut |done| progress(done, 2 * rows))?;
    if machine.row == 0 {
        return Err(Error::Empty);
    }
    let shape = PlanShape {
        threads: count.threads.iter().map(|thread| thread.shape).collect(),
        slots: machine.slots.used(),
        alive: count.alive_at_once(),
        paced: machine.pacer.is_paced(),
    };
    let (facts, longest_pause_ns) = (machine.into_facts(source), count.longest_pause);
    let mut write = Write { writer: PlanWriter::create(&shape)?, operated };
    let mut machine = Machine::new(options);
    machine.feed(source, &mut write, &mut |done| progress(rows + done, 2 * rows))?;
    let plan = write.writer.finish(machine.slots.used());
    Ok(Compiled { plan, facts, longest_pause_ns, frame_starts: count.frame_starts })
}

/// Compiles the journal into a plan.
///
/// # Errors
/// An unreadable or invalid journal, or no memory for the plan.
pub fn compile(source: &dyn Source, options: &Options) -> Result<Compiled, Error> {
    compile_with(source, options, &mut |_| Ok(()), &mut |_, _| {})
}

/// The row of `operations.parquet` for each of these rows of the journal, which rise; `None` for
/// what a replay does not measure.
///
/// # Errors
/// An unreadable journal.
pub fn replayed_rows(source: &dyn Source, wanted: &[u64]) -> Result<Vec<Option<u64>>, Error> {
    let prologue = source.metadata().prologue;
    let (mut found, mut journal_row, mut row) = (Vec::with_capacity(wanted.len()), 0, 0);
    source.for_each(&mut |event, _| {
        let is_measured = !is_early(event, journal_row, prologue) && is_replayed(event);
        if wanted.get(found.len()) == Some(&journal_row) {
            found.push(is_measured.then_some(row));
        }
        row += u64::from(is_measured);
        journal_row += 1;
        Ok(())
    })?;
    Ok(found)
}

/// Whether it allocates a block that was live when the recording began.
fn is_early(event: &Event, journal_row: u64, prologue: u64) -> bool {
    journal_row < prologue && event.released == 0 && event.op.creates()
}

/// The block of a foreign free is not known.
fn is_replayed(event: &Event) -> bool {
    event.op != Operation::ForeignFree
}

#[derive(Clone, Copy)]
struct Live {
    slot: u32,
    row: u32,
    thread: u32,
    /// log2 of the requested alignment; 0 for none.
    align_log2: u8,
    size: u64,
}

/// The state of the journal's program at a row.
struct Machine {
    live: FxHashMap<u64, Live>,
    slots: Slots,
    pacer: Pacer,
    serial: bool,
    row: u32,
    facts: JournalFacts,
    live_bytes: u64,
    /// When the recorded process had most memory, ns, and the live bytes then.
    memory_peak: u64,
    live_at_peak: u64,
    threads_seen: u32,
    last_time: u64,
}

impl Machine {
    fn new(options: &Options) -> Machine {
        Machine {
            live: FxHashMap::default(),
            slots: Slots::new(keel_plan::SKEW_ROWS, slots::OWN),
            pacer: Pacer::new(options.pace),
            serial: options.serial,
            row: 0,
            facts: JournalFacts::default(),
            live_bytes: 0,
            memory_peak: 0,
            live_at_peak: 0,
            threads_seen: 0,
            last_time: 0,
        }
    }

    fn feed(
        &mut self,
        source: &dyn Source,
        sink: &mut dyn Sink,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let mut journal_row = 0;
        let prologue = source.metadata().prologue;
        self.memory_peak = source.metadata().memory.peak().map_or(0, |sample| sample.time);
        source.for_each(&mut |event, stack| {
            if is_early(event, journal_row, prologue) {
                self.early(event, sink);
            } else {
                self.event(event, (journal_row, stack), sink)?;
            }
            journal_row += 1;
            if journal_row % 65_536 == 0 {
                progress(journal_row);
            }
            Ok(())
        })
    }

    /// A block that was live when the recording began: allocated before the run, in no row.
    fn early(&mut self, event: &Event, sink: &mut dyn Sink) {
        self.threads_seen = self.threads_seen.max(event.thread + 1);
        let slot = self.slots.take(event.thread, 0);
        let thread = self.thread_of(event);
        if event.size >> 32 != 0 {
            sink.prologue(
                thread,
                Op::new(Kind::High, PROLOGUE_ROW, slot, (event.size >> 32) as u32, 0),
            );
        }
        sink.prologue(thread, Self::making(event, PROLOGUE_ROW, slot));
        self.facts.prologue_blocks += 1;
        self.facts.prologue_bytes = self.facts.prologue_bytes.saturating_add(event.size);
        self.bear(event, slot, PROLOGUE_ROW);
    }

    fn thread_of(&self, event: &Event) -> usize {
        if self.serial { 0 } else { event.thread as usize }
    }

    fn event(
        &mut self,
        event: &Event,
        (journal_row, stack): (u64, u32),
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        let invalid = |what: String| Error::Invalid { row: journal_row, what };
        self.note_live_bytes();
        self.last_time = self.last_time.max(event.time);
        self.threads_seen = self.threads_seen.max(event.thread + 1);
        let due = self.pacer.due(event);
        if !is_replayed(event) {
            *self.facts.skipped.entry(event.op.name().to_owned()).or_default() += 1;
            return Ok(());
        }
        if self.row >= u32::MAX - 1 {
            return Err(Error::TooLong);
        }
        let old = match event.released {
            0 => None,
            object => Some(self.live.remove(&object).ok_or_else(|| {
                invalid(format!("it releases object {object}, which is not live"))
            })?),
        };
        if event.op == Operation::Free && old.is_none() {
            return Err(invalid("a free that names no object".to_owned()));
        }
        let slot = match old {
            Some(old) => old.slot,
            None => self.slots.take(event.thread, self.row),
        };
        self.steps(event, slot, old, due, sink);
        let released = old.map_or(0, |old| old.size);
        let operation = replayed_as(event.op);
        sink.operation(Operated {
            op: operation as u8,
            size: if event.op == Operation::Free { released } else { event.size },
            thread: event.thread,
            frame: event.frame,
            time: event.time,
            age: old.map_or(0, |old| self.row.saturating_sub(old.row)),
            stack,
        })?;
        self.account(event, operation, slot, old);
        self.row += 1;
        Ok(())
    }

    /// The steps of an event: waits and the high half of a size first, then the call.
    fn steps(&self, event: &Event, slot: u32, old: Option<Live>, due: u64, sink: &mut dyn Sink) {
        let thread = self.thread_of(event);
        if let Some(old) = old.filter(|old| old.thread != event.thread && !self.serial) {
            sink.step(thread, Op::new(Kind::Await, self.row, slot, old.row + 1, 0), due);
        }
        if event.op.creates() && event.size >> 32 != 0 {
            sink.step(
                thread,
                Op::new(Kind::High, self.row, slot, (event.size >> 32) as u32, 0),
                due,
            );
        }
        if matches!(event.op, Operation::Free | Operation::ForeignFree) {
            return self.free_steps(event, slot, old, due, sink);
        }
        sink.step(thread, Self::making(event, self.row, slot), due);
    }

    /// The step of an event that allocates a block.
    fn making(event: &Event, row: u32, slot: u32) -> Op {
        let size = event.size as u32;
        match event.op {
            Operation::Calloc => Op::new(Kind::Calloc, row, slot, size, 0),
            Operation::Aligned => Op::new(Kind::Aligned, row, slot, size, alignment(event.align)),
            // realloc(p, 0) frees in some allocators and not in others; the recorded one returned a
            // block.
            Operation::Realloc if event.released == 0 => Op::fresh_realloc(row, slot, size.max(1)),
            Operation::Realloc if event.size == 0 => Op::new(Kind::Realloc, row, slot, 1, 0),
            Operation::Realloc => Op::new(Kind::Realloc, row, slot, size, 0),
            _ => Op::new(Kind::Malloc, row, slot, size, 0),
        }
    }

    /// The steps of a free. Its hints are the size and alignment requested for the block.
    fn free_steps(
        &self,
        event: &Event,
        slot: u32,
        old: Option<Live>,
        due: u64,
        sink: &mut dyn Sink,
    ) {
        let thread = self.thread_of(event);
        let kind = replayed_free(event, old);
        let (size, align) = old.map_or((0, 0), |old| (old.size, 1 << old.align_log2));
        let (size, align) = match kind {
            Kind::FreeSized => (size, 0),
            Kind::FreeAligned => (0, align),
            Kind::FreeAlignedSized => (size, align),
            _ => (0, 0),
        };
        if size >> 32 != 0 {
            sink.step(thread, Op::new(Kind::High, self.row, slot, (size >> 32) as u32, 0), due);
        }
        sink.step(thread, Op::new(kind, self.row, slot, size as u32, align), due);
    }

    fn account(&mut self, event: &Event, operation: Operation, slot: u32, old: Option<Live>) {
        let count = match self.facts.operations.get_mut(operation.name()) {
            Some(count) => count,
            None => self.facts.operations.entry(operation.name().to_owned()).or_default(),
        };
        *count += 1;
        if event.free_hint != FreeHint::NONE {
            let kind = replayed_free(event, old);
            if kind != Kind::Free {
                *self.facts.frees.entry(kind.name().to_owned()).or_default() += 1;
            }
            self.facts.wrong_frees += u64::from(event.free_hint.is_wrong());
        }
        if let Some(old) = old {
            self.live_bytes = self.live_bytes.saturating_sub(old.size);
            self.facts.cross_thread_frees += u64::from(old.thread != event.thread);
        }
        if event.op.creates() {
            self.facts.total_bytes = self.facts.total_bytes.saturating_add(event.size);
            self.bear(event, slot, self.row);
        } else {
            self.slots.release(event.thread, slot, self.row);
        }
    }

    /// Registers an allocated block.
    fn bear(&mut self, event: &Event, slot: u32, row: u32) {
        let (thread, size) = (event.thread, event.size);
        let align_log2 = match event.op {
            Operation::Aligned => alignment(event.align).trailing_zeros() as u8,
            _ => 0,
        };
        self.live.insert(event.created, Live { slot, row, thread, align_log2, size });
        // The sum of the blocks of an invalid journal may exceed 64 bits.
        self.live_bytes = self.live_bytes.saturating_add(size);
        if self.live_bytes > self.facts.peak_live_bytes {
            self.facts.peak_live_bytes = self.live_bytes;
            self.facts.peak_live_objects = self.live.len() as u64;
        }
    }

    /// To be called before the next event, and at the end.
    fn note_live_bytes(&mut self) {
        if self.last_time <= self.memory_peak {
            self.live_at_peak = self.live_bytes;
        }
    }

    fn into_facts(mut self, source: &dyn Source) -> JournalFacts {
        self.note_live_bytes();
        let metadata = source.metadata();
        let mut program = metadata.program.clone();
        for argument in &metadata.arguments {
            program.push(' ');
            program.push_str(argument);
        }
        JournalFacts {
            program,
            allocator: metadata.allocator.clone(),
            settings: metadata.settings.clone(),
            other_allocators: metadata.other_allocators.iter().map(other).collect(),
            program_memory: program_memory(&metadata.memory, self.live_at_peak),
            modules: metadata.modules.iter().map(|module| module.path.clone()).collect(),
            threads: self.threads_seen,
            duration_ns: self.last_time,
            frames: metadata.frames.clone(),
            ..self.facts
        }
    }
}

fn other(other: &keel_journal::OtherAllocator) -> OtherAllocator {
    let keel_journal::OtherAllocator { name, path, recorded } = other.clone();
    OtherAllocator { name, path, recorded }
}

fn program_memory(memory: &Memory, live_bytes: u64) -> Option<ProgramMemory> {
    (!memory.is_empty()).then(|| ProgramMemory {
        peak_bytes: memory.peak().map_or(0, |sample| sample.anonymous),
        live_bytes,
        mapped_calls: memory.mapped_calls,
        mapped_bytes: memory.mapped_bytes,
    })
}

/// A realloc of a block from before the recording is replayed as an allocation of the new block.
fn replayed_as(op: Operation) -> Operation {
    if op == Operation::ForeignRealloc { Operation::Malloc } else { op }
}

/// The kind of call that replays a free.
fn replayed_free(event: &Event, old: Option<Live>) -> Kind {
    let free_hint = old.map_or(FreeHint::NONE, |old| {
        correct_hints(event.free_hint, old.size, old.align_log2 != 0)
    });
    match (free_hint.has_size(), free_hint.has_align()) {
        (false, false) => Kind::Free,
        (true, false) => Kind::FreeSized,
        (false, true) => Kind::FreeAligned,
        (true, true) => Kind::FreeAlignedSized,
    }
}

/// The hints that a free passes in a replay: the recorded ones if they are correct, else none. A
/// block of 0 bytes is freed without hints, because a realloc to 0 bytes is replayed as one to 1.
pub(crate) fn correct_hints(free_hint: FreeHint, size: u64, aligned: bool) -> FreeHint {
    if free_hint.is_wrong() || size == 0 || free_hint.has_align() != aligned {
        FreeHint::NONE
    } else {
        free_hint
    }
}

/// The alignment of an aligned call: at least a pointer's size, as posix_memalign requires.
fn alignment(asked: u64) -> u64 {
    asked.max(8).checked_next_power_of_two().unwrap_or(8)
}

#[derive(Default)]
struct Count {
    threads: Vec<ThreadCount>,
    last_due: u64,
    longest_pause: u64,
    rows: u32,
    frame_starts: Vec<(u32, u32)>,
}

#[derive(Clone, Default)]
struct ThreadCount {
    shape: ThreadShape,
    first_row: u32,
    last_row: u32,
}

impl Sink for Count {
    fn step(&mut self, thread: usize, op: Op, due: u64) {
        let count = self.thread(thread);
        if count.shape == ThreadShape::default() {
            count.first_row = op.row;
        }
        count.last_row = op.row;
        count.shape.steps += 1;
        count.shape.records += u64::from(op.is_timed());
        self.longest_pause = self.longest_pause.max(due.saturating_sub(self.last_due));
        self.last_due = self.last_due.max(due);
    }

    /// The thread exists from the first row on.
    fn prologue(&mut self, thread: usize, _: Op) {
        self.thread(thread).shape.prologue += 1;
    }

    fn operation(&mut self, operation: Operated) -> Result<(), Error> {
        if self.frame_starts.last().is_none_or(|&(frame, _)| frame < operation.frame) {
            self.frame_starts.push((operation.frame, self.rows));
        }
        self.rows += 1;
        Ok(())
    }
}

impl Count {
    fn thread(&mut self, thread: usize) -> &mut ThreadCount {
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, ThreadCount::default());
        }
        &mut self.threads[thread]
    }

    /// The largest number of threads whose rows overlap: a sweep over their first and last rows.
    fn alive_at_once(&self) -> u32 {
        let mut edges: Vec<(u32, i32)> = Vec::with_capacity(2 * self.threads.len());
        for thread in self.threads.iter().filter(|thread| thread.shape != ThreadShape::default()) {
            edges.push((thread.first_row, -1));
            edges.push((thread.last_row, 1));
        }
        // At the same row, a thread that begins is counted before one that ends is subtracted.
        edges.sort_unstable();
        let (mut alive, mut most) = (0i32, 0i32);
        for (_, edge) in edges {
            alive -= edge;
            most = most.max(alive);
        }
        most as u32
    }
}

struct Write<'a> {
    writer: PlanWriter,
    operated: &'a mut dyn FnMut(Operated) -> Result<(), Error>,
}

impl Sink for Write<'_> {
    fn step(&mut self, thread: usize, op: Op, due: u64) {
        self.writer.push(thread, op, due);
    }

    fn prologue(&mut self, thread: usize, op: Op) {
        self.writer.push_prologue(thread, op);
    }

    fn operation(&mut self, operation: Operated) -> Result<(), Error> {
        (self.operated)(operation)
    }
}

#[cfg(test)]
mod tests;
