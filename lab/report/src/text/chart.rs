//! A chart of latencies for the terminal.

use crate::figures::{OperationSummary, power_of_ten, summarize};
use crate::words::duration;
use keel_results::{Comparison, figure_label};
use std::fmt::Write as _;

/// Marks of the chart, from left to right, by the columns of [`keel_results::PERCENTILES`].
const MARKS: [(char, &str); 4] = [('●', "p50"), ('◆', "p99"), ('■', "p999"), ('▲', "p9999")];
const WORST: char = '×';

/// The marks and their meaning.
fn legend() -> String {
    let percentiles = MARKS.map(|(mark, column)| format!("{mark} {}", figure_label(column)));
    format!("{}  {WORST} worst", percentiles.join("  "))
}

/// Latency percentiles: a line for each allocator on a logarithmic axis, at most `width` characters
/// wide (at least 40). Empty if no allocator has the operation.
///
/// Each mark is the median over runs. A percentile with fewer than ten calls above it has no mark.
pub fn chart(comparison: &Comparison, operation: &str, width: usize) -> String {
    let results = comparison.allocators.iter();
    let rows: Vec<(&str, OperationSummary)> = results
        .filter_map(|one| {
            Some((one.name.as_str(), summarize(one, &comparison.clock).remove(operation)?))
        })
        .collect();
    let values = || rows.iter().flat_map(|(_, summary)| marks(summary)).map(|(_, ns)| ns);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(1.0, f64::max));
    if rows.is_empty() || !low.is_finite() {
        return String::new();
    }
    let names = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let axis =
        Axis { low: low.max(1.0) * 0.9, high: high * 1.1, columns: width.max(40) - names - 2 };
    let mut text = format!("{operation}: {}\n", legend());
    for (name, summary) in rows {
        let _ = writeln!(text, "{name:<names$}  {}", axis.line(&marks(&summary)).trim_end());
    }
    let _ = writeln!(text, "{:names$}  {}", "", axis.ticks().trim_end());
    text
}

/// The marks of a line, the rightmost last.
fn marks(summary: &OperationSummary) -> Vec<(char, f64)> {
    let found = MARKS
        .iter()
        .filter_map(|(mark, name)| Some((*mark, summary.percentiles.get(name)?.median)));
    found.chain([(WORST, summary.worst.median)]).collect()
}

struct Axis {
    low: f64,
    high: f64,
    columns: usize,
}

impl Axis {
    fn column(&self, ns: f64) -> usize {
        let part = (ns.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln();
        (part * (self.columns - 1) as f64).round() as usize
    }

    fn line(&self, marks: &[(char, f64)]) -> String {
        let mut line = vec![' '; self.columns];
        let ends =
            [marks.first(), marks.last()].map(|mark| mark.map_or(0, |(_, ns)| self.column(*ns)));
        line[ends[0]..=ends[1].max(ends[0])].fill('─');
        // Higher percentiles are drawn last: they cover lower ones in the same column.
        marks.iter().for_each(|(mark, ns)| line[self.column(*ns)] = *mark);
        line.into_iter().collect()
    }

    fn ticks(&self) -> String {
        let mut line = vec![' '; self.columns];
        let mut free = 0;
        let decades = (self.low.log10().ceil() as i32)..=(self.high.log10().floor() as i32);
        for power in decades {
            let ns = power_of_ten(power);
            let (at, label): (usize, Vec<char>) = (self.column(ns), duration(ns).chars().collect());
            if at >= free && at + label.len() <= self.columns {
                line[at..at + label.len()].copy_from_slice(&label);
                free = at + label.len() + 2;
            }
        }
        line.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::text::sample::comparison;

    #[test]
    fn the_chart_has_a_line_for_each_allocator_with_its_marks_in_order() {
        assert_eq!(legend(), "● p50  ◆ p99  ■ p99.9  ▲ p99.99  × worst");
        let text = chart(&comparison(), "malloc", 70);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 70), "{text}");
        let at = |line: &str, mark| line.chars().position(|found| found == mark).unwrap();
        assert!(at(lines[1], '●') < at(lines[1], '×'), "{text}");
        assert!(
            at(lines[1], '●') < at(lines[2], '●'),
            "four times slower is further right: {text}"
        );
        assert!(lines[3].contains("10 µs"), "{text}");
        assert_eq!(chart(&comparison(), "free", 70), "");
    }
}
