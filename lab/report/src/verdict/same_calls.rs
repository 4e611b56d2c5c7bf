//! How long the same calls took with each allocator: whether an allocator was slow that others are
//! not, or whether the calls take that long with every one.

use crate::counts::Counted;
use crate::figures::{FLOOR, power_of_ten};
use crate::words::{duration, list};
use keel_blame::{Profile, Site};
use keel_results::CAUSE_INTERRUPTED;
use keel_results::text::count;
use std::collections::HashSet;

/// Calls that take at most this multiple of the null allocator's time are near the floor: at least
/// half of their time is that of measuring them.
const NEAR_FLOOR: f64 = 2.0;
/// Times within this ratio are about the same.
const ALIKE: f64 = 1.1;
/// A smaller share of interrupted calls is not mentioned.
const FEW_INTERRUPTED: f64 = 0.01;

/// Whether `ns` is about what the null allocator took for the same calls, `floor`. Times are
/// compared as they are printed, so that a reader who compares them comes to the same conclusion.
pub fn is_near_floor(ns: f64, floor: f64) -> bool {
    // A millionth allows for the rounding of binary fractions.
    printed(ns) <= NEAR_FLOOR * printed(floor) * (1.0 + 1e-6)
}

/// A time with the three digits that [`duration`] prints.
fn printed(ns: f64) -> f64 {
    if ns <= 0.0 {
        return 0.0;
    }
    let digit = power_of_ten(ns.log10().floor() as i32 - 2);
    (ns / digit).round() * digit
}

/// The ticks of the null allocator's calls in the rows [`Counted::probes`]; None for a call that
/// was interrupted, and without a run of the null allocator.
pub fn floor_of_probes(counted: &Counted<'_>) -> Vec<Option<u32>> {
    let unknown = vec![None; counted.probes.len()];
    let mut allocators = counted.comparison.allocators.iter();
    let Some(index) = allocators.position(|result| result.name == FLOOR) else { return unknown };
    let (Some(run), Some(counts)) = (counted.run(index), &counted.runs[index]) else {
        return unknown;
    };
    let interrupted = run.outliers.iter().filter(|one| one.cause & CAUSE_INTERRUPTED != 0);
    let interrupted: HashSet<u64> = interrupted.map(|outlier| outlier.row).collect();
    let rows = counted.probes.iter().zip(&counts.probes);
    rows.map(|(row, ticks)| (!interrupted.contains(row)).then_some(*ticks)).collect()
}

/// What the calls of a call site took with each allocator, in sentences; empty if it is not known.
pub fn same_calls(profile: &Profile, site: &Site) -> String {
    let [all_calls, calls, times @ ..] = site.compared.as_slice() else { return String::new() };
    let names = profile.compared.iter().map(String::as_str);
    let all = names.zip(times.iter().map(|time| *time as f64));
    // All calls of the null allocator may have been interrupted.
    let all = all.filter(|(name, time)| *name != FLOOR || *time > 0.0);
    let (floor, mut took): (Vec<_>, Vec<_>) = all.partition(|(name, _)| *name == FLOOR);
    took.sort_by(|a, b| a.1.total_cmp(&b.1));
    describe([*calls, *all_calls], &took, floor.first().map(|(_, time)| *time))
}

/// `These 3 calls`. Of `all_calls`, only `calls` were not interrupted.
fn subject([calls, all_calls]: [u64; 2]) -> String {
    let interrupted = all_calls.saturating_sub(calls);
    let left_out = match interrupted {
        _ if interrupted as f64 <= FEW_INTERRUPTED * all_calls as f64 => String::new(),
        1 => " (1 more was preempted)".to_owned(),
        more => format!(" ({} more were preempted)", count(more)),
    };
    match calls {
        1 => format!("This call{left_out}"),
        calls => format!("These {} calls together{left_out}", count(calls)),
    }
}

/// `took`: the names and times of the allocators, the lowest time first.
fn describe(calls: [u64; 2], took: &[(&str, f64)], floor: Option<f64>) -> String {
    let ([(least_name, least), ..], Some((_, most))) = (took, took.last()) else {
        return String::new();
    };
    if calls[0] == 0 {
        return String::new();
    }
    let subject = subject(calls);
    let near =
        floor.map_or(0, |floor| took.partition_point(|(_, time)| is_near_floor(*time, floor)));
    let (at_floor, above) = took.split_at(near);
    let floor = floor.map_or(String::new(), duration);
    let of_floor = match floor.as_str() {
        "" => String::new(),
        floor => format!(" With the null allocator: {floor}."),
    };
    match (at_floor, above) {
        ([_, ..], _) => {
            let names: Vec<&str> = at_floor.iter().map(|(name, _)| *name).collect();
            let who = match (names.as_slice(), above) {
                ([_, _, ..], []) => "every allocator".to_owned(),
                _ => list(&names),
            };
            format!(
                "{subject} took {} with {who}. At least half of this time was the cost of \
                 measuring: the null allocator took {floor}.{}",
                range(at_floor),
                with_others(above)
            )
        }
        ([], [(name, time)]) => {
            format!("{subject} took {} with {name}.{of_floor}", duration(*time))
        }
        _ if *most < ALIKE * least => {
            format!(
                "{subject} took about the same time with every allocator: {}.{of_floor}",
                range(took)
            )
        }
        _ => format!(
            "{subject} took the least time with {least_name}: {}.{}{of_floor}",
            duration(*least),
            with_others(above.get(1..).unwrap_or_default())
        ),
    }
}

/// `31.0 ns to 33.0 ns`, or one of them if they are the same in words.
fn range(took: &[(&str, f64)]) -> String {
    let ends = [took.first(), took.last()].map(|end| duration(end.map_or(0.0, |(_, time)| *time)));
    let [least, most] = ends;
    if least == most { least } else { format!("{least} to {most}") }
}

/// ` With keel: 48.6 ms.`
fn with_others(took: &[(&str, f64)]) -> String {
    let named = |(name, time): &(&str, f64)| format!("{} ({name})", duration(*time));
    match took {
        [] => String::new(),
        [(name, time)] => format!(" With {name}: {}.", duration(*time)),
        [first, .., last] => format!(" With the others: {} to {}.", named(first), named(last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_near_the_floor_are_named() {
        let took = [("mimalloc", 270.0), ("glibc", 500.0), ("keel", 501.0), ("tlsf", 5e6)];
        assert_eq!(
            describe([3, 3], &took, Some(250.0)),
            "These 3 calls together took 270 ns to 500 ns with mimalloc and glibc. At least half \
             of this time was the cost of measuring: the null allocator took 250 ns. With the \
             others: 501 ns (keel) to 5 ms (tlsf)."
        );
        assert_eq!(
            describe([1, 1], &took[..3], Some(2000.0)),
            "This call took 270 ns to 501 ns with every allocator. At least half of this time was \
             the cost of measuring: the null allocator took 2 µs."
        );
        assert_eq!(
            describe([1, 1], &[("keel", 20.0), ("glibc", 7e3)], Some(20.0)),
            "This call took 20 ns with keel. At least half of this time was the cost of measuring: \
             the null allocator took 20 ns. With glibc: 7 µs."
        );
    }

    #[test]
    fn times_are_compared_as_they_are_printed() {
        // 60.1 ns and 30.0 ns: 30.0 is less than half, although 30.04 is not.
        assert_eq!([60.06, 30.04].map(duration), ["60.1 ns", "30.0 ns"]);
        assert!(!is_near_floor(60.06, 30.04));
        // 60.0 ns and 30.0 ns.
        assert!(is_near_floor(60.04, 29.96));
        assert!(is_near_floor(0.0, 0.0) && !is_near_floor(61.0, 30.0));
    }

    #[test]
    fn calls_that_no_allocator_makes_cheap_are_compared() {
        let took = [("glibc", 4e6), ("keel", 5e6), ("tlsf", 9e6)];
        assert_eq!(
            describe([10_800, 10_805], &took, Some(250.0)),
            "These 10,800 calls together took the least time with glibc: 4 ms. With the others: 5 \
             ms (keel) to 9 ms (tlsf). With the null allocator: 250 ns."
        );
        assert_eq!(
            describe([1, 2], &[("glibc", 4e6), ("keel", 4.3e6)], None),
            "This call (1 more was preempted) took about the same time with every allocator: 4 \
             ms to 4.30 ms."
        );
        assert_eq!(
            describe([2, 5], &[("keel", 4e6)], Some(30.0)),
            "These 2 calls together (3 more were preempted) took 4 ms with keel. With the null \
             allocator: 30 ns."
        );
        assert_eq!(
            describe([2, 2], &[("keel", 40.0)], None),
            "These 2 calls together took 40 ns with keel."
        );
        assert_eq!(describe([2, 2], &[], Some(1.0)), "");
        assert_eq!(describe([0, 4], &took, Some(1.0)), "");
    }

    #[test]
    fn the_null_allocator_is_the_floor_and_no_contender() {
        let site = Site { values: vec![], stack: vec![], stacks: 1, compared: vec![2, 2, 60, 50] };
        let compared = vec!["keel".to_owned(), FLOOR.to_owned()];
        let profile = Profile { compared, ..Profile::default() };
        assert_eq!(
            same_calls(&profile, &site),
            "These 2 calls together took 60 ns with keel. At least half of this time was the cost \
             of measuring: the null allocator took 50 ns."
        );
        let nothing = Site { compared: vec![], ..site };
        assert_eq!(same_calls(&profile, &nothing), "");
    }
}
