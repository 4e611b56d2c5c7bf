//! What each call stack requested, from a journal.

use crate::debug_files::DebugFolders;
use crate::error::BlameError;
use crate::over_time::Parts;
use crate::profile::{Column, Profile, named, over_the_whole_time};
use crate::tally::{Block, PeakFinder, REQUESTED, Tally};
use keel_journal::{Event, Origin, Reader};

/// Attributes each block of the journal to the stack that allocated it. A block is short-lived if
/// it is released within `short_ns`. The journal is read twice, with memory for the live blocks.
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
    let mut peak = PeakFinder::default();
    each(reader, progress, &mut |event, _| {
        peak.release(event.released);
        if event.created != 0 {
            peak.create(event.created, event.size);
        }
        peak.end_row();
    })?;
    let mut tally = Tally::new(Parts::WHOLE, short_ns);
    let mut row = 0;
    each(reader, progress, &mut |event, origin| {
        tally.release(event.released, event.begin);
        if event.created != 0 {
            let block = Block { stack: origin.stack, size: event.size, time: event.time };
            tally.create(event.created, block);
        }
        if row == peak.peak_row {
            tally.note_peak();
        }
        row += 1;
    })?;
    let columns = REQUESTED.map(|kind| Column { kind, allocator: String::new() }).to_vec();
    let values = over_the_whole_time(tally.values.into_rows());
    Ok(named(columns, values, (&metadata.modules, &metadata.stacks), folders))
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
