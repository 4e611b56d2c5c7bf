//! The comparison as tables on the terminal and as JSON.

use crate::format::{bytes, count};
use keel_allocators::FLOOR;
use keel_measure::{QUANTILES, Summary, summary};
use keel_results::{AllocatorResult, Comparison, Run};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Operations with a table of their own; realloc, calloc and aligned get one if the journal has them.
const OPERATIONS: [&str; 5] = ["malloc", "free", "calloc", "realloc", "aligned"];
const TITLES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "p99.99"];

/// The tables, ready to print.
pub fn text(comparison: &Comparison) -> String {
    let settings = &comparison.settings;
    let runs = if settings.runs == 1 { "1 run".to_owned() } else { format!("{} runs", settings.runs) };
    let timed = if settings.touch_timed { "" } else { " (not timed)" };
    let mut text = format!(
        "{}: pace {}, touch {}{timed}, {runs} of each allocator\n",
        comparison.journal.name, settings.pace, settings.touch
    );
    for operation in OPERATIONS {
        // The rare ones would be noise between the two that everyone looks for; they are in the JSON and on the page.
        let count = comparison.journal.operations.get(operation).copied().unwrap_or(0);
        let total: u64 = comparison.journal.operations.values().sum();
        if count > 0 && (operation == "malloc" || operation == "free" || count * 50 >= total) {
            latency_table(&mut text, comparison, operation, count);
        }
    }
    totals_table(&mut text, comparison);
    text
}

/// Rows in the order asked for; the floor last, apart.
fn rows(comparison: &Comparison) -> impl Iterator<Item = &AllocatorResult> {
    let measured = || comparison.allocators.iter().filter(|one| !one.runs.is_empty());
    measured().filter(|one| one.name != FLOOR).chain(measured().filter(|one| one.name == FLOOR))
}

fn label(name: &str) -> String {
    if name == FLOOR { "(floor)".to_owned() } else { name.to_owned() }
}

fn latency_table(text: &mut String, comparison: &Comparison, operation: &str, calls: u64) {
    let mut table = vec![vec![operation.to_owned(), "mean".to_owned()]];
    table[0].extend(TITLES.iter().map(|&title| title.to_owned()));
    table[0].push("worst".to_owned());
    table[0].push("p99.9 of runs".to_owned());
    for allocator in rows(comparison) {
        let Some(summary) = summary(allocator, operation, comparison.clock.ticks_per_ns) else { continue };
        table.push(latency_row(&allocator.name, &summary, allocator.runs.len()));
    }
    let _ = writeln!(text, "\n{} {operation} calls in each run", count(calls));
    text.push_str(&aligned(&table));
}

fn latency_row(name: &str, summary: &Summary, runs: usize) -> Vec<String> {
    let mut row = vec![label(name), duration(summary.mean)];
    row.extend(summary.quantiles.iter().map(|&ns| duration(ns)));
    row.push(duration(summary.worst));
    let spread = summary.spreads[3];
    row.push(match runs {
        0 | 1 => String::new(),
        _ => format!("{} .. {}", duration(spread.least), duration(spread.most)),
    });
    row
}

fn totals_table(text: &mut String, comparison: &Comparison) {
    let titles = ["whole run", "elapsed", "inside calls", "CPU", "waiting", "peak RSS", "faults"];
    let mut table = vec![titles.map(str::to_owned).to_vec()];
    for allocator in rows(comparison) {
        let middle = |field: &dyn Fn(&Run) -> f64| middle(&allocator.runs, field);
        table.push(vec![
            label(&allocator.name),
            duration(middle(&|run| run.elapsed_ns as f64)),
            duration(middle(&|run| keel_measure::total_inside(run))),
            duration(middle(&|run| run.cpu_ns as f64)),
            duration(middle(&|run| run.waited_ns as f64)),
            bytes(middle(&|run| run.peak_rss_bytes as f64) as u64),
            count(middle(&|run| (run.minor_faults + run.major_faults) as f64) as u64),
        ]);
    }
    let live = comparison.journal.peak_live_bytes;
    let _ = writeln!(text, "\nof the middle run by each column; live at most {}", bytes(live));
    text.push_str(&aligned(&table));
}

fn middle(runs: &[Run], field: &dyn Fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(field).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The same as data.
pub fn json(comparison: &Comparison, folder: &Path) -> Value {
    let allocators: Vec<Value> = comparison
        .allocators
        .iter()
        .map(|allocator| {
            let operations: serde_json::Map<String, Value> = OPERATIONS
                .iter()
                .filter_map(|&operation| {
                    let summary = summary(allocator, operation, comparison.clock.ticks_per_ns)?;
                    Some((operation.to_owned(), json_summary(&summary)))
                })
                .collect();
            let middle = |field: &dyn Fn(&Run) -> f64| middle(&allocator.runs, field);
            json!({
                "name": allocator.name,
                "version": allocator.version,
                "failure": allocator.failure,
                "runs": allocator.runs.len(),
                "latency_ns": operations,
                "elapsed_ns": middle(&|run| run.elapsed_ns as f64),
                "inside_ns": middle(&|run| keel_measure::total_inside(run)),
                "cpu_ns": middle(&|run| run.cpu_ns as f64),
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
        "allocators": allocators,
        "notes": comparison.notes,
    })
}

fn json_summary(summary: &Summary) -> Value {
    let mut object = serde_json::Map::new();
    object.insert("count".to_owned(), json!(summary.count));
    object.insert("mean".to_owned(), json!(summary.mean));
    for (index, title) in TITLES.iter().enumerate().take(QUANTILES.len()) {
        let spread = summary.spreads[index];
        let value = json!({
            "all_runs": summary.quantiles[index],
            "least": spread.least,
            "median": spread.median,
            "most": spread.most,
        });
        object.insert((*title).to_owned(), value);
    }
    object.insert("worst".to_owned(), json!(summary.worst));
    Value::Object(object)
}

/// Columns under their titles: names to the left, numbers to the right.
fn aligned(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in table {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(line, "  {cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A duration in nanoseconds, to three digits: `5.21 ns`, `31 ns`, `1.06 us`, `2.4 s`.
fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "us"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_the_unit_that_fits() {
        let shown = [5.208, 31.04, 218.0, 999.4, 999.6, 1_064.0, 25_800.0, 842_000.0, 3.2e6, 12.34e9];
        let expected = [
            "5.21 ns", "31.0 ns", "218 ns", "999 ns", "1.00 us", "1.06 us", "25.8 us", "842 us", "3.20 ms",
            "12.3 s",
        ];
        assert_eq!(shown.map(duration), expected);
    }

    #[test]
    fn columns_stand_under_their_titles() {
        let table = [["malloc", "mean"], ["keel", "5 ns"], ["mimalloc", "11 ns"]];
        let table: Vec<Vec<String>> = table.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        assert_eq!(aligned(&table), "  malloc     mean\n  keel       5 ns\n  mimalloc  11 ns\n");
    }
}
