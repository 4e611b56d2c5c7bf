//! The sums of all stacks that have the same call site.

use crate::frame::Frame;
use crate::profile::{Profile, Sample, add};
use rustc_hash::FxHashMap;

/// What identifies a call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The lines of the calls.
    Line,
    /// The functions that contain the calls.
    Function,
    /// The modules that contain the calls.
    Module,
}

/// A call site: the innermost call that is in no wrapper, and the calls around it up to the
/// requested depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The sums of the values, one for each column.
    pub values: Vec<u64>,
    /// Indices of the frames of the stack with the largest value, from the call site outwards.
    pub stack: Vec<u32>,
    /// Number of different stacks.
    pub stacks: usize,
    /// The sums of [`Sample::compared`]; empty for a journal.
    pub compared: Vec<u64>,
}

/// All call sites, that with the largest value first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sites {
    /// The call sites.
    pub sites: Vec<Site>,
    /// The values of operations without a stack.
    pub unknown: Vec<u64>,
}

/// Adds up the stacks of each call site and sorts by the column `by`.
///
/// `depth` is the number of calls that identify a site, at least 1. `wrappers` are names of further
/// functions, and of modules, that allocate for their callers.
pub fn sites(
    profile: &Profile,
    by: usize,
    depth: usize,
    place: Place,
    wrappers: &[String],
) -> Sites {
    let mut unknown = vec![0; profile.columns.len()];
    let mut found: FxHashMap<Vec<Identity<'_>>, (Site, u64)> = FxHashMap::default();
    for sample in &profile.samples {
        if sample.frames.is_empty() {
            add(&mut unknown, &sample.values);
            continue;
        }
        let stack = &sample.frames[site_start(profile, sample, wrappers)..];
        let frames = stack.iter().take(depth.max(1)).map(|index| frame(profile, *index));
        let key = frames.map(|frame| identity(frame, place)).collect();
        let (site, largest) = found.entry(key).or_insert_with(|| {
            let values = vec![0; profile.columns.len()];
            (Site { values, stack: stack.to_vec(), stacks: 0, compared: Vec::new() }, 0)
        });
        add(&mut site.values, &sample.values);
        site.compared.resize(site.compared.len().max(sample.compared.len()), 0);
        add(&mut site.compared, &sample.compared);
        site.stacks += 1;
        if sample.values[by] > *largest {
            *largest = sample.values[by];
            site.stack = stack.to_vec();
        }
    }
    let mut sites: Vec<Site> = found.into_values().map(|(site, _)| site).collect();
    // Equal values are sorted by stack, so that the order is always the same.
    sites.sort_unstable_by(|one, other| {
        other.values[by].cmp(&one.values[by]).then_with(|| one.stack.cmp(&other.stack))
    });
    Sites { sites, unknown }
}

fn frame(profile: &Profile, index: u32) -> &Frame {
    &profile.frames[index as usize]
}

/// The position of the innermost call that is in no wrapper; 0 if all are in wrappers. A function
/// without a name that a wrapper calls is a part of it.
fn site_start(profile: &Profile, sample: &Sample, wrappers: &[String]) -> usize {
    let is_wrapper = |frame: &Frame| {
        frame.wrapper || wrappers.contains(&frame.function) || wrappers.contains(&frame.module)
    };
    let frames = || sample.frames.iter().map(|index| frame(profile, *index));
    let mut callers = frames().skip(1).map(Some).chain([None]);
    let mut calls = frames().zip(callers.by_ref());
    let allocates = |(call, caller): (&Frame, Option<&Frame>)| {
        is_wrapper(call) || (call.is_unnamed() && caller.is_some_and(is_wrapper))
    };
    calls.position(|call| !allocates(call)).unwrap_or(0)
}

/// Function, file or module, and line.
type Identity<'a> = (&'a str, &'a str, u32);

fn identity(frame: &Frame, place: Place) -> Identity<'_> {
    match place {
        Place::Line => (&frame.function, &frame.file, frame.line),
        Place::Function => (&frame.function, frame.container(), 0),
        Place::Module => (frame.container(), "", 0),
    }
}

#[cfg(test)]
#[path = "sites_tests.rs"]
mod tests;
