//! The journals of a recording that waits ([`crate::wait`]).
//!
//! ```text
//! events   ----------------------------|--------------------------|---> now
//!           applied to the live blocks   kept as they were read
//!           (the tracker)                (the recent events, in batches)
//! ```
//!
//! A journal begins with a copy of the tracker, whose live blocks become the prologue, and
//! continues with the recent events. With [`Wait::On`] there are none, and the copy
//! receives all events until the next signal. Memory: the live blocks and their stacks, twice while
//! a journal is written; the stacks that the rings may name again; the code that is mapped; and the
//! bytes of the recent events, which have a limit.

use crate::assemble::Assembler;
use crate::machine;
use crate::output::{Begin, Finished, Output, Rows, finish, take_rows};
use crate::ring::RawEvent;
use crate::rows::{Filter, Names, Taken};
use crate::wait::Wait;
use keel_journal::{Event, Metadata};
use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

/// A journal to write: of the recent events, up to the time `until` (ticks).
pub struct Write {
    pub begin: Box<Begin>,
    pub names: Names,
    pub until: u64,
}

/// The state of one image.
pub struct Recent {
    tracker: Assembler,
    batches: VecDeque<Rows>,
    /// Memory of the batches.
    bytes: usize,
    buffer_bytes: usize,
    length_ns: u64,
    /// The time of the latest reading, ticks.
    now: u64,
    /// Events were dropped from it before their time.
    is_short: bool,
    /// The journal of [`Wait::On`] between two signals.
    open: Option<(Assembler, Output)>,
}

impl Recent {
    pub fn new(begin: &Begin, wait: &Wait) -> Recent {
        // The tracker itself never writes a row.
        let filter = Filter { after_ns: u64::MAX, ..begin.filter.clone() };
        let (length_ns, buffer_bytes) = match wait {
            Wait::On(_) => (0, 0),
            Wait::Last(last) => (last.length.as_nanos() as u64, last.buffer_bytes as usize),
        };
        Recent {
            tracker: Assembler::new(begin.clock, begin.origin, &filter),
            batches: VecDeque::new(),
            bytes: 0,
            buffer_bytes,
            length_ns,
            now: begin.origin,
            is_short: false,
            open: None,
        }
    }

    /// Bytes in live blocks.
    pub fn live_bytes(&self) -> u64 {
        self.tracker.progress().1
    }

    /// Memory of the events that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the events of one reading.
    pub fn take(&mut self, mut rows: Rows) {
        if let Some((assembler, output)) = &mut self.open {
            take_rows(assembler, output, &rows);
            output.cut_old(assembler);
        }
        // The last reading has no time.
        if rows.until < u64::MAX {
            self.now = rows.until;
        }
        let clock = rows.clock;
        for (_, events) in &mut rows.rings {
            events.shrink_to_fit();
        }
        self.bytes += memory_of(&rows);
        self.batches.push_back(rows);
        let length = clock.ticks_in(self.length_ns);
        while let Some(first) = self.batches.front() {
            let is_recent = first.until.saturating_add(length) > self.now;
            if is_recent && self.bytes <= self.buffer_bytes {
                break;
            }
            self.is_short = is_recent;
            let Some(first) = self.batches.pop_front() else { break };
            self.bytes -= memory_of(&first);
            take_rows(&mut self.tracker, &mut |_: &Event| Taken::More, &first);
        }
    }

    /// Writes the recent events as a journal.
    pub fn write(&self, write: Write) -> Finished {
        let Write { begin, names, until } = write;
        let mut metadata = begin.metadata.clone();
        let (mut assembler, mut output) = self.begin(*begin);
        for rows in &self.batches {
            let until = rows.until.min(until);
            let rows = Rows { until, ..rows.clone() };
            take_rows(&mut assembler, &mut output, &rows);
        }
        assembler.cut(until);
        let clock = self.batches.back().map_or(assembler.clock(), |rows| rows.clock);
        assembler.write(clock, until, &mut output);
        let seconds = began_before(&assembler, &mut output, &mut metadata);
        let shortened = self.is_short.then_some(seconds);
        Finished { shortened, ..finish(assembler, output, metadata, &names) }
    }

    /// Begins the journal that [`Recent::close`] ends.
    pub fn open(&mut self, begin: Begin) {
        self.open = Some(self.begin(begin));
    }

    /// Ends the journal, if one is open.
    pub fn close(&mut self, mut metadata: Metadata, names: &Names) -> Option<Finished> {
        let (assembler, mut output) = self.open.take()?;
        metadata.cause.clone_from(&output.metadata().cause);
        began_before(&assembler, &mut output, &mut metadata);
        Some(finish(assembler, output, metadata, names))
    }

    fn begin(&self, begin: Begin) -> (Assembler, Output) {
        let mut assembler = self.tracker.clone();
        let mut output = Output::new(begin);
        assembler.begin_span(&mut output);
        (assembler, output)
    }
}

/// Sets the time that a journal covers, which ends now. Returns its seconds.
fn began_before(assembler: &Assembler, output: &mut Output, metadata: &mut Metadata) -> f64 {
    let length = Duration::from_nanos(assembler.last_moment());
    output.seconds = length.as_secs_f64();
    metadata.started = SystemTime::now().checked_sub(length).map(machine::at).unwrap_or_default();
    length.as_secs_f64()
}

/// The memory of a batch, including what the allocator adds.
fn memory_of(rows: &Rows) -> usize {
    const PER_RING: usize = size_of::<(u32, Vec<RawEvent>)>() + 16;
    let events = |(_, events): &(u32, Vec<RawEvent>)| events.capacity() * size_of::<RawEvent>();
    let rings = rows.rings.iter().map(|ring| events(ring) + PER_RING);
    let maps = rows.maps.iter().flatten();
    let maps = maps.map(|mapping| size_of_val(mapping) + mapping.path.len() + 16);
    size_of::<Rows>() + rings.sum::<usize>() + maps.sum::<usize>()
}
