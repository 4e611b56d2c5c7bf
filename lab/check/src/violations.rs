//! The calls in zones, grouped by call site.

use crate::budget::{Suppression, Zone};
use crate::measure::{each_row, undefined};
use crate::names::{Identity, Names};
use crate::selection::{Call, Selection};
use keel_blame::Frame;
use keel_journal::{Error, Op, Reader};
use rustc_hash::FxHashMap;

/// A call in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The operation.
    pub op: Op,
    /// Requested bytes, or those of the freed block; None for a block that was not recorded.
    pub size: Option<u64>,
    /// ns since the start of the recording.
    pub time: u64,
    /// Index into the threads of the journal.
    pub thread: u32,
    /// Index into [`Group::stacks`].
    pub stack: usize,
}

/// The calls of one call site in a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Calls that return a block.
    pub allocations: u64,
    /// Calls that only release a block.
    pub frees: u64,
    /// Requested bytes.
    pub bytes: u64,
    /// The different stacks, each from the call site outwards. Empty stacks are unknown.
    pub stacks: Vec<Vec<Frame>>,
    /// The calls in the order of time. Only the first 100,000 of a zone are listed.
    pub violations: Vec<Violation>,
}

/// The largest number of calls that are listed of a zone; all are counted.
pub const LISTED: u64 = 100_000;

/// What happened in a zone.
#[derive(Debug, Default)]
pub(crate) struct InZone {
    /// The call sites with the most calls first.
    pub groups: Vec<Group>,
    /// Calls that a suppression accepts, by its index.
    pub suppressed: Vec<u64>,
    /// Calls of which it is unknown whether they were in the zone: their stacks have no beginning.
    pub cut: u64,
    /// No call was in the zone, but the function exists.
    pub never_seen: bool,
}

/// A zone while the journal is read.
struct Watch {
    selection: Selection,
    warm_up: usize,
    groups: FxHashMap<Option<Identity>, (Group, FxHashMap<u32, usize>)>,
    calls: u64,
    found: InZone,
}

/// The calls in each zone; instead of them, why the zone cannot be checked.
pub(crate) fn violations(
    reader: &Reader,
    zones: &[Zone],
    suppressions: &[Suppression],
    names: &mut Names<'_>,
) -> Result<Vec<Result<InZone, String>>, Error> {
    let metadata = reader.metadata();
    let watch = |zone: &Zone| {
        let selection = Selection::of_zone(&zone.place, zone.warm_up, metadata)?;
        let warm_up = if selection.passes() > 1 { zone.warm_up as usize } else { 0 };
        let found = InZone { suppressed: vec![0; suppressions.len()], ..InZone::default() };
        Ok(Watch { selection, warm_up, groups: FxHashMap::default(), calls: 0, found })
    };
    let mut watches: Vec<Result<Watch, String>> = zones.iter().map(watch).collect();
    let mut sizes: FxHashMap<u64, u64> = FxHashMap::default();
    each_row(reader, &mut |row, event, origin| {
        let released = if event.released == 0 { None } else { sizes.remove(&event.released) };
        if event.created != 0 {
            sizes.insert(event.created, event.size);
        }
        if row < metadata.prologue {
            return;
        }
        let call = Call::of(event, origin);
        let size = if event.op.creates() { Some(event.size) } else { released };
        let violation =
            Violation { op: event.op, size, time: event.begin, thread: event.thread, stack: 0 };
        for watch in watches.iter_mut().flatten() {
            watch.look(call, violation, suppressions, names);
        }
    })?;
    Ok(watches.into_iter().map(|watch| watch?.finish(names)).collect())
}

impl Watch {
    fn look(
        &mut self,
        call: Call,
        violation: Violation,
        suppressions: &[Suppression],
        names: &mut Names<'_>,
    ) {
        let Some(pass) = self.selection.pass(call, names) else {
            if self.selection.function().is_some() && names.is_cut(call.stack) {
                self.found.cut += 1;
            }
            return;
        };
        if pass < self.warm_up {
            return;
        }
        let mut accepted = suppressions.iter();
        let accepted = accepted.position(|one| names.is_in(call.stack, &one.symbol.0, true));
        if let Some(index) = accepted {
            self.found.suppressed[index] += 1;
            return;
        }
        let (group, stacks) = self.groups.entry(names.identity(call.stack)).or_default();
        let stack = *stacks.entry(call.stack).or_insert_with(|| {
            group.stacks.push(names.outwards(call.stack));
            group.stacks.len() - 1
        });
        if violation.op.creates() {
            group.allocations += 1;
            group.bytes = group.bytes.saturating_add(violation.size.unwrap_or(0));
        } else {
            group.frees += 1;
        }
        if self.calls < LISTED {
            group.violations.push(Violation { stack, ..violation });
        }
        self.calls += 1;
    }

    fn finish(self, names: &mut Names<'_>) -> Result<InZone, String> {
        let mut found = self.found;
        if let Some(pattern) = self.selection.function().filter(|_| !self.selection.seen) {
            if !names.is_defined(pattern) {
                return Err(undefined(pattern));
            }
            found.never_seen = true;
        }
        let mut groups: Vec<(Option<Identity>, Group)> =
            self.groups.into_iter().map(|(site, (group, _))| (site, group)).collect();
        groups.sort_by(|(site, group), (other_site, other)| {
            let calls = |group: &Group| group.allocations + group.frees;
            calls(other).cmp(&calls(group)).then_with(|| site.cmp(other_site))
        });
        found.groups = groups.into_iter().map(|(_, group)| group).collect();
        Ok(found)
    }
}
