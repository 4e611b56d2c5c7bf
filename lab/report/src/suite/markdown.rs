//! The tables of a suite as Markdown.

use super::headline::suite_headline;
use crate::words::{bytes, duration, escape_cell as escaped, short_percent};
use keel_results::text::counted;
use keel_results::{Suite, SuiteMetric, SuiteOutcome};
use std::fmt::Write as _;

/// The means, a table of ratios for each metric, the failed runs and the machine.
pub fn suite_markdown(suite: &Suite) -> String {
    let head = &suite.head;
    let rounds = suite.runs.iter().map(|run| run.round + 1).max().unwrap_or(0);
    let mut text = format!(
        "# Benchmark suite\n\n{}\n\n{}, {}, {}, on \
         {} ({} processors, {}, huge pages: {}, governor: {}, hypervisor: {}). Started {}, load \
         before: {}. {}\n\n`keel {}`\n\n",
        suite_headline(suite),
        counted(head.workloads.len() as u64, "workload"),
        counted(head.allocators.len() as u64, "allocator"),
        counted(rounds.into(), "interleaved round"),
        head.machine.cpu,
        head.machine.cpus,
        head.machine.kernel,
        head.machine.huge_pages,
        or_none(&head.machine.governor),
        or_none(&head.machine.hypervisor),
        head.started,
        head.load_before,
        noise_found(suite),
        head.command.join(" "),
    );
    allocators(&mut text, suite);
    means(&mut text, suite);
    for metric in SuiteMetric::ALL.into_iter().filter(|&metric| suite.has(metric)) {
        ratios(&mut text, suite, metric);
    }
    failures(&mut text, suite);
    text
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

/// The noise of the machine that was found during the runs, in sentences.
pub fn noise_found(suite: &Suite) -> String {
    let noise = suite.noise();
    let others = match noise.others {
        Some(others) => format!(
            "Other programs and the hypervisor used {} of the processors during the median run, \
             and {} at most.",
            short_percent(others.median),
            short_percent(others.most)
        ),
        None => String::new(),
    };
    let kinds: Vec<String> =
        noise.kinds.iter().map(|(kind, count)| format!("{kind} in {count}")).collect();
    match kinds.is_empty() {
        true => format!("No run was disturbed. {others}"),
        false => format!(
            "The machine disturbed {} of the {} runs in the results ({}). {} other runs were \
             discarded and repeated. {others}",
            short_percent(noise.disturbed),
            suite.runs.len(),
            kinds.join(", "),
            noise.repeats
        ),
    }
}

/// The allocators with their versions and settings.
fn allocators(text: &mut String, suite: &Suite) {
    text.push_str("| allocator | version | settings |\n|---|---|---|\n");
    for one in &suite.head.allocators {
        let [name, version, settings] =
            [&one.name, &one.version, &one.settings.join(" ")].map(|text| escaped(text));
        let remark =
            if one.remark.is_empty() { String::new() } else { format!(" ({})", one.remark) };
        let _ = writeln!(text, "| {name}{remark} | {version} | {settings} |");
    }
    text.push('\n');
}

fn table_head(text: &mut String, suite: &Suite, first: &str) {
    let names: Vec<String> = suite.head.allocators.iter().map(|one| escaped(&one.name)).collect();
    let _ = writeln!(text, "| {first} | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(names.len()));
}

/// Bold for the lowest.
fn marked(value: f64, least: f64) -> String {
    if value <= least { format!("**{value:.2}**") } else { format!("{value:.2}") }
}

fn means(text: &mut String, suite: &Suite) {
    text.push_str(
        "## Geometric means\n\nMultiples of the lowest allocator of each workload. In brackets: \
         the workloads that the allocator completed, if not all. The calls of journals are not \
         timed.",
    );
    if suite.has(SuiteMetric::After) {
        let _ = write!(
            text,
            " The rows \u{201c}{}\u{201d} show the resident memory of a pattern, in a separate \
             process. In these rows, a value below 1 MiB counts as 1 MiB.",
            SuiteMetric::After.title()
        );
    }
    text.push_str("\n\n");
    table_head(text, suite, "mean of");
    let suites = suite.suites();
    let groups: Vec<&str> = if suites.len() > 1 { [vec![""], suites].concat() } else { suites };
    for metric in SuiteMetric::ALL.into_iter().filter(|&metric| suite.has(metric)) {
        for group in &groups {
            let means = suite.means(group, metric);
            if means.iter().all(|(mean, _)| mean.is_none()) {
                continue;
            }
            let all = suite.measured_workloads(group, metric);
            let complete = means.iter().filter(|(_, count)| *count == all);
            let least =
                complete.filter_map(|(mean, _)| *mean).fold(f64::NEG_INFINITY, |least, mean| {
                    if least < 0.0 { mean } else { least.min(mean) }
                });
            let cells = means.iter().map(|(mean, count)| match mean {
                None => "–".to_owned(),
                Some(mean) if *count < all => format!("{mean:.2} ({count} of {all})"),
                Some(mean) => marked(*mean, least),
            });
            let cells: Vec<String> = cells.collect();
            let name = if group.is_empty() { "all" } else { group };
            let _ = writeln!(text, "| {}, {name} | {} |", metric.title(), cells.join(" | "));
        }
    }
}

fn ratios(text: &mut String, suite: &Suite, metric: SuiteMetric) {
    let title = metric.title();
    let _ = write!(
        text,
        "\n## {}{}\n\nEach number is a median, divided by the lowest median of its row. The last \
         column is this lowest median, with the range over the rounds.\n\n",
        title[..1].to_uppercase(),
        &title[1..]
    );
    let names = suite.head.allocators.iter().map(|one| escaped(&one.name));
    let _ = writeln!(text, "| workload | {} | lowest |", names.collect::<Vec<_>>().join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(suite.head.allocators.len() + 1));
    let show = |value: f64| match metric {
        SuiteMetric::Peak | SuiteMetric::Average | SuiteMetric::After => bytes(value),
        SuiteMetric::Elapsed | SuiteMetric::Cpu => duration(value * 1e9),
        SuiteMetric::P999 | SuiteMetric::Worst => duration(value),
        SuiteMetric::Faults | SuiteMetric::SystemCalls => format!("{value:.0}"),
    };
    for workload in &suite.head.workloads {
        let key = workload.key();
        if suite.ratios(&key, metric).iter().all(Option::is_none) {
            continue;
        }
        let spreads: Vec<_> =
            suite.head.allocators.iter().map(|one| suite.spread(&key, &one.name, metric)).collect();
        let cells = suite.ratios(&key, metric).into_iter().zip(&suite.head.allocators);
        let cells = cells.map(|(ratio, one)| match ratio {
            Some(ratio) => marked(ratio, 1.0),
            None if failed(suite, &key, &one.name) => "failed".to_owned(),
            None => "–".to_owned(),
        });
        let cells: Vec<String> = cells.collect();
        let lowest = spreads.iter().flatten().min_by(|one, two| one.median.total_cmp(&two.median));
        let lowest = lowest.map_or("–".to_owned(), |one| {
            format!("{} ({} – {})", show(one.median), show(one.least), show(one.most))
        });
        let _ = writeln!(text, "| {key} | {} | {lowest} |", cells.join(" | "));
    }
}

fn failed(suite: &Suite, workload: &str, allocator: &str) -> bool {
    let mut runs =
        suite.runs.iter().filter(|run| run.workload == workload && run.allocator == allocator);
    runs.any(|run| run.measured().is_none())
}

fn failures(text: &mut String, suite: &Suite) {
    text.push_str("\n## Failed runs\n\n");
    let mut none = true;
    for run in &suite.runs {
        if let SuiteOutcome::Failed(reason) = &run.outcome {
            none = false;
            let (workload, allocator) = (&run.workload, escaped(&run.allocator));
            let _ =
                writeln!(text, "- {workload} on {allocator}, round {}: {reason}", run.round + 1);
        }
    }
    if none {
        text.push_str("None.\n");
    }
    if !suite.head.left_out.is_empty() {
        text.push_str("\n## Left out\n\n");
        suite.head.left_out.iter().for_each(|one| {
            let _ = writeln!(text, "- {one}");
        });
    }
}
