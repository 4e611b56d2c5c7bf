//! Compiles and records programs of tests/recorder/programs, and reads their journals.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its part; a failed unwrap is a failed test"
)]

use keel_journal::{Event, Metadata, Op, Origin, Reader, Rules};
use keel_record::{Options, Recorded};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap()
}

/// `build/lib/libkeel_recorder.so`, or that of KEEL_PREFIX.
fn recorder() -> PathBuf {
    let prefix =
        std::env::var_os("KEEL_PREFIX").map_or_else(|| root().join("build"), PathBuf::from);
    let library = prefix.join("lib/libkeel_recorder.so");
    assert!(library.is_file(), "{} is missing: run `make build` first", library.display());
    library
}

pub struct Bench {
    pub folder: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        Bench { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a program of tests/recorder/programs.
    pub fn compile(&self, source: &str, flags: &[&str]) -> PathBuf {
        let compiler = if source.ends_with(".cpp") { "c++" } else { "cc" };
        let program = self.path(source.split('.').next().unwrap());
        let mut command = Command::new(compiler);
        command
            .args(["-O1", "-Wall", "-Wno-alloc-size-larger-than", "-fno-builtin", "-pthread", "-o"])
            .arg(&program);
        command.arg(root().join("tests/recorder/programs").join(source)).args(flags);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    pub fn compile_library(&self, source: &str) -> PathBuf {
        let path = self.compile(source, &["-shared", "-fPIC"]);
        let library = self.path(&format!("lib{}.so", source.split('.').next().unwrap()));
        std::fs::rename(path, &library).unwrap();
        library
    }

    /// `libkeel_record.a`, for programs that report the calls of their own allocator.
    pub fn static_library(&self) -> PathBuf {
        recorder().with_file_name("libkeel_record.a")
    }

    pub fn options(&self, program: &Path, arguments: &[&str]) -> Options {
        Options {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            output: self.path("out.journal.parquet"),
            follow_children: false,
            recorder_library: recorder(),
            spool_folder: PathBuf::from("/dev/shm"),
            search_path: std::env::var_os("PATH"),
            ..Options::default()
        }
    }

    pub fn record(&self, program: &Path, arguments: &[&str]) -> (Recorded, Journal) {
        let recorded = keel_record::record(&self.options(program, arguments)).unwrap();
        let journal = whole(&recorded);
        (recorded, journal)
    }
}

/// A journal, with every rule checked.
pub struct Journal {
    pub metadata: Metadata,
    pub events: Vec<Event>,
    pub origins: Vec<Origin>,
}

impl Journal {
    pub fn read(path: &Path) -> Journal {
        Journal::of(&Reader::open(path).unwrap())
    }

    /// As [`Journal::read`]; the rows may be samples.
    pub fn read_any(path: &Path) -> Journal {
        Journal::of(&Reader::open_any(path).unwrap())
    }

    fn of(reader: &Reader) -> Journal {
        let metadata = reader.metadata().clone();
        let mut rules = Rules::new(&metadata).unwrap();
        let (mut events, mut origins) = (Vec::new(), Vec::new());
        let mut batches = reader.batches();
        let (mut batch, mut batch_origins) = (Vec::new(), Vec::new());
        while batches.next_with_origins(&mut batch, &mut batch_origins).unwrap() {
            for (event, origin) in batch.iter().zip(&batch_origins) {
                let sound = rules.check(event).and_then(|()| rules.check_origin(*origin));
                sound.unwrap_or_else(|violation| panic!("{violation}: {event:?}"));
            }
            events.extend_from_slice(&batch);
            origins.extend_from_slice(&batch_origins);
        }
        Journal { metadata, events, origins }
    }

    /// File names of the modules that operations of this kind and size came from.
    pub fn modules(&self, op: Op, size: u64) -> BTreeSet<String> {
        let rows =
            self.events.iter().zip(&self.origins).filter(|(e, _)| e.op == op && e.size == size);
        let path = |origin: &Origin| {
            self.metadata.modules.get(origin.module as usize).map(|m| m.path.clone())
        };
        rows.map(|(_, origin)| {
            let path = path(origin).unwrap_or_default();
            path.rsplit('/').next().unwrap_or_default().to_owned()
        })
        .collect()
    }

    /// How often each operation with this size occurs.
    pub fn count(&self, op: Op, size: u64) -> usize {
        self.events.iter().filter(|event| event.op == op && event.size == size).count()
    }

    /// Number of objects of this size that were released.
    pub fn released(&self, size: u64) -> usize {
        let sizes: Vec<u64> =
            self.events.iter().filter(|event| event.created != 0).map(|e| e.size).collect();
        self.events
            .iter()
            .filter(|e| e.released != 0 && sizes[e.released as usize - 1] == size)
            .count()
    }
}

/// Asserts that the journal begins in the pause of late.c: with the blocks that are live then.
/// Returns the time of the first allocation after it, ns.
pub fn assert_begins_late(journal: &Journal) -> u64 {
    // Of its early blocks, the program keeps 100 of 1001 bytes, 10 aligned ones and 10 zeroed ones.
    // It frees 10 of them later.
    let (early, later) = journal.events.split_at(journal.metadata.prologue as usize);
    assert!(early.iter().all(|event| event.time == 0 && event.op.creates() && event.released == 0));
    let of = |op: Op, size: u64| {
        early.iter().filter(|event| event.op == op && event.size == size).count()
    };
    assert_eq!([of(Op::Malloc, 1001), of(Op::Aligned, 1003), of(Op::Calloc, 1005)], [100, 10, 10]);
    assert_eq!(early.iter().filter(|event| event.align == 256).count(), 10);
    assert_eq!(of(Op::Malloc, 1007), 10, "blocks that were reallocated");
    assert_eq!((of(Op::Malloc, 1009), journal.count(Op::Malloc, 1009)), (0, 0), "freed before");
    // Afterwards: 50 allocations, 10 frees of old blocks, no foreign operation.
    assert_eq!((journal.count(Op::Malloc, 1011), journal.released(1001)), (50, 10));
    assert_eq!((journal.metadata.foreign, journal.metadata.frames.len()), (0, 1));
    later.iter().find(|event| event.size == 1011).unwrap().time
}

/// The only journal of a recording without problems.
pub fn whole(recorded: &Recorded) -> Journal {
    assert_eq!(recorded.problems, Vec::<String>::new());
    assert_eq!(recorded.journals.len(), 1);
    let journal = &recorded.journals[0];
    assert_eq!(journal.written.as_ref().unwrap().rows, journal.operations);
    let journal = Journal::read(journal.path.as_ref().unwrap());
    assert_eq!(journal.metadata.repairs.get("unseen_free"), None, "{:?}", journal.metadata.repairs);
    journal
}
