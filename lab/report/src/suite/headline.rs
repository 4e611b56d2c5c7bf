//! The sentence at the top of a suite's page.

use keel_results::{Suite, SuiteMetric, geometric_mean};

/// Rounds that a statement needs.
const LEAST_ROUNDS: u32 = 3;
/// From this share of disturbed runs on, a further sentence states the share.
const DISTURBED: f64 = 0.2;

/// One or two sentences: the allocators with the lowest time and the lowest peak memory. An
/// allocator is named only if it is lower than every other one in every round (in the geometric
/// mean over the workloads). Allocators with a failed run are not considered. If the machine
/// disturbed many runs, a further sentence states how many.
pub fn suite_headline(suite: &Suite) -> String {
    let share = suite.noise().disturbed;
    let caution = match share > DISTURBED {
        true => {
            format!(" Other programs or the host disturbed {:.0} % of the runs.", share * 100.0)
        }
        false => String::new(),
    };
    statement(suite) + &caution
}

fn statement(suite: &Suite) -> String {
    let all = suite.head.workloads.len();
    if suite.head.allocators.len() < 2 {
        return "One allocator: there is nothing to compare.".to_owned();
    }
    let means = suite.means("", SuiteMetric::Elapsed);
    let complete: Vec<&str> = suite
        .head
        .allocators
        .iter()
        .zip(&means)
        .filter(|(_, (_, count))| *count == all)
        .map(|(one, _)| one.name.as_str())
        .collect();
    if complete.is_empty() || all == 0 {
        return "No allocator completed every workload.".to_owned();
    }
    let [time, memory] =
        [SuiteMetric::Elapsed, SuiteMetric::Peak].map(|metric| lowest(suite, &complete, metric));
    let statement = match (time, memory) {
        (Some(time), Some(memory)) if time == memory => {
            format!("{time} has the lowest elapsed time and the lowest peak memory.")
        }
        (Some(time), Some(memory)) => {
            format!("{time} has the lowest elapsed time, and {memory} the lowest peak memory.")
        }
        (Some(time), None) => format!(
            "{time} has the lowest elapsed time; no allocator has the lowest peak memory in every \
             round."
        ),
        (None, Some(memory)) => format!(
            "{memory} has the lowest peak memory; no allocator has the lowest elapsed time in \
             every round."
        ),
        (None, None) if rounds(suite) < LEAST_ROUNDS => {
            "There are fewer than three rounds: no allocator is named as the lowest.".to_owned()
        }
        (None, None) => "No allocator is the lowest in every round.".to_owned(),
    };
    match suite.head.allocators.len() - complete.len() {
        0 => statement,
        1 => format!("{statement} One allocator did not complete every workload."),
        left => format!("{statement} {left} allocators did not complete every workload."),
    }
}

/// The number of rounds, the last of which may be incomplete.
fn rounds(suite: &Suite) -> u32 {
    suite.runs.iter().map(|run| run.round + 1).max().unwrap_or(0)
}

/// The allocator that is lower than each other one in every round.
fn lowest<'a>(suite: &Suite, names: &[&'a str], metric: SuiteMetric) -> Option<&'a str> {
    let rounds = rounds(suite);
    let is_lower = |one: &str, other: &str| {
        (0..rounds).all(|round| {
            let ratios = suite.head.workloads.iter().filter_map(|workload| {
                let value = |name| suite.value(&workload.key(), name, round, metric);
                Some(value(one)? / value(other)?).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
            });
            geometric_mean(ratios).is_some_and(|mean| mean < 1.0)
        })
    };
    let mut names_left = names.iter().copied();
    names_left.find(|one| {
        rounds >= LEAST_ROUNDS && names.iter().all(|other| other == one || is_lower(one, other))
    })
}
