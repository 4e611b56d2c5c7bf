//! The calls in zones, grouped by call site.

use crate::budget::{Suppression, Zone};
use crate::measure::{each_row, undefined};
use crate::names::{Identity, Names};
use crate::scope::CallKind;
use crate::selection::{Call, Selection};
use keel_blame::Frame;
use keel_journal::{CALL, CALLS_BEGIN, CALLS_END, Error, Metadata, Op, Origin, Reader};
use rustc_hash::FxHashMap;

/// A call in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What the program called.
    pub deed: Deed,
    /// ns since the start of the recording.
    pub time: u64,
    /// Index into the threads of the journal.
    pub thread: u32,
    /// Index into [`Group::stacks`].
    pub stack: usize,
}

/// What the program called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// The allocator.
    Operation {
        /// The row of the journal.
        row: u64,
        /// The operation.
        op: Op,
        /// Requested bytes, or those of the freed block; None for a block that was not recorded.
        size: Option<u64>,
    },
    /// A function that may wait.
    Call {
        /// Its kind.
        kind: CallKind,
        /// Its name.
        function: String,
        /// The time that it took, ns, if it is known.
        took_ns: Option<u64>,
    },
}

/// The calls of one call site in a zone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Calls that return a block.
    pub allocations: u64,
    /// Calls that only release a block.
    pub frees: u64,
    /// Requested bytes.
    pub bytes: u64,
    /// Calls that may wait, by kind, in the order of [`CallKind::ALL`].
    pub waits: [u64; 3],
    /// The different stacks, each from the call site outwards. Empty stacks are unknown.
    pub stacks: Vec<Vec<Frame>>,
    /// The calls in the order of time. Only the first 100,000 of a zone are listed.
    pub violations: Vec<Violation>,
    /// The slowest of the listed calls on each allocator, if the caller has measured that.
    pub costs: Vec<Cost>,
}

impl Group {
    /// All calls.
    pub fn calls(&self) -> u64 {
        self.allocations + self.frees + self.waits.iter().sum::<u64>()
    }
}

/// The time of a group's slowest call on an allocator.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The allocator.
    pub allocator: String,
    /// ns.
    pub worst_ns: f64,
    /// What it took the time for, in a few words.
    pub cause: &'static str,
    /// Index into [`Group::violations`].
    pub call: usize,
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
        unrecorded_calls(zone, metadata)?;
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
        let (op, time, thread) = (event.op, event.begin, event.thread);
        let deed = Deed::Operation { row, op, size };
        let violation = Violation { deed, time, thread, stack: 0 };
        for watch in watches.iter_mut().flatten() {
            watch.look(call, &violation, suppressions, names);
        }
    })?;
    for (call, violation) in waiting_calls(metadata) {
        for (zone, watch) in zones.iter().zip(&mut watches) {
            if let (Ok(watch), Deed::Call { kind, .. }) = (watch, &violation.deed)
                && zone.also.contains(kind)
            {
                watch.look(call, &violation, suppressions, names);
            }
        }
    }
    Ok(watches.into_iter().map(|watch| watch?.finish(names)).collect())
}

/// The calls that may wait, which are marks of the journal.
fn waiting_calls(metadata: &Metadata) -> impl Iterator<Item = (Call, Violation)> {
    let nodes = metadata.stacks.nodes.len() as u64;
    metadata.marks.iter().filter_map(move |mark| {
        let (kind, name) = mark.text.strip_prefix(CALL)?.split_once(' ')?;
        let kind = CallKind::ALL.into_iter().find(|one| one.name() == kind)?;
        let frame = metadata.frames.partition_point(|time| *time <= mark.time) as u32;
        let stack = mark.stack.filter(|stack| u64::from(*stack) < nodes).unwrap_or(Origin::NONE);
        let (time, thread) = (mark.time, mark.thread);
        let deed = Deed::Call { kind, function: full_name(name), took_ns: mark.took_ns };
        let call = Call { time, thread, frame, stack };
        Some((call, Violation { deed, time, thread, stack: 0 }))
    })
}

/// The recorder leaves out `pthread_`.
fn full_name(name: &str) -> String {
    let of_threads = ["mutex_", "rwlock_", "spin_", "cond_", "barrier_", "join"];
    let is_of_threads = of_threads.iter().any(|start| name.starts_with(start));
    format!("{}{name}", if is_of_threads { "pthread_" } else { "" })
}

/// Why the calls that may wait cannot be checked, if they cannot.
fn unrecorded_calls(zone: &Zone, metadata: &Metadata) -> Result<(), String> {
    let has = |text: &str| metadata.marks.iter().any(|mark| mark.text == text);
    match () {
        () if zone.also.is_empty() => Ok(()),
        () if !has(CALLS_BEGIN) => Err("the recording has no calls of locks, files and sleeps: \
                                        let keel check start the program itself, which must \
                                        load the C library dynamically"
            .to_owned()),
        () if has(CALLS_END) => Err("the program made too many calls of locks, files and sleeps: \
                                     the recording has the first million"
            .to_owned()),
        () => Ok(()),
    }
}

impl Watch {
    fn look(
        &mut self,
        call: Call,
        violation: &Violation,
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
        match &violation.deed {
            Deed::Operation { op, size, .. } if op.creates() => {
                group.allocations += 1;
                group.bytes = group.bytes.saturating_add(size.unwrap_or(0));
            }
            Deed::Operation { .. } => group.frees += 1,
            Deed::Call { kind, .. } => group.waits[*kind as usize] += 1,
        }
        if self.calls < LISTED {
            group.violations.push(Violation { stack, ..violation.clone() });
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
            other.calls().cmp(&group.calls()).then_with(|| site.cmp(other_site))
        });
        for (_, group) in &mut groups {
            group.violations.sort_by_key(|one| one.time);
        }
        found.groups = groups.into_iter().map(|(_, group)| group).collect();
        Ok(found)
    }
}
