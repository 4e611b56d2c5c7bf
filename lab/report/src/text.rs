//! The figures as text: a chart for the terminal, Markdown for a pull request.

use crate::ReportError;
use crate::build::{figures_of, load};
use crate::model::{AllocatorFacts, Facts};
use crate::statistics::{Spread, lowest};
use crate::summary::OperationSummary;
use crate::words::{bytes, duration};
use keel_results::Comparison;
use std::fmt::Write as _;
use std::path::Path;

/// Marks of the chart, from left to right.
const MARKS: [(char, &str); 4] = [('●', "p50"), ('◆', "p99"), ('■', "p999"), ('▲', "p9999")];
const WORST: char = '×';

/// How rare is how slow, one line an allocator on a logarithmic axis, at most `width` characters wide (at least 40).
/// Empty if no allocator has the operation.
///
/// Each mark is the median over runs; a percentile with fewer than ten calls above it has none.
pub fn chart(comparison: &Comparison, operation: &str, width: usize) -> String {
    let facts = figures_of(comparison);
    let rows: Vec<(&str, &OperationSummary)> = facts
        .allocators
        .iter()
        .filter_map(|one| Some((one.name.as_str(), one.operations.get(operation)?)))
        .collect();
    let values = || rows.iter().flat_map(|(_, summary)| marks(summary)).map(|(_, ns)| ns);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(1.0, f64::max));
    if rows.is_empty() || !low.is_finite() {
        return String::new();
    }
    let names = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let axis = Axis { low: low.max(1.0) * 0.9, high: high * 1.1, columns: width.max(40) - names - 2 };
    let mut text = format!("{operation}: ● p50  ◆ p99  ■ p99.9  ▲ p99.99  × worst\n");
    for (name, summary) in rows {
        let _ = writeln!(text, "{name:<names$}  {}", axis.line(&marks(summary)).trim_end());
    }
    let _ = writeln!(text, "{:names$}  {}", "", axis.ticks().trim_end());
    text
}

/// The marks of a line, the rightmost last.
fn marks(summary: &OperationSummary) -> Vec<(char, f64)> {
    let found = MARKS.iter().filter_map(|(mark, name)| Some((*mark, summary.percentiles.get(name)?.median)));
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
        let ends = [marks.first(), marks.last()].map(|mark| mark.map_or(0, |(_, ns)| self.column(*ns)));
        line[ends[0]..=ends[1].max(ends[0])].fill('─');
        // Rarer ones are put last: where marks fall together, the rarest is seen.
        marks.iter().for_each(|(mark, ns)| line[self.column(*ns)] = *mark);
        line.into_iter().collect()
    }

    fn ticks(&self) -> String {
        let mut line = vec![' '; self.columns];
        let mut free = 0;
        let decades = (self.low.log10().ceil() as i32)..=(self.high.log10().floor() as i32);
        for power in decades {
            let ns = 10f64.powi(power);
            let (at, label): (usize, Vec<char>) = (self.column(ns), duration(ns).chars().collect());
            if at >= free && at + label.len() <= self.columns {
                line[at..at + label.len()].copy_from_slice(&label);
                free = at + label.len() + 2;
            }
        }
        line.into_iter().collect()
    }
}

/// A result folder's figures as Markdown: the verdict and a table an operation.
pub fn markdown(folder: &Path) -> Result<String, ReportError> {
    let comparison = load(folder)?;
    let facts = figures_of(&comparison);
    let settings = &facts.settings;
    let mut text = format!("### malloc of `{}`\n\n{}\n\n", facts.journal.name, facts.verdict.headline);
    for operation in facts.operations.iter().copied() {
        operation_table(&mut text, &facts, operation);
    }
    for caution in &facts.verdict.cautions {
        let _ = writeln!(text, "- {caution}");
    }
    let runs = if settings.runs == 1 { "one run".to_owned() } else { format!("{} runs", settings.runs) };
    let _ = writeln!(
        text,
        "\n<sub>Medians over {runs}, pace {}, touch {}, on {}; bold: lowest, with all whose runs overlap with its \
         runs. keel {}</sub>\n",
        settings.pace, settings.touch, facts.machine.cpu, facts.keel_version
    );
    Ok(text)
}

fn operation_table(text: &mut String, facts: &Facts, operation: &str) {
    type Figure<'a> = (&'a str, Box<dyn Fn(&AllocatorFacts) -> Option<Spread> + 'a>);
    let percentile = |name: &'static str| {
        move |one: &AllocatorFacts| one.operations.get(operation)?.percentiles.get(name).copied()
    };
    let columns: Vec<Figure<'_>> = vec![
        ("mean", Box::new(|one| Some(one.operations.get(operation)?.mean))),
        ("p50", Box::new(percentile("p50"))),
        ("p99", Box::new(percentile("p99"))),
        ("p99.9", Box::new(percentile("p999"))),
        ("p99.99", Box::new(percentile("p9999"))),
        ("worst", Box::new(|one| Some(one.operations.get(operation)?.worst))),
        ("peak memory", Box::new(|one| one.figures.get("peak").copied().filter(|peak| peak.high > 0.0))),
    ];
    let _ = writeln!(
        text,
        "| {operation} | {} |",
        columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" | ")
    );
    let _ = writeln!(text, "|---|{}", "---:|".repeat(columns.len()));
    let rows =
        || facts.allocators.iter().enumerate().filter(|(_, one)| one.operations.contains_key(operation));
    let mut lines: Vec<String> = rows().map(|(_, one)| format!("| {} |", escaped(&one.name))).collect();
    for (name, figure) in &columns {
        let found: Vec<(usize, Spread)> = rows()
            .filter(|(_, one)| !one.floor)
            .filter_map(|(index, one)| Some((index, figure(one)?)))
            .collect();
        let memory = *name == "peak memory";
        let resolution = if memory { 0.0 } else { facts.clock.step_ns };
        let best = lowest(&found, resolution);
        for ((index, one), line) in rows().zip(&mut lines) {
            let cell = figure(one).map_or("–".to_owned(), |spread| {
                if memory { bytes(spread.median) } else { duration(spread.median) }
            });
            let bold = if best.len() < found.len() && best.contains(&index) { "**" } else { "" };
            let _ = write!(line, " {bold}{cell}{bold} |");
        }
    }
    let _ = writeln!(text, "{}\n", lines.join("\n"));
}

/// A name cannot end a cell or begin markup.
fn escaped(name: &str) -> String {
    name.replace('|', "\\|").replace('<', "&lt;").replace('`', "'")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use keel_results::{AllocatorResult, Clock, Histogram, RESULTS_VERSION, Run};
    use std::collections::BTreeMap;

    fn comparison() -> Comparison {
        let run = |factor: u64| {
            let mut malloc = Histogram::default();
            (1..=20_000u64).for_each(|value| malloc.0.record(value * factor).unwrap());
            Run { latency: BTreeMap::from([("malloc".to_owned(), malloc)]), ..Run::default() }
        };
        let allocator = |name: &str, factor| AllocatorResult {
            name: name.into(),
            runs: vec![run(factor), run(factor)],
            ..AllocatorResult::default()
        };
        Comparison {
            version: RESULTS_VERSION,
            clock: Clock { ticks_per_ns: 1.0, ..Clock::default() },
            allocators: vec![allocator("keel", 1), allocator("a|b", 4)],
            ..Comparison::default()
        }
    }

    #[test]
    fn the_chart_has_a_line_an_allocator_and_its_marks_in_order() {
        let text = chart(&comparison(), "malloc", 70);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 70), "{text}");
        let at = |line: &str, mark| line.chars().position(|found| found == mark).unwrap();
        assert!(at(lines[1], '●') < at(lines[1], '×'), "{text}");
        assert!(at(lines[1], '●') < at(lines[2], '●'), "four times slower is further right: {text}");
        assert!(lines[3].contains("10 µs"), "{text}");
        assert_eq!(chart(&comparison(), "free", 70), "");
    }

    #[test]
    fn markdown_marks_the_lowest_and_cannot_be_broken_by_a_name() {
        let folder = tempfile::tempdir().unwrap();
        comparison().save(folder.path()).unwrap();
        let text = markdown(folder.path()).unwrap();
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        assert!(line("| malloc |").contains("p99.9 | p99.99 | worst"), "{text}");
        assert!(line("| keel |").contains("**10.0 µs**"), "{text}");
        assert!(!line("| a\\|b |").contains("**"), "{text}");
        assert!(text.contains("Medians over"), "{text}");
    }
}
