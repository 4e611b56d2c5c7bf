//! What an allocator costs beside the time of its calls: peak memory, processor time of its own
//! threads, and calls so long that a user may notice them.

use crate::figures::{AllocatorFigures, CALLS_ABOVE_1_MS, MEMORY_AT_END};
use crate::words::{bytes, duration};
use keel_results::text::count;

/// The least share of what is saved that is worth a sentence.
const BACKGROUND: f64 = 0.05;

const SAME_PEAK: &str = "peak memory is about the same";
/// More allocators than this are not listed one by one.
const FEW: usize = 3;
/// The calls that are left out, if there are any.
const LEFT_OUT: &str =
    " Calls that were only preempted (no page fault, system call or wait) are not counted.";

/// The median peak memory.
pub fn peak(one: &AllocatorFigures) -> Option<f64> {
    Some(one.figures.get("peak")?.median)
}

/// The difference in peak memory between `index` and `base`: `peak memory is 12 MiB (12 %) higher`.
/// `least`: the least share that matters.
pub fn memory_price(
    allocators: &[AllocatorFigures],
    index: usize,
    base: usize,
    least: f64,
) -> String {
    let [Some(own), Some(base)] = [index, base].map(|index| peak(&allocators[index])) else {
        return "peak memory was not measured".to_owned();
    };
    let share = (own - base).abs() / base.max(1.0);
    if base == 0.0 || share < least {
        return SAME_PEAK.to_owned();
    }
    let (what, word) = (bytes((own - base).abs()), if own > base { "higher" } else { "lower" });
    format!("peak memory is {what} ({:.0} %) {word}", 100.0 * share)
}

/// The same with the memory at the end of a run, if it is known: `peak memory is 12 MiB (12 %)
/// higher, and at the end 64 MiB instead of 132 KiB`.
pub fn memory_prices(
    allocators: &[AllocatorFigures],
    index: usize,
    base: usize,
    least: f64,
) -> String {
    let peak = memory_price(allocators, index, base, least);
    let end = |index: usize| allocators[index].figures.get(MEMORY_AT_END).map(|end| end.median);
    let [Some(own), Some(base)] = [index, base].map(end) else { return peak };
    match (own - base).abs() <= least * base {
        _ if own == 0.0 && base == 0.0 => peak,
        true if peak == SAME_PEAK => "memory is about the same, at its peak and at the end".into(),
        true => format!("{peak}, and about the same at the end"),
        false => format!("{peak}, and at the end {} instead of {}", bytes(own), bytes(base)),
    }
}

/// The processor time of the allocator's own threads, if it is a relevant part of what the calls of
/// a run save over those of `base`.
pub fn background(one: &AllocatorFigures, base: &str, saved: f64) -> String {
    let used = one.figures.get("background").map_or(0.0, |spread| spread.median);
    if used < BACKGROUND * saved || used == 0.0 {
        return String::new();
    }
    let (name, used) = (&one.name, duration(used));
    let saved = match saved > 0.0 {
        true => format!("take {} less than those of {base}", duration(saved)),
        false => format!("do not take less time in total than those of {base}"),
    };
    format!("In a run, {name}'s own threads use {used} of processor time. Its calls {saved}.")
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
    let one = |calls: u64, name: &str| format!("{name} {}", count(calls));
    let mut named = vec![one(own, name)];
    if let Some((calls, name)) = of(base).filter(|_| base != advised) {
        named.push(one(calls, name));
    }
    let left_out = match allocators.iter().any(|one| !one.undisturbed.is_empty()) {
        true => LEFT_OUT,
        false => "",
    };
    let contenders = || allocators.iter().filter(|one| !one.floor);
    let any = contenders()
        .filter_map(|one| one.figures.get(CALLS_ABOVE_1_MS))
        .any(|known| known.high > 0.0);
    if named.len() + others.len() > 1 && !any {
        return format!("No call took more than 1 ms.{left_out}");
    }
    match others.as_slice() {
        [(calls, _), .., (last, _)] if others.len() > FEW && calls == last => {
            named.push(format!("each of the others {}", count(*calls)));
        }
        [least, .., most] if others.len() > FEW => {
            let ends = [least, most].map(|(calls, name)| format!("{} ({name})", count(*calls)));
            named.push(format!("the others {}", ends.join(" to ")));
        }
        few => named.extend(few.iter().map(|(calls, name)| one(*calls, name))),
    }
    let named = named.join(", ");
    format!("Median number of calls above 1 ms in a run: {named}.{left_out}")
}
