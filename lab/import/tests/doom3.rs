//! Import of text journals: the operations, the exact positions of faults, the repairs.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use keel_import::{Error, Options, Summary, import};
use keel_journal::{Event, Op, Reader, Rules};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

struct Case {
    folder: tempfile::TempDir,
    inputs: Vec<PathBuf>,
    options: Options,
}

impl Case {
    fn new(texts: &[&[u8]]) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let input = |(index, text): (usize, &&[u8])| {
            let path = folder.path().join(format!("part{index}.txt"));
            std::fs::write(&path, text).unwrap();
            path
        };
        let inputs = texts.iter().enumerate().map(input).collect();
        Case { folder, inputs, options: Options::default() }
    }

    fn repairing(mut self) -> Case {
        self.options.repair = true;
        self
    }

    fn with_frames(mut self, text: &[u8]) -> Case {
        let path = self.folder.path().join("frames");
        std::fs::write(&path, text).unwrap();
        self.options.frames = Some(path);
        self
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("out.parquet")
    }

    fn run(&self) -> Result<Summary, Error> {
        import(&self.inputs, &self.output(), &self.options, &mut |_| {})
    }

    /// The events, after checking every rule.
    fn events(&self) -> Vec<Event> {
        let summary = self.run().unwrap();
        let reader = Reader::open(self.output()).unwrap();
        let events: Vec<Event> = reader.events().map(|event| event.unwrap()).collect();
        assert_eq!(summary.rows, events.len() as u64);
        let mut rules = Rules::new(reader.metadata()).unwrap();
        for event in &events {
            rules.check(event).unwrap();
        }
        events
    }

    /// The error message, after checking that no output file is left.
    fn failure(&self) -> String {
        let error = self.run().unwrap_err().to_string();
        let left: Vec<_> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(
            !left.iter().any(|path| path.to_string_lossy().contains("out.parquet")),
            "{left:?}"
        );
        error
    }
}

/// `(op, size, align, created, released, thread, time, frame)`
type Brief = (Op, u64, u64, u64, u64, u32, u64, u32);

fn brief(events: &[Event]) -> Vec<Brief> {
    let row = |e: &Event| (e.op, e.size, e.align, e.created, e.released, e.thread, e.time, e.frame);
    events.iter().map(row).collect()
}

const BLOG: &str = "a 2048 0000023101F264A0 15888 542200\r\na 1280 0000023101F28020 15888 \
    1098100\r\nf 0000023101F28020 15888 1142000\r\na 1280 0000023101F28020 7 1171200\r\n";

#[test]
fn journal_of_the_blog_is_read() {
    let case = Case::new(&[BLOG.as_bytes()]);
    let expected = vec![
        (Op::Malloc, 2048, 0, 1, 0, 0, 542_200, 0),
        (Op::Malloc, 1280, 0, 2, 0, 0, 1_098_100, 0),
        (Op::Free, 0, 0, 0, 2, 0, 1_142_000, 0),
        (Op::Malloc, 1280, 0, 3, 0, 1, 1_171_200, 0),
    ];
    assert_eq!(brief(&case.events()), expected);
    let reader = Reader::open(case.output()).unwrap();
    let threads: Vec<u64> = reader.metadata().threads.iter().map(|thread| thread.id).collect();
    assert_eq!(threads, [15888, 7]);
    assert_eq!(reader.metadata().clock, "text");
}

#[test]
fn extension_and_frames_are_read() {
    let text =
        b"# a comment\n\nc 100 10 0 5\nr 200 0 0x20 0 10\nr 300 10 10 1 20\nm 64 7 30 1 20\n\
                 f 20 0 30\nf 10 0 31";
    let case = Case::new(&[text]).with_frames(b"F 10\r\nF 20\nF 30\n");
    let expected = vec![
        (Op::Calloc, 100, 0, 1, 0, 0, 5, 0),
        (Op::Realloc, 200, 0, 2, 0, 0, 10, 1),
        (Op::Realloc, 300, 0, 3, 1, 1, 20, 2),
        (Op::Aligned, 7, 64, 4, 0, 1, 20, 2),
        (Op::Free, 0, 0, 0, 2, 0, 30, 3),
        (Op::Free, 0, 0, 0, 3, 0, 31, 3),
    ];
    assert_eq!(brief(&case.events()), expected);
    assert_eq!(Reader::open(case.output()).unwrap().metadata().frames, [10, 20, 30]);
}

#[test]
fn compression_parts_and_byte_order_marks_do_not_change_the_events() {
    let whole = Case::new(&[BLOG.as_bytes()]).events();
    let packed = zstd::encode_all(BLOG.as_bytes(), 3).unwrap();
    assert_eq!(Case::new(&[&packed]).events(), whole);
    let half = BLOG.find("f 000").unwrap();
    let (first, second) = BLOG.as_bytes().split_at(half);
    let second_packed = zstd::encode_all(second, 3).unwrap();
    assert_eq!(Case::new(&[first, &second_packed]).events(), whole);
    let marked = [b"\xef\xbb\xbf", BLOG.as_bytes()].concat();
    assert_eq!(Case::new(&[&marked]).events(), whole);
    let packed = zstd::encode_all(&b"F 1\n"[..], 3).unwrap();
    for frames in [&packed[..], b"\xef\xbb\xbfF 1\n"] {
        assert_eq!(Case::new(&[BLOG.as_bytes()]).with_frames(frames).run().unwrap().frames, 1);
    }
}

#[test]
fn lines_may_cross_blocks() {
    let mut text = Vec::new();
    for index in 0..200_000_u64 {
        text.extend_from_slice(
            format!("a {} {:x} {} {}\n", index % 999, index + 1, index % 3, index * 11).as_bytes(),
        );
    }
    assert!(text.len() > 3 << 20);
    let events = Case::new(&[&text]).events();
    assert_eq!(events.len(), 200_000);
    assert!(events.iter().enumerate().all(|(index, event)| event.size == index as u64 % 999));
    text.extend_from_slice(b"bad\n");
    assert!(Case::new(&[&text]).failure().contains("line 200001, column 1: expected an operation"));
}

#[test]
fn faults_have_exact_positions() {
    let cases = [
        (
            "a 1 10 0 5\nhello\n",
            "line 2, column 1: expected an operation (a, f, c, r, m, s, l or d), found `hello`",
        ),
        (
            "a 1 10 0 5\r\n\r\na 1 20 0\r\n",
            "line 3, column 9: expected a time in ns, found the end of the line",
        ),
        (
            "# c\na 1 10 0 5\na 1 10 0 6\n",
            "line 3: expected an address that is not live, found 10, which was",
        ),
        (
            "a 1 10 0 5\na 1 20 0 4\n",
            "line 2: expected a time of at least 5 ns, that of the line above, found 4",
        ),
        ("m 24 1 10 0 5\n", "line 1: expected an alignment that is a power of two, found 24"),
        (
            "a 99999999999999999999 10 0 5\n",
            "line 1, column 3: expected a size, found `99999999999999999999 10 0 5`",
        ),
    ];
    for (text, expected) in cases {
        let failure = Case::new(&[text.as_bytes()]).failure();
        assert!(failure.contains(expected) && failure.contains("part0.txt"), "{text:?}: {failure}");
    }
    let second_part = Case::new(&[b"a 1 10 0 5\n", b"f 10 0 6\nf 10 0 5\n"]).failure();
    assert!(second_part.contains("part1.txt, line 2"), "{second_part}");
    let frames = Case::new(&[b"a 1 10 0 5\n"]).with_frames(b"F 5\nF 4\n").failure();
    assert!(frames.contains("frames, line 2: expected a time of at least 5 ns"), "{frames}");
}

#[test]
fn repairs_are_applied_and_counted() {
    let text =
        b"f 99 0 1\na 8 10 0 5\na 8 10 0 4\nf 0 0 6\nf 10 0 7\nf 10 0 8\nr 9 77 20 0 9\nm 24 1 30 \
            0 9\na 5 0 0 9\na 1 4";
    let case = Case::new(&[text]).with_frames(b"F 5\nF 4\n").repairing();
    let expected = vec![
        (Op::ForeignFree, 0, 0, 0, 0, 0, 1, 0),
        (Op::Malloc, 8, 0, 1, 0, 0, 5, 2),
        (Op::Free, 0, 0, 0, 1, 0, 5, 2),
        (Op::Malloc, 8, 0, 2, 0, 0, 5, 2),
        (Op::Free, 0, 0, 0, 2, 0, 7, 2),
        (Op::ForeignFree, 0, 0, 0, 0, 0, 8, 2),
        (Op::ForeignRealloc, 9, 0, 3, 0, 0, 9, 2),
        (Op::Aligned, 1, 32, 4, 0, 0, 9, 2),
    ];
    assert_eq!(brief(&case.events()), expected);
    let metadata = Reader::open(case.output()).unwrap().metadata().clone();
    assert_eq!(metadata.foreign, 3);
    let mut counts: Vec<(&str, u64)> =
        metadata.repairs.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    counts.sort_unstable();
    let expected = [
        ("alignment not a power of two: rounded up", 1),
        ("allocation of a live address: the old block freed first", 1),
        ("allocation that returned NULL: left out", 1),
        ("free of NULL: left out", 1),
        (
            "free of an unknown block (from before the trace, or freed twice): kept as a foreign \
             free",
            2,
        ),
        ("incomplete last line: left out", 1),
        (
            "realloc of an unknown block (from before the trace, or freed): kept as a foreign \
             realloc",
            1,
        ),
        ("time before that of the line above: raised to it", 1),
    ];
    assert_eq!(counts, expected);
}

#[test]
fn huge_sizes_are_kept() {
    let text = b"a 9223372036854775807 10 0 5\na 1099511627776 20 0 5\nf 10 0 \
        9223372036854775807\n";
    let events = Case::new(&[text]).events();
    assert_eq!(
        (events[0].size, events[1].size, events[2].time),
        (i64::MAX as u64, 1 << 40, i64::MAX as u64)
    );
}

#[test]
fn inputs_that_are_not_text_journals_are_recognised() {
    let packed = zstd::encode_all(BLOG.as_bytes(), 3).unwrap();
    let cases: [(&[u8], &str); 7] = [
        (b"", "contains no operations"),
        (b"# nothing\n\n", "contains no operations"),
        (b"PAR1....", "Parquet"),
        (b"BZh91AY", "bzip2 -dc FILE"),
        (&[0xff, 0xfe, b'a', 0], "iconv"),
        (&packed[..packed.len() - 9], "cannot read"),
        (&[7; 3 << 20], "no line break"),
    ];
    for (bytes, expected) in cases {
        let failure = Case::new(&[bytes]).failure();
        assert!(failure.contains(expected), "{failure} lacks {expected}");
    }
    let missing =
        import(&["/nonexistent".into()], Path::new("/tmp/x"), &Options::default(), &mut |_| {});
    assert!(missing.unwrap_err().to_string().contains("cannot read /nonexistent"));
}

/// Text that is nearly a text journal.
fn nearly() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        (0u64..50, 0u64..9, 0u64..3, 0u64..99)
            .prop_map(|(size, ptr, tid, ns)| format!("a {size} {ptr:x} {tid} {ns}")),
        (0u64..9, 0u64..3, 0u64..99).prop_map(|(ptr, tid, ns)| format!("f {ptr:X} {tid} {ns}\r")),
        (0u64..9, 0u64..9, 0u64..99)
            .prop_map(|(old, new, ns)| format!("r 5 {old:x} 0x{new:x} 0 {ns}")),
        (0u64..99, 0u64..9, 0u64..99)
            .prop_map(|(align, ptr, ns)| format!("m {align} 6 {ptr:x} 0 {ns}")),
    ];
    prop::collection::vec(line, 1..80).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn repaired_journals_keep_every_rule(text in nearly()) {
        let case = Case::new(&[text.as_bytes()]).repairing();
        match case.run() {
            Ok(_) => drop(case.events()),
            Err(error) => {
                let expected = matches!(error, Error::Empty { .. } | Error::Unknown { .. });
                prop_assert!(expected, "{error}");
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        repair in any::<bool>(),
    ) {
        let mut case = Case::new(&[&bytes]).with_frames(&bytes);
        case.options.repair = repair;
        drop(case.run());
        case.options.frames = None;
        drop(case.run());
        let packed = zstd::encode_all(&bytes[..], 1).unwrap();
        let cut = packed.len() * 2 / 3;
        drop(Case::new(&[&packed[..cut]]).run());
    }

    #[test]
    fn arbitrary_letters_never_panic(text in "[afcrmF0-9xa-f #\r\n-]{0,200}") {
        drop(Case::new(&[text.as_bytes()]).run());
        drop(Case::new(&[text.as_bytes()]).repairing().run());
    }
}
