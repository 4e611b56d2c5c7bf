//! The beginning and the end of a recording, the modules it leaves out, and the recorded callers.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Bench, Journal, assert_begins_late, whole};
use keel_journal::{Op, Origin};
use keel_record::Options;
use std::path::Path;
use std::time::Duration;

/// late.c sleeps for six seconds between its two parts. This time is in the pause, on a busy
/// machine too.
const DURING_THE_PAUSE: Duration = Duration::from_secs(5);

#[test]
fn late_recording_begins_with_the_live_blocks() {
    let bench = Bench::new();
    let program = bench.compile("late.c", &[]);
    let after = Some(DURING_THE_PAUSE);
    let recorded = keel_record::record(&Options { after, ..bench.options(&program, &[]) }).unwrap();
    assert_eq!(recorded.status.code(), Some(0));
    let journal = whole(&recorded);
    assert!(assert_begins_late(&journal) > 0);
    let seconds = recorded.journals[0].seconds;
    let last = journal.events.last().unwrap().time as f64 / 1e9;
    assert!(seconds >= last && seconds < last + 5.0, "{seconds} s, the last event at {last} s");
    let prologue = journal.metadata.prologue as usize;
    let known =
        journal.origins[..prologue].iter().filter(|origin| origin.module != Origin::NONE).count();
    assert_eq!(known, prologue);
}

#[test]
fn end_before_the_recorded_span_is_reported() {
    let bench = Bench::new();
    let program = bench.compile("ends.c", &[]);
    let after = Some(Duration::from_secs(3600));
    let recorded =
        keel_record::record(&Options { after, ..bench.options(&program, &["exit"]) }).unwrap();
    assert_eq!(recorded.status.code(), Some(5));
    assert!(recorded.problems[0].contains("ended within the 3600 s"), "{:?}", recorded.problems);
}

#[test]
fn limits_end_the_recording_only() {
    let bench = Bench::new();
    let program = bench.compile("counts.c", &[]);
    let options =
        Options { max_operations: Some(1234), ..bench.options(&program, &["2", "20000"]) };
    let recorded = keel_record::record(&options).unwrap();
    assert_eq!(recorded.status.code(), Some(7));
    let events = whole(&recorded).events;
    assert_eq!(events.len(), 1234);
    assert!(recorded.journals[0].limited);
    let last = events[1233].time as f64 / 1e9;
    assert!((recorded.journals[0].seconds - last).abs() < 1e-3, "{}", recorded.journals[0].seconds);

    let options = Options { max_bytes: Some(200_000), ..bench.options(&program, &["2", "20000"]) };
    let recorded = keel_record::record(&options).unwrap();
    assert_eq!(recorded.status.code(), Some(7));
    let journal = whole(&recorded);
    let bytes = recorded.journals[0].written.as_ref().unwrap().bytes;
    // The limit is compared with an estimate; how well the rows compress depends on how the two
    // threads took turns.
    assert!((20_000..220_000).contains(&bytes), "{bytes} bytes");
    assert!(journal.events.len() < 560_000);
}

#[test]
fn recording_ends_after_its_length_and_the_program_continues() {
    let bench = Bench::new();
    let program = bench.compile("late.c", &[]);
    let options = Options { length: Some(DURING_THE_PAUSE), ..bench.options(&program, &[]) };
    let recorded = keel_record::record(&options).unwrap();
    assert_eq!((recorded.status.code(), recorded.problems.len()), (Some(0), 0));
    let journal = whole(&recorded);
    assert_eq!((journal.count(Op::Malloc, 1001), journal.count(Op::Malloc, 1011)), (110, 0));
    assert!(journal.events.iter().all(|event| event.time <= 5_001_000_000));
    let seconds = recorded.journals[0].seconds;
    assert!((4.99..5.01).contains(&seconds), "{seconds} s");
}

#[test]
fn module_is_left_out_with_its_blocks() {
    let bench = Bench::new();
    let library = bench.compile_library("driver.c");
    let program = bench.compile("modules.c", &[library.to_str().unwrap()]);
    let (_, all) = bench.record(&program, &[]);
    let name = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(all.modules(Op::Malloc, 1001), name(&["modules"]));
    assert_eq!(all.modules(Op::Malloc, 1003), name(&["libdriver.so"]));
    assert_eq!(all.modules(Op::Realloc, 1005), name(&["libdriver.so"]));
    assert_eq!(all.modules(Op::Calloc, 1007), name(&["modules"]));
    assert!(
        all.metadata.modules.iter().all(|module| !module.build_id.is_empty()),
        "{:?}",
        all.metadata.modules
    );
    let counts = |journal: &Journal| {
        [(Op::Malloc, 1001), (Op::Malloc, 1003), (Op::Realloc, 1005), (Op::Calloc, 1007)]
            .map(|(op, size)| (journal.count(op, size), journal.released(size)))
    };
    assert_eq!(counts(&all), [(30, 30), (30, 30), (30, 30), (30, 30)]);

    // The program frees the driver's blocks, and the driver frees the program's. The module that
    // allocated a block decides.
    let skip_modules = vec!["libdriver".to_owned()];
    let options = Options { skip_modules: skip_modules.clone(), ..bench.options(&program, &[]) };
    let left = whole(&keel_record::record(&options).unwrap());
    assert_eq!(counts(&left), [(30, 30), (0, 0), (0, 0), (30, 30)]);
    assert_eq!(left.metadata.foreign, 0);

    // Removing the module from the complete journal gives the same result.
    keel_record::record(&bench.options(&program, &[])).unwrap();
    let (from, to) = (bench.path("out.journal.parquet"), bench.path("less.journal.parquet"));
    let kept = keel_record::skip_modules(&from, &to, &skip_modules).unwrap();
    let less = Journal::read(&to);
    assert_eq!(counts(&less), counts(&left));
    assert_eq!(
        (kept.rows, kept.left_out),
        (less.events.len() as u64, (all.events.len() - less.events.len()) as u64)
    );
}

#[test]
fn library_is_known_while_it_is_loaded() {
    let bench = Bench::new();
    let library = bench.compile_library("driver.c");
    let program = bench.compile("plugin.c", &[]);
    let (recorded, journal) = bench.record(&program, &[library.to_str().unwrap(), "20"]);
    assert_eq!(recorded.status.code(), Some(0));
    assert_eq!((journal.count(Op::Malloc, 1003), journal.released(1005)), (20, 20));
    let known = journal.modules(Op::Malloc, 1003);
    assert!(known.contains("libdriver.so"), "{known:?}");
    assert!(known.iter().all(|name| name == "libdriver.so" || name.is_empty()), "{known:?}");
}

#[test]
fn stacks_are_recorded_innermost_call_first() {
    let bench = Bench::new();
    let program = bench.compile("sites.c", &["-fno-inline", "-fno-optimize-sibling-calls"]);
    let options = Options { stacks: 4, ..bench.options(&program, &[]) };
    let journal = whole(&keel_record::record(&options).unwrap());
    let stacks_of = |size: u64| {
        let rows =
            journal.events.iter().zip(&journal.origins).filter(|(event, _)| event.size == size);
        let mut stacks: Vec<u32> = rows.map(|(_, origin)| origin.stack).collect();
        stacks.sort_unstable();
        stacks.dedup();
        stacks
    };
    // Two call paths allocate the first size, one the second; 500 times each, on four threads.
    assert_eq!((stacks_of(1001).len(), stacks_of(1003).len()), (2, 1));
    assert_eq!((journal.count(Op::Malloc, 1001), journal.count(Op::Malloc, 1003)), (4000, 2000));
    let stacks = &journal.metadata.stacks;
    let [one, other] = [stacks_of(1001)[0], stacks_of(1001)[1]]
        .map(|stack| stacks.walk(stack).collect::<Vec<_>>());
    assert_eq!((one.len(), other.len()), (4, 4));
    assert_eq!(one[0], other[0], "the same call of malloc");
    assert_ne!(one[1], other[1], "from two functions");
    let program_name = program.file_name().unwrap().to_str().unwrap();
    for (module, _) in [one[0], one[1], other[1]] {
        assert!(journal.metadata.modules[module as usize].path.ends_with(program_name));
    }
    let (_, plain) = bench.record(&program, &[]);
    assert_eq!(journal.events.len(), plain.events.len(), "what the recorder allocates is left out");
}

#[test]
fn marks_and_thread_names_are_recorded() {
    let bench = Bench::new();
    let include = format!("-I{}", common::root().join("in_process/include").display());
    let program = bench.compile("moments.c", &[&include]);
    let (_, journal) = bench.record(&program, &[]);
    let texts: Vec<&str> = journal.metadata.marks.iter().map(|mark| mark.text.as_str()).collect();
    let long = "long ".repeat(60);
    assert_eq!(texts, ["level 1", "a mark of exactly 32 characters!", &long[..240], ""]);
    assert_eq!(journal.metadata.frames.len(), 3);
    let names: Vec<&str> =
        journal.metadata.threads.iter().map(|thread| thread.name.as_str()).collect();
    assert!(names.contains(&"the loader"), "{names:?}");
    assert!(names.contains(&"by pthread"), "{names:?}");
}

#[test]
fn presenting_functions_found_by_lookup_end_frames() {
    let bench = Bench::new();
    let library = bench.compile_library("picture.c");
    let program = bench.compile("looked_up_frames.c", &[library.to_str().unwrap()]);
    let (recorded, journal) = bench.record(&program, &[]);
    assert_eq!(recorded.status.code(), Some(0));
    // Ten each through glXGetProcAddress, eglGetProcAddress and vkGetDeviceProcAddr; functions of
    // other names stay unchanged.
    assert_eq!(journal.metadata.frames.len(), 30);
}

#[test]
fn rare_entry_points_are_recorded() {
    let bench = Bench::new();
    let program = bench.compile("rare.c", &[]);
    let (recorded, journal) = bench.record(&program, &[]);
    assert_eq!(recorded.status.code(), Some(0));
    for size in [1001, 1003, 1005] {
        assert_eq!((journal.count(Op::Malloc, size), journal.released(size)), (10, 10), "{size}");
    }
    assert_eq!((journal.count(Op::Aligned, 1007), journal.released(1007)), (10, 10), "valloc");
    assert!(
        journal.events.iter().filter(|event| event.size == 1007).all(|event| event.align == 4096)
    );
}

#[test]
fn embedded_recording_without_a_recorder_is_reported() {
    let bench = Bench::new();
    let program = bench.compile("ends.c", &[]);
    let options = Options { embedded: true, ..bench.options(&program, &["exit"]) };
    let recorded = keel_record::record(&options).unwrap();
    assert_eq!(recorded.status.code(), Some(5));
    assert!(
        recorded.problems[0].contains("does not contain a recorder"),
        "{:?}",
        recorded.problems
    );
    assert!(Path::new(&bench.path("out.journal.parquet")).is_file());
}
