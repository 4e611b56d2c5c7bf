//! The sentence at the top of a suite's page.

use keel_results::{Suite, SuiteMetric};

/// One sentence: the allocators with the lowest geometric means of time and of peak memory, among
/// those that completed every workload.
pub fn suite_headline(suite: &Suite) -> String {
    let lowest = |metric| {
        let means = suite.means("", metric);
        let complete =
            means.iter().zip(&suite.head.allocators).filter_map(|((mean, count), one)| {
                Some(((*mean)?, one.name.as_str())).filter(|_| *count == suite.head.workloads.len())
            });
        complete.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
    };
    let [time, memory] = [SuiteMetric::Elapsed, SuiteMetric::Peak].map(lowest);
    match (time, memory) {
        (Some(time), Some(memory)) if time == memory => {
            format!("{time} has the lowest elapsed time and the lowest peak memory.")
        }
        (Some(time), Some(memory)) => {
            format!("{time} has the lowest elapsed time, and {memory} the lowest peak memory.")
        }
        _ => "No allocator completed every workload.".to_owned(),
    }
}
