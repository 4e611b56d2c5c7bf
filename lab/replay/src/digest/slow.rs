//! The slow calls of a run: those above the 99.9th percentile of their operation; of an operation
//! with fewer than a thousand calls, the slowest one.

use keel_plan::{Kind, Plan, Results};
use keel_results::{CauseCount, Histogram, Outlier, Run, cause_word};
use std::collections::BTreeMap;

/// The most outliers kept of a run.
const MAX_OUTLIERS: usize = 20_000;

/// Returns the worst slow calls, worst first, and the sums of all slow calls by cause.
pub fn slow_calls(
    plan: &Plan,
    results: &Results,
    run: &Run,
    ticks_per_ns: f64,
) -> (Vec<Outlier>, BTreeMap<String, CauseCount>) {
    let limits = Kind::TIMED.map(|kind| run.latency.get(kind.name()).map_or(u64::MAX, limit));
    let mut found = Vec::new();
    let mut causes: BTreeMap<&str, CauseCount> = BTreeMap::new();
    for thread in plan.threads() {
        let steps = plan.steps(thread).iter().filter(|step| step.is_timed());
        for (step, record) in steps.zip(results.records(thread.first_record, thread.records)) {
            if u64::from(record.ticks) <= limits[step.kind().class() as usize] {
                continue;
            }
            let ns = f64::from(record.ticks) / ticks_per_ns;
            let cause = causes.entry(cause_word(record.bits())).or_default();
            cause.calls += 1;
            cause.ns += ns;
            cause.worst_ns = cause.worst_ns.max(ns);
            found.push(Outlier {
                row: u64::from(step.row),
                start: (record.start as f64 / ticks_per_ns) as u64,
                ticks: record.ticks,
                cause: record.bits(),
                faults: record.faults(),
                calls: record.calls(),
            });
        }
    }
    found.sort_by_key(|outlier| (std::cmp::Reverse(outlier.ticks), outlier.row));
    found.truncate(MAX_OUTLIERS);
    (found, causes.into_iter().map(|(word, count)| (word.to_owned(), count)).collect())
}

/// Calls of more ticks are slow. A percentile of few calls is their longest one, which must not be
/// left out: it may be the worst hitch of all.
fn limit(calls: &Histogram) -> u64 {
    match calls.0.len() {
        0 => u64::MAX,
        1..1000 => calls.0.lowest_equivalent(calls.0.max()).saturating_sub(1),
        _ => calls.0.value_at_quantile(0.999),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn the_slowest_of_few_calls_is_slow() {
        let of = |calls: &[(u64, u64)]| {
            let mut counts = Histogram::default();
            counts.0.auto(true);
            calls.iter().for_each(|(ticks, times)| counts.0.record_n(*ticks, *times).unwrap());
            limit(&counts)
        };
        assert!((900_000..1_234_567).contains(&of(&[(100, 10), (1_234_567, 1)])));
        assert!((100..150).contains(&of(&[(100, 2000), (1_234_567, 1)])));
        assert_eq!(of(&[]), u64::MAX);
    }
}
