//! Whether the rounds so far agree which allocators are slower than the fastest one.

use super::{median, total_inside};
use crate::{AllocatorResult, Comparison};
use std::collections::BTreeMap;

/// A smaller difference in the time of all calls does not matter.
const MATTERS: f64 = 1.05;

/// The allocators whose rounds disagree on whether they are slower than the fastest one by a
/// difference that matters, and the fastest one; nobody if all rounds agree. The order of
/// `comparison.allocators`.
pub fn undecided(comparison: &Comparison, floor: &str) -> Vec<usize> {
    let times: Vec<BTreeMap<u32, f64>> = comparison.allocators.iter().map(times).collect();
    let middle = |index: &usize| median(times[*index].values().copied()).unwrap_or(f64::INFINITY);
    let contenders = (0..times.len()).filter(|index| {
        let result = &comparison.allocators[*index];
        result.name != floor && result.failure.is_none() && !times[*index].is_empty()
    });
    let contenders: Vec<usize> = contenders.collect();
    let fastest = contenders.iter().min_by(|a, b| middle(a).total_cmp(&middle(b))).copied();
    let Some(fastest) = fastest else { return Vec::new() };
    let is_undecided = |index: &usize| {
        let rounds = times[*index].iter();
        let ratios = rounds.filter_map(|(round, time)| Some(time / times[fastest].get(round)?));
        let slower: Vec<bool> = ratios.map(|ratio| ratio > MATTERS).collect();
        slower.contains(&true) && slower.contains(&false)
    };
    let mut found: Vec<usize> = contenders.into_iter().filter(is_undecided).collect();
    if !found.is_empty() {
        found.push(fastest);
        found.sort_unstable();
        found.dedup();
    }
    found
}

/// By round: the time of all operations, without single clock readings if there are such runs.
fn times(result: &AllocatorResult) -> BTreeMap<u32, f64> {
    if result.throughput.is_empty() {
        return result.runs.iter().map(|run| (run.round, total_inside(run))).collect();
    }
    result.throughput.iter().map(|run| (run.round, run.elapsed_ns as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Throughput;

    fn comparison(all: &[(&str, &[u64])]) -> Comparison {
        let of = |(name, times): &(&str, &[u64])| AllocatorResult {
            name: (*name).to_owned(),
            throughput: (0..)
                .zip(*times)
                .map(|(round, time)| Throughput {
                    round,
                    elapsed_ns: *time,
                    ..Throughput::default()
                })
                .collect(),
            ..AllocatorResult::default()
        };
        Comparison { allocators: all.iter().map(of).collect(), ..Comparison::default() }
    }

    #[test]
    fn rounds_that_disagree_are_undecided() {
        let clear = comparison(&[("a", &[100, 101]), ("b", &[130, 120]), ("null", &[9, 9])]);
        assert_eq!(undecided(&clear, "null"), [0; 0]);
        let equal = comparison(&[("a", &[100, 101]), ("b", &[101, 100])]);
        assert_eq!(undecided(&equal, "null"), [0; 0], "no difference is a decision");
        let open = comparison(&[("a", &[100, 101]), ("b", &[130, 102]), ("c", &[200, 200])]);
        assert_eq!(undecided(&open, "null"), [0, 1]);
        assert_eq!(undecided(&Comparison::default(), "null"), [0; 0]);
    }
}
