//! What an allocator costs beside the time of its calls: peak memory, processor time of its own
//! threads, and calls so long that a user may notice them.

use crate::figures::{AllocatorFigures, CALLS_ABOVE_1_MS};
use crate::words::{bytes, duration};
use keel_results::text::count;

/// The least share of what is saved that is worth a sentence.
const BACKGROUND: f64 = 0.05;

/// The median peak memory.
pub fn peak(one: &AllocatorFigures) -> Option<f64> {
    Some(one.figures.get("peak")?.median)
}

/// The difference in peak memory between `index` and `base`, after `for` or `with`. `least`: the
/// least share that matters.
pub fn memory_price(
    allocators: &[AllocatorFigures],
    index: usize,
    base: usize,
    least: f64,
) -> String {
    let [Some(own), Some(base)] = [index, base].map(|index| peak(&allocators[index])) else {
        return "its memory was not measured".to_owned();
    };
    let share = (own - base).abs() / base.max(1.0);
    if base == 0.0 || share < least {
        return "with about the same peak memory".to_owned();
    }
    let (what, word) = (bytes((own - base).abs()), if own > base { "more" } else { "less" });
    let preposition = if own > base { "for" } else { "with" };
    format!("{preposition} {what} ({:.0} %) {word} peak memory", 100.0 * share)
}

/// The processor time of the allocator's own threads, if it is a relevant part of what it saves.
pub fn background(one: &AllocatorFigures, saved: f64) -> String {
    let used = one.figures.get("background").map_or(0.0, |spread| spread.median);
    if used < BACKGROUND * saved || used == 0.0 {
        return String::new();
    }
    format!(
        "Its own threads use {} of processor time in a run, and it saves {} in calls.",
        duration(used),
        duration(saved)
    )
}

/// The calls of a run above 1 ms: with the base, with the advised allocator, and with the others.
pub fn calls_above(allocators: &[AllocatorFigures], base: usize, advised: usize) -> String {
    let of = |index: usize| {
        let one = &allocators[index];
        let known = one.figures.get(CALLS_ABOVE_1_MS).filter(|_| !one.floor)?;
        Some((known.median.round() as u64, one.name.as_str()))
    };
    let Some((own, name)) = of(advised) else { return String::new() };
    let others = (0..allocators.len()).filter(|index| *index != base && *index != advised);
    let mut others: Vec<(u64, &str)> = others.filter_map(of).collect();
    others.sort_unstable();
    let mut named = vec![format!("{} with {name}", count(own))];
    if let Some((calls, name)) = of(base).filter(|_| base != advised) {
        named.push(format!("{} with {name}", count(calls)));
    }
    let of_base = of(base).map_or(0, |one| one.0);
    if named.len() + others.len() > 1
        && of_base + own + others.iter().map(|one| one.0).sum::<u64>() == 0
    {
        return "No call took more than 1 ms (interrupted calls are not counted).".to_owned();
    }
    match others.as_slice() {
        [] => {}
        [(calls, name)] => named.push(format!("{} with {name}", count(*calls))),
        [(calls, _), .., (last, _)] if calls == last => {
            named.push(format!("{} with the others", count(*calls)));
        }
        [(least, few), .., (most, many)] => named.push(format!(
            "with the others {} ({few}) to {} ({many})",
            count(*least),
            count(*most)
        )),
    }
    format!(
        "Calls of more than 1 ms in a run: {} (interrupted calls are not counted).",
        named.join(", ")
    )
}
