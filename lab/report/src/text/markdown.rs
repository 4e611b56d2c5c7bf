//! The verdict for the terminal, and a result folder as Markdown.

use crate::error::ReportError;
use crate::figures::{
    AllocatorFigures, FLOOR, Matters, Spread, complete, figures, load, lowest, operations,
    undisturbed,
};
use crate::verdict::{Change, Verdict, judge, read_hitches};
use crate::words::{bytes, duration, escape_cell as escaped};
use keel_results::{Comparison, RUN, figure_label};
use std::fmt::Write as _;
use std::path::Path;

/// The verdict for the terminal: a headline, a line for each criterion, and the slowest calls with
/// their attribution. `folder` is the folder of the comparison.
pub fn verdict(comparison: &Comparison, folder: &Path) -> Result<String, ReportError> {
    let mut comparison = comparison.clone();
    complete(&mut comparison, FLOOR);
    let verdict = judged(&comparison, Matters::default()).1;
    let width = verdict.criteria.iter().map(|one| one.title.len()).max().unwrap_or(0);
    let mut text = format!("{}\n", verdict.first_sentence());
    let next = verdict.next_sentences();
    if !next.is_empty() {
        let _ = writeln!(text, "{next}");
    }
    for sentence in other_settings(&verdict).chain(verdict.unseen.iter().cloned()) {
        let _ = writeln!(text, "{sentence}");
    }
    for criterion in &verdict.criteria {
        let _ =
            writeln!(text, "  {:width$}  {}", criterion.title.to_lowercase(), criterion.sentence);
    }
    for hitch in read_hitches(&comparison, folder)? {
        let _ = writeln!(text, "{}", hitch.text());
    }
    Ok(text)
}

/// The settings that the headline does not name, with their gain and price.
fn other_settings(verdict: &Verdict) -> impl Iterator<Item = String> {
    let others = verdict.changes.iter().filter(|one| one.kind == "setting");
    let others = others.filter(|one| one.what.starts_with("Or "));
    others.map(|Change { what, gain, price, .. }| format!("{what}. Gain: {gain}. Price: {price}."))
}

fn judged(comparison: &Comparison, matters: Matters) -> (Vec<AllocatorFigures>, Verdict) {
    let calm = undisturbed(comparison);
    let allocators = figures(comparison, calm.as_ref());
    let verdict = judge(comparison, calm.as_ref(), &allocators, matters, None);
    (allocators, verdict)
}

/// The figures of a result folder as Markdown: the verdict, its criteria, and a table for each
/// operation. The advice considers only differences that matter.
pub fn markdown(folder: &Path, matters: Matters) -> Result<String, ReportError> {
    let comparison = load(folder)?;
    let (allocators, verdict) = judged(&comparison, matters);
    let settings = &comparison.settings;
    let headline = [verdict.first_sentence(), &verdict.next_sentences()].join(" ");
    let mut text = format!(
        "### Allocators compared on `{}`\n\n{}\n\n",
        comparison.journal.name,
        headline.trim_end()
    );
    for sentence in other_settings(&verdict).chain(verdict.unseen.iter().cloned()) {
        let _ = writeln!(text, "{}\n", escaped(&sentence));
    }
    for criterion in &verdict.criteria {
        let _ = writeln!(text, "- **{}**: {}", criterion.title, escaped(&criterion.sentence));
    }
    text.push('\n');
    for hitch in read_hitches(&comparison, folder)? {
        let whole = hitch.text();
        let (title, rest) = whole.split_once(": ").unwrap_or(("", &whole));
        let _ = writeln!(text, "**{title}**: {}\n", escaped(rest));
    }
    for operation in operations(allocators.iter()) {
        operation_table(&mut text, &comparison, &allocators, operation);
    }
    for caution in &verdict.cautions {
        let _ = writeln!(text, "- {caution}");
    }
    let runs = settings.runs_in_words();
    let _ = writeln!(
        text,
        "\n<sub>Medians over {runs}, pace {}, touch {}, on {}. Bold: the lowest value, and all \
         values without a significant difference from it (95 %, paired by round). keel {}</sub>\n",
        settings.pace, settings.touch, comparison.machine.cpu, comparison.keel_version
    );
    Ok(text)
}

/// Columns of a table.
const COLUMNS: [&str; 7] = ["mean", "p50", "p99", "p999", "p9999", "worst", PEAK];
const PEAK: &str = "peak";
/// The percentile whose interval has a column.
const TAIL: &str = "p999";

fn title_of(column: &str) -> &str {
    if column == PEAK { "peak memory" } else { figure_label(column) }
}

fn spread_of(one: &AllocatorFigures, operation: &str, figure: &str) -> Option<Spread> {
    let summary = one.operations.get(operation)?;
    match figure {
        "mean" => Some(summary.mean),
        "worst" => Some(summary.worst),
        PEAK => one.figures.get("peak").copied().filter(|peak| peak.high > 0.0),
        percentile => summary.percentiles.get(percentile).copied(),
    }
}

fn operation_table(
    text: &mut String,
    comparison: &Comparison,
    allocators: &[AllocatorFigures],
    operation: &str,
) {
    let titles = COLUMNS.map(title_of);
    let tail = figure_label(TAIL);
    let _ = writeln!(text, "| {operation} | {} | {tail}, 95 % |", titles.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(COLUMNS.len() + 1));
    let rows =
        || allocators.iter().enumerate().filter(|(_, one)| one.operations.contains_key(operation));
    let mut lines: Vec<String> =
        rows().map(|(_, one)| format!("| {} |", escaped(&one.name))).collect();
    for figure in COLUMNS {
        let format = if figure == PEAK { bytes } else { duration };
        let best = lowest(comparison, if figure == PEAK { RUN } else { operation }, figure).best;
        let found =
            rows().filter(|(_, one)| !one.floor && spread_of(one, operation, figure).is_some());
        let found = found.count();
        for ((index, one), line) in rows().zip(&mut lines) {
            let spread = spread_of(one, operation, figure);
            let cell = spread.map_or("–".to_owned(), |spread| format(spread.median));
            let bold = if best.len() < found && best.contains(&index) { "**" } else { "" };
            let _ = write!(line, " {bold}{cell}{bold} |");
        }
    }
    for ((_, one), line) in rows().zip(&mut lines) {
        let spread = one.operations.get(operation).and_then(|found| found.percentiles.get(TAIL));
        let interval = spread.and_then(|spread| spread.interval);
        let cell = interval.map_or("–".to_owned(), |ends| {
            format!("{} – {}", duration(ends.low), duration(ends.high))
        });
        let _ = write!(line, " {cell} |");
    }
    let _ = writeln!(text, "{}\n", lines.join("\n"));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::text::sample::comparison;

    #[test]
    fn markdown_marks_the_lowest_and_cannot_be_broken_by_a_name() {
        let folder = tempfile::tempdir().unwrap();
        comparison().save(folder.path()).unwrap();
        let text = markdown(folder.path(), Matters::default()).unwrap();
        let line =
            |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        assert!(line("| malloc |").contains("p99.9 | p99.99 | worst"), "{text}");
        let keel = line("| keel |");
        assert!(keel.contains("**10.0 µs**") && keel.contains("20.0 µs – 20.0 µs |"), "{text}");
        assert!(!line("| a\\|b |").contains("**"), "{text}");
        assert!(text.contains("Medians over"), "{text}");
        assert!(
            text.contains(
                "- **malloc p99.9**: keel is lowest: 75 % lower than a\\|b, which is second"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_terminal_shows_the_same_verdict() {
        let mut comparison = comparison();
        crate::figures::complete(&mut comparison, "null");
        let text =
            verdict(&comparison, Path::new("no folder is needed where no run kept its rows"))
                .unwrap();
        assert!(
            text.starts_with("Use keel: ") && text.contains("\nThe choice of allocator "),
            "{text}"
        );
        assert!(text.contains("\n  malloc p99.9       keel is lowest"), "{text}");
        assert!(!text.contains("peak memory"), "it was not measured: {text}");
    }

    #[test]
    fn a_setting_that_the_headline_does_not_name_is_listed() {
        let mut comparison = comparison();
        comparison.allocators[1].name = "glibc".to_owned();
        let mut setting = comparison.allocators[1].clone();
        setting.name = "glibc-tuned".to_owned();
        setting.environment = vec![("GLIBC_TUNABLES".to_owned(), "x=1".to_owned())];
        for run in &mut setting.runs {
            run.latency = run.latency.clone();
            let faster = run.latency.get_mut("malloc").unwrap();
            let counts = faster.0.clone();
            faster.0.reset();
            for step in counts.iter_recorded() {
                let ns = step.value_iterated_to() / 2;
                faster.0.record_n(ns, step.count_since_last_iteration()).unwrap();
            }
        }
        comparison.allocators.push(setting);
        let folder = tempfile::tempdir().unwrap();
        comparison.save(folder.path()).unwrap();
        crate::figures::complete(&mut comparison, "null");
        let text = verdict(&comparison, folder.path()).unwrap();
        assert!(text.starts_with("Use keel: "), "{text}");
        let step =
            "\nOr only set GLIBC_TUNABLES=x=1. Gain: 50 % less time in calls: 400 ms. Price: ";
        assert!(text.contains(step), "{text}");
        let text = markdown(folder.path(), Matters::default()).unwrap();
        assert!(text.contains(step), "{text}");
    }
}
