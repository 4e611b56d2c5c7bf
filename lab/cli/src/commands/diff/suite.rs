//! `keel diff` of two suites of `keel bench --suite`.

use crate::{output, table};
use anyhow::{Result, bail};
use keel_results::{SUITE_FILE, Suite, SuiteMetric, geometric_mean};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// A metric of a workload on an allocator, in both suites.
struct Change {
    workload: String,
    allocator: String,
    metric: SuiteMetric,
    /// The later median divided by the earlier one.
    ratio: f64,
    /// Whether the ranges over the rounds do not overlap.
    clear: bool,
}

/// Whether the folder holds a suite.
pub fn is_suite(folder: &Path) -> bool {
    folder.join(SUITE_FILE).is_file()
}

/// Compares the workloads and allocators that both suites have. Exit code 1 if a metric rose
/// clearly above `limit`, a ratio.
pub fn run(before: &Path, after: &Path, limit: Option<f64>, as_json: bool) -> Result<ExitCode> {
    let (before, after) = (Suite::load(before)?, Suite::load(after)?);
    let changes = changes(&before, &after);
    if changes.is_empty() {
        bail!("no workload has results on the same allocator in both suites");
    }
    if as_json {
        let entries = changes.iter().map(|one| {
            json!({
                "workload": one.workload,
                "allocator": one.allocator,
                "metric": one.metric.title(),
                "ratio": one.ratio,
                "clear": one.clear,
            })
        });
        output::print_json(&entries.collect::<Vec<_>>())?;
    } else {
        output::print_text(&text(&changes))?;
    }
    if before.head.machine != after.head.machine {
        say!("note: the suites were run on different machines");
    }
    if before.head.scale != after.head.scale {
        say!("note: the synthetic workloads have different sizes");
    }
    let worse = limit.is_some_and(|limit| changes.iter().any(|one| one.clear && one.ratio > limit));
    Ok(if worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn changes(before: &Suite, after: &Suite) -> Vec<Change> {
    let mut changes = Vec::new();
    for metric in SuiteMetric::MAIN {
        for allocator in &before.head.allocators {
            for workload in &before.head.workloads {
                let key = workload.key();
                let spread = |suite: &Suite| suite.spread(&key, &allocator.name, metric);
                let (Some(old), Some(new)) = (spread(before), spread(after)) else { continue };
                if old.median <= 0.0 || new.median <= 0.0 {
                    continue;
                }
                changes.push(Change {
                    workload: key,
                    allocator: allocator.name.clone(),
                    metric,
                    ratio: new.median / old.median,
                    clear: new.least > old.most || new.most < old.least,
                });
            }
        }
    }
    changes
}

/// The mean of each allocator and metric, and the workloads that changed clearly, largest first.
fn text(changes: &[Change]) -> String {
    let titles = ["allocator", "metric", "mean ratio", "workloads", "clearly lower", "higher"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    let mut groups: Vec<(&str, SuiteMetric)> = Vec::new();
    for one in changes {
        if !groups.contains(&(&one.allocator, one.metric)) {
            groups.push((&one.allocator, one.metric));
        }
    }
    for (allocator, metric) in groups {
        let group =
            || changes.iter().filter(move |one| one.allocator == allocator && one.metric == metric);
        let mean = geometric_mean(group().map(|one| one.ratio)).unwrap_or(1.0);
        rows.push(vec![
            allocator.to_owned(),
            metric.title().to_owned(),
            format!("{mean:.3}"),
            group().count().to_string(),
            group().filter(|one| one.clear && one.ratio < 1.0).count().to_string(),
            group().filter(|one| one.clear && one.ratio > 1.0).count().to_string(),
        ]);
    }
    let mut clear: Vec<&Change> = changes.iter().filter(|one| one.clear).collect();
    clear.sort_by(|one, other| other.ratio.ln().abs().total_cmp(&one.ratio.ln().abs()));
    let mut text = table::aligned(&rows);
    if !clear.is_empty() {
        text += "\nWorkloads whose ranges over the rounds do not overlap:\n\n";
        let mut rows =
            vec![["workload", "allocator", "metric", "ratio"].map(str::to_owned).to_vec()];
        rows.extend(clear.iter().map(|one| {
            let ratio = format!("{:.3}", one.ratio);
            vec![one.workload.clone(), one.allocator.clone(), one.metric.title().to_owned(), ratio]
        }));
        text += &table::aligned(&rows);
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use keel_results::SuiteWorkload;
    use keel_results::{SuiteAllocator, SuiteHead, SuiteMeasured, SuiteOutcome, SuiteRun};

    fn suite(seconds: [f64; 2]) -> Suite {
        let runs = seconds.into_iter().zip(0..).map(|(elapsed_s, round)| SuiteRun {
            workload: "synthetic/larson".into(),
            allocator: "keel".into(),
            round,
            outcome: SuiteOutcome::Measured(SuiteMeasured {
                elapsed_s,
                cpu_s: 1.0,
                ..SuiteMeasured::default()
            }),
            ..SuiteRun::default()
        });
        let workload = SuiteWorkload {
            suite: "synthetic".into(),
            name: "larson".into(),
            ..SuiteWorkload::default()
        };
        let head = SuiteHead {
            workloads: vec![workload],
            allocators: vec![SuiteAllocator { name: "keel".into(), ..Default::default() }],
            ..SuiteHead::default()
        };
        Suite { head, runs: runs.collect() }
    }

    #[test]
    fn only_ranges_without_overlap_are_a_clear_change() {
        let found = changes(&suite([1.0, 2.0]), &suite([3.0, 6.0]));
        assert_eq!(found.len(), 2, "the peak is 0 and has no ratio");
        assert!(found[0].clear && (found[0].ratio - 3.0).abs() < 1e-12);
        assert!(!found[1].clear && found[1].metric == SuiteMetric::Cpu);
        assert!(!changes(&suite([1.0, 2.0]), &suite([1.5, 6.0]))[0].clear);
        let shown = text(&found);
        assert!(shown.contains("3.000") && shown.contains("do not overlap"), "{shown}");
    }
}
