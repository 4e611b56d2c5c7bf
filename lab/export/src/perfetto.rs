//! Perfetto traces: a process for each allocator, a track for each of its threads with a slice for
//! each call, and counters of live and resident memory. For a journal: `journal`.
//!
//! The format is Perfetto's protocol buffers: a trace is a sequence of packets (field 1), and
//! packets of track events name their tracks by `uuid`. The field numbers are those of
//! `perfetto/trace/*.proto`, which are stable.

use crate::message::Message;
use crate::rows::{Call, OPERATIONS, all_kept, each_call};
use crate::{ExportError, Written};
use keel_results::{
    CAUSE_FAULT, CAUSE_INTERRUPT, CAUSE_INTERRUPTED, CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT,
    CAUSE_SYSCALL, CAUSE_SYSCALL_UNKNOWN, Comparison, MemorySample, Run,
};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

mod journal;

pub use journal::perfetto_of_journal;

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;
const UNIT_COUNT: u64 = 2;
const UNIT_BYTES: u64 = 3;
/// The sequence of packets in which names are interned once.
const SEQUENCE: u64 = 1;
const INCREMENTAL_STATE_CLEARED: u64 = 1;
const NEEDS_INCREMENTAL_STATE: u64 = 2;
const SIZE_ANNOTATION: u64 = 1;
const CAUSE_ANNOTATION: u64 = 2;

/// Writes the kept runs of all allocators, or that of one allocator. Calls shorter than
/// `slower_than_ns` get no slice: viewers show at most some millions of slices.
///
/// # Errors
/// See [`ExportError`].
pub fn perfetto(
    folder: &Path,
    allocator: Option<&str>,
    slower_than_ns: f64,
    output: &mut dyn Write,
) -> Result<Written, ExportError> {
    let comparison = Comparison::load(folder)?;
    let kept = all_kept(&comparison, allocator)?;
    interned_names(output)?;
    let (mut lines, mut names) = (0, Vec::new());
    for ((result, raw), process) in kept.iter().zip(1..) {
        names.push(result.name.as_str());
        let mut trace = ProcessTrace { process, threads: BTreeSet::new(), output };
        let counters = [(1, "live bytes", UNIT_BYTES), (2, "resident bytes", UNIT_BYTES)];
        trace.describe_process(&format!("{} {}", result.name, result.version), &counters)?;
        if let Some(run) = result.runs.iter().find(|run| run.raw.as_deref() == Some(raw)) {
            trace.memory(run)?;
        }
        let ns = |ticks: u32| f64::from(ticks) / comparison.clock.ticks_per_ns;
        each_call(folder, raw, &mut |call| {
            let length = ns(call.ticks);
            if length >= slower_than_ns {
                lines += 1;
                trace.call(&call, length.round() as u64)?;
            }
            Ok(())
        })?;
    }
    Ok(Written { allocator: names.join(", "), lines })
}

fn interned_names(output: &mut dyn Write) -> io::Result<()> {
    let mut interned = Message::default();
    for (name, iid) in OPERATIONS.into_iter().zip(1..) {
        interned.message(2, Message::default().number(1, iid).text(2, name));
    }
    for (name, iid) in [("size", SIZE_ANNOTATION), ("cause", CAUSE_ANNOTATION)] {
        interned.message(3, Message::default().number(1, iid).text(2, name));
    }
    let mut packet = Message::default();
    packet.number(10, SEQUENCE).number(13, INCREMENTAL_STATE_CLEARED).message(12, &interned);
    packet.write(output)
}

struct ProcessTrace<'a> {
    /// From 1.
    process: u64,
    /// Threads that have a track.
    threads: BTreeSet<u32>,
    output: &'a mut dyn Write,
}

impl ProcessTrace<'_> {
    /// The track of the process, of its counters, and of its threads.
    fn track(&self, number: u64) -> u64 {
        self.process << 32 | number
    }

    /// `counters`: track, name and unit of each.
    fn describe_process(&mut self, name: &str, counters: &[(u64, &str, u64)]) -> io::Result<()> {
        let mut process = Message::default();
        process.number(1, self.process).text(6, name.trim_end());
        let mut track = Message::default();
        track.number(1, self.track(0)).message(3, &process);
        self.describe(&track)?;
        for (number, name, unit) in counters {
            let mut counter = Message::default();
            counter.number(3, *unit);
            let mut track = Message::default();
            track
                .number(1, self.track(*number))
                .text(2, name)
                .number(5, self.track(0))
                .message(8, &counter);
            self.describe(&track)?;
        }
        Ok(())
    }

    fn describe(&mut self, track: &Message) -> io::Result<()> {
        let mut packet = Message::default();
        packet.number(10, SEQUENCE).message(60, track);
        packet.write(self.output)
    }

    fn memory(&mut self, run: &Run) -> io::Result<()> {
        for MemorySample { time, resident, live } in run.memory.iter().copied() {
            for (number, value) in [(1, live), (2, resident)] {
                self.count(number, time, value)?;
            }
        }
        Ok(())
    }

    /// The value of a counter.
    fn count(&mut self, number: u64, time: u64, value: u64) -> io::Result<()> {
        let mut event = Message::default();
        event.number(9, COUNTER).number(11, self.track(number)).number(30, value);
        self.event(time, &event)
    }

    fn call(&mut self, call: &Call, length: u64) -> io::Result<()> {
        let track = self.track(u64::from(call.thread) + 3);
        if self.threads.insert(call.thread) {
            let mut thread = Message::default();
            // Viewers treat a thread with the id of its process as the main thread; there is none
            // here.
            let id = self.process * 100_000 + u64::from(call.thread);
            thread
                .number(1, self.process)
                .number(2, id)
                .text(5, &format!("journal thread {}", call.thread));
            let mut description = Message::default();
            description.number(1, track).message(4, &thread);
            self.describe(&description)?;
        }
        let mut begin = Message::default();
        let name = u64::from(call.op).min(OPERATIONS.len() as u64 - 1) + 1;
        begin.number(9, SLICE_BEGIN).number(10, name).number(11, track);
        begin.message(4, Message::default().number(1, SIZE_ANNOTATION).number(3, call.size));
        let cause = cause(call.cause);
        if !cause.is_empty() {
            begin.message(4, Message::default().number(1, CAUSE_ANNOTATION).text(6, &cause));
        }
        self.event(call.start, &begin)?;
        let mut end = Message::default();
        end.number(9, SLICE_END).number(11, track);
        self.event(call.start + length, &end)
    }

    fn event(&mut self, time: u64, event: &Message) -> io::Result<()> {
        let mut packet = Message::default();
        packet
            .number(8, time)
            .number(10, SEQUENCE)
            .number(13, NEEDS_INCREMENTAL_STATE)
            .message(11, event);
        packet.write(self.output)
    }
}

/// All recorded causes, not only the main one.
pub(crate) fn cause(bits: u8) -> String {
    let names = [
        (CAUSE_INTERRUPTED, "preempted"),
        (CAUSE_SLEPT, "slept"),
        (CAUSE_SYSCALL, "system call"),
        (CAUSE_FAULT, "page fault"),
        (CAUSE_INTERRUPT, "interrupt"),
        (CAUSE_INTERRUPTED_UNKNOWN, "perhaps preempted"),
        (CAUSE_SYSCALL_UNKNOWN, "perhaps a system call"),
    ];
    let known: Vec<&str> =
        names.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    known.join(", ")
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;
    use crate::sample::folder;

    /// The fields of a message: number, value, bytes.
    pub(crate) fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let mut value = 0;
            for shift in (0..).step_by(7) {
                let (first, rest) = bytes.split_first().unwrap();
                *bytes = rest;
                value |= u64::from(first & 0x7f) << shift;
                if first & 0x80 == 0 {
                    break;
                }
            }
            value
        }
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = varint(&mut bytes);
            let length = if key & 7 == 2 { value as usize } else { 0 };
            fields.push((key >> 3, value, bytes[..length].to_vec()));
            bytes = &bytes[length..];
        }
        fields
    }

    /// Field number, plain value, bytes.
    pub(crate) type Field = (u64, u64, Vec<u8>);

    pub(crate) fn number(fields: &[Field], field: u64) -> u64 {
        fields.iter().find(|found| found.0 == field).unwrap().1
    }

    /// Time and event of every event's packet.
    pub(crate) fn events(trace: &[u8]) -> Vec<(u64, Vec<Field>)> {
        let packets = fields(trace).into_iter().map(|(field, _, packet)| {
            assert_eq!(field, 1);
            fields(&packet)
        });
        packets
            .filter_map(|packet| {
                let event = packet.iter().find(|found| found.0 == 11)?;
                Some((number(&packet, 8), fields(&event.2)))
            })
            .collect()
    }

    #[test]
    fn slices_begin_and_end() {
        let folder = folder();
        let mut output = Vec::new();
        let written = perfetto(folder.path(), None, 0.0, &mut output).unwrap();
        assert_eq!(written, Written { allocator: "keel".to_owned(), lines: 6 });
        let events = events(&output);
        let slices: Vec<_> =
            events.iter().filter(|(_, event)| number(event, 9) != COUNTER).collect();
        assert_eq!(slices.len(), 12);
        assert_eq!((slices[0].0, slices[1].0), (100, 120));
        assert_eq!((number(&slices[0].1, 9), number(&slices[1].1, 9)), (SLICE_BEGIN, SLICE_END));
        assert_eq!(number(&slices[0].1, 11), number(&slices[1].1, 11));
        let counters: Vec<u64> = events
            .iter()
            .filter(|(_, event)| number(event, 9) == COUNTER)
            .map(|(_, event)| number(event, 30))
            .collect();
        assert_eq!(counters, [96, 4096]);
    }

    #[test]
    fn every_bit_of_a_cause_has_its_words() {
        assert_eq!(cause(0), "");
        assert_eq!(cause(CAUSE_SLEPT | CAUSE_SYSCALL), "slept, system call");
        let bits = (0..7).map(|bit| cause(1 << bit)).collect::<BTreeSet<String>>();
        assert!(bits.len() == 7 && !bits.contains(""), "{bits:?}");
    }

    #[test]
    fn short_calls_can_be_left_out() {
        let mut output = Vec::new();
        assert_eq!(perfetto(folder().path(), Some("keel"), 35.0, &mut output).unwrap().lines, 2);
        assert!(perfetto(folder().path(), Some("unknown"), 0.0, &mut output).is_err());
    }
}
