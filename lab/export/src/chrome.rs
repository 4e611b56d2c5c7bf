//! The trace event format (JSON) of a journal: live memory over time, frames and marks. Perfetto
//! (ui.perfetto.dev) and chrome://tracing open it.

use crate::timeline::{self, Live, TimelineError};
use keel_journal::{Metadata, Reader};
use serde_json::{Value, json};
use std::io::Write;

/// The only process of the trace; its frames and marks are on these tracks.
const PROCESS: u32 = 1;
const FRAMES: u32 = 1;
const MARKS: u32 = 2;

/// Writes the trace and returns the number of its events.
///
/// # Errors
/// See [`TimelineError`].
pub fn chrome(reader: &Reader, output: &mut dyn Write) -> Result<u64, TimelineError> {
    let metadata = reader.metadata();
    let mut events = Events { output, written: 0 };
    events.output.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    events.name("process_name", 0, &metadata.program)?;
    let end = timeline::live(reader, &mut |live| events.write(&counter(live)))?;
    frames(metadata, end, &mut events)?;
    marks(metadata, &mut events)?;
    events.output.write_all(b"]}\n")?;
    Ok(events.written)
}

struct Events<'a> {
    output: &'a mut dyn Write,
    written: u64,
}

impl Events<'_> {
    fn write(&mut self, event: &Value) -> std::io::Result<()> {
        let separator = if self.written == 0 { "\n" } else { ",\n" };
        self.written += 1;
        write!(self.output, "{separator}{event}")
    }

    /// Names the process or a track.
    fn name(&mut self, kind: &str, track: u32, name: &str) -> std::io::Result<()> {
        self.write(&json!({
            "ph": "M", "name": kind, "pid": PROCESS, "tid": track, "args": { "name": name },
        }))
    }
}

/// ns as µs, the unit of the format.
fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn counter(Live { time, bytes, blocks }: Live) -> Value {
    json!({
        "ph": "C", "name": "live memory", "pid": PROCESS, "ts": microseconds(time),
        "args": { "bytes": bytes, "blocks": blocks },
    })
}

/// A slice for each frame, from its mark to the next one.
fn frames(metadata: &Metadata, end: u64, events: &mut Events<'_>) -> std::io::Result<()> {
    if metadata.frames.is_empty() {
        return Ok(());
    }
    events.name("thread_name", FRAMES, "frames")?;
    for ((begin, end), number) in timeline::frames(&metadata.frames, end).zip(1_u64..) {
        events.write(&json!({
            "ph": "X", "name": format!("frame {number}"), "pid": PROCESS, "tid": FRAMES,
            "ts": microseconds(begin), "dur": microseconds(end - begin),
        }))?;
    }
    Ok(())
}

fn marks(metadata: &Metadata, events: &mut Events<'_>) -> std::io::Result<()> {
    if metadata.marks.is_empty() {
        return Ok(());
    }
    events.name("thread_name", MARKS, "marks")?;
    for mark in &metadata.marks {
        events.write(&json!({
            "ph": "i", "s": "t", "name": mark.text, "pid": PROCESS, "tid": MARKS,
            "ts": microseconds(mark.time),
        }))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;
    use keel_journal::{Event, Mark, Op, Writer};

    #[test]
    fn a_journal_becomes_counters_frames_and_marks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal.parquet");
        let mut writer = Writer::create(&path).unwrap();
        let event = |time, op, size, created, released| Event {
            size,
            created,
            released,
            ..Event::at(time, op)
        };
        let events = [
            event(0, Op::Malloc, 10, 1, 0),
            event(20_000_000, Op::Malloc, 500, 2, 0),
            event(20_000_001, Op::Free, 0, 0, 2),
            event(30_000_000, Op::Free, 0, 0, 1),
        ];
        writer.push_batch(&events).unwrap();
        let metadata = Metadata {
            program: "game".to_owned(),
            frames: vec![5_000_000, 21_000_000],
            marks: vec![Mark {
                time: 7_000,
                thread: 0,
                text: "loaded".to_owned(),
                ..Mark::default()
            }],
            ..Metadata::default()
        };
        writer.finish(metadata).unwrap();
        let mut output = Vec::new();
        let written = chrome(&Reader::open(&path).unwrap(), &mut output).unwrap();
        let document: Value = serde_json::from_slice(&output).unwrap();
        let events = document["traceEvents"].as_array().unwrap();
        assert_eq!(events.len() as u64, written);
        let of = |kind: &'static str| events.iter().filter(move |event| event["ph"] == kind);
        let bytes: Vec<_> =
            of("C").map(|event| (event["ts"].as_f64().unwrap(), &event["args"]["bytes"])).collect();
        // The peak of the short block is kept, although it is freed in the same part of the time.
        assert_eq!(bytes, [(0.0, &10.into()), (20_000.0, &510.into()), (30_000.0, &0.into())]);
        let frames: Vec<_> = of("X").map(|event| event["dur"].as_f64().unwrap()).collect();
        assert_eq!(frames, [16_000.0, 9_000.0]);
        assert_eq!(of("i").next().unwrap()["name"], "loaded");
        assert_eq!(of("M").count(), 3);
    }
}
