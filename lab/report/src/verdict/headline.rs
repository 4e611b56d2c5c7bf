//! The first sentences of a report: the significantly lowest allocators, grouped; then the calls of
//! a frame or the tail latency, if nothing is significantly lowest in it.

use super::criteria::{Criterion, FEW_RUNS};
use super::sentences::NAMES;
use crate::figures::AllocatorFigures;
use crate::words;
use keel_results::figure_label;

/// One sentence or two.
pub fn headline(
    criteria: &[Criterion],
    allocators: &[AllocatorFigures],
    operation: &str,
    runs: usize,
) -> String {
    let compared = criteria.iter().map(|criterion| criterion.rows.len()).max().unwrap_or(0);
    if compared < 2 {
        return "Only one allocator was measured, so there is no comparison.".into();
    }
    if runs < 2 {
        return "Each allocator ran only once. This is not enough for a comparison.".into();
    }
    let mut lowest: Vec<(usize, Vec<&Criterion>)> = Vec::new();
    for criterion in criteria {
        let [index] = criterion.best.as_slice() else { continue };
        match lowest.iter_mut().find(|(known, _)| known == index) {
            Some((_, found)) => found.push(criterion),
            None => lowest.push((*index, vec![criterion])),
        }
    }
    lowest.sort_by_key(|(_, found)| std::cmp::Reverse(found.len()));
    let verb = if runs < FEW_RUNS { "seems to have" } else { "has" };
    let clauses = lowest.iter().map(|(index, found)| {
        format!("{} {verb} {}", allocators[*index].name, figures_of(found, operation))
    });
    let clauses: Vec<String> = clauses.collect();
    let text = match clauses.is_empty() {
        true => "No allocator is significantly lowest in any metric.".to_owned(),
        false => format!("{}.", clauses.join("; ")),
    };
    // A program with frames is judged by them, another one by its slow calls.
    let of = |id: &str| criteria.iter().find(|criterion| criterion.id == id);
    let tail = of("frame").or_else(|| of("p999")).or(criteria.first());
    match tail.filter(|criterion| criterion.best.len() != 1) {
        Some(criterion) => format!("{text} {}", undecided(criterion, allocators, runs)),
        None => text,
    }
}

/// `the lowest malloc p50 and p99.9, and the least peak memory`.
fn figures_of(found: &[&Criterion], operation: &str) -> String {
    let of_run = |criterion: &&Criterion| match criterion.id {
        "time" => Some("the least time in all calls"),
        "throughput" => Some("the least time per operation"),
        "frame" => Some("the least time in the calls of a frame"),
        "memory" => Some("the least peak memory"),
        _ => None,
    };
    let others: Vec<&str> = found.iter().filter_map(of_run).collect();
    let percentiles = found.iter().filter(|criterion| of_run(criterion).is_none());
    let percentiles: Vec<&str> = percentiles.map(|criterion| figure_label(criterion.id)).collect();
    let lowest = format!("the lowest {operation} {}", words::list(&percentiles));
    match (percentiles.len(), others.is_empty()) {
        (0, _) => words::list(&others),
        (_, true) => lowest,
        (1, false) => words::list(&[&[lowest.as_str()], others.as_slice()].concat()),
        _ => format!("{lowest}, and {}", words::list(&others)),
    }
}

/// The allocators between which a criterion does not decide; many names would not help.
fn undecided(criterion: &Criterion, allocators: &[AllocatorFigures], runs: usize) -> String {
    let title = match criterion.id {
        "frame" => "time in the calls of a frame".to_owned(),
        _ => criterion.title.replacen("Time", "time", 1).replacen("Peak", "peak", 1),
    };
    let name = |index: &usize| allocators[*index].name.as_str();
    let few = if runs < FEW_RUNS { format!(" with only {runs} runs") } else { String::new() };
    let why = if criterion.slight() { "less than half a percent" } else { "not significant" };
    match criterion.best.as_slice() {
        [] if !criterion.noisy.is_empty() => {
            format!("The lowest {title} is undecided{few}, because the runs vary too much.")
        }
        all if all.is_empty() || all.len() == criterion.rows.len() => {
            format!("The differences between the allocators in {title} are {why}{few}.")
        }
        [one, other] => {
            let names = [name(one), name(other)].join(" and ");
            format!("{names} have the lowest {title}; the difference between them is {why}{few}.")
        }
        several => {
            let names = match several {
                [first, others @ ..] if others.len() >= NAMES => {
                    format!("{} and {} other allocators", name(first), others.len())
                }
                few => words::list(&few.iter().map(name).collect::<Vec<_>>()),
            };
            format!("{names} have the lowest {title}; the differences between them are {why}{few}.")
        }
    }
}
