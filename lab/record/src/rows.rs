//! What the assembler makes: rows for a sink, and what is known beside them.

use keel_journal::{Event, Mark, Metadata, Module, Origin, Stacks};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What a sink says to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It takes more.
    More,
    /// It took this one, and needs no more.
    Enough,
    /// It could not take it.
    Failed,
}

/// Receives the rows.
pub trait RowSink {
    /// Takes one row. `known` puts into metadata what is known beside the rows by now.
    fn push(&mut self, event: &Event, origin: Origin, known: &dyn Fn(&mut Metadata)) -> Taken;
}

impl<F: FnMut(&Event) -> Taken> RowSink for F {
    fn push(&mut self, event: &Event, _: Origin, _: &dyn Fn(&mut Metadata)) -> Taken {
        self(event)
    }
}

/// What is written, and what is left out.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Rows begin so many nanoseconds after the recording did, with those for the blocks that live then.
    pub after_ns: u64,
    /// Operations of these modules and what becomes of their blocks are left out.
    pub skip_modules: Vec<String>,
    /// Rows end when so many operations are there, those of the prologue not counted; 0: no limit.
    pub max_operations: u64,
}

/// What the rows do not say.
#[derive(Default, Debug)]
pub struct Facts {
    /// The metadata's threads, in order of appearance: kernel id and name.
    pub threads: Vec<(u64, String)>,
    /// Times of the frame marks, ns.
    pub frames: Vec<u64>,
    /// Frees and reallocs of blocks whose birth was not seen.
    pub foreign: u64,
    /// What was mended, by kind.
    pub repairs: BTreeMap<String, u64>,
    /// Rows given to the sink.
    pub rows: u64,
    /// Of these, the first ones that stand for blocks from before.
    pub prologue: u64,
    /// Operations left out because of their module.
    pub skipped: u64,
    /// Bytes in blocks that live now.
    pub live_bytes: u64,
    /// Named moments.
    pub marks: Vec<Mark>,
    /// Filled in at the end.
    pub modules: Vec<Module>,
    /// Likewise.
    pub stacks: Stacks,
}

/// Names of threads that did not tell theirs by ending.
#[derive(Default)]
pub struct Names {
    /// Those found in /proc, by kernel id.
    pub threads: FxHashMap<u64, String>,
    /// For the others: the program's.
    pub program: String,
}

/// Puts the facts into the metadata.
pub fn describe(facts: Facts, metadata: &mut Metadata) {
    metadata.threads =
        facts.threads.iter().map(|(id, name)| keel_journal::Thread { id: *id, name: name.clone() }).collect();
    metadata.frames = facts.frames;
    metadata.marks = facts.marks;
    metadata.prologue = facts.prologue;
    metadata.modules = facts.modules;
    metadata.stacks = facts.stacks;
    metadata.foreign = facts.foreign;
    metadata.repairs = facts.repairs;
}
