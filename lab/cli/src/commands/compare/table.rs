//! The comparison as tables on the terminal and as JSON.

use crate::table::aligned;
use keel_allocators::FLOOR;
use keel_results::text::{bytes, count, counted, duration};
use keel_results::{
    AllocatorResult, CAUSE_WORDS, Comparison, Interval, OPERATIONS, PERCENTILES, Percentile, Run,
    Summary, summary, supports_percentile,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// The percentiles that have a column: rarer ones are in the JSON and on the page.
const SHOWN: [Percentile; 5] = {
    let [p50, p90, p99, p999, p9999, _] = PERCENTILES;
    [p50, p90, p99, p999, p9999]
};

/// The tables, ready to print.
pub fn text(comparison: &Comparison) -> String {
    let settings = &comparison.settings;
    let runs = settings.runs_in_words();
    let timed = if settings.touch_timed { "" } else { " (not timed)" };
    let between = match settings.evict_bytes {
        0 => String::new(),
        _ if settings.evict_recorded => ", between calls evict=auto".to_owned(),
        bytes => format!(", between calls evict={}", keel_results::text::bytes(bytes as f64)),
    };
    let mut text = format!(
        "{}: pace {}{between}, touch {}{timed}, {runs} of each allocator\n",
        comparison.journal.name, settings.pace, settings.touch
    );
    for operation in OPERATIONS {
        // Besides malloc and free only operations that are at least 2 % of all; the JSON and the
        // page have every one.
        let count = comparison.journal.operations.get(operation).copied().unwrap_or(0);
        let total: u64 = comparison.journal.operations.values().sum();
        if count > 0 && (operation == "malloc" || operation == "free" || count * 50 >= total) {
            latency_table(&mut text, comparison, operation, count);
        }
    }
    totals_table(&mut text, comparison);
    causes_table(&mut text, comparison);
    verdicts(&mut text, comparison);
    text
}

/// The measured allocators in the order of the command line; the floor last.
fn rows(comparison: &Comparison) -> impl Iterator<Item = &AllocatorResult> {
    let measured = || comparison.allocators.iter().filter(|one| !one.runs.is_empty());
    measured().filter(|one| one.name != FLOOR).chain(measured().filter(|one| one.name == FLOOR))
}

fn label(allocator: &AllocatorResult) -> String {
    match allocator.name.as_str() {
        FLOOR => format!("{FLOOR} (does nothing)"),
        _ => allocator.label(),
    }
}

fn latency_table(text: &mut String, comparison: &Comparison, operation: &str, calls: u64) {
    let mut table = vec![vec![operation.to_owned(), "mean".to_owned()]];
    table[0].extend(SHOWN.map(|percentile| percentile.label.to_owned()));
    table[0].push("worst".to_owned());
    table[0].push("p99.9 (95 %)".to_owned());
    for allocator in rows(comparison) {
        let Some(summary) = summary(allocator, operation, &comparison.clock) else { continue };
        let interval = allocator.intervals.get(operation).and_then(|figures| figures.get("p99.9"));
        table.push(latency_row(
            label(allocator),
            &summary,
            interval.filter(|_| allocator.runs.len() > 1),
        ));
    }
    let _ = writeln!(text, "\n{} in each run", counted(calls, &format!("{operation} call")));
    text.push_str(&aligned(&table));
}

fn latency_row(label: String, summary: &Summary, interval: Option<&Interval>) -> Vec<String> {
    let mut row = vec![label, duration(summary.mean)];
    // A percentile needs at least ten calls beyond it in each run.
    row.extend(summary.percentiles.iter().zip(SHOWN).map(|(&ns, percentile)| {
        if supports_percentile(summary.fewest, percentile.fraction) {
            duration(ns)
        } else {
            String::new()
        }
    }));
    row.push(duration(summary.worst));
    row.push(interval.map_or(String::new(), |p999| {
        format!("{} .. {}", duration(p999.low), duration(p999.high))
    }));
    row
}

fn totals_table(text: &mut String, comparison: &Comparison) {
    let titles = [
        "whole run",
        "time/op",
        "elapsed",
        "in calls",
        "CPU",
        "background",
        "waiting",
        "peak RSS",
        "of live",
        "internal",
        "faults",
    ];
    let mut table = vec![titles.map(str::to_owned).to_vec()];
    for allocator in rows(comparison) {
        let middle = |field: &dyn Fn(&Run) -> f64| middle(&allocator.runs, field);
        table.push(vec![
            label(allocator),
            per_operation(allocator),
            duration(middle(&|run| run.elapsed_ns as f64)),
            duration(middle(&|run| keel_results::total_inside(run))),
            duration(middle(&|run| run.cpu_ns as f64)),
            duration(middle(&|run| run.background_cpu_ns as f64)),
            duration(middle(&|run| run.waited_ns as f64)),
            bytes(middle(&|run| run.peak_rss_bytes as f64)),
            match middle(&|run| run.fragmentation.map_or(0.0, |figures| figures.peaks)) {
                _ if allocator.name == FLOOR => String::new(),
                ratio => format!("{ratio:.2}"),
            },
            allocator.usable_excess.map_or(String::new(), |excess| {
                let asked = excess.live_at_peak.max(1) as f64;
                format!("{:.1} %", (excess.usable_at_peak as f64 / asked - 1.0) * 100.0)
            }),
            count(middle(&|run| (run.minor_faults + run.major_faults) as f64) as u64),
        ]);
    }
    let live = comparison.journal.peak_live_bytes;
    let _ = writeln!(
        text,
        "\nmedians of the runs; time/op: time for each operation, in runs that do not time single \
         calls; background: CPU time of the allocator's own threads; of live: peak RSS divided by \
         the program's peak of live bytes, {}; internal: usable bytes beyond the requested bytes, \
         at the peak, in % of the requested bytes",
        bytes(live as f64)
    );
    text.push_str(&aligned(&table));
}

/// Time for each operation: the median over the runs that do not time each call.
fn per_operation(allocator: &AllocatorResult) -> String {
    let figure = keel_results::median(
        allocator.throughput.iter().map(|run| run.elapsed_ns as f64 / run.operations.max(1) as f64),
    );
    figure.map_or(String::new(), duration)
}

/// The causes of the slowest calls, as shares of the time inside these calls.
fn causes_table(text: &mut String, comparison: &Comparison) {
    let slow = |allocator: &AllocatorResult, word: &str| {
        let counts = allocator.runs.iter().filter_map(|run| run.slow_causes.get(word));
        counts.fold((0, 0.0), |(calls, ns), count| (calls + count.calls, ns + count.ns))
    };
    let words: Vec<&str> = CAUSE_WORDS
        .into_iter()
        .filter(|word| rows(comparison).any(|allocator| slow(allocator, word).0 > 0))
        .collect();
    if words.is_empty() {
        return;
    }
    let mut table = vec![vec!["by cause".to_owned(), "calls".to_owned(), "time".to_owned()]];
    table[0].extend(words.iter().map(|word| (*word).to_owned()));
    for allocator in rows(comparison) {
        let all = CAUSE_WORDS.map(|word| slow(allocator, word));
        let (calls, ns) = all.iter().fold((0, 0.0), |(calls, ns), one| (calls + one.0, ns + one.1));
        let mut row = vec![label(allocator), count(calls), duration(ns)];
        row.extend(words.iter().map(|word| match slow(allocator, word).1 {
            0.0 => String::new(),
            part => format!("{:.0} %", part * 100.0 / ns),
        }));
        table.push(row);
    }
    text.push_str(
        "\nthe slowest 0.1 % of the calls of all runs, and the share of each cause in their time\n",
    );
    text.push_str(&aligned(&table));
}

/// The allocators with the lowest figures.
fn verdicts(text: &mut String, comparison: &Comparison) {
    let mut lines = String::new();
    for (operation, figure) in
        [("malloc", "p50"), ("malloc", "p99.9"), ("free", "p50"), ("free", "p99.9")]
    {
        let leaders = keel_results::leaders(comparison, operation, figure);
        let what = format!("{operation} {figure}");
        match leaders.as_slice() {
            [] => {}
            [one] => _ = writeln!(lines, "  {what:<12}  {one}"),
            several => {
                _ = writeln!(
                    lines,
                    "  {what:<12}  {} (no significant difference between them)",
                    several.join(", ")
                )
            }
        }
    }
    if !lines.is_empty() {
        let _ =
            write!(text, "\nlowest allocators (95 % confidence, compared within rounds)\n{lines}");
    }
}

fn middle(runs: &[Run], field: &dyn Fn(&Run) -> f64) -> f64 {
    keel_results::median(runs.iter().map(field)).unwrap_or(0.0)
}

/// The tables as JSON.
pub fn json(comparison: &Comparison, folder: &Path) -> Value {
    let allocators: Vec<Value> = comparison
        .allocators
        .iter()
        .map(|allocator| {
            let operations: serde_json::Map<String, Value> = OPERATIONS
                .iter()
                .filter_map(|&operation| {
                    let summary = summary(allocator, operation, &comparison.clock)?;
                    Some((operation.to_owned(), json_summary(&summary)))
                })
                .collect();
            let middle = |field: &dyn Fn(&Run) -> f64| middle(&allocator.runs, field);
            let runs = &allocator.runs;
            json!({
                "name": allocator.name,
                "version": allocator.version,
                "failure": allocator.failure,
                "runs": runs.len(),
                "discarded": allocator.discarded,
                "interference": runs.iter().map(|run| &run.interference).collect::<Vec<_>>(),
                "empty_pair_ns": runs.iter().map(|run| run.empty_pair_ns).collect::<Vec<_>>(),
                "loop_ns": runs.iter().map(|run| run.loop_ns).collect::<Vec<_>>(),
                "environment": allocator.environment,
                "intervals": allocator.intervals,
                "slow_causes": runs.iter().map(|run| &run.slow_causes).collect::<Vec<_>>(),
                "throughput": allocator.throughput,
                "usable_excess": allocator.usable_excess,
                "latency_ns": operations,
                "elapsed_ns": middle(&|run| run.elapsed_ns as f64),
                "inside_ns": middle(&|run| keel_results::total_inside(run)),
                "cpu_ns": middle(&|run| run.cpu_ns as f64),
                "background_cpu_ns": middle(&|run| run.background_cpu_ns as f64),
                "waited_ns": middle(&|run| run.waited_ns as f64),
                "peak_rss_bytes": middle(&|run| run.peak_rss_bytes as f64),
                "faults": middle(&|run| (run.minor_faults + run.major_faults) as f64),
            })
        })
        .collect();
    json!({
        "folder": folder,
        "journal": comparison.journal.name,
        "settings": comparison.settings,
        "machine": comparison.machine,
        "instrument": comparison.instrument,
        "paired": comparison.paired,
        "allocators": allocators,
        "notes": comparison.notes,
    })
}

fn json_summary(summary: &Summary) -> Value {
    let mut object = serde_json::Map::new();
    object.insert("count".to_owned(), json!(summary.count));
    object.insert("mean".to_owned(), json!(summary.mean));
    for (index, percentile) in PERCENTILES.iter().enumerate() {
        let spread = summary.spreads[index];
        let value = json!({
            "all_runs": summary.percentiles[index],
            "least": spread.least,
            "median": spread.median,
            "most": spread.most,
        });
        object.insert(percentile.label.to_owned(), value);
    }
    object.insert("worst".to_owned(), json!(summary.worst));
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_with_too_few_calls_beyond_them_are_left_out() {
        let of = |fewest| Summary {
            fewest,
            percentiles: [20.0, 30.0, 40.0, 50.0, 60.0, 70.0],
            ..Summary::default()
        };
        let shown = |fewest| latency_row("keel".to_owned(), &of(fewest), None)[2..7].to_vec();
        assert_eq!(shown(1_000), ["20 ns", "30 ns", "40 ns", "", ""]);
        assert_eq!(shown(100_000), ["20 ns", "30 ns", "40 ns", "50 ns", "60 ns"]);
    }
}
