//! What the calls in zones cost on each allocator: a replay of the journal, which times every call.

use super::replay::{RUNS, replay};
use anyhow::Result;
use keel_allocators::FLOOR;
use keel_check::{Checked, Cost, Deed, Group, Violation};
use keel_journal::Reader;
use keel_results::raw::RunReader;
use keel_results::{AllocatorResult, Comparison, cause_word, median};
use std::collections::BTreeMap;
use std::path::Path;

/// A run of a call: ticks, and a set of `CAUSE_*` bits.
type Timed = (u32, u8);

/// Replays the journal on the allocators, if there are calls in zones, and stores the time of each
/// group's slowest call. `folder` is for temporary files.
pub fn measure(
    checked: &mut Checked,
    (journal, reader): (&Path, &Reader),
    allocators: &str,
    folder: &Path,
) -> Result<()> {
    let groups = || checked.zones.iter().flat_map(|zone| &zone.groups);
    let mut rows: Vec<u64> = groups().flat_map(|group| &group.violations).filter_map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort_unstable();
    rows.dedup();
    let replayed = keel_replay::replayed_rows(reader, &rows)?;
    let results = folder.join("worst");
    let outcome = replay(journal, allocators, &[], &results)?;
    // A row of the journal, and that of the results.
    let measured = rows.iter().zip(replayed).filter_map(|(row, result)| Some((*row, result?)));
    let measured: Vec<(u64, u64)> = measured.collect();
    for allocator in &outcome.comparison.allocators {
        let times = times(&outcome.comparison, allocator, &measured, &results)?;
        for group in checked.zones.iter_mut().flat_map(|zone| &mut zone.groups) {
            group.costs.extend(worst(&allocator.name, group, &times));
        }
    }
    for group in checked.zones.iter_mut().flat_map(|zone| &mut zone.groups) {
        group.costs.sort_by(|one, other| one.worst_ns.total_cmp(&other.worst_ns));
    }
    checked.notes.push(note(&outcome.comparison));
    Ok(())
}

/// The middle run of each row of the journal: ns, and its cause. The machine delays a call in one
/// run and not in the others.
fn times(
    comparison: &Comparison,
    allocator: &AllocatorResult,
    measured: &[(u64, u64)],
    results: &Path,
) -> Result<BTreeMap<u64, (f64, u8)>> {
    let mut runs: Vec<Vec<Timed>> = vec![Vec::new(); measured.len()];
    for file in allocator.runs.iter().filter_map(|run| run.raw.as_ref()) {
        let mut reader = RunReader::open(&results.join(file))?;
        let (mut first, mut next) = (0, 0);
        while let Some(rows) = reader.next_rows()? {
            let end = first + rows.ticks.len() as u64;
            while let Some((_, row)) = measured.get(next).filter(|(_, row)| *row < end) {
                let at = (row - first) as usize;
                runs[next].push((rows.ticks[at], rows.cause[at]));
                next += 1;
            }
            first = end;
        }
    }
    let ticks_per_ns = comparison.clock.ticks_per_ns;
    let middle = |mut runs: Vec<Timed>| {
        runs.sort_unstable();
        let (ticks, cause) = *runs.get(runs.len().saturating_sub(1) / 2)?;
        Some((f64::from(ticks) / ticks_per_ns, cause))
    };
    let rows = measured.iter().zip(runs);
    Ok(rows.filter_map(|((row, _), runs)| Some((*row, middle(runs)?))).collect())
}

/// The row of the journal, of an operation.
fn row(violation: &Violation) -> Option<u64> {
    match violation.deed {
        Deed::Operation { row, .. } => Some(row),
        Deed::Call { .. } => None,
    }
}

fn worst(allocator: &str, group: &Group, times: &BTreeMap<u64, (f64, u8)>) -> Option<Cost> {
    let calls = group.violations.iter().enumerate();
    let timed = calls.filter_map(|(call, one)| Some((call, *times.get(&row(one)?)?)));
    let (call, (worst_ns, cause)) =
        timed.max_by(|(_, one), (_, other)| one.0.total_cmp(&other.0))?;
    Some(Cost { allocator: allocator.to_owned(), worst_ns, cause: cause_word(cause), call })
}

/// How the times were measured.
fn note(comparison: &Comparison) -> String {
    let floor = comparison.allocators.iter().find(|one| one.name == FLOOR);
    let pair = floor.and_then(|floor| median(floor.runs.iter().map(|run| run.empty_pair_ns)));
    let cost = pair
        .filter(|ns| *ns > 0.0)
        .map_or_else(String::new, |ns| format!("; measuring itself takes {ns:.0} ns of each call"));
    format!(
        "the times \"at worst\" are of {RUNS} replays of the whole recording on this machine, at \
         full speed: of each call the middle one counts, of each call site the slowest call. \
         `{FLOOR}` does nothing{cost}"
    )
}
