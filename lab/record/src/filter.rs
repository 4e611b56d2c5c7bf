//! Removes the operations of modules from an existing journal.

use crate::origins::is_named;
use keel_journal::{Event, Op, Origin, Reader, Result, Writer};
use rustc_hash::FxHashMap;
use std::path::Path;

/// The result of [`skip_modules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Operations in the new journal.
    pub rows: u64,
    /// Operations that were left out.
    pub left_out: u64,
}

/// The options of a journal that can be written again from other files.
pub(crate) fn repeatable() -> keel_journal::Options {
    keel_journal::Options { replace_partial: true, ..keel_journal::Options::default() }
}

/// Writes the journal `from` to `to` without the operations that these modules called, and without
/// later operations on their blocks. A block of another module that a skipped module frees is still
/// freed.
///
/// # Errors
/// Those of reading and writing journals.
pub fn skip_modules(from: &Path, to: &Path, names: &[String]) -> Result<Kept> {
    let reader = Reader::open_any(from)?;
    let mut metadata = reader.metadata().clone();
    let is_skipped =
        |module: &keel_journal::Module| names.iter().any(|name| is_named(&module.path, name));
    let skipped: Vec<bool> = metadata.modules.iter().map(is_skipped).collect();
    let mut writer = Writer::with_options(to, repeatable())?;
    let mut filter = Filter { skipped, numbers: FxHashMap::default(), created: 0 };
    let (mut batches, mut events, mut origins) = (reader.batches(), Vec::new(), Vec::new());
    let (mut row, mut prologue, mut foreign) = (0, 0, 0);
    while batches.next_with_origins(&mut events, &mut origins)? {
        for (event, origin) in events.iter().zip(&origins) {
            row += 1;
            let Some(event) = filter.keep(*event, *origin) else { continue };
            writer.push_from(&event, *origin)?;
            prologue += u64::from(row <= metadata.prologue);
            foreign += u64::from(matches!(event.op, Op::ForeignFree | Op::ForeignRealloc));
        }
    }
    (metadata.prologue, metadata.foreign) = (prologue, foreign);
    let rows = writer.finish(metadata)?.rows;
    Ok(Kept { rows, left_out: row - rows })
}

struct Filter {
    skipped: Vec<bool>,
    /// New numbers of the live objects that are kept.
    numbers: FxHashMap<u64, u64>,
    created: u64,
}

impl Filter {
    fn keep(&mut self, mut event: Event, origin: Origin) -> Option<Event> {
        let by_skipped = self.skipped.get(origin.module as usize).copied().unwrap_or(false);
        if event.released != 0 {
            event.released = self.numbers.remove(&event.released)?;
        } else if by_skipped {
            return None;
        }
        if event.created != 0 {
            self.created += 1;
            self.numbers.insert(event.created, self.created);
            event.created = self.created;
        }
        Some(event)
    }
}
