//! Everything that a page shows about call stacks: what they requested, and what their calls took
//! on each allocator, over time.

use crate::debug_files::DebugFolders;
use crate::error::BlameError;
use crate::kept_runs::kept_runs;
use crate::measured::{Limits, MEASURED, columns, rounded, sums};
use crate::over_time::Parts;
use crate::profile::{Column, Profile, add, named, over_the_whole_time};
use crate::recorded::{Recorded, requested_in};
use crate::tally::REQUESTED;
use keel_results::Comparison;
use rustc_hash::FxHashMap;
use std::path::Path;

/// Most parts of the recorded time.
const MOST_PARTS: u32 = 1024;

/// The values of call stacks, in all and over time.
#[derive(Debug, Default)]
pub struct Explained {
    /// The columns of [`REQUESTED`], without an allocator; then those of [`MEASURED`] for each
    /// allocator.
    pub profile: Profile,
    /// Number of parts of equal length into which the recorded time is divided: a power of two.
    pub parts: u32,
    /// Number of a stack in the recording, part of the time, and the values of the profile's
    /// columns in that part. Those of [`REQUESTED`] belong to the time of the allocation.
    pub over_time: Vec<(u32, u32, Vec<u64>)>,
}

impl Explained {
    /// Keeps only the columns of these allocators; those of the journal have the name "".
    pub fn keep_columns(&mut self, is_kept: impl Fn(&str) -> bool) {
        let columns = self.profile.columns.iter();
        let kept: Vec<bool> = columns.map(|column| is_kept(&column.allocator)).collect();
        for (_, _, values) in &mut self.over_time {
            retain(values, &kept);
        }
        for sample in &mut self.profile.samples {
            retain(&mut sample.values, &kept);
        }
        retain(&mut self.profile.columns, &kept);
    }
}

fn retain<T>(values: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    values.retain(|_| kept.next().copied().unwrap_or(false));
}

/// Explains the results in a folder. The time is `0..span_ns`; a block is short-lived if it is
/// freed within `short_ns`.
///
/// # Errors
/// The folder cannot be read, has no rows, or its journal had no stacks.
pub fn explained(
    folder: &Path,
    limits: Limits,
    (short_ns, span_ns): (u64, u64),
    folders: &DebugFolders,
) -> Result<Explained, BlameError> {
    let comparison = Comparison::load(folder)?;
    let recorded = Recorded::read(folder)?;
    let kept = kept_runs(&comparison, folder)?;
    let parts = Parts { count: MOST_PARTS, span_ns };
    let mut requested = requested_in(folder, short_ns, parts)?;
    let (mut measured, compared) = sums(folder, &comparison, &kept, limits, parts)?;
    let count = requested.parts().min(measured.parts());
    while requested.parts() > count {
        requested.halve();
    }
    while measured.parts() > count {
        measured.halve();
    }
    let width = REQUESTED.len() + MEASURED.len() * kept.len();
    let mut rows: FxHashMap<(u32, u32), Vec<u64>> = FxHashMap::default();
    let empty = || vec![0; width];
    for (stack, part, values) in requested.into_rows() {
        add(rows.entry((stack, part)).or_insert_with(empty), &values);
    }
    for (stack, part, values) in rounded(measured) {
        add(&mut rows.entry((stack, part)).or_insert_with(empty)[REQUESTED.len()..], &values);
    }
    let over_time = || rows.iter().map(|((stack, part), values)| (*stack, *part, values.clone()));
    let mut all = REQUESTED.map(|kind| Column { kind, allocator: String::new() }).to_vec();
    all.extend(columns(&kept));
    let mut profile = named(all, over_the_whole_time(over_time()), recorded.both(), folders);
    profile.compare(&compared);
    Ok(Explained { profile, parts: count, over_time: over_time().collect() })
}

/// What the stacks of a result folder requested: the columns of [`REQUESTED`].
///
/// # Errors
/// The folder cannot be read, has no rows, or its journal had no stacks.
pub fn requested_of_results(
    folder: &Path,
    short_ns: u64,
    folders: &DebugFolders,
) -> Result<Profile, BlameError> {
    let recorded = Recorded::read(folder)?;
    let values = requested_in(folder, short_ns, Parts::WHOLE)?;
    let columns = REQUESTED.map(|kind| Column { kind, allocator: String::new() }).to_vec();
    Ok(named(columns, over_the_whole_time(values.into_rows()), recorded.both(), folders))
}
