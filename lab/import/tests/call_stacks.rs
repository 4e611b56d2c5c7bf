//! Call stacks of imported traces.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use keel_import::{Options, import};
use keel_journal::{Event, Op, Origin, Reader, Rules};
use std::path::{Path, PathBuf};

struct Imported {
    events: Vec<Event>,
    origins: Vec<Origin>,
    reader: Reader,
    _folder: tempfile::TempDir,
}

fn imported(input: &Path) -> Imported {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.journal.parquet");
    import(&[input.to_path_buf()], &output, &Options::default(), &mut |_| {}).unwrap();
    let reader = Reader::open(&output).unwrap();
    let (mut events, mut origins) = (Vec::new(), Vec::new());
    let (mut batches, mut some, mut theirs) = (reader.batches(), Vec::new(), Vec::new());
    while batches.next_with_origins(&mut some, &mut theirs).unwrap() {
        events.append(&mut some);
        origins.append(&mut theirs);
    }
    let mut rules = Rules::new(reader.metadata()).unwrap();
    for (event, origin) in events.iter().zip(&origins) {
        rules.check(event).and_then(|()| rules.check_origin(*origin)).unwrap();
    }
    Imported { events, origins, reader, _folder: folder }
}

impl Imported {
    /// The named calls of a row, innermost first, as `function file:line`.
    fn calls(&self, row: usize) -> Vec<String> {
        let stacks = &self.reader.metadata().stacks;
        let sites = stacks.walk_indices(self.origins[row].stack);
        let name = |name: &keel_journal::NamedCall| {
            let file = name.file.rsplit('/').next().unwrap();
            format!("{} {file}:{}", name.function, name.line)
        };
        sites.flat_map(|site| stacks.names_of(site).iter().map(name)).collect()
    }

    /// The first allocation of this size.
    fn allocation(&self, size: u64) -> usize {
        self.events.iter().position(|event| event.size == size).unwrap()
    }
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(name)
}

#[test]
fn memray_files_have_the_stacks_of_python() {
    let level = imported(&sample("memray.bin"));
    assert_eq!((level.events.len(), level.reader.metadata().threads.len()), (101, 2));
    // memray's own reader shows the same calls.
    assert_eq!(
        level.calls(level.allocation(4007)),
        [
            "load level.py:5",
            "<listcomp> level.py:8",
            "load_level level.py:8",
            "<module> level.py:15"
        ]
    );
    let short = level.allocation(9001);
    assert_eq!(level.calls(short)[0], "churn level.py:12");
    assert_eq!(level.reader.metadata().threads[level.events[short].thread as usize].name, "worker");
    let freed = level.events.iter().position(|event| event.op == Op::Free).unwrap();
    assert_eq!(level.origins[freed], Origin::UNKNOWN, "memray records no stacks of frees");
    let metadata = level.reader.metadata();
    assert_eq!((metadata.program.as_str(), metadata.clock.as_str()), ("level.py", "text"));
    assert_eq!(metadata.repairs["call of mmap or munmap: left out"], 2);
}

#[test]
fn memray_files_may_be_damaged_or_of_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.bin"), folder.path().join("out.parquet"));
    let error = |bytes: &[u8], options: &Options| {
        std::fs::write(&input, bytes).unwrap();
        let outcome = import(std::slice::from_ref(&input), &output, options, &mut |_| {});
        outcome.map(|summary| summary.rows).map_err(|error| error.to_string())
    };
    let whole = {
        let mut text = Vec::new();
        let file = std::fs::File::open(sample("memray.bin")).unwrap();
        std::io::copy(&mut lz4_flex::frame::FrameDecoder::new(file), &mut text).unwrap();
        text
    };
    let strict = Options::default();
    assert_eq!(error(&whole, &strict), Ok(101), "not compressed");
    let mut other = whole.clone();
    other[7] = 14;
    assert!(error(&other, &strict).unwrap_err().contains("in format 14; record with memray"));
    let mut sums = whole.clone();
    sums[16] = 1;
    assert!(error(&sums, &strict).unwrap_err().contains("record without --aggregate"));
    // The record that switches to thread 1; 9 is no kind of record.
    let switch = [12, 1, 0, 0, 0, 0, 0, 0, 0];
    let start = whole.windows(9).position(|bytes| bytes == switch).unwrap();
    let mut unknown = whole.clone();
    unknown[start] = 9;
    let message = error(&unknown, &strict).unwrap_err();
    assert!(message.contains("expected a known kind of record"), "{message}");
    assert!(message.contains(&format!("byte {start}")), "{message}");
    // Wherever the file is cut off, it is read, or there is a message.
    let repair = Options { repair: true, ..Options::default() };
    let outcome = |length: usize| {
        let cut = &whole[..length];
        (error(cut, &strict).is_ok(), error(cut, &repair).is_ok())
    };
    let outcomes: Vec<(bool, bool)> = (0..whole.len()).step_by(61).map(outcome).collect();
    assert!(outcomes.contains(&(false, true)), "within a record: {outcomes:?}");
    assert!(!outcomes.contains(&(true, false)) && !outcomes[0].1, "{outcomes:?}");
    // A changed byte gives other rows or a message.
    for (at, bit) in (0..whole.len()).step_by(23).zip((0..8).cycle()) {
        let mut changed = whole.clone();
        changed[at] ^= 1 << bit;
        drop(error(&changed, &repair));
    }
}

#[test]
fn heaptrack_files_have_their_stacks() {
    let named = imported(&sample("heaptrack.gz"));
    let row = named.allocation(4096);
    assert_eq!(named.calls(row).last().unwrap(), "_start :0", "{:?}", named.calls(row));
    let main = named.calls(row).into_iter().find(|call| call.starts_with("main "));
    assert_eq!(main.unwrap(), "main threads.cc:5");
    let modules = &named.reader.metadata().modules;
    let module = |row: usize| modules[named.origins[row].module as usize].path.as_str();
    assert_eq!(module(row), "/lib/x86_64-linux-gnu/libc.so.6");

    // The raw file has addresses in modules.
    let raw = imported(&sample("heaptrack-raw.zst"));
    let metadata = raw.reader.metadata();
    let sites: Vec<(&str, u64)> = metadata
        .stacks
        .walk(raw.origins[raw.allocation(4096)].stack)
        .map(|(module, offset)| (metadata.modules[module as usize].path.as_str(), offset))
        .collect();
    assert!(sites.contains(&("/tmp/sample/threads", 0x13d3)), "{sites:x?}");
    assert!(metadata.stacks.names.is_empty());
}

#[test]
fn mtrace_files_have_one_call_for_each_operation() {
    let sample = imported(&sample("mtrace.txt"));
    let calls: Vec<String> = (0..sample.events.len()).flat_map(|row| sample.calls(row)).collect();
    assert_eq!(calls.len(), sample.events.len());
    assert!(calls.contains(&"_IO_file_doallocate :0".to_owned()), "{calls:?}");
    assert!(calls.contains(&"sample+0x11e0 :0".to_owned()), "{calls:?}");
}
