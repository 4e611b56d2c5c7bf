//! The Perfetto trace of a journal: counters of live memory, a slice for each frame, and the marks.

use super::{
    INSTANT, ProcessTrace, SLICE_BEGIN, SLICE_END, UNIT_BYTES, UNIT_COUNT, interned_names,
};
use crate::message::Message;
use crate::timeline::{self, TimelineError};
use keel_journal::Reader;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Numbers of the tracks.
const BYTES: u64 = 1;
const BLOCKS: u64 = 2;
const FRAMES: u64 = 3;
const MARKS: u64 = 4;

/// Writes the trace and returns the number of its events.
///
/// # Errors
/// See [`TimelineError`].
pub fn perfetto_of_journal(reader: &Reader, output: &mut dyn Write) -> Result<u64, TimelineError> {
    let metadata = reader.metadata();
    interned_names(output)?;
    let mut trace = ProcessTrace { process: 1, threads: BTreeSet::new(), output };
    let counters = [(BYTES, "live bytes", UNIT_BYTES), (BLOCKS, "live blocks", UNIT_COUNT)];
    trace.describe_process(&metadata.program, &counters)?;
    let mut events = 0;
    let end = timeline::live(reader, &mut |live| {
        events += 2;
        trace.count(BYTES, live.time, live.bytes)?;
        trace.count(BLOCKS, live.time, live.blocks)
    })?;
    if !metadata.frames.is_empty() {
        trace.describe_track(FRAMES, "frames")?;
    }
    for ((begin, end), number) in timeline::frames(&metadata.frames, end).zip(1_u64..) {
        trace.named(FRAMES, SLICE_BEGIN, begin, &format!("frame {number}"))?;
        trace.named(FRAMES, SLICE_END, end, "")?;
        events += 1;
    }
    if !metadata.marks.is_empty() {
        trace.describe_track(MARKS, "marks")?;
    }
    for mark in &metadata.marks {
        trace.named(MARKS, INSTANT, mark.time, &mark.text)?;
        events += 1;
    }
    Ok(events)
}

impl ProcessTrace<'_> {
    /// A track of the process for slices and instants.
    fn describe_track(&mut self, number: u64, name: &str) -> io::Result<()> {
        let mut track = Message::default();
        track.number(1, self.track(number)).text(2, name).number(5, self.track(0));
        self.describe(&track)
    }

    /// An event with a name of its own; without one, if it is empty.
    fn named(&mut self, track: u64, kind: u64, time: u64, name: &str) -> io::Result<()> {
        let mut event = Message::default();
        event.number(9, kind).number(11, self.track(track));
        if !name.is_empty() {
            event.text(23, name);
        }
        self.event(time, &event)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;
    use crate::perfetto::tests::{events, number};
    use keel_journal::{Event, Mark, Metadata, Op, Writer};

    #[test]
    fn a_journal_has_counters_frames_and_marks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal.parquet");
        let mut writer = Writer::create(&path).unwrap();
        let allocation = Event { size: 500, created: 1, ..Event::at(10, Op::Malloc) };
        writer.push(&allocation).unwrap();
        writer.push(&Event { released: 1, ..Event::at(40, Op::Free) }).unwrap();
        let mark = Mark { time: 7, thread: 0, text: "loaded".to_owned(), ..Mark::default() };
        let metadata = Metadata { frames: vec![20, 30], marks: vec![mark], ..Metadata::default() };
        writer.finish(metadata).unwrap();
        let mut output = Vec::new();
        let count = perfetto_of_journal(&Reader::open(&path).unwrap(), &mut output).unwrap();
        let events = events(&output);
        let of = |kind: u64, track: u64| {
            let matches = events.iter().filter(move |(_, event)| {
                number(event, 9) == kind && number(event, 11) & 0xffff_ffff == track
            });
            matches.collect::<Vec<_>>()
        };
        let bytes: Vec<(u64, u64)> = of(super::super::COUNTER, BYTES)
            .iter()
            .map(|(at, event)| (*at, number(event, 30)))
            .collect();
        assert_eq!(bytes.last(), Some(&(40, 0)));
        assert!(bytes.contains(&(10, 500)), "{bytes:?}");
        let times = |kind, track| of(kind, track).iter().map(|(at, _)| *at).collect::<Vec<u64>>();
        assert_eq!(
            (times(SLICE_BEGIN, FRAMES), times(SLICE_END, FRAMES)),
            (vec![20, 30], vec![30, 40])
        );
        assert_eq!(times(INSTANT, MARKS), [7]);
        let named = of(INSTANT, MARKS)[0].1.iter().find(|field| field.0 == 23).unwrap();
        assert_eq!(named.2, b"loaded");
        assert_eq!(count, events.len() as u64 - 2, "a frame has two events");
    }
}
