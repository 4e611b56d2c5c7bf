//! Journals in a few words, allocators with faults to order, and a comparison of both in one call.
#![allow(dead_code, reason = "each file of tests uses its own part")]

use keel_allocators::{Allocator, Kind};
use keel_journal::{Event, Op};
use keel_replay::{Error, Options, Outcome, Progress, Request, Sourced};
use keel_results::{AllocatorResult, Run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// A journal under construction: an event every microsecond.
#[derive(Default)]
pub struct Story {
    pub source: Sourced,
    objects: u64,
}

impl Story {
    pub fn push(&mut self, thread: u32, op: Op, size: u64, released: u64) -> u64 {
        let time = self.source.events.len() as u64 * 1000;
        let created = if op.creates() { self.objects + 1 } else { 0 };
        self.objects += u64::from(op.creates());
        let align = if op == Op::Aligned { 256 } else { 0 };
        let free_hint = keel_journal::FreeHint::NONE;
        let event = Event {
            time,
            begin: time,
            thread,
            op,
            size,
            align,
            created,
            released,
            frame: 0,
            free_hint,
        };
        self.source.events.push(event);
        created
    }

    pub fn malloc(&mut self, thread: u32, size: u64) -> u64 {
        self.push(thread, Op::Malloc, size, 0)
    }

    pub fn free(&mut self, thread: u32, object: u64) {
        self.push(thread, Op::Free, 0, object);
    }

    pub fn rows(&self) -> u64 {
        self.source.events.len() as u64
    }
}

/// `count` mallocs of `size` bytes by one thread, none of them freed.
pub fn mallocs(count: u64, size: u64) -> Story {
    let mut story = Story::default();
    for _ in 0..count {
        story.malloc(0, size);
    }
    story
}

/// A library made from one of the C files beside this; built once for each test, into its folder.
pub fn library(folder: &Path, source: &str) -> PathBuf {
    let output = folder.join(format!("lib{source}.so"));
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = package.join("tests").join(format!("{source}.c"));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(compiler)
        .args(["-O1", "-fPIC", "-shared", "-fno-builtin", "-I"])
        .arg(package.join("../../in_process"))
        .arg("-o")
        .args([&output, &source])
        .status()
        .expect("a C compiler is there");
    assert!(status.success(), "the fixture compiles");
    output
}

pub fn allocator(name: &str, kind: Kind, file: Option<PathBuf>) -> Allocator {
    Allocator { name: name.to_owned(), kind, file, ..Allocator::default() }
}

pub fn system() -> Allocator {
    allocator("system", Kind::System, None)
}

pub fn floor() -> Allocator {
    allocator("null", Kind::Floor, None)
}

/// A folder for a test, and how it compares.
pub struct Bench {
    pub folder: tempfile::TempDir,
    pub options: Options,
    pub stop: AtomicBool,
}

impl Bench {
    pub fn new() -> Bench {
        let options = Options { runs: 1, usable_sizes: false, repeat: false, ..Options::default() };
        let folder = tempfile::tempdir().expect("a temporary folder");
        Bench { folder, options, stop: AtomicBool::new(false) }
    }

    pub fn results(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    pub fn compare(&self, story: &Story, allocators: Vec<Allocator>) -> Result<Outcome, Error> {
        self.compare_watched(story, allocators, &mut |_| {})
    }

    pub fn compare_watched(
        &self,
        story: &Story,
        allocators: Vec<Allocator>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Outcome, Error> {
        let request = Request {
            source: &story.source,
            name: "story".to_owned(),
            allocators,
            options: self.options.clone(),
            player: env!("CARGO_BIN_EXE_keel-player").into(),
            folder: self.results(),
            command: Vec::new(),
            stop: &self.stop,
        };
        keel_replay::compare(&request, progress)
    }

    /// The only run of a comparison with one allocator, which must have succeeded.
    pub fn run(&self, story: &Story, allocator: Allocator) -> Run {
        let outcome = self.compare(story, vec![allocator]).expect("a comparison");
        let result = &outcome.comparison.allocators[0];
        assert_eq!(result.failure, None);
        std::fs::remove_dir_all(self.results()).expect("the results are there");
        result.runs[0].clone()
    }
}

/// The same allocator with settings in its environment: its players' alone, so that tests do not
/// meet each other's.
pub fn with(allocator: &Allocator, settings: &[(&str, &str)]) -> Allocator {
    let environment =
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Allocator { environment, ..allocator.clone() }
}

pub fn failure(result: &AllocatorResult) -> &str {
    result.failure.as_deref().unwrap_or("no failure")
}
