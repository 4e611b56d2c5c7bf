//! Call stacks with names, and the values of each: the common form of tables and exports.

use crate::compared::Compared;
use crate::debug_files::{DebugFolders, ModuleState};
use crate::frame::{Frame, file_name};
use crate::symbols::Symbols;
use keel_journal::{Module, Origin, Stacks};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Calls or blocks.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// The square of a standard error.
    Variance,
}

/// A kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ValueKind {
    /// The name on the command line and in JSON.
    pub name: &'static str,
    /// The name in tables.
    pub title: &'static str,
    /// Its unit.
    pub unit: Unit,
}

/// A value that each stack has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// What it is.
    #[serde(flatten)]
    pub kind: ValueKind,
    /// The allocator on which it was measured; empty for a journal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub allocator: String,
}

/// The values of one call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The number of the stack in the recording; `u32::MAX` for operations without a stack.
    pub stack: u32,
    /// Indices into [`Profile::frames`], innermost first. Empty for operations without a stack.
    pub frames: Vec<u32>,
    /// One value for each column.
    pub values: Vec<u64>,
    /// The number of calls, the number of those that can be compared because they were
    /// interrupted on no allocator, and their time on each allocator of [`Profile::compared`], ns.
    /// Empty for a journal.
    pub compared: Vec<u64>,
}

/// Call stacks and their values.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// What the values are. Results have all kinds of values for each allocator.
    pub columns: Vec<Column>,
    /// The frames, without duplicates.
    pub frames: Vec<Frame>,
    /// The stacks. Several stacks of the recording may have the same frames.
    pub samples: Vec<Sample>,
    /// The modules with the origin of their names.
    pub modules: Vec<(Module, ModuleState)>,
    /// The allocators of [`Sample::compared`]: all, even if the profile has only the columns of
    /// one.
    pub compared: Vec<String>,
    /// The mean distance of samples, if the values are estimated from samples; else 0.
    pub sample_bytes: u64,
}

impl Profile {
    /// The standard error of a value of this column, if it is estimated: `values` are those of the
    /// stacks that it is the sum of.
    pub fn standard_error(&self, column: usize, values: &[u64]) -> Option<f64> {
        let name = format!("{}-variance", self.columns.get(column)?.kind.name);
        let at = self.columns.iter().position(|column| column.kind.name == name)?;
        values.get(at).map(|variance| (*variance as f64).sqrt())
    }

    /// Removes the variances, which formats of other tools cannot express.
    pub fn drop_variances(&mut self) {
        let is_kept = |index: &usize| self.columns[*index].kind.unit != Unit::Variance;
        let kept: Vec<usize> = (0..self.columns.len()).filter(is_kept).collect();
        for sample in &mut self.samples {
            sample.values = kept.iter().map(|index| sample.values[*index]).collect();
        }
        self.columns.retain(|column| column.kind.unit != Unit::Variance);
    }

    /// The index of a column; the allocator of a journal's columns is "".
    pub fn column(&self, name: &str, allocator: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| column.kind.name == name && column.allocator == allocator)
    }

    /// The allocators, in the order of the columns; empty for a journal.
    pub fn allocators(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.columns.iter().map(|column| column.allocator.as_str()).collect();
        names.dedup();
        names.retain(|name| !name.is_empty());
        names
    }

    /// Removes the columns of all other allocators.
    pub fn keep_allocator(&mut self, name: &str) {
        let is_kept = |index: &usize| self.columns[*index].allocator == name;
        let kept: Vec<usize> = (0..self.columns.len()).filter(is_kept).collect();
        for sample in &mut self.samples {
            sample.values = kept.iter().map(|index| sample.values[*index]).collect();
        }
        self.columns.retain(|column| column.allocator == name);
    }

    /// Adds what the same calls took on each allocator.
    pub(crate) fn compare(&mut self, compared: &Compared) {
        self.compared = compared.allocators().to_vec();
        for sample in &mut self.samples {
            sample.compared = compared.of(sample.stack);
        }
    }

    /// The index of the module with this file name.
    pub fn module_index(&self, name: &str) -> Option<usize> {
        self.modules.iter().position(|(module, _)| file_name(&module.path) == name)
    }

    /// The calls of a site's stack, from the call site outwards. The calls around `main` are left
    /// out: they are the same in every program.
    pub fn calls(&self, stack: &[u32]) -> Vec<&Frame> {
        let frames: Vec<&Frame> = stack.iter().map(|index| &self.frames[*index as usize]).collect();
        let is_start = |frame: &&&Frame| frame.wrapper || frame.function == "_start";
        let start = frames.iter().rev().take_while(is_start).count();
        frames[..(frames.len() - start).max(1).min(frames.len())].to_vec()
    }

    /// The sum of a column over all stacks.
    pub fn total(&self, column: usize) -> u64 {
        self.samples.iter().fold(0, |sum: u64, sample| sum.saturating_add(sample.values[column]))
    }
}

/// The values by stack: the index of the stack's innermost call ([`Origin::NONE`] for none) and one
/// value for each column.
pub(crate) type ByStack = FxHashMap<u32, Vec<u64>>;

/// The sums of each stack over all parts of the time.
pub(crate) fn over_the_whole_time(rows: impl Iterator<Item = (u32, u32, Vec<u64>)>) -> ByStack {
    let mut sums = ByStack::default();
    for (stack, _, values) in rows {
        match sums.get_mut(&stack) {
            Some(into) => add(into, &values),
            None => {
                sums.insert(stack, values);
            }
        }
    }
    sums
}

/// Adds values to sums. A sum that exceeds the range is the largest number.
pub(crate) fn add(sums: &mut [u64], values: &[u64]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
}

/// Names the calls of every stack.
pub(crate) fn named(
    columns: Vec<Column>,
    by_stack: ByStack,
    (modules, stacks): (&[Module], &Stacks),
    folders: &DebugFolders,
) -> Profile {
    let mut symbols = Symbols::new(modules, stacks, folders);
    let mut by_stack: Vec<(u32, Vec<u64>)> = by_stack.into_iter().collect();
    by_stack.sort_unstable_by_key(|(stack, _)| *stack);
    let mut samples = Vec::with_capacity(by_stack.len());
    for (stack, values) in by_stack {
        let mut frames = Vec::new();
        if stack != Origin::NONE {
            frames = symbols.frames_of_stack(stack);
        }
        samples.push(Sample { stack, frames, values, compared: Vec::new() });
    }
    let (frames, states) = symbols.finish();
    let modules = modules.iter().cloned().zip(states);
    Profile {
        columns,
        frames,
        samples,
        // Only the modules through which a stack passes were searched.
        modules: modules.filter_map(|(module, state)| Some((module, state?))).collect(),
        compared: Vec::new(),
        sample_bytes: 0,
    }
}
