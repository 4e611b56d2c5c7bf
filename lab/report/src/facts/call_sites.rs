//! The call sites of slow frames and calls.

use super::model::{CallSite, CallSites};
use crate::figures::FLOOR;
use crate::verdict::{CodeCost, same_calls};
use crate::words::bound;
use keel_blame::{Frame, Limits, Place, Profile, Site};
use keel_results::{AllocatorResult, Comparison};

/// Call sites on the page.
const MOST_ROWS: usize = 20;
/// The values of [`CallSite::values`].
const VALUES: [&str; 6] = ["calls", "time", "over", "slow", "faults", "bytes"];

/// The call sites with the largest values on any allocator; None if there are no values.
pub fn call_sites(profile: &Profile, comparison: &Comparison) -> Option<CallSites> {
    let limits = Limits::default();
    let column = main_column(profile)?;
    let found = keel_blame::sites(profile, column, 1, Place::Line, &[]);
    let row = |site: &Site| CallSite {
        calls: profile.calls(&site.stack).into_iter().map(text).collect(),
        values: comparison.allocators.iter().map(|one| values(profile, site, &one.name)).collect(),
        same_calls: bound(&same_calls(profile, site)),
    };
    Some(CallSites {
        budget_ns: limits.budget_ns,
        slow_ns: limits.slow_ns,
        count: found.sites.len(),
        rows: found.sites.iter().take(MOST_ROWS).map(row).collect(),
    })
}

/// The lines of the program by the time in their calls with this allocator, longest first; None if
/// its rows were not kept.
pub fn code_costs(
    profile: &Profile,
    comparison: &Comparison,
    allocator: &str,
) -> Option<Vec<CodeCost>> {
    let [time, calls, bytes] =
        ["time", "calls", "bytes"].map(|name| profile.column(name, allocator));
    let (time, calls, bytes) = (time?, calls?, bytes?);
    let floor = profile.column("time", FLOOR);
    let whole = |one: &AllocatorResult| {
        profile.column("time", &one.name).map(|column| (column, profile.total(column) as f64))
    };
    let times: Vec<_> = comparison.allocators.iter().map(whole).collect();
    let found = keel_blame::sites(profile, time, 1, Place::Line, &[]);
    let cost = |site: &Site| {
        let stack = profile.calls(&site.stack);
        let place = place_of(&stack);
        let unnamed = stack.first().filter(|call| call.is_unnamed());
        let unnamed_in = unnamed.map_or_else(String::new, |call| call.module.clone());
        let (ns, calls) = (site.values[time] as f64, site.values[calls]);
        let measuring_ns = floor.map_or(0.0, |floor| site.values[floor] as f64);
        let share = |(column, all): (usize, f64)| site.values[column] as f64 / all;
        let shares = times.iter().map(|time| time.map_or(f64::NAN, share)).collect();
        let frees = site.values[bytes] == 0;
        CodeCost { place, unnamed_in, ns, calls, frees, measuring_ns, shares }
    };
    Some(found.sites.iter().map(cost).collect())
}

/// The innermost call, for a sentence. If it has no name, its innermost caller with a name, too.
fn place_of(calls: &[&Frame]) -> String {
    let Some(first) = calls.first() else { return String::new() };
    let place = text_of(&first.short_function(), first);
    match calls.iter().find(|call| !call.is_unnamed()).filter(|_| first.is_unnamed()) {
        Some(caller) => {
            format!("{place}, called through {}", text_of(&caller.short_function(), caller))
        }
        None => place,
    }
}

/// The time over the budget on the allocator that has most of it; the time, if none has any.
fn main_column(profile: &Profile) -> Option<usize> {
    let columns = |name: &'static str| {
        let columns = profile.columns.iter().enumerate();
        columns
            .filter(move |(_, column)| column.kind.name == name && column.allocator != FLOOR)
            .map(|(index, _)| index)
    };
    let largest = columns("over").max_by_key(|index| profile.total(*index))?;
    if profile.total(largest) > 0 {
        return Some(largest);
    }
    columns("time").max_by_key(|index| profile.total(*index))
}

fn values(profile: &Profile, site: &Site, allocator: &str) -> Option<[u64; VALUES.len()]> {
    let mut values = [0; VALUES.len()];
    for (value, name) in values.iter_mut().zip(VALUES) {
        *value = site.values[profile.column(name, allocator)?];
    }
    Some(values)
}

/// A call as `function (file:line)`.
pub(super) fn text(frame: &Frame) -> String {
    text_of(&frame.function, frame)
}

fn text_of(function: &str, frame: &Frame) -> String {
    match frame.place() {
        place if place.is_empty() => function.to_owned(),
        place => format!("{function} ({place})"),
    }
}
