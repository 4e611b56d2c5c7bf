//! The assembler's output: rows for a sink, and metadata.

#[cfg(target_os = "linux")]
use crate::perf_map::PerfMap;
use keel_journal::{Caches, Event, Mark, Metadata, Module, Origin, Stacks, Thread};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A sink's answer to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It accepts more.
    More,
    /// It accepted this row, and needs no more.
    Enough,
    /// It failed.
    Failed,
}

/// Receives the rows.
pub trait RowSink {
    /// Accepts one row. `known` fills in the metadata known so far.
    fn push(&mut self, event: &Event, origin: Origin, known: &dyn Fn(&mut Metadata)) -> Taken;
}

impl<F: FnMut(&Event) -> Taken> RowSink for F {
    fn push(&mut self, event: &Event, _: Origin, _: &dyn Fn(&mut Metadata)) -> Taken {
        self(event)
    }
}

/// The rows that are written, and those that are left out.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Nanoseconds after the start of the recording at which the rows begin, with the blocks that
    /// are live then.
    pub after_ns: u64,
    /// Operations of these modules, and operations on their blocks, are left out.
    pub skip_modules: Vec<String>,
    /// Number of operations after which the rows end, without the prologue; 0: no limit.
    pub max_operations: u64,
}

/// Facts that are not in the rows.
#[derive(Clone, Default, Debug)]
pub struct Facts {
    /// The metadata's threads, in order of appearance.
    pub threads: Vec<Thread>,
    /// Times of the frame marks, ns.
    pub frames: Vec<u64>,
    /// Frees and reallocs of blocks whose allocation was not recorded.
    pub foreign: u64,
    /// Repairs by kind.
    pub repairs: BTreeMap<String, u64>,
    /// Rows passed to the sink.
    pub rows: u64,
    /// Of these, the first ones, which allocate earlier blocks.
    pub prologue: u64,
    /// Operations left out because of their module.
    pub skipped: u64,
    /// Requested bytes of all rows that allocate.
    pub allocated_bytes: u64,
    /// Bytes in live blocks.
    pub live_bytes: u64,
    /// Operations that came from code that was gone before its name was known.
    pub unnamed: u64,
    /// Named marks.
    pub marks: Vec<Mark>,
    /// What was evicted from the caches between two operations.
    pub caches: Caches,
    /// Filled in at the end.
    pub modules: Vec<Module>,
    /// Likewise.
    pub stacks: Stacks,
}

/// What the system knew about threads while they ran.
#[derive(Default)]
pub struct Names {
    /// Those found in /proc, by kernel id. The name counts if the thread did not record it.
    pub threads: FxHashMap<u64, Thread>,
    /// For the others: the program's name.
    pub program: String,
    /// The map of the code that the program made, if it wrote one.
    #[cfg(target_os = "linux")]
    pub code: Option<PerfMap>,
    /// The object files that the process had mapped.
    pub files: BTreeSet<PathBuf>,
}

/// Puts the facts into the metadata.
pub fn describe(facts: Facts, metadata: &mut Metadata) {
    metadata.threads = facts.threads;
    metadata.frames = facts.frames;
    metadata.marks = facts.marks;
    metadata.caches = facts.caches;
    metadata.prologue = facts.prologue;
    metadata.modules = facts.modules;
    metadata.stacks = facts.stacks;
    metadata.foreign = facts.foreign;
    metadata.repairs = facts.repairs;
    if facts.unnamed > 0 {
        metadata.repairs.insert("unnamed_code".to_owned(), facts.unnamed);
    }
}
