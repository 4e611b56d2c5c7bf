//! What real traces contain is imported and counted: calls without effect, blocks from before the
//! trace, operations behind a program's own text, files that were cut off. A file that is no trace
//! is named.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use keel_import::{Options, Summary, import};
use keel_journal::{Event, Op, Reader};
use std::io::Write;

/// Imports a file with these bytes; its summary and events, or the message.
fn imported(bytes: &[u8], repair: bool) -> Result<(Summary, Vec<Event>), String> {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("trace"), folder.path().join("out.parquet"));
    std::fs::write(&input, bytes).unwrap();
    let options = Options { repair, ..Options::default() };
    let summary =
        import(&[input], &output, &options, &mut |_| {}).map_err(|error| error.to_string())?;
    let events = Reader::open(&output).unwrap().events().map(|event| event.unwrap()).collect();
    Ok((summary, events))
}

fn repairs(text: &str) -> (usize, Vec<(String, u64)>) {
    let (summary, events) = imported(text.as_bytes(), false).unwrap_or_else(|message| {
        panic!("{text:?}: {message}");
    });
    (events.len(), summary.repairs.into_iter().collect())
}

const NULL: &str = "free of NULL: left out";
const UNKNOWN: &str =
    "free of an unknown block (from before the trace, or freed twice): kept as a foreign free";
const FAILED: &str = "allocation that returned NULL: left out";
const EMPTIED: &str = "realloc to 0 bytes that returned NULL: kept as a free";

/// A trace, the number of its operations in the journal, and its notes with their counts.
type Case<'a> = (&'a str, usize, &'a [(&'a str, u64)]);

#[test]
fn legal_calls_are_counted_in_every_form() {
    let cases: [Case; 12] = [
        ("a 8 10 0 5\nf 0 0 5\nf 20 0 6\n", 2, &[(NULL, 1), (UNKNOWN, 1)]),
        ("7: malloc 0x10 8\n7: free 0x0\n7: free 0x20\n", 2, &[(NULL, 1), (UNKNOWN, 1)]),
        ("7: malloc 0x10 8\n7: realloc 0x0 0x10 0\n", 2, &[(EMPTIED, 1)]),
        ("1 2 malloc(8)=#1\n1 2 free(#0)\n1 2 free(#7)\n", 2, &[(NULL, 1), (UNKNOWN, 1)]),
        ("malloc(8) = 0x10\nfree(0x0)\nfree(0x20)\n", 2, &[(NULL, 1), (UNKNOWN, 1)]),
        ("malloc(8) = 0x10\nmalloc(1099511627776) = 0x0\n", 1, &[(FAILED, 1)]),
        ("= Start\n@ x + 0x10 0x8\n@ x - (nil)\n@ x - 0x20\n", 2, &[(NULL, 1), (UNKNOWN, 1)]),
        (
            "--5-- malloc(8) = 0x10\n--5-- free(0x0)\n--5-- free(0x20)\n",
            2,
            &[(NULL, 1), (UNKNOWN, 1)],
        ),
        // Attached to a process.
        ("v 10400 3\nA\n- 10\n+ 8 0 20\n- 0\n", 2, &[(NULL, 1), (UNKNOWN, 1)]),
        ("v 10400 3\nA\na 8 0\n- 0\n+ 0\n", 2, &[(UNKNOWN, 1)]),
        ("20000\n1\n3\n1\na 0 512\nf -1\nf 0\n", 2, &[(NULL, 1)]),
        // A realloc of NULL is an allocation.
        ("20000\n1\n3\n1\nr 0 16\nr 0 32\nf 0\n", 3, &[]),
    ];
    for (text, rows, expected) in cases {
        let expected: Vec<(String, u64)> =
            expected.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
        assert_eq!(repairs(text), (rows, expected), "{text:?}");
    }
    // Each number of these forms comes from an allocation of the trace.
    for text in ["a 0 8\nf 1\n", "Alloc(8),\nFree(1),\n", "Allocate a 8\nFree b\n"] {
        assert!(imported(text.as_bytes(), false).is_err(), "{text:?}");
    }
}

#[test]
fn operations_behind_a_programs_text_are_read() {
    let valgrind = "==6-- Memcheck\nloading... --6-- malloc(100) = 0x40\n50%--6-- malloc(2) = \
        0x50\n--6-- free(0x40)\ndone\n";
    let sizes = |events: &[Event]| events.iter().map(|event| event.size).collect::<Vec<_>>();
    let (_, events) = imported(valgrind.as_bytes(), false).unwrap();
    assert_eq!(sizes(&events), [100, 2, 0]);
    let logalloc = "hello\nready 1 1 malloc(8)=#1\n1 1 malloc(9)=#2\nbye\n1 1 free(#1)\n";
    assert_eq!(sizes(&imported(logalloc.as_bytes(), false).unwrap().1), [8, 9, 0]);
    // The only number of old lines is the process.
    let old = "100 malloc(42)=0x1000\n200 malloc(24)=0x1000\n100 free(0x1000)\n";
    let message = imported(old.as_bytes(), false).unwrap_err();
    assert!(message.contains("--process ID"), "{message}");
    assert_eq!(sizes(&imported(old.as_bytes(), true).unwrap().1), [42, 0]);
}

/// A trace of these numbers of lines, which cannot be compressed well.
fn trace(lines: u64) -> Vec<u8> {
    let mut text = Vec::new();
    for line in 1..=lines {
        let size = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
        writeln!(text, "a {size} {:x} 0 {line}", line * 64).unwrap();
    }
    text
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn lz4(text: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn archive(text: &[u8]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    writer.start_file("trace.txt", zip::write::SimpleFileOptions::default()).unwrap();
    writer.write_all(text).unwrap();
    writer.finish().unwrap().into_inner()
}

#[test]
fn a_cut_file_gives_what_is_there() {
    const LINES: u64 = 200_000;
    let text = trace(LINES);
    let packed = [
        ("zst", zstd::encode_all(&text[..], 3).unwrap()),
        ("gz", gzip(&text)),
        ("lz4", lz4(&text)),
        ("zip", archive(&text)),
    ];
    for (form, packed) in packed {
        assert_eq!(imported(&packed, false).unwrap().0.rows, LINES, "{form}");
        let cut = &packed[..packed.len() * 9 / 10];
        let message = imported(cut, false).unwrap_err();
        assert!(message.contains("--repair"), "{form}: {message}");
        let (summary, events) = imported(cut, true).unwrap();
        // The last block of zstd and LZ4 is lost: 128 KiB to 4 MiB of text.
        assert!(summary.rows > LINES / 5, "{form}: {} rows", summary.rows);
        assert!(summary.rows < LINES, "{form}: {} rows", summary.rows);
        let kind = "compressed data cut off or damaged: the rest left out";
        assert_eq!(summary.repairs[kind], 1, "{form}");
        let whole = imported(&text, false).unwrap().1;
        assert_eq!(events, whole[..events.len()], "{form}: no row is made of half a line");
    }
}

/// The first bytes of a capture file of memray with this format.
fn memray_header(format: u32) -> Vec<u8> {
    let mut bytes = b"memray\0".to_vec();
    bytes.extend(format.to_le_bytes());
    bytes.push(0); // no native stacks
    if format >= 10 {
        bytes.push(0); // all allocations
    }
    bytes.extend([0; 32]);
    bytes.extend(b"level.py fast\0");
    bytes.extend(77_u32.to_le_bytes());
    if format >= 9 {
        bytes.extend(1_u64.to_le_bytes()); // the main thread
        bytes.extend(1_u64.to_le_bytes()); // one call of memray's own
    }
    bytes.push(1); // pymalloc
    if format >= 11 {
        bytes.push(0);
    }
    bytes
}

/// A signed difference below 2^20.
fn signed(value: i64) -> Vec<u8> {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    let mut bytes = Vec::new();
    while rest > 127 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

#[test]
fn captures_of_every_memray_are_read() {
    for format in 8..=11 {
        let mut bytes = memray_header(format);
        let mut record = |parts: &[&[u8]]| bytes.extend(parts.concat());
        record(&[&[12], &1_u64.to_le_bytes()]); // thread 1
        record(&[&[3], &signed(0), b"run\0memray.py\0", &signed(5)]);
        record(&[&[4], &signed(0)]);
        record(&[&[3], &signed(1), b"load\0level.py\0", &signed(4)]);
        record(&[&[4], &signed(0)]);
        record(&[&[0x11], &signed(0x1000), &[100]]); // malloc
        record(&[&[11], &[0], &[25]]); // 25 ms
        record(&[&[0x31], &signed(0x40), &[24]]); // calloc
        record(&[&[0xa1], &signed(0x100), &[9]]); // mmap
        record(&[&[0x09]]); // a function is left
        record(&[&[0x21], &signed(-0x140)]); // free
        record(&[&[0x21], &signed(0x10)]); // free of a block from before
        record(&[&[0x10]]);
        let (summary, events) = imported(&bytes, false).unwrap();
        let brief: Vec<(Op, u64, u64)> =
            events.iter().map(|event| (event.op, event.size, event.time)).collect();
        let ns = 25_000_000;
        let expected = [
            (Op::Malloc, 100, 0),
            (Op::Calloc, 24, ns),
            (Op::Free, 0, ns),
            (Op::ForeignFree, 0, ns),
        ];
        assert_eq!((summary.form, brief.as_slice()), ("memray", &expected[..]), "format {format}");
        assert_eq!(summary.repairs["call of mmap or munmap: left out"], 1);
        assert_eq!(summary.repairs[UNKNOWN], 1);
    }
    let message = imported(&memray_header(7), false).unwrap_err();
    assert!(message.contains("format 7; record with memray 1.2"), "{message}");
}

#[test]
fn files_of_profilers_are_named() {
    let files: [(&[u8], &str); 4] = [
        (b"desc: --threshold=1\ncmd: ./p\ntime_unit: i\n#-----\nsnapshot=0\n", "massif"),
        (b"{\"dhatFileVersion\":2\n,\"mode\":\"heap\"\n", "DHAT"),
        (b"heap profile:      3:    96 [     5:   160] @ heapprofile\n", "gperftools"),
        (b"heap_v2/524288\n  t*: 28106: 56637512 [0: 0]\n", "jemalloc"),
    ];
    for (bytes, tool) in files {
        let message = imported(bytes, false).unwrap_err();
        let expected = [tool, "it has no single calls", "keel record --stacks 16"];
        assert!(expected.iter().all(|part| message.contains(part)), "{tool}: {message}");
    }
}
