//! The figures as text: a chart and the verdict for the terminal, Markdown for a pull request.

use crate::ReportError;
use crate::build::{figures_of, load};
use crate::contest::lowest;
use crate::hitch::hitches;
use crate::model::{AllocatorFacts, Facts};
use crate::statistics::Spread;
use crate::summary::OperationSummary;
use crate::words::{bytes, duration};
use keel_results::{Comparison, RUN};
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

/// What the runs bear, a line a criterion, behind a headline; then the worst hitch and whose doing it was. For the
/// terminal. `folder` is where the comparison lies.
pub fn verdict(comparison: &Comparison, folder: &Path) -> Result<String, ReportError> {
    let verdict = figures_of(comparison).verdict;
    let width = verdict.criteria.iter().map(|one| one.title.len()).max().unwrap_or(0);
    let mut text = format!("{}\n", verdict.headline);
    if !verdict.overall.is_empty() {
        let _ = writeln!(text, "{}", verdict.overall);
    }
    for criterion in &verdict.criteria {
        let _ = writeln!(text, "  {:width$}  {}", criterion.title.to_lowercase(), criterion.sentence);
    }
    for hitch in hitches(comparison, folder)? {
        let _ = writeln!(text, "{hitch}");
    }
    Ok(text)
}

/// A result folder's figures as Markdown: the verdict, what it rests on, and a table an operation.
pub fn markdown(folder: &Path) -> Result<String, ReportError> {
    let comparison = load(folder)?;
    let facts = figures_of(&comparison);
    let settings = &facts.settings;
    let headline = [facts.verdict.headline.as_str(), facts.verdict.overall.as_str()].join(" ");
    let mut text = format!("### malloc of `{}`\n\n{}\n\n", facts.journal.name, headline.trim_end());
    for criterion in &facts.verdict.criteria {
        let _ = writeln!(text, "- **{}**: {}", criterion.title, escaped(&criterion.sentence));
    }
    text.push('\n');
    for hitch in hitches(&comparison, folder)? {
        let (title, rest) = hitch.split_once(": ").unwrap_or(("", &hitch));
        let _ = writeln!(text, "**{title}**: {}\n", escaped(rest));
    }
    for operation in facts.operations.iter().copied() {
        operation_table(&mut text, &comparison, &facts, operation);
    }
    for caution in &facts.verdict.cautions {
        let _ = writeln!(text, "- {caution}");
    }
    let runs = settings.runs_in_words();
    let _ = writeln!(
        text,
        "\n<sub>Medians over {runs}, pace {}, touch {}, on {}; bold: lowest, with all that cannot be told from it \
         (95 %, paired by round). keel {}</sub>\n",
        settings.pace, settings.touch, facts.machine.cpu, facts.keel_version
    );
    Ok(text)
}

/// Columns of a table: their titles, and the figures' names.
const COLUMNS: [(&str, &str); 7] = [
    ("mean", "mean"),
    ("p50", "p50"),
    ("p99", "p99"),
    ("p99.9", "p999"),
    ("p99.99", "p9999"),
    ("worst", "worst"),
    (PEAK, "peak"),
];
const PEAK: &str = "peak memory";

fn spread_of(one: &AllocatorFacts, operation: &str, figure: &str) -> Option<Spread> {
    let summary = one.operations.get(operation)?;
    match figure {
        "mean" => Some(summary.mean),
        "worst" => Some(summary.worst),
        "peak" => one.figures.get("peak").copied().filter(|peak| peak.high > 0.0),
        percentile => summary.percentiles.get(percentile).copied(),
    }
}

fn operation_table(text: &mut String, comparison: &Comparison, facts: &Facts, operation: &str) {
    let titles = COLUMNS.map(|(title, _)| title);
    let _ = writeln!(text, "| {operation} | {} | p99.9, 95 % |", titles.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(COLUMNS.len() + 1));
    let rows =
        || facts.allocators.iter().enumerate().filter(|(_, one)| one.operations.contains_key(operation));
    let mut lines: Vec<String> = rows().map(|(_, one)| format!("| {} |", escaped(&one.name))).collect();
    for (title, figure) in COLUMNS {
        let format = if title == PEAK { bytes } else { duration };
        let best = lowest(comparison, if title == PEAK { RUN } else { operation }, figure);
        let found = rows().filter(|(_, one)| !one.floor && spread_of(one, operation, figure).is_some());
        let found = found.count();
        for ((index, one), line) in rows().zip(&mut lines) {
            let spread = spread_of(one, operation, figure);
            let cell = spread.map_or("–".to_owned(), |spread| format(spread.median));
            let bold = if best.len() < found && best.contains(&index) { "**" } else { "" };
            let _ = write!(line, " {bold}{cell}{bold} |");
        }
    }
    for ((_, one), line) in rows().zip(&mut lines) {
        let spread = one.operations.get(operation).and_then(|found| found.percentiles.get("p999"));
        let interval = spread.and_then(|spread| spread.interval);
        let cell = interval
            .map_or("–".to_owned(), |ends| format!("{} – {}", duration(ends.low), duration(ends.high)));
        let _ = write!(line, " {cell} |");
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
        let run = |factor: u64, round: u64| {
            let mut malloc = Histogram::default();
            malloc.0.auto(true);
            (1..=20_000u64).for_each(|value| malloc.0.record(value * factor + round).unwrap());
            Run { latency: BTreeMap::from([("malloc".to_owned(), malloc)]), ..Run::default() }
        };
        let allocator = |name: &str, factor| AllocatorResult {
            name: name.into(),
            runs: (0..4).map(|round| run(factor, round)).collect(),
            ..AllocatorResult::default()
        };
        let mut comparison = Comparison {
            version: RESULTS_VERSION,
            clock: Clock { ticks_per_ns: 1.0, ..Clock::default() },
            allocators: vec![allocator("keel", 1), allocator("a|b", 4)],
            ..Comparison::default()
        };
        comparison.journal.operations.insert("malloc".into(), 20_000);
        comparison
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
        let keel = line("| keel |");
        assert!(keel.contains("**10.0 µs**") && keel.contains("20.0 µs – 20.0 µs |"), "{text}");
        assert!(!line("| a\\|b |").contains("**"), "{text}");
        assert!(text.contains("Medians over"), "{text}");
        assert!(
            text.contains(
                "- **malloc p99.9**: keel is below all others: 4.0 times less (95 %: 4.0 to 4.0) than a\\|b"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_terminal_gets_the_same_verdict() {
        let mut comparison = comparison();
        crate::contest::complete(&mut comparison, "null");
        let text = verdict(&comparison, Path::new("no folder is needed where no run kept its rows")).unwrap();
        assert!(
            text.starts_with("keel has the lowest malloc p50 and p99.9, and the least time in all calls."),
            "{text}"
        );
        assert!(text.contains("\n  malloc p99.9       keel is below all others"), "{text}");
        assert!(!text.contains("peak memory"), "which was not measured: {text}");
    }
}
