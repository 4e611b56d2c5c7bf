//! Recordings that keep the last seconds, and write them when an event occurs.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Bench, Journal, assert_begins_late, whole};
use keel_journal::Op;
use keel_record::{Last, Options, Recorded, Wait, When};
use std::path::Path;
use std::time::Duration;

fn last(seconds: u64, when: &[When]) -> Last {
    let length = Duration::from_secs(seconds);
    Last { length, buffer_bytes: 256 << 20, when: when.to_vec(), journals: 10 }
}

fn record(bench: &Bench, program: &Path, arguments: &[&str], last: Last) -> Recorded {
    let wait = Some(Wait::Last(last));
    keel_record::record(&Options { wait, ..bench.options(program, arguments) }).unwrap()
}

/// late.c sleeps for six seconds in its second frame.
#[test]
fn a_long_frame_writes_the_blocks_from_before_and_the_last_seconds() {
    let bench = Bench::new();
    let program = bench.compile("late.c", &[]);
    let recorded = record(&bench, &program, &[], last(3, &[When::Frame(Duration::from_secs(4))]));
    let journal = whole(&recorded);
    let first = assert_begins_late(&journal);
    assert!(first > 2_000_000_000, "{first}");
    // The times may be longer on a busy machine.
    let frame = journal.metadata.cause.strip_prefix("a frame took ").unwrap();
    let frame: f64 = frame.strip_suffix(" ms").unwrap().parse().unwrap();
    assert!(frame >= 6000.0, "{}", journal.metadata.cause);
    // It covers three seconds, of which the program slept all but the end.
    let seconds = recorded.journals[0].seconds;
    assert!(seconds >= 2.9, "{seconds}");
}

#[test]
fn crashes_write_the_last_seconds_and_other_ends_do_not() {
    let bench = Bench::new();
    let program = bench.compile("ends.c", &[]);
    for (how, ended) in [("crash", "signal 11"), ("abort", "signal 6")] {
        let recorded = record(&bench, &program, &[how], last(60, &[When::Crash]));
        let journal = whole(&recorded);
        assert_eq!(journal.metadata.ended, ended);
        assert_eq!(journal.metadata.cause, format!("the program ended: {ended}"));
        assert_eq!((journal.count(Op::Malloc, 1001), journal.metadata.prologue), (200, 0));
    }
    let recorded = record(&bench, &program, &["exit"], last(60, &[When::Crash]));
    assert_eq!((recorded.status.code(), recorded.journals.len()), (Some(5), 0));
    assert!(recorded.notes[0].starts_with("nothing was written"), "{:?}", recorded.notes);
    assert_eq!(recorded.problems, Vec::<String>::new());
    let recorded = record(&bench, &program, &["exit"], last(60, &[When::Exit]));
    assert_eq!(whole(&recorded).count(Op::Malloc, 1001), 200);
}

#[test]
fn a_mark_writes_one_journal_for_those_that_follow_it() {
    const MARK: &str = "a mark of exactly 32 characters!";
    let bench = Bench::new();
    let program = bench.compile("moments.c", &[]);
    let recorded = record(&bench, &program, &[], last(60, &[When::Mark(MARK.to_owned())]));
    let journal = whole(&recorded);
    assert_eq!(journal.metadata.cause, format!("the program passed the mark {MARK}"));
    let marks: Vec<&str> = journal.metadata.marks.iter().map(|mark| mark.text.as_str()).collect();
    assert_eq!(marks.last(), Some(&MARK), "{marks:?}");
}

/// 2.4 million operations of two threads in a mebibyte, of which the crash writes the last ones.
#[test]
fn memory_is_bounded_and_the_journal_states_what_it_covers() {
    const BUFFER: u64 = 1 << 20;
    let bench = Bench::new();
    let program = bench.compile("counts.c", &[]);
    let last = Last { buffer_bytes: BUFFER, ..last(3600, &[When::Exit]) };
    let recorded = record(&bench, &program, &["2", "60000"], last);
    assert!((1..=BUFFER as usize).contains(&recorded.kept_bytes), "{}", recorded.kept_bytes);
    let note = recorded.notes.iter().find(|note| note.contains("covers only"));
    assert!(note.is_some_and(|note| note.contains("--buffer")), "{:?}", recorded.notes);
    let Journal { metadata, events, .. } = whole(&recorded);
    let rows = events.len() as u64 - metadata.prologue;
    // An event takes 32 bytes. The events of the last reading that was dropped come on top.
    const READING: u64 = 2 * 32768;
    assert!(rows > 0 && rows <= BUFFER / 32 + READING, "{rows} rows");
    // All blocks were freed, whether they were allocated before the window or in it.
    let made = events.iter().filter(|event| event.created != 0 && event.size == 1001).count();
    let freed = events.iter().filter(|event| event.released != 0).count();
    assert!(made > 0 && freed > made && metadata.foreign == 0, "{made} {freed} {metadata:?}");
}

/// The stacks of the blocks that live on, and those of the last seconds, are in the journal; the
/// others are forgotten.
#[test]
fn stacks_are_bounded_and_those_of_the_rows_are_known() {
    let bench = Bench::new();
    let program = bench.compile("ever_new.c", &[]);
    let wait = Wait::Last(Last { buffer_bytes: 1 << 20, ..last(3600, &[When::Exit]) });
    let options = Options { wait: Some(wait), stacks: 32, ..bench.options(&program, &[]) };
    let Journal { metadata, events, origins } = whole(&keel_record::record(&options).unwrap());
    let made = events.iter().zip(&origins).filter(|(event, _)| event.size == 1001);
    let depths: Vec<usize> =
        made.map(|(_, origin)| metadata.stacks.walk(origin.stack).count()).collect();
    assert!(depths.len() > 64 + 100, "those that live on, and recent ones: {}", depths.len());
    assert!(depths.iter().all(|depth| *depth >= 19), "{depths:?}");
    let calls = metadata.stacks.nodes.len();
    assert!(calls < 200_000, "{calls} of more than 500,000 calls");
}
