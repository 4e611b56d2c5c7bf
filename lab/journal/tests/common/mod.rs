//! Random journals that obey every rule.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its part; tests may panic")]

use keel_journal::{Event, FreeHint, Mark, Metadata, Op, Origin, Thread, Writer};
use proptest::prelude::*;
use std::path::Path;

/// One step of a random program. `journal` makes a valid event of the step.
#[derive(Clone, Debug)]
pub struct Step {
    pub op: Op,
    pub pause: u64,
    pub took: u64,
    pub thread: u32,
    pub size: u64,
    pub align_bits: u32,
    pub pick: prop::sample::Index,
    /// The hint of a free, as in the file.
    pub free_hint: u8,
}

pub fn step() -> impl Strategy<Value = Step> {
    let op = prop_oneof![
        6 => Just(Op::Malloc), 6 => Just(Op::Free), 1 => Just(Op::Calloc), 2 => Just(Op::Realloc),
        1 => Just(Op::Aligned), 1 => Just(Op::ForeignFree), 1 => Just(Op::ForeignRealloc),
    ];
    let size = prop_oneof![8 => 0u64..5000, 1 => 0u64..=i64::MAX as u64];
    let pause = prop_oneof![8 => 0u64..400, 1 => 0u64..1 << 40];
    let free_hint = prop_oneof![3 => Just(0u8), 1 => 1u8..4, 1 => 5u8..8];
    (op, pause, 0u64..300, 0u32..5, size, 0u32..13, any::<prop::sample::Index>(), free_hint)
        .prop_map(|(op, pause, took, thread, size, align_bits, pick, free_hint)| Step {
            op,
            pause,
            took,
            thread,
            size,
            align_bits,
            pick,
            free_hint,
        })
}

/// The journal of these steps.
pub fn journal(steps: &[Step], frame_marks: &[u64]) -> (Vec<Event>, Metadata) {
    let mut frames = frame_marks.to_vec();
    frames.sort_unstable();
    let mut events = Vec::new();
    let (mut live, mut objects, mut time) = (Vec::new(), 0, 0);
    for step in steps {
        let mut op = step.op;
        if op == Op::Free && live.is_empty() {
            op = Op::Malloc;
        }
        time += step.pause;
        let mut begin = time;
        let mut released = 0;
        if matches!(op, Op::Free | Op::Realloc) && !live.is_empty() {
            released = live.swap_remove(step.pick.index(live.len()));
        }
        if op == Op::Realloc {
            time += step.took;
            begin = time - step.took;
        }
        let mut created = 0;
        if op.creates() {
            objects += 1;
            created = objects;
            live.push(created);
        }
        let free_hint = match (op, step.free_hint) {
            (Op::Free, 1) => FreeHint::SIZE,
            (Op::Free, 2) => FreeHint::ALIGN,
            (Op::Free, 3) => FreeHint::BOTH,
            (Op::Free, 5) => FreeHint::wrong(Some(step.size), None),
            (Op::Free, 6) => FreeHint::wrong(None, Some(1 << step.align_bits)),
            (Op::Free, 7) => FreeHint::wrong(Some(step.size), Some(1 << step.align_bits)),
            _ => FreeHint::NONE,
        };
        events.push(Event {
            time,
            begin,
            thread: step.thread,
            op,
            size: if op.creates() { step.size } else { 0 },
            align: if op == Op::Aligned { 1 << step.align_bits } else { 0 },
            created,
            released,
            frame: frames.partition_point(|mark| *mark <= begin) as u32,
            free_hint,
        });
    }
    (events, metadata(frames))
}

pub fn metadata(frames: Vec<u64>) -> Metadata {
    Metadata {
        version: 1,
        writer: "a test".to_owned(),
        program: "/usr/bin/gr\u{fc}n".to_owned(),
        arguments: vec!["--quote=\"".to_owned(), String::new()],
        clock: "tsc".to_owned(),
        clock_hz: 2.5e9,
        threads: (0..5)
            .map(|index| Thread {
                id: 100 + index,
                name: format!("thread {index}"),
                ..Thread::default()
            })
            .collect(),
        frames,
        marks: vec![Mark { time: 7, thread: 1, text: "level 1".to_owned(), ..Mark::default() }],
        ended: "exit 0".to_owned(),
        ..Metadata::default()
    }
}

/// Returns a journal of about `count` events. The events are the same in every call.
pub fn sample(count: u64) -> (Vec<Event>, Metadata) {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    let ops = [
        Op::Malloc,
        Op::Free,
        Op::Malloc,
        Op::Free,
        Op::Calloc,
        Op::Realloc,
        Op::Aligned,
        Op::Free,
    ];
    let steps: Vec<Step> = (0..count)
        .map(|_| Step {
            op: ops[(random() % 8) as usize],
            pause: random() % 200,
            took: random() % 90,
            thread: (random() % 5) as u32,
            size: random() % 700,
            align_bits: (random() % 12) as u32,
            pick: index_from(random()),
            free_hint: 0,
        })
        .collect();
    journal(&steps, &[900, 5_000, 5_000, 70_000])
}

fn index_from(value: u64) -> prop::sample::Index {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&value.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    any::<prop::sample::Index>().new_tree(&mut runner).unwrap().current()
}

/// The rows as `journal/reader.py` prints them.
pub fn as_text(events: &[Event]) -> String {
    let optional = |value: u64| if value == 0 { "-".to_owned() } else { value.to_string() };
    let mut text = String::new();
    for e in events {
        let Event { time, begin, thread, size, frame, .. } = e;
        let (align, created, released) =
            (optional(e.align), optional(e.created), optional(e.released));
        let op = if e.op == Op::Free { e.free_hint.name() } else { e.op.name() };
        let wrong = match (e.free_hint.wrong_size(), e.free_hint.wrong_align()) {
            (None, None) => String::new(),
            (size, align) => {
                let word =
                    |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
                format!("!{}:{}", word(size), word(align))
            }
        };
        let op = format!("{op}{wrong}");
        text +=
            &format!("{time} {begin} {thread} {op} {size} {align} {created} {released} {frame}\n");
    }
    text
}

/// The origins as `journal/reader.py --origins` prints them.
pub fn origins_as_text(origins: &[Origin]) -> String {
    let text = |index: u32| if index == Origin::NONE { "-".to_owned() } else { index.to_string() };
    origins
        .iter()
        .map(|origin| format!("{} {}\n", text(origin.module), text(origin.stack)))
        .collect()
}

pub fn write(path: &Path, events: &[Event], metadata: &Metadata, rows_per_group: usize) {
    let options = keel_journal::Options { rows_per_group, ..Default::default() };
    let mut writer = Writer::with_options(path, options).unwrap();
    writer.push_batch(events).unwrap();
    let written = writer.finish(metadata.clone()).unwrap();
    assert_eq!(written.rows, events.len() as u64);
    assert_eq!(written.bytes, std::fs::metadata(path).unwrap().len());
}
