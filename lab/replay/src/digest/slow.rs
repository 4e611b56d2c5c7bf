//! The slow calls of a run: those above the 99.9th percentile of their operation.

use keel_plan::{Kind, Plan, Results};
use keel_results::{CauseCount, Outlier, Run, cause_word};
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
    let limits = Kind::TIMED.map(|kind| {
        run.latency
            .get(kind.name())
            .map_or(u64::MAX, |histogram| histogram.0.value_at_quantile(0.999))
    });
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
