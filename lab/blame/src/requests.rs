//! What each call stack requested, from a journal.

use crate::debug_files::DebugFolders;
use crate::error::BlameError;
use crate::profile::{ByStack, Column, Profile, Unit, ValueKind, named};
use keel_journal::{Event, Origin, Reader};
use rustc_hash::FxHashMap;

/// The values of [`requested`].
pub const REQUESTED: [ValueKind; 7] = [
    ValueKind { name: "calls", title: "calls", unit: Unit::Count },
    ValueKind { name: "bytes", title: "bytes", unit: Unit::Bytes },
    ValueKind { name: "peak", title: "live at peak", unit: Unit::Bytes },
    ValueKind { name: "kept", title: "never freed", unit: Unit::Bytes },
    ValueKind { name: "kept-blocks", title: "blocks never freed", unit: Unit::Count },
    ValueKind { name: "churn", title: "short-lived", unit: Unit::Count },
    ValueKind { name: "churn-bytes", title: "bytes of short-lived", unit: Unit::Bytes },
];

const CALLS: usize = 0;
const BYTES: usize = 1;
const PEAK: usize = 2;
const KEPT: usize = 3;
const KEPT_BLOCKS: usize = 4;
const CHURN: usize = 5;
const CHURN_BYTES: usize = 6;

/// A live object.
struct Object {
    stack: u32,
    size: u64,
    time: u64,
}

/// Attributes each object of the journal to the stack that allocated it. An object is short-lived
/// if it is released within `short_ns`. The journal is read twice, with memory for the live
/// objects.
///
/// # Errors
/// The journal cannot be read, or has no stacks.
pub fn requested(
    reader: &Reader,
    short_ns: u64,
    folders: &DebugFolders,
    progress: &mut dyn FnMut(u64),
) -> Result<Profile, BlameError> {
    let metadata = reader.metadata();
    if metadata.stacks.is_empty() {
        return Err(BlameError::NoStacks(reader.path().to_path_buf()));
    }
    let peak_row = peak_row(reader, progress)?;
    let mut tally = Tally { by_stack: ByStack::default(), live: FxHashMap::default(), short_ns };
    let mut row = 0;
    each(reader, progress, &mut |event, origin| {
        tally.take(event, origin);
        if row == peak_row {
            tally.note_peak();
        }
        row += 1;
    })?;
    let columns = REQUESTED.map(|kind| Column { kind, allocator: String::new() }).to_vec();
    Ok(named(columns, tally.by_stack, (&metadata.modules, &metadata.stacks), folders))
}

/// The row after which the most bytes are live.
fn peak_row(reader: &Reader, progress: &mut dyn FnMut(u64)) -> Result<u64, BlameError> {
    let mut sizes = FxHashMap::default();
    let (mut live, mut peak, mut peak_row, mut row) = (0_u64, 0, 0, 0);
    each(reader, progress, &mut |event, _| {
        live = live.saturating_sub(sizes.remove(&event.released).unwrap_or(0));
        if event.created != 0 {
            sizes.insert(event.created, event.size);
            live = live.saturating_add(event.size);
        }
        if live > peak {
            (peak, peak_row) = (live, row);
        }
        row += 1;
    })?;
    Ok(peak_row)
}

fn each(
    reader: &Reader,
    progress: &mut dyn FnMut(u64),
    take: &mut dyn FnMut(&Event, Origin),
) -> Result<(), BlameError> {
    let (mut batches, mut events, mut origins) = (reader.batches(), Vec::new(), Vec::new());
    let mut rows = 0;
    while batches.next_with_origins(&mut events, &mut origins)? {
        events.iter().zip(&origins).for_each(|(event, origin)| take(event, *origin));
        rows += events.len() as u64;
        progress(rows);
    }
    Ok(())
}

struct Tally {
    by_stack: ByStack,
    live: FxHashMap<u64, Object>,
    short_ns: u64,
}

impl Tally {
    fn values(&mut self, stack: u32) -> &mut Vec<u64> {
        self.by_stack.entry(stack).or_insert_with(|| vec![0; REQUESTED.len()])
    }

    fn take(&mut self, event: &Event, origin: Origin) {
        if let Some(object) = self.live.remove(&event.released) {
            let is_short = event.begin.saturating_sub(object.time) <= self.short_ns;
            let values = self.values(object.stack);
            values[KEPT] = values[KEPT].saturating_sub(object.size);
            values[KEPT_BLOCKS] -= 1;
            if is_short {
                values[CHURN] += 1;
                values[CHURN_BYTES] = values[CHURN_BYTES].saturating_add(object.size);
            }
        }
        if event.created == 0 {
            return;
        }
        let (stack, size) = (origin.stack, event.size);
        self.live.insert(event.created, Object { stack, size, time: event.time });
        let values = self.values(stack);
        values[CALLS] += 1;
        // The sum of the sizes in a journal may exceed the range of the type.
        values[BYTES] = values[BYTES].saturating_add(size);
        values[KEPT] = values[KEPT].saturating_add(size);
        values[KEPT_BLOCKS] += 1;
    }

    fn note_peak(&mut self) {
        self.by_stack.values_mut().for_each(|values| values[PEAK] = values[KEPT]);
    }
}
