//! The numbers of a comparison as one flat JSON document for scripts, without histograms and ticks.

use crate::{ExportError, Written};
use keel_results::{AllocatorResult, Clock, Comparison, Histogram, Run};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

/// The percentiles of the Doom 3 blog, best to worst.
const PERCENTILES: [(&str, f64); 12] = [
    ("best", 0.0),
    ("p1", 0.01),
    ("p10", 0.1),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p999", 0.999),
    ("p9999", 0.9999),
    ("p99999", 0.99999),
    ("worst", 1.0),
];

#[derive(Serialize)]
struct Document<'a> {
    /// Version of this document. New keys may be added without a new version.
    version: u32,
    keel_version: &'a str,
    started: &'a str,
    machine: &'a keel_results::Machine,
    journal: &'a keel_results::JournalFacts,
    pace: &'a str,
    allocators: Vec<Allocator<'a>>,
}

#[derive(Serialize)]
struct Allocator<'a> {
    name: &'a str,
    version: &'a str,
    failure: Option<&'a str>,
    runs: usize,
    elapsed_ns: Spread,
    cpu_ns: Spread,
    waited_ns: Spread,
    peak_rss_bytes: Spread,
    page_faults: Spread,
    operations: BTreeMap<&'a str, Operation>,
}

#[derive(Serialize)]
struct Operation {
    /// Calls in all runs.
    count: u64,
    /// Mean latency, ns.
    mean_ns: f64,
    /// Time inside the calls of a run, ns.
    total_ns: Spread,
    /// By the names of [`PERCENTILES`], ns.
    latency_ns: BTreeMap<&'static str, Percentile>,
}

/// A percentile as in the table of `keel compare`: interpolated between the steps of the clock, and
/// never averaged. The best and the worst call are single readings.
#[derive(Serialize)]
struct Percentile {
    /// Over the calls of all runs together.
    all_runs: f64,
    /// Over the percentiles of single runs.
    #[serde(flatten)]
    spread: Spread,
}

/// Minimum, median and maximum over runs.
#[derive(Serialize)]
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
        Spread {
            least: at(0),
            median: at(values.len() / 2),
            most: at(values.len().saturating_sub(1)),
        }
    }
}

/// Writes the summary of all allocators, or of one.
///
/// # Errors
/// See [`ExportError`].
pub fn summary(
    folder: &Path,
    allocator: Option<&str>,
    output: &mut dyn Write,
) -> Result<Written, ExportError> {
    let mut comparison = Comparison::load(folder)?;
    comparison.clock.step_ticks = keel_results::known_step(&comparison);
    let wanted = |result: &&AllocatorResult| allocator.is_none_or(|name| result.name == name);
    let clock = &comparison.clock;
    let allocators: Vec<_> =
        comparison.allocators.iter().filter(wanted).map(|result| describe(result, clock)).collect();
    if let Some(name) = allocator.filter(|_| allocators.is_empty()) {
        let known: Vec<&str> =
            comparison.allocators.iter().map(|result| result.name.as_str()).collect();
        return Err(ExportError::Unknown { name: name.to_owned(), known: known.join(", ") });
    }
    let lines = allocators.len() as u64;
    let document = Document {
        version: 1,
        keel_version: &comparison.keel_version,
        started: &comparison.started,
        machine: &comparison.machine,
        journal: &comparison.journal,
        pace: &comparison.settings.pace,
        allocators,
    };
    serde_json::to_writer_pretty(&mut *output, &document).map_err(std::io::Error::from)?;
    writeln!(output)?;
    Ok(Written { allocator: allocator.unwrap_or("all allocators").to_owned(), lines })
}

fn describe<'a>(result: &'a AllocatorResult, clock: &Clock) -> Allocator<'a> {
    let spread =
        |value: fn(&Run) -> u64| Spread::of(result.runs.iter().map(|run| value(run) as f64));
    let names: BTreeSet<&str> =
        result.runs.iter().flat_map(|run| run.latency.keys()).map(String::as_str).collect();
    let operations =
        names.into_iter().filter_map(|name| Some((name, operation(result, name, clock)?)));
    Allocator {
        name: &result.name,
        version: &result.version,
        failure: result.failure.as_deref(),
        runs: result.runs.len(),
        elapsed_ns: spread(|run| run.elapsed_ns),
        cpu_ns: spread(|run| run.cpu_ns),
        waited_ns: spread(|run| run.waited_ns),
        peak_rss_bytes: spread(|run| run.peak_rss_bytes),
        page_faults: spread(|run| run.minor_faults + run.major_faults),
        operations: operations.collect(),
    }
}

fn operation(result: &AllocatorResult, name: &str, clock: &Clock) -> Option<Operation> {
    let latencies = || result.runs.iter().filter_map(|run| run.latency.get(name));
    let filled: Vec<&Histogram> = latencies().filter(|histogram| !histogram.0.is_empty()).collect();
    let all = keel_results::all_runs(&filled)?;
    let inside = || result.runs.iter().filter_map(|run| run.inside_ns.get(name).copied());
    let at = |histogram: &Histogram, quantile: f64| {
        let ticks = match quantile {
            0.0 => histogram.0.min() as f64,
            1.0 => histogram.0.max() as f64,
            _ => keel_results::percentile(&histogram.0, quantile, clock.step_ticks),
        };
        ticks / clock.ticks_per_ns
    };
    let percentile = |&(name, quantile): &(&'static str, f64)| {
        let spread = Spread::of(filled.iter().map(|histogram| at(histogram, quantile)));
        (name, Percentile { all_runs: at(&all, quantile), spread })
    };
    Some(Operation {
        count: all.0.len(),
        mean_ns: inside().sum::<f64>()
            / result.runs.iter().map(|run| run.calls(name)).sum::<u64>() as f64,
        total_ns: Spread::of(inside()),
        latency_ns: PERCENTILES.iter().map(percentile).collect(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;
    use crate::sample::{folder, three_runs};

    #[test]
    fn numbers_are_in_nanoseconds() {
        let folder = folder();
        let mut output = Vec::new();
        assert_eq!(summary(folder.path(), None, &mut output).unwrap().lines, 2);
        let document: serde_json::Value = serde_json::from_slice(&output).unwrap();
        let malloc = &document["allocators"][1]["operations"]["malloc"];
        assert_eq!(malloc["count"], 3);
        assert_eq!(malloc["latency_ns"]["best"]["median"], 10.0);
        assert_eq!(malloc["latency_ns"]["worst"]["most"], 20.0);
        assert!(summary(folder.path(), Some("x"), &mut Vec::new()).is_err());
    }

    #[test]
    fn percentiles_are_those_of_the_table() {
        for step_ticks in [26, 0] {
            let folder = three_runs(step_ticks);
            let mut output = Vec::new();
            summary(folder.path(), None, &mut output).unwrap();
            let document: serde_json::Value = serde_json::from_slice(&output).unwrap();
            let exported = &document["allocators"][0]["operations"]["malloc"];
            let mut comparison = Comparison::load(folder.path()).unwrap();
            comparison.clock.step_ticks = 26;
            let table =
                keel_results::summary(&comparison.allocators[0], "malloc", &comparison.clock)
                    .unwrap();
            let close = |one: &serde_json::Value, other: f64| {
                assert!((one.as_f64().unwrap() - other).abs() < 1e-9, "{one} and {other}");
            };
            close(&exported["mean_ns"], table.mean);
            let names = ["p50", "p90", "p99", "p999", "p9999"];
            for ((name, all), spread) in names.iter().zip(table.percentiles).zip(table.spreads) {
                close(&exported["latency_ns"][name]["all_runs"], all);
                close(&exported["latency_ns"][name]["least"], spread.least);
                close(&exported["latency_ns"][name]["median"], spread.median);
                close(&exported["latency_ns"][name]["most"], spread.most);
            }
            let median = exported["latency_ns"]["p50"]["median"].as_f64().unwrap();
            assert!(
                (median / 10.0).fract() > 0.01,
                "{median} ns is a reading of the clock, not interpolated"
            );
            close(&exported["latency_ns"]["best"]["most"], 20.0);
        }
    }
}
