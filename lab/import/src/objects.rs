//! Addresses to objects: turns what lines say into events, and finds where they contradict each other.

use crate::doom3::Record;
use crate::error::Fault;
use keel_journal::{Event, Op, Thread};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What `--repair` mends, each kind counted under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mend {
    Time,
    UnknownFree,
    UnknownRealloc,
    LiveAddress,
    NullFree,
    FailedAllocation,
    Alignment,
}

impl Mend {
    const fn name(self) -> &'static str {
        match self {
            Mend::Time => "time before that of the line above: raised to it",
            Mend::UnknownFree => "free of an unknown address: kept as a foreign free",
            Mend::UnknownRealloc => "realloc of an unknown address: kept as a foreign realloc",
            Mend::LiveAddress => "allocation of a live address: the old block freed first",
            Mend::NullFree => "free of NULL: left out",
            Mend::FailedAllocation => "allocation that returned NULL: left out",
            Mend::Alignment => "alignment not a power of two: rounded up",
        }
    }
}

const REPAIR: &str = "Mend the line, or let --repair do it and count it";

/// What is known while lines go by: the live addresses, the threads, the frame.
pub(crate) struct Objects {
    repair: bool,
    live: FxHashMap<u64, u64>,
    created: u64,
    time: u64,
    threads: Vec<u64>,
    thread_indices: FxHashMap<u64, u32>,
    last_thread: (u64, u32),
    frames: Vec<u64>,
    frame: usize,
    repairs: BTreeMap<&'static str, u64>,
    foreign: u64,
}

/// The events of one line: none where it is left out, two where a lost free is put in.
pub(crate) type Events = [Option<Event>; 2];

impl Objects {
    pub fn new(repair: bool, frames: Vec<u64>) -> Objects {
        Objects {
            repair,
            live: FxHashMap::default(),
            created: 0,
            time: 0,
            threads: Vec::new(),
            thread_indices: FxHashMap::default(),
            last_thread: (0, u32::MAX),
            frames,
            frame: 0,
            repairs: BTreeMap::new(),
            foreign: 0,
        }
    }

    /// Brings the places of these records' blocks into the caches; changes nothing.
    pub fn warm<'a>(&self, records: impl Iterator<Item = &'a Record>) {
        let addresses = records.map(|record| if record.old != 0 { record.old } else { record.new });
        let known = addresses.filter(|address| self.live.contains_key(address)).count();
        std::hint::black_box(known);
    }

    /// What the next line does.
    #[inline]
    pub fn apply(&mut self, record: &Record) -> Result<Events, Fault> {
        let time = self.time_of(record.time)?;
        let mut event = Event {
            time,
            begin: time,
            thread: self.thread_of(record.thread),
            op: record.op,
            size: record.size,
            align: record.align,
            created: 0,
            released: 0,
            frame: self.frame_of(time),
        };
        if record.op == Op::Free {
            return self.free(record, event);
        }
        if record.new == 0 {
            self.mend(Mend::FailedAllocation, "the address of a block", "0 (a call that failed)")?;
            return Ok([None, None]);
        }
        if record.op == Op::Aligned && !record.align.is_power_of_two() {
            self.mend_numbers(Mend::Alignment, "an alignment that is a power of two", record.align)?;
            event.align =
                record.align.checked_next_power_of_two().filter(|align| align >> 63 == 0).unwrap_or(1 << 62);
        }
        if record.old != 0 {
            self.release_for_realloc(record, &mut event)?;
        }
        self.create(record, event)
    }

    #[inline]
    fn free(&mut self, record: &Record, mut event: Event) -> Result<Events, Fault> {
        event.size = 0;
        if let Some(object) = self.live.remove(&record.old) {
            event.released = object;
            return Ok([Some(event), None]);
        }
        if record.old == 0 {
            self.mend(Mend::NullFree, "the address of a live block", "0 (a free of NULL)")?;
            return Ok([None, None]);
        }
        let found = format!("{:x}, which is not live: never allocated, or freed already", record.old);
        self.mend(Mend::UnknownFree, "the address of a live block", &found)?;
        event.op = Op::ForeignFree;
        self.foreign += 1;
        Ok([Some(event), None])
    }

    #[inline]
    fn release_for_realloc(&mut self, record: &Record, event: &mut Event) -> Result<(), Fault> {
        if let Some(object) = self.live.remove(&record.old) {
            event.released = object;
            return Ok(());
        }
        let found = format!("{:x}, which is not live: never allocated, or freed already", record.old);
        self.mend(Mend::UnknownRealloc, "the old address of a live block", &found)?;
        event.op = Op::ForeignRealloc;
        self.foreign += 1;
        Ok(())
    }

    #[inline]
    fn create(&mut self, record: &Record, mut event: Event) -> Result<Events, Fault> {
        self.created += 1;
        event.created = self.created;
        let Some(object) = self.live.insert(record.new, self.created) else {
            return Ok([Some(event), None]);
        };
        let found = format!("{:x}, which was allocated before and not freed since", record.new);
        self.mend(Mend::LiveAddress, "an address that is not live", &found)?;
        let lost = Event { op: Op::Free, size: 0, align: 0, created: 0, released: object, ..event };
        Ok([Some(lost), Some(event)])
    }

    #[inline]
    fn time_of(&mut self, time: u64) -> Result<u64, Fault> {
        if time < self.time {
            let expected = format!("a time of at least {} ns, that of the line above", self.time);
            self.mend_numbers(Mend::Time, &expected, time)?;
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
        self.frame as u32
    }

    #[cold]
    fn mend_numbers(&mut self, mend: Mend, expected: &str, found: u64) -> Result<(), Fault> {
        self.mend(mend, expected, &found.to_string())
    }

    /// Counts a mend, or refuses where none is wanted.
    #[cold]
    fn mend(&mut self, mend: Mend, expected: &str, found: &str) -> Result<(), Fault> {
        if !self.repair {
            return Err(Fault { expected: expected.to_owned(), found: found.to_owned(), advice: REPAIR });
        }
        *self.repairs.entry(mend.name()).or_default() += 1;
        Ok(())
    }

    /// What remains at the end: threads, frames, number of foreign operations, repairs by kind.
    pub fn finish(self) -> Remains {
        let thread = |id| Thread { id, name: String::new() };
        Remains {
            threads: self.threads.into_iter().map(thread).collect(),
            frames: self.frames,
            foreign: self.foreign,
            repairs: self.repairs.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        }
    }
}

pub(crate) struct Remains {
    pub threads: Vec<Thread>,
    pub frames: Vec<u64>,
    pub foreign: u64,
    pub repairs: BTreeMap<String, u64>,
}
