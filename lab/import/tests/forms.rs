//! Every form: real samples are recognised by content, imported, exported and imported again with
//! the same operations.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use keel_export::{TraceForm, trace};
use keel_import::{Error, Form, Options, Summary, import};
use keel_journal::{Event, FreeHint, Metadata, Op, Reader, Rules, Writer};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{Cursor, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use zip::ZipWriter;

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(name)
}

fn options(repair: bool) -> Options {
    Options { repair, ..Options::default() }
}

/// Imports a file and checks every rule of the journal.
fn read(
    input: &Path,
    output: &Path,
    options: &Options,
) -> Result<(Summary, Vec<Event>, Metadata), Error> {
    let summary = import(&[input.to_path_buf()], output, options, &mut |_| {})?;
    let reader = Reader::open(output)?;
    let events: Vec<Event> = reader.events().map(|event| event.unwrap()).collect();
    let mut rules = Rules::new(reader.metadata()).unwrap();
    events.iter().for_each(|event| rules.check(event).unwrap());
    assert_eq!(summary.rows, events.len() as u64);
    Ok((summary, events, reader.metadata().clone()))
}

/// Exports a journal in a form, to text.
fn write(journal: &Path, form: Form) -> Vec<u8> {
    let form = TraceForm::from_name(form.name()).unwrap();
    let mut text = Vec::new();
    let reader = Reader::open(journal).unwrap();
    let written = trace(&reader, form, &mut text).unwrap();
    assert_eq!(written.operations, reader.rows());
    text
}

/// Imports, exports, imports again; the operations and marks must be the same.
fn round_trip(input: &Path, repair: bool) -> (Summary, Vec<Event>) {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) =
        (folder.path().join("first.parquet"), folder.path().join("second.parquet"));
    let (summary, events, metadata) = read(input, &first, &options(repair)).unwrap();
    let form = Form::from_name(summary.form).unwrap();
    let text = write(&first, form);
    let again = folder.path().join("again.txt");
    std::fs::write(&again, &text).unwrap();
    assert_eq!(keel_import::detect(&text), Some(form), "the exported text is of the same form");
    let (_, same, its_metadata) = read(&again, &second, &options(repair)).unwrap();
    assert_eq!(same.len(), events.len(), "{input:?}");
    for (index, (event, same)) in events.iter().zip(&same).enumerate() {
        assert_eq!(event, same, "{input:?}, row {index}");
    }
    assert_eq!(its_metadata.marks, metadata.marks);
    assert_eq!(its_metadata.clock, metadata.clock);
    assert_eq!(its_metadata.foreign, metadata.foreign);
    (summary, events)
}

fn counts(events: &[Event]) -> BTreeMap<&'static str, usize> {
    events.iter().fold(BTreeMap::new(), |mut counts, event| {
        *counts.entry(event.op.name()).or_default() += 1;
        counts
    })
}

/// Expected results of a sample: name, form, whether it needs repairs, threads, marks, operations
/// by kind.
type Expected = (&'static str, Form, bool, u64, u64, &'static [(&'static str, usize)]);

const SAMPLES: [Expected; 18] = [
    (
        "doom3.zst",
        Form::Doom3,
        false,
        1,
        0,
        &[("aligned", 6), ("calloc", 196), ("free", 434), ("malloc", 459), ("realloc", 105)],
    ),
    (
        "android.zip",
        Form::Android,
        false,
        9,
        0,
        &[("calloc", 335), ("free", 1281), ("malloc", 2204), ("realloc", 116)],
    ),
    ("cmt-bzip2.txt", Form::Cmt, false, 1, 0, &[("free", 24), ("malloc", 29)]),
    ("cmt-hmmer.txt", Form::Cmt, false, 1, 0, &[("free", 262), ("malloc", 306), ("realloc", 32)]),
    ("wee-find.txt", Form::Numbered, false, 1, 0, &[("free", 563), ("malloc", 567)]),
    ("wee-cpp-demangle.txt", Form::Numbered, false, 1, 0, &[("free", 40), ("malloc", 62)]),
    ("mtrace.txt", Form::Mtrace, false, 1, 0, &[("free", 7), ("malloc", 10), ("realloc", 3)]),
    (
        "valgrind-c.txt",
        Form::Valgrind,
        false,
        1,
        0,
        &[("aligned", 3), ("calloc", 1), ("free", 8), ("malloc", 6), ("realloc", 3)],
    ),
    (
        "valgrind-cpp.txt",
        Form::Valgrind,
        false,
        1,
        0,
        &[("calloc", 1), ("free", 20), ("malloc", 19)],
    ),
    ("heaptrack-raw.zst", Form::Heaptrack, false, 1, 0, &[("free", 18), ("malloc", 20)]),
    ("heaptrack.gz", Form::Heaptrack, false, 1, 0, &[("free", 18), ("malloc", 20)]),
    ("judy-letters.txt", Form::Judy, false, 1, 3, &[("free", 3), ("malloc", 4)]),
    ("judy-internal.txt", Form::Judy, false, 1, 1, &[("free", 2), ("malloc", 3)]),
    ("judy-malloc.txt", Form::Judy, false, 1, 1, &[("free", 2), ("malloc", 2)]),
    (
        "logalloc.txt",
        Form::Logalloc,
        false,
        2,
        0,
        &[("aligned", 4), ("calloc", 1), ("free", 2), ("malloc", 1), ("realloc", 2)],
    ),
    (
        "logalloc-munged.txt",
        Form::Logalloc,
        false,
        2,
        0,
        &[("aligned", 1), ("free", 2), ("malloc", 2), ("realloc", 1)],
    ),
    ("lab.rep", Form::Rep, false, 1, 0, &[("free", 3), ("malloc", 4), ("realloc", 2)]),
    ("tags.txt", Form::Tags, false, 1, 0, &[("free", 3), ("malloc", 4)]),
];

#[test]
fn samples_are_recognised_and_survive_a_round_trip() {
    for (name, form, repair, threads, marks, operations) in SAMPLES {
        let (summary, events) = round_trip(&sample(name), repair);
        assert_eq!(
            (Form::from_name(summary.form).unwrap(), summary.threads, summary.marks),
            (form, threads, marks),
            "{name}"
        );
        let expected: BTreeMap<&str, usize> = operations.iter().copied().collect();
        assert_eq!(counts(&events), expected, "{name}");
    }
}

#[test]
fn frees_of_null_are_no_faults() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.parquet");
    for (name, count) in [("android.zip", 64), ("valgrind-cpp.txt", 94)] {
        let (summary, ..) = read(&sample(name), &output, &options(false)).unwrap();
        let expected = BTreeMap::from([("free of NULL: left out".to_owned(), count)]);
        assert_eq!(summary.repairs, expected, "{name}");
    }
}

/// One faulty line for each form, with its position and message.
#[test]
fn faults_have_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.txt"), folder.path().join("out.parquet"));
    let cases = [
        ("a 1 10 0 5\na 1 2x 0 6\n", "line 2, column 5: expected a pointer, found `2x 0 6`"),
        ("7: malloc 0x10 8\n7: mallocs 0x10 8\n", "line 2, column 4: expected an action"),
        (
            "1 2 malloc(8)=#1\n1 2 malloc(8)=#\n",
            "line 2, column 16: expected a pointer, found the end of the line",
        ),
        (
            "malloc(8) = 0x10\nfree(0x10\n",
            "line 2, column 10: expected `)`, found the end of the line",
        ),
        (
            "= Start\n@ x + 0x10 0x20\n@ x + 0x20 zz\n",
            "line 3, column 12: expected a size, found `zz`",
        ),
        ("= Start\n@ x < 0x10\n", "line 2, column 1: expected the new block of a realloc (>)"),
        (
            "--5-- malloc(8) = 0x10\n--5-- malloc(9 = 0x20\n",
            "line 2, column 16: expected `)`, found `= 0x20`",
        ),
        (
            "--5-- malloc(8) = 0x10\n--6-- malloc(8) = 0x20\n",
            "line 2: expected a line of the process of the lines above",
        ),
        ("v 10400 3\n+ 10 0 99\n+ 10 0 q\n", "line 3, column 8: expected a pointer, found `q`"),
        ("a 0 8\na 1\n", "line 2, column 4: expected a size, found the end of the line"),
        (
            "10\n1\n3\n1\na 0 8\nf 0\n",
            "line 6: expected 3 operations, as its third line states, found 2",
        ),
        (
            "a 0 8\nf 1\n",
            "line 2: expected the address of a live block, found 1, which is not live",
        ),
        (
            "Allocate a 8\nAllocate b\n",
            "line 2, column 11: expected a size, found the end of the line",
        ),
        (
            "Alloc(8),\nFree(1),\n",
            "line 2: expected the address of a live block, found the block of this line",
        ),
        ("hello\nworld\n", "line 1: no known trace format begins with `hello`"),
        ("\n# c\n\nwhat 1\n", "line 4: no known trace format"),
    ];
    for (text, expected) in cases {
        std::fs::write(&input, text).unwrap();
        let message = read(&input, &output, &options(false)).unwrap_err().to_string();
        assert!(message.contains(expected), "{text:?}: {message}");
        assert!(
            !output.exists() && !folder.path().join("out.parquet.partial").exists(),
            "{text:?}"
        );
    }
}

#[test]
fn thread_id_may_be_reused() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.txt"), folder.path().join("out.parquet"));
    let text = "5: malloc 0x10 8\n6: malloc 0x20 8\n5: thread_done 0x0\n6: free 0x10\n5: free \
        0x20\n";
    std::fs::write(&input, text).unwrap();
    let (summary, events, metadata) = read(&input, &output, &options(false)).unwrap();
    assert_eq!(events.iter().map(|event| event.thread).collect::<Vec<_>>(), [0, 1, 1, 2]);
    assert_eq!(metadata.threads.iter().map(|thread| thread.id).collect::<Vec<_>>(), [5, 6, 5]);
    let kind = "thread id used again after its thread ended: counted as a new thread";
    assert_eq!(summary.repairs.get(kind), Some(&1));
}

#[test]
fn process_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.txt"), folder.path().join("out.parquet"));
    std::fs::write(&input, "1 1 malloc(8)=#1\n2 2 malloc(9)=#1\n2 2 free(#1)\n1 1 free(#1)\n")
        .unwrap();
    let sizes = |options: &Options| -> Vec<u64> {
        let (_, events, _) = read(&input, &output, options).unwrap();
        events.iter().map(|event| event.size).collect()
    };
    assert_eq!(sizes(&Options { process: Some(2), ..Options::default() }), [9, 0]);
    assert_eq!(sizes(&options(true)), [8, 0]);
    let (summary, ..) = read(&input, &output, &options(true)).unwrap();
    assert_eq!(summary.repairs.get("line of another process: left out"), Some(&2));
}

#[test]
fn form_may_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.txt"), folder.path().join("out.parquet"));
    std::fs::write(&input, "f 10 0 5\na 10 20 30\n").unwrap();
    let judy = Options { form: Some(Form::Judy), repair: true, ..Options::default() };
    let (summary, events, _) = read(&input, &output, &judy).unwrap();
    assert_eq!((summary.form, events.len(), events[1].size), ("judy", 2, 0x20));
    let doom3 = Options { form: Some(Form::Doom3), ..Options::default() };
    assert!(
        read(&input, &output, &doom3)
            .unwrap_err()
            .to_string()
            .contains("line 2, column 11: expected a time in ns")
    );
}

#[test]
fn zip_archives_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.zip"), folder.path().join("out.parquet"));
    let whole = std::fs::read(sample("android.zip")).unwrap();
    let failure = |bytes: &[u8]| {
        std::fs::write(&input, bytes).unwrap();
        let outcome = read(&input, &output, &options(false));
        outcome.map(|(summary, ..)| summary).unwrap_err().to_string()
    };
    let mut flipped = whole.clone();
    let directory = whole.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    flipped[directory + 16] ^= 1; // the checksum
    assert!(failure(&flipped).contains("checksum"), "{}", failure(&flipped));
    let two = failure(archive(in_memory(), &["logs/", "logs/a", "logs/b"]).get_ref());
    assert!(two.contains("it holds 2 files") && two.contains("unzip -p FILE"), "{two}");
    let none = failure(archive(in_memory(), &["logs/"]).get_ref());
    assert!(none.contains("it holds 0 files"), "{none}");
}

#[test]
fn zip_archives_can_come_from_a_pipe_and_be_written_to_one() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, output) = (folder.path().join("pipe"), folder.path().join("out.parquet"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let streamed = archive(ZipWriter::new_stream(Vec::new()), &["logs/", "logs/a"]).into_inner();
    let file = streamed.windows(6).rposition(|six| six.starts_with(b"PK\x03\x04")).unwrap();
    assert_eq!(streamed[file + 6] & 8, 8, "sizes and checksum follow the contents");
    std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(&pipe, &streamed).unwrap());
        let (_, events, _) = read(&pipe, &output, &options(false)).unwrap();
        assert_eq!(events.len(), 2);
    });
}

const SMALL: &[u8] = b"a 8 10 0 5\nf 10 0 6\n";

fn in_memory() -> ZipWriter<Cursor<Vec<u8>>> {
    ZipWriter::new(Cursor::new(Vec::new()))
}

/// A zip archive of folders, whose names end with a slash, and of files with a small trace.
fn archive<W: Write + Seek>(mut writer: ZipWriter<W>, names: &[&str]) -> W {
    for name in names {
        let options = zip::write::SimpleFileOptions::default();
        match name.strip_suffix('/') {
            Some(folder) => writer.add_directory(folder, options).unwrap(),
            None => {
                writer.start_file(*name, options).unwrap();
                writer.write_all(SMALL).unwrap();
            }
        }
    }
    writer.finish().unwrap()
}

/// A journal of random operations that keeps all rules.
fn journal() -> impl Strategy<Value = (Vec<Event>, Metadata)> {
    let step = (0_u8..7, 0_u64..5000, 0_u32..5, 0_u32..3, any::<u16>(), 0_u64..4_000_000);
    prop::collection::vec(step, 1..120).prop_map(|steps| {
        let (mut events, mut live, mut created, mut time) = (Vec::new(), Vec::new(), 0, 0);
        for (kind, size, power, thread, pick, pause) in steps {
            time += pause / 1000 * 1000;
            let mut event = Event {
                time,
                begin: time,
                thread,
                op: Op::Malloc,
                size,
                align: 0,
                created: 0,
                released: 0,
                ..Event::at(0, Op::Malloc)
            };
            if kind < 2 && !live.is_empty() {
                (event.op, event.size) = (Op::Free, 0);
                let (object, size, align): (u64, u64, u64) =
                    live.swap_remove(usize::from(pick) % live.len());
                event.released = object;
                event.free_hint = match (kind, power) {
                    (0, 0..3) => FreeHint::NONE,
                    (0, _) => FreeHint::wrong(Some(size + 1), None),
                    (_, _) if align == 0 => FreeHint::SIZE,
                    (_, 0..2) => FreeHint::ALIGN,
                    (_, _) => FreeHint::BOTH,
                };
            } else {
                created += 1;
                event.created = created;
                match kind {
                    2 => event.op = Op::Calloc,
                    3 => (event.op, event.align) = (Op::Aligned, 16 << power),
                    4 => event.op = Op::Realloc,
                    5 if !live.is_empty() => {
                        event.op = Op::Realloc;
                        event.released = live.swap_remove(usize::from(pick) % live.len()).0;
                    }
                    _ => {}
                }
                live.push((created, event.size, event.align));
            }
            events.push(event);
        }
        (events, Metadata { clock: "text".to_owned(), ..Metadata::default() })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Any journal exported to a form is imported as a journal J; J exported and imported again is
    /// J.
    #[test]
    fn any_journal_comes_back_from_every_form((events, metadata) in journal()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.parquet");
        let mut writer = Writer::create(&path).unwrap();
        writer.push_batch(&events).unwrap();
        writer.finish(metadata).unwrap();
        for form in Form::ALL {
            let text = folder.path().join("text");
            std::fs::write(&text, write(&path, form)).unwrap();
            let named = Options { form: Some(form), ..Options::default() };
            let first = folder.path().join("first.parquet");
            let second = folder.path().join("second.parquet");
            let (_, once, _) = read(&text, &first, &named).unwrap();
            std::fs::write(&text, write(&first, form)).unwrap();
            let (_, twice, _) = read(&text, &second, &named).unwrap();
            prop_assert_eq!(&once, &twice, "{:?}", form);
            if form == Form::Doom3 {
                // This form keeps everything except the numbers of the threads.
                let brief = |events: &[Event]| -> Vec<(Op, u64, u64, u64, u64, u64, FreeHint)> {
                    let row = |e: &Event| {
                        (e.op, e.size, e.align, e.created, e.released, e.time, e.free_hint)
                    };
                    events.iter().map(row).collect()
                };
                prop_assert_eq!(brief(&events), brief(&once));
            }
            let bytes = |events: &[Event]| events.iter().map(|event| event.size).sum::<u64>();
            prop_assert_eq!(bytes(&events), bytes(&once), "{:?}", form);
        }
    }

    /// Lines of all forms in any order, truncated anywhere, give a journal that keeps all rules, or
    /// an error, and never a panic.
    #[test]
    fn mixed_lines_never_panic(
        picks in prop::collection::vec((0_usize..LINES.len(), 0_usize..60), 1..60),
        repair in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("in.txt"), folder.path().join("out.parquet"));
        let lines: Vec<&str> = picks.iter().map(|(pick, cut)| {
            let line = LINES[*pick];
            if *cut < 8 { &line[..line.len().min(*cut)] } else { line }
        }).collect();
        std::fs::write(&input, lines.join("\n")).unwrap();
        drop(read(&input, &output, &options(repair)));
        for form in Form::ALL {
            drop(read(&input, &output, &Options { form: Some(form), ..options(repair) }));
        }
    }
}

const LINES: [&str; 28] = [
    "a 8 10 0 5",
    "s 9 10 0 6",
    "d 16 9 10 0 6",
    "--5-- _ZdlPvmSt11align_val_t(0x10)",
    "free_sized(0x10, 8)",
    "f 10 0 6",
    "r 9 10 20 0 7",
    "m 24 8 30 0 8",
    "a 10 20 30",
    "0x10 = JudyMalloc(4)",
    "0x10 4 = j__udyAllocJBL(), Words = 3",
    "7: malloc 0x10 8 5 6",
    "7: free 0x10",
    "7: thread_done 0x0",
    "1 2 malloc(8)=#1",
    "1 2 free(#1)",
    "malloc(8) = 0x10",
    "realloc(0x10, 8) = 0x20",
    "= Start",
    "@ x + 0x10 0x8",
    "@ x < 0x10",
    "@ x > 0x20 0x9",
    "--5-- malloc(8) = 0x10",
    "v 10400 3",
    "+ 0",
    "- 0",
    "a 0 8",
    "Allocate a 8",
];

#[test]
fn blocks_at_the_first_moment_are_a_prologue_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (text, journal) = (folder.path().join("cut.txt"), folder.path().join("cut.parquet"));
    std::fs::write(
        &text,
        "a 16 0x10 0 50\na 32 0x20 1 50\nf 0x10 0 50\na 64 0x30 0 50\nf 0x20 1 70\n",
    )
    .unwrap();
    let asked = Options { prologue: true, ..Options::default() };
    // What follows the first operation of another kind is the program's, whatever its time.
    assert_eq!(read(&text, &journal, &asked).unwrap().2.prologue, 2);
    assert_eq!(read(&text, &journal, &Options::default()).unwrap().2.prologue, 0);
    std::fs::write(&text, "malloc(16) = 0x10\nmalloc(16) = 0x20\n").unwrap();
    std::fs::remove_file(&journal).unwrap();
    let error = read(&text, &journal, &asked).unwrap_err().to_string();
    assert!(error.contains("have no times") && error.contains("without --prologue"), "{error}");
    assert!(!journal.exists());
}

/// A small file can hold a very long text, and a decoder may need gigabytes for its window.
#[test]
fn decompression_is_bounded() {
    use keel_import::Limits;
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.journal.parquet");
    let text = b"a 8 10 0 5\nf 10 0 6\n".repeat(100_000);
    let limits = |unpacked_bytes| Limits { unpacked_bytes, ..Limits::default() };
    let run = |path: &Path, limits, frames: Option<&Path>| {
        let frames = frames.map(Path::to_path_buf);
        let options = Options { limits, frames, repair: true, ..Options::default() };
        import(&[path.to_path_buf()], &output, &options, &mut |_| {})
    };
    let zstd_path = folder.path().join("t.zst");
    std::fs::write(&zstd_path, zstd::encode_all(&text[..], 3).unwrap()).unwrap();
    let gzip_path = folder.path().join("t.gz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&text).unwrap();
    std::fs::write(&gzip_path, gzip.finish().unwrap()).unwrap();
    for path in [&zstd_path, &gzip_path] {
        drop(std::fs::remove_file(&output));
        let error = run(path, limits(1_000_000), None).unwrap_err().to_string();
        assert!(error.contains("more than 1000000 bytes") && error.contains("--max-unpacked"));
        assert!(!output.exists());
        assert_eq!(run(path, limits(10_000_000), None).unwrap().text_bytes, text.len() as u64);
    }
    // A plain text is as long as its file.
    let plain = folder.path().join("t.txt");
    std::fs::write(&plain, &text).unwrap();
    assert!(run(&plain, limits(1000), None).is_ok());

    let frames = folder.path().join("frames");
    std::fs::write(&frames, "F 10\n".repeat(100_000)).unwrap();
    let error = run(&plain, limits(1 << 20), Some(&frames)).unwrap_err().to_string();
    assert!(error.contains("frames") && error.contains("more than 4096 bytes"), "{error}");

    // A frame that demands a window of 1 GiB.
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(30).unwrap();
    encoder.write_all(&text).unwrap();
    let long = folder.path().join("long.zst");
    std::fs::write(&long, encoder.finish().unwrap()).unwrap();
    let error = run(&long, Limits::default(), None).unwrap_err().to_string();
    assert!(error.contains("--zstd-window 31"), "{error}");
    assert!(run(&long, Limits { zstd_window_log: 31, ..Limits::default() }, None).is_ok());
}
