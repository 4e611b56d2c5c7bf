//! What each call stack requested, from a journal.

use crate::debug_files::DebugFolders;
use crate::error::BlameError;
use crate::explained::Explained;
use crate::over_time::{OverTime, Parts};
use crate::profile::{ByStack, Column, Profile, named, over_the_whole_time};
use crate::tally::{Block, PeakFinder, REQUESTED, SAMPLED, Tally, Weights};
use keel_journal::{Event, Origin, Reader, Sampling};

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
    let values = over_the_whole_time(tally(reader, short_ns, 1, progress)?.into_rows());
    Ok(profile(reader, values, folders))
}

/// As [`requested`], also over time, which is divided into at most `parts` parts, a power of two.
///
/// # Errors
/// As [`requested`].
pub fn requested_over_time(
    reader: &Reader,
    short_ns: u64,
    parts: u32,
    folders: &DebugFolders,
    progress: &mut dyn FnMut(u64),
) -> Result<Explained, BlameError> {
    let values = tally(reader, short_ns, parts, progress)?;
    let parts = values.parts();
    let over_time: Vec<(u32, u32, Vec<u64>)> = values.into_rows().collect();
    let sums = over_the_whole_time(over_time.iter().cloned());
    Ok(Explained { profile: profile(reader, sums, folders), parts, over_time })
}

fn profile(reader: &Reader, values: ByStack, folders: &DebugFolders) -> Profile {
    let metadata = reader.metadata();
    let sampled = if metadata.sample_bytes > 0 { &SAMPLED[..] } else { &[] };
    let kinds = REQUESTED.iter().chain(sampled);
    let columns = kinds.map(|kind| Column { kind: *kind, allocator: String::new() }).collect();
    let named = named(columns, values, (&metadata.modules, &metadata.stacks), folders);
    Profile { sample_bytes: metadata.sample_bytes, ..named }
}

fn tally(
    reader: &Reader,
    short_ns: u64,
    parts: u32,
    progress: &mut dyn FnMut(u64),
) -> Result<OverTime<u64>, BlameError> {
    if reader.metadata().stacks.is_empty() {
        return Err(BlameError::NoStacks(reader.path().to_path_buf()));
    }
    let weights = Weights(Sampling::of(reader.metadata()));
    let (mut peak, mut span_ns) = (PeakFinder::default(), 0);
    each(reader, progress, &mut |event, _| {
        span_ns = event.time;
        peak.release(event.released);
        if event.created != 0 {
            peak.create(event.created, weights.of(event.size).bytes);
        }
        peak.end_row();
    })?;
    let mut tally = Tally::new(Parts { count: parts, span_ns }, short_ns, weights);
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
    tally.values.rows_mut().for_each(|values| weights.whole(values));
    Ok(tally.values)
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
