//! The collector's part of a recording that waits: when a journal is begun, ended or written.

use super::{Collector, STILL_RUNNING};
use crate::clock::Clock;
use crate::encode::Work;
use crate::output::Begin;
use crate::recent::Write;
use crate::ring::RawEvent;
use crate::rows::{Filter, Names};
use crate::wait::{Last, Occurred, Wait, Watch};
use crate::{Progress, paths};
use keel_journal::Metadata;

/// What is known of the events that the recording waits for.
pub struct Waiting {
    wait: Wait,
    watch: Watch,
    /// Signals that have arrived, and those that were acted on.
    arrived: u32,
    acted: u32,
    /// An event up to which the rings have not been read.
    pending: Option<Occurred>,
    /// The time of the last event that wrote a journal, ticks.
    last: Option<u64>,
    /// Journals so far.
    written: u32,
    /// Events that wrote none, because they followed another one closely.
    passed_over: u32,
    /// Between the two signals of [`Wait::On`].
    is_open: bool,
    /// Messages for the user.
    said: Vec<String>,
}

impl Waiting {
    pub fn new(wait: Wait) -> Waiting {
        Waiting {
            wait,
            watch: Watch::default(),
            arrived: 0,
            acted: 0,
            pending: None,
            last: None,
            written: 0,
            passed_over: 0,
            is_open: false,
            said: Vec::new(),
        }
    }

    /// Whether all journals have been written.
    pub fn is_done(&self) -> bool {
        matches!(&self.wait, Wait::Last(last) if self.written >= last.journals)
    }

    pub fn signals(&mut self, arrived: u32) {
        self.arrived = arrived;
    }

    pub fn new_image(&mut self) {
        self.watch.reset();
        self.pending = None;
    }

    /// Looks at the events that were just read.
    pub fn look(&mut self, rings: &[(u32, Vec<RawEvent>)], clock: &Clock) {
        let mut found = None;
        if self.arrived != self.acted {
            self.acted = self.acted.wrapping_add(1);
            let signal = self.wait.signal().map(|signal| signal.to_string()).unwrap_or_default();
            let what = format!("keel received {signal}");
            found = Some(Occurred { time: clock.now(), what, is_frequent: false });
        }
        let Wait::Last(last) = &self.wait else {
            self.pending = self.pending.take().or(found);
            return;
        };
        let event = self.watch.look(rings, clock, &last.when);
        let length = clock.ticks_in(last.length.as_nanos() as u64);
        for one in [found, event].into_iter().flatten() {
            let is_near = self.last.is_some_and(|time| one.time.saturating_sub(time) < length);
            if self.pending.is_some() || self.is_done() || (one.is_frequent && is_near) {
                self.passed_over += 1;
            } else {
                self.pending = Some(one);
            }
        }
    }

    /// The pending event, if the rings have been read up to it.
    fn due(&mut self, until: u64) -> Option<Occurred> {
        self.pending.take_if(|event| event.time <= until)
    }

    /// The number of the next journal.
    fn count(&mut self, event: &Occurred) -> u32 {
        self.last = Some(event.time);
        self.written += 1;
        self.written
    }

    /// What the user should know at the end.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.written == 0 {
            notes.push(match &self.wait {
                Wait::On(signal) => format!(
                    "nothing was written: keel received no {signal}, which begins a journal"
                ),
                Wait::Last(_) => "nothing was written: no event of --when occurred".to_owned(),
            });
        }
        if self.passed_over > 0 {
            notes.push(format!(
                "{} more events occurred within the time that a journal covers, or after the \
                 last journal of --journals, and wrote none",
                self.passed_over
            ));
        }
        notes
    }
}

impl Collector<'_> {
    /// Begins, ends or writes a journal, if an event demands it.
    pub(super) fn act(&mut self, number: usize, until: u64) {
        let Some(waiting) = &mut self.waiting else { return };
        let Some(event) = waiting.due(until) else { return };
        let Some(image) = self.images.get_mut(&number) else { return };
        let names = image.names();
        let metadata = Metadata {
            cause: event.what.clone(),
            clock_hz: self.clock.hz(),
            memory: image.memory(),
            ended: STILL_RUNNING.to_owned(),
            ..image.metadata.clone()
        };
        if waiting.is_open {
            waiting.is_open = false;
            waiting.said.push(format!("{}; the journal ends", event.what));
            self.encoder.send(Work::Close { number, metadata: Box::new(metadata), names });
            return;
        }
        let count = waiting.count(&event);
        let path = paths::of_write(&self.options.output, count);
        if matches!(waiting.wait, Wait::On(_)) {
            waiting.is_open = true;
            waiting.said.push(format!("{}; {} begins", event.what, path.display()));
            let begin = Box::new(self.begin_of(number, count, metadata));
            self.encoder.send(Work::Open { number, begin });
            return;
        }
        waiting.said.push(format!("{}; writing {}", event.what, path.display()));
        let begin = Box::new(self.begin_of(number, count, metadata));
        let write = Box::new(Write { begin, names, until: event.time });
        self.encoder.send(Work::Write { number, write });
    }

    /// At the end of the program: its last seconds, if they are wanted.
    pub(super) fn write_end(&mut self, number: usize, metadata: &Metadata, names: &mut Names) {
        let Some(waiting) = &mut self.waiting else { return };
        let Wait::Last(last) = &waiting.wait else { return };
        let Some(cause) = Last::at_end(last, &metadata.ended).filter(|_| !waiting.is_done()) else {
            return;
        };
        let event = Occurred { time: u64::MAX, what: cause.clone(), is_frequent: false };
        let count = waiting.count(&event);
        let begin = self.begin_of(number, count, Metadata { cause, ..metadata.clone() });
        let names = std::mem::take(names);
        let write = Write { begin: Box::new(begin), names, until: u64::MAX };
        self.encoder.send(Work::Write { number, write: Box::new(write) });
    }

    /// Messages since the last call.
    pub(super) fn say_events(&mut self, report: &mut dyn FnMut(Progress)) {
        let said = self.waiting.as_mut().map(|waiting| std::mem::take(&mut waiting.said));
        for event in said.unwrap_or_default() {
            report(Progress { event: Some(event), ..self.progress() });
        }
    }

    pub(super) fn note_events(&mut self) {
        let notes = self.waiting.as_ref().map(Waiting::notes);
        self.notes.extend(notes.unwrap_or_default());
    }

    /// A journal of an image that waits.
    fn begin_of(&self, number: usize, count: u32, metadata: Metadata) -> Begin {
        Begin {
            number,
            origin: 0,
            clock: self.clock,
            process_path: paths::of_write(&self.options.output, count),
            image: 0,
            writer: None,
            metadata,
            filter: Filter::default(),
            max_bytes: 0,
            refuges: self.options.refuges.clone(),
            wait: None,
        }
    }
}
