//! The counts of several scopes, in one pass over the journal.

use crate::metric::Metric;
use crate::names::Names;
use crate::scope::Scope;
use crate::selection::{Call, Selection};
use crate::totals::Totals;
use keel_blame::DebugFolders;
use keel_journal::{Error, Event, Origin, Reader};
use rustc_hash::FxHashMap;

/// The counts of a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Of each pass after the warm-up.
    passes: Vec<Totals>,
    /// Number of passes before these.
    skipped: usize,
    /// For a scope of functions: no operation was in it, but an object file has the function.
    pub never_seen: bool,
}

/// The largest count of a scope, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Largest {
    pub value: u64,
    /// The pass, counted from 0 with the skipped ones.
    pub pass: usize,
    /// For [`Metric::LivePeak`]: the row.
    pub peak_row: u64,
}

impl Measured {
    /// The largest count of any pass.
    pub fn value(&self, metric: Metric) -> u64 {
        self.largest(metric).value
    }

    pub(crate) fn largest(&self, metric: Metric) -> Largest {
        let mut found = Largest { value: 0, pass: self.skipped, peak_row: 0 };
        for (index, totals) in self.passes.iter().enumerate() {
            let value = totals.value(metric);
            if index == 0 || value > found.value {
                found = Largest { value, pass: index + self.skipped, peak_row: totals.peak_row };
            }
        }
        found
    }
}

/// The counts of each scope; instead of them, why the scope cannot be measured in this journal.
///
/// # Errors
/// The journal cannot be read.
pub fn measure(
    reader: &Reader,
    scopes: &[Scope],
    folders: &DebugFolders,
) -> Result<Vec<Result<Measured, String>>, Error> {
    let mut names = Names::new(reader, folders);
    measure_with(reader, scopes, &mut names)
}

pub(crate) fn measure_with(
    reader: &Reader,
    scopes: &[Scope],
    names: &mut Names<'_>,
) -> Result<Vec<Result<Measured, String>>, Error> {
    let metadata = reader.metadata();
    let select = |scope| Selection::of_scope(scope, metadata);
    let mut selections: Vec<Result<Selection, String>> = scopes.iter().map(select).collect();
    let passes =
        |selection: &Result<Selection, String>| selection.as_ref().map_or(0, Selection::passes);
    let mut totals: Vec<Vec<Totals>> =
        selections.iter().map(|selection| vec![Totals::default(); passes(selection)]).collect();
    let mut live = Live::default();
    each_row(reader, &mut |row, event, origin| {
        let call = Call::of(event, origin);
        let released = live.release(event.released);
        for (selection, totals) in selections.iter_mut().zip(&mut totals) {
            let Ok(selection) = selection else { continue };
            if let Some((of_block, size)) = released
                && let Some(pass) = selection.pass(of_block, names)
            {
                totals[pass].release(size);
            }
            // The blocks of the prologue were allocated by unknown calls.
            let in_prologue = row < metadata.prologue;
            if in_prologue && !selection.is_whole() {
                continue;
            }
            let Some(pass) = selection.pass(call, names) else { continue };
            if !in_prologue {
                totals[pass].count(event, names.kernel(row));
            }
            if event.created != 0 {
                totals[pass].create(row, event.size);
            }
        }
        live.create(event, call);
    })?;
    let results = scopes.iter().zip(selections).zip(totals);
    Ok(results
        .map(|((scope, selection), totals)| finish(scope, selection?, totals, names))
        .collect())
}

fn finish(
    scope: &Scope,
    selection: Selection,
    mut totals: Vec<Totals>,
    names: &mut Names<'_>,
) -> Result<Measured, String> {
    let mut never_seen = false;
    if let Some(pattern) = selection.function().filter(|_| !selection.seen) {
        if !names.is_defined(pattern) {
            return Err(undefined(pattern));
        }
        never_seen = true;
    }
    let skipped = match scope {
        Scope::Frame { warm_up } => *warm_up as usize,
        _ => 0,
    };
    Ok(Measured { passes: totals.split_off(skipped.min(totals.len())), skipped, never_seen })
}

/// Why a function cannot be checked.
pub(crate) fn undefined(pattern: &str) -> String {
    format!(
        "no recorded object file has a function `{pattern}`: look for a spelling error, and \
         compile with -g if it is only inlined"
    )
}

/// The live blocks.
#[derive(Default)]
pub(crate) struct Live(FxHashMap<u64, (Call, u64)>);

impl Live {
    /// The call that allocated the block, and its size.
    pub fn release(&mut self, object: u64) -> Option<(Call, u64)> {
        if object == 0 { None } else { self.0.remove(&object) }
    }

    pub fn create(&mut self, event: &Event, call: Call) {
        if event.created != 0 {
            self.0.insert(event.created, (call, event.size));
        }
    }

    pub fn blocks(&self) -> impl Iterator<Item = (Call, u64)> + '_ {
        self.0.values().copied()
    }
}

/// Calls `take` for each row, with its number.
pub(crate) fn each_row(
    reader: &Reader,
    take: &mut dyn FnMut(u64, &Event, Origin),
) -> Result<(), Error> {
    let (mut batches, mut events, mut origins) = (reader.batches(), Vec::new(), Vec::new());
    let mut row = 0;
    while batches.next_with_origins(&mut events, &mut origins)? {
        for (event, origin) in events.iter().zip(&origins) {
            take(row, event, *origin);
            row += 1;
        }
    }
    Ok(())
}
