//! Maps addresses to objects: converts the lines to events, and detects contradictions between
//! them.

use crate::Sink;
use crate::error::{Fault, Refusal};
use crate::forms::{NOT_SAID, Naming, Parser, Record, Times};
use crate::live::Live;
use keel_journal::{Event, FreeHint, Op, Requested, Thread};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// The repairs of `--repair`; each kind is counted under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    Time,
    UnknownFree,
    UnknownRealloc,
    LiveAddress,
    NullFree,
    NullRealloc,
    FailedAllocation,
    Alignment,
    OtherProcess,
    ThreadAgain,
}

impl Repair {
    const fn name(self) -> &'static str {
        match self {
            Repair::Time => "time before that of the line above: raised to it",
            Repair::UnknownFree => {
                "free of an unknown block (from before the trace, or freed twice): kept as a \
                 foreign free"
            }
            Repair::UnknownRealloc => {
                "realloc of an unknown block (from before the trace, or freed): kept as a foreign \
                 realloc"
            }
            Repair::LiveAddress => "allocation of a live address: the old block freed first",
            Repair::NullFree => "free of NULL: left out",
            Repair::NullRealloc => "realloc to 0 bytes that returned NULL: kept as a free",
            Repair::FailedAllocation => "allocation that returned NULL: left out",
            Repair::Alignment => "alignment not a power of two: rounded up",
            Repair::OtherProcess => "line of another process: left out",
            Repair::ThreadAgain => {
                "thread id used again after its thread ended: counted as a new thread"
            }
        }
    }
}

const REPAIR: &str = "Correct the line, or let --repair do it and count it";
const PROCESSES: &str = "Choose one with --process ID, or let --repair take the first one and \
     count the lines of the others";
/// The time between two operations of a text without times, ns.
pub(crate) const STEP_NS: u64 = 1000;

/// The state after the lines read so far: the live addresses, the threads, the frame.
pub(crate) struct Objects {
    repair: bool,
    live: Live,
    created: u64,
    time: u64,
    threads: Vec<u64>,
    thread_indices: FxHashMap<u64, u32>,
    last_thread: (u64, u32),
    frames: Vec<u64>,
    frame: usize,
    repairs: BTreeMap<&'static str, u64>,
    foreign: u64,
    events: u64,
    /// The kind of the times, and the one that becomes 0, which is unknown before the first
    /// operation.
    timed: bool,
    zero: Option<u64>,
    /// Whether the journal has the text's times.
    times_are_whole: bool,
    /// Whether the parser has determined the properties of the text.
    adapted: bool,
    naming: Naming,
    /// The trace may begin while the program runs, so that it may free blocks that were allocated
    /// before.
    may_begin_late: bool,
    /// Ids whose threads have ended.
    ended: FxHashSet<u64>,
}

impl Objects {
    pub fn new(repair: bool, frames: Vec<u64>) -> Objects {
        Objects {
            repair,
            live: Live::new(),
            created: 0,
            time: 0,
            threads: Vec::new(),
            thread_indices: FxHashMap::default(),
            last_thread: (0, u32::MAX),
            frames,
            frame: 0,
            repairs: BTreeMap::new(),
            foreign: 0,
            events: 0,
            timed: true,
            zero: Some(0),
            times_are_whole: false,
            adapted: false,
            naming: Naming::Address,
            may_begin_late: false,
            ended: FxHashSet::default(),
        }
    }

    /// Sets the properties of the text, which its parser may detect only from the first lines.
    pub fn adapt_once(&mut self, parser: &Parser) {
        if !self.adapted {
            self.adapt(parser.times(), parser.naming(), parser.may_begin_late());
        }
    }

    /// Sets the properties of the trace.
    pub fn adapt(&mut self, times: Times, naming: Naming, may_begin_late: bool) {
        self.adapted = true;
        (self.timed, self.naming) = (times != Times::None, naming);
        self.may_begin_late = may_begin_late;
        self.zero = (times != Times::SinceBefore).then_some(0);
        self.times_are_whole = times == Times::SinceStart;
    }

    /// Whether the times are those of the text.
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// The time that an operation would have now, ns.
    pub fn now(&self) -> u64 {
        if self.timed { self.time } else { self.events * STEP_NS }
    }

    /// The index of the thread of the last operation.
    pub fn current_thread(&self) -> u32 {
        if self.threads.is_empty() { 0 } else { self.last_thread.1 }
    }

    /// The thread with this id has ended; another thread may get the id.
    pub fn end_thread(&mut self, id: u64) {
        if self.thread_indices.remove(&id).is_some() {
            self.ended.insert(id);
            self.last_thread = (0, u32::MAX);
        }
    }

    /// Handles a line of a process other than the one that is read.
    pub fn other_process(&mut self) -> Result<(), Fault> {
        let refused = self.repair(
            Repair::OtherProcess,
            "a line of the process of the lines above",
            "a line of another process",
        );
        refused.map_err(|fault| Fault { advice: PROCESSES, ..fault })
    }

    /// Loads the table entries of these records' blocks into the caches; changes nothing.
    pub fn warm<'a>(&self, records: impl Iterator<Item = &'a Record>) {
        self.live.warm(records.map(|record| if record.old != 0 { record.old } else { record.new }));
    }

    /// Writes the events of the next line to the sink: none if the line is left out, two if a
    /// missing free is added.
    ///
    /// Events are written one by one and are not returned, because copying a new event costs more
    /// than constructing it.
    #[inline]
    pub fn apply(&mut self, record: &Record, sink: &mut impl Sink) -> Result<(), Refusal> {
        match self.usual(record) {
            Some(event) => Ok(sink.push(&event)?),
            None => self.apply_unusual(record, sink),
        }
    }

    /// The fast path for a line without a contradiction: a malloc, a calloc or a plain free with a
    /// time, of a known thread. Otherwise returns `None` and changes nothing.
    #[inline(always)]
    fn usual(&mut self, record: &Record) -> Option<Event> {
        let comes = record.op != Op::Free;
        // The first three operations handle a single block.
        let simple = ((record.op as u8) < Op::Realloc as u8)
            & (record.free_hint == FreeHint::NONE)
            & self.times_are_whole;
        let in_order = (record.time >= self.time) & (record.begin == record.time);
        let address = if comes { record.new } else { record.old };
        if !(simple & in_order & (address != 0)) {
            return None;
        }
        let same_thread = (record.thread == self.last_thread.0) & (self.last_thread.1 != u32::MAX);
        let thread = if same_thread {
            self.last_thread.1
        } else {
            *self.thread_indices.get(&record.thread)?
        };
        let size = if comes { record.size } else { 0 };
        let created = self.created + u64::from(comes);
        let released = self.live.exchange(address, comes, (created, Requested::new(size, 0)))?;
        (self.created, self.time) = (created, record.time);
        self.last_thread = (record.thread, thread);
        self.events += 1;
        Some(Event {
            time: record.time,
            begin: record.time,
            thread,
            op: record.op,
            size,
            align: 0,
            created: if comes { created } else { 0 },
            released,
            frame: self.frame_of(record.time),
            free_hint: FreeHint::NONE,
        })
    }

    #[inline(never)]
    fn apply_unusual(&mut self, record: &Record, sink: &mut impl Sink) -> Result<(), Refusal> {
        // Lines that are left out have no effect: their threads are counted with their first
        // operation.
        if record.op == Op::Free && record.old == 0 {
            // A legal call without effect, which real traces contain by the thousand.
            self.count(Repair::NullFree);
            return Ok(());
        }
        if record.op != Op::Free && record.new == 0 {
            if record.op != Op::Realloc || record.size != 0 || record.old == 0 {
                // Legal, too. The old block of a realloc that failed stays.
                self.count(Repair::FailedAllocation);
                return Ok(());
            }
            self.count(Repair::NullRealloc);
            let free = Record { op: Op::Free, begin: record.time, ..*record };
            return self.apply_unusual(&free, sink);
        }
        let (begin, time) = self.times_of(record)?;
        let mut event = Event {
            time,
            begin,
            thread: self.thread_of(record.thread),
            op: record.op,
            size: record.size,
            align: record.align,
            created: 0,
            released: 0,
            frame: self.frame_of(begin),
            free_hint: FreeHint::NONE,
        };
        if record.op == Op::Free {
            return self.free(record, event, sink);
        }
        if record.op == Op::Aligned && !record.align.is_power_of_two() {
            self.repair_numbers(
                Repair::Alignment,
                "an alignment that is a power of two",
                record.align,
            )?;
            event.align = record
                .align
                .checked_next_power_of_two()
                .filter(|align| align >> 63 == 0)
                .unwrap_or(1 << 62);
        }
        if record.old != 0 {
            self.release_for_realloc(record, &mut event)?;
        }
        self.create(record, event, sink)
    }

    #[inline]
    fn free(
        &mut self,
        record: &Record,
        mut event: Event,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        (event.size, event.align) = (0, 0);
        if let Some((object, asked)) = self.live.remove(record.old) {
            event.released = object;
            if record.free_hint != FreeHint::NONE {
                event.free_hint = hint_of(record, asked);
            }
            self.events += 1;
            return Ok(sink.push(&event)?);
        }
        self.unknown(Repair::UnknownFree, "the address of a live block", record.old)?;
        event.op = Op::ForeignFree;
        self.foreign += 1;
        self.events += 1;
        Ok(sink.push(&event)?)
    }

    #[inline]
    fn release_for_realloc(&mut self, record: &Record, event: &mut Event) -> Result<(), Fault> {
        if let Some((object, _)) = self.live.remove(record.old) {
            event.released = object;
            return Ok(());
        }
        self.unknown(Repair::UnknownRealloc, "the old address of a live block", record.old)?;
        event.op = Op::ForeignRealloc;
        event.begin = event.time;
        self.foreign += 1;
        Ok(())
    }

    #[inline]
    fn create(
        &mut self,
        record: &Record,
        mut event: Event,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        self.created += 1;
        event.created = self.created;
        self.events += 1;
        let asked = Requested::new(event.size, event.align);
        let Some((object, _)) = self.live.insert(record.new, (self.created, asked)) else {
            return Ok(sink.push(&event)?);
        };
        let found =
            format!("{}, which was allocated before and not freed since", self.name(record.new));
        self.repair(Repair::LiveAddress, "an address that is not live", &found)?;
        let (op, begin) = (Op::Free, event.time);
        let frame = self.frame_of(begin);
        let lost =
            Event { op, begin, frame, size: 0, align: 0, created: 0, released: object, ..event };
        if !self.timed {
            event.time += STEP_NS;
            event.begin = event.time;
            event.frame = self.frame_of(event.begin);
        }
        self.events += 1;
        sink.push(&lost)?;
        Ok(sink.push(&event)?)
    }

    /// The name of a block in messages.
    #[cold]
    fn name(&self, key: u64) -> String {
        match self.naming {
            Naming::Address => format!("{key:x}"),
            Naming::Number => (key.wrapping_sub(1)).to_string(),
            Naming::Line => "the block of this line".to_owned(),
        }
    }

    #[inline]
    fn times_of(&mut self, record: &Record) -> Result<(u64, u64), Fault> {
        if !self.timed {
            let now = self.events * STEP_NS;
            return Ok((now, now));
        }
        let zero = *self.zero.get_or_insert(record.time);
        let time = self.time_of(record.time.saturating_sub(zero))?;
        if record.begin == record.time {
            return Ok((time, time));
        }
        Ok((record.begin.saturating_sub(zero).min(time), time))
    }

    #[inline]
    fn time_of(&mut self, time: u64) -> Result<u64, Fault> {
        if time < self.time {
            let expected = format!("a time of at least {} ns, that of the line above", self.time);
            self.repair_numbers(Repair::Time, &expected, time)?;
        } else {
            self.time = time;
        }
        Ok(self.time)
    }

    #[inline]
    fn thread_of(&mut self, id: u64) -> u32 {
        if self.last_thread.0 != id || self.last_thread.1 == u32::MAX {
            let next = self.threads.len() as u32;
            let index = *self.thread_indices.entry(id).or_insert(next);
            if index == next {
                self.threads.push(id);
                if self.ended.remove(&id) {
                    self.count(Repair::ThreadAgain);
                }
            }
            self.last_thread = (id, index);
        }
        self.last_thread.1
    }

    #[inline]
    fn frame_of(&mut self, time: u64) -> u32 {
        while self.frames.get(self.frame).is_some_and(|mark| *mark <= time) {
            self.frame += 1;
        }
        // A realloc may begin before the operation above it.
        if self.frame > 0 && self.frames[self.frame - 1] > time {
            return self.frames.partition_point(|mark| *mark <= time) as u32;
        }
        self.frame as u32
    }

    #[cold]
    fn repair_numbers(&mut self, repair: Repair, expected: &str, found: u64) -> Result<(), Fault> {
        self.repair(repair, expected, &found.to_string())
    }

    /// Counts the release of an unknown block; an error without `--repair` if the trace must know
    /// all blocks.
    #[cold]
    fn unknown(&mut self, repair: Repair, expected: &str, old: u64) -> Result<(), Fault> {
        if self.may_begin_late {
            self.count(repair);
            return Ok(());
        }
        let found =
            format!("{}, which is not live: never allocated, or freed already", self.name(old));
        self.repair(repair, expected, &found)
    }

    /// Counts what a trace may contain and a journal does not.
    #[cold]
    fn count(&mut self, repair: Repair) {
        *self.repairs.entry(repair.name()).or_default() += 1;
    }

    /// Counts a repair; an error without `--repair`.
    #[cold]
    fn repair(&mut self, repair: Repair, expected: &str, found: &str) -> Result<(), Fault> {
        if !self.repair {
            return Err(Fault {
                expected: expected.to_owned(),
                found: found.to_owned(),
                advice: REPAIR,
                column: None,
            });
        }
        self.count(repair);
        Ok(())
    }

    /// Returns the metadata at the end: threads, frames, number of foreign operations, repairs by
    /// kind.
    pub fn finish(self) -> Remains {
        let thread = |id| Thread { id, ..Thread::default() };
        Remains {
            threads: self.threads.into_iter().map(thread).collect(),
            frames: self.frames,
            foreign: self.foreign,
            repairs: self
                .repairs
                .into_iter()
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
        }
    }
}

pub(crate) struct Remains {
    pub threads: Vec<Thread>,
    pub frames: Vec<u64>,
    pub foreign: u64,
    pub repairs: BTreeMap<String, u64>,
}

/// The hint of a free. Values that the text does not have count as correct.
#[cold]
fn hint_of(record: &Record, asked: Requested) -> FreeHint {
    let said = |free_hint: bool, number: u64, known: Option<u64>| match number {
        _ if !free_hint => None,
        NOT_SAID => known,
        number => Some(number),
    };
    let size = said(record.free_hint.has_size(), record.size, Some(asked.size()));
    let align = said(record.free_hint.has_align(), record.align, asked.align());
    if align.is_none() && record.free_hint.has_align() {
        // The text does not have the alignment, and the block has none.
        return record.free_hint;
    }
    let align = align.map(|align| align.checked_next_power_of_two().unwrap_or(1 << 62));
    asked.hint(size.map(|size| size.min(i64::MAX as u64)), align)
}
