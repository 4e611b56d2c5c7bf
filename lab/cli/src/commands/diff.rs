//! `keel diff`: two comparisons of one journal, metric by metric.

mod suite;

use crate::format::bytes;
use crate::{output, table};
use anyhow::{Result, bail};
use clap::Args;
use keel_results::text::duration;
use keel_results::{Comparison, Difference, RUN, differences};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare two result folders and show the significant differences
///
/// For each allocator in both folders, the command prints each metric before and after, their
/// ratio, and the 95 % confidence interval of the ratio. A difference is significant if the
/// interval does not contain 1. Both folders need at least two runs of each allocator.
///
/// The folders may also be results of `keel bench --suite`. For each workload, the command then
/// prints the ratio of the medians. A difference is marked as clear if the ranges of the rounds do
/// not overlap. It also prints the geometric means of the ratios.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel diff before.comparison after.comparison\n  \
                        keel diff --fail-above 5 before.comparison after.comparison")]
pub struct Arguments {
    /// The earlier result folder
    before: PathBuf,
    /// The later result folder
    after: PathBuf,
    /// Show every metric. Without this option, the command shows only the main ones and those that
    /// differ significantly
    #[arg(long)]
    all: bool,
    /// Exit with 1 if a metric has risen significantly, and by more than this many percent
    #[arg(long, value_name = "PERCENT")]
    fail_above: Option<f64>,
    /// Print the metrics as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let limit = arguments.fail_above.map(|percent| 1.0 + percent / 100.0);
    let folders = [&arguments.before, &arguments.after];
    match folders.map(|folder| suite::is_suite(folder)) {
        [true, true] => return suite::run(folders[0], folders[1], limit, arguments.json),
        [false, false] => {}
        _ => bail!("one folder holds a suite and the other does not: give two of the same kind"),
    }
    let (before, after) =
        (Comparison::load(&arguments.before)?, Comparison::load(&arguments.after)?);
    let found = differences(&before, &after);
    if found.is_empty() {
        bail!(
            "the two folders have no allocator with results in common: there is nothing to compare"
        );
    }
    let warnings = warnings(&before, &after);
    if arguments.json {
        let json = json!({
            "before": arguments.before,
            "after": arguments.after,
            "warnings": warnings,
            "differences": found.iter().map(as_json).collect::<Vec<_>>(),
        });
        output::print_json(&json)?;
    } else {
        output::print_text(&text(&found, arguments.all))?;
    }
    warnings.iter().for_each(|warning| say!("note: {warning}"));
    let worse = limit.is_some_and(|limit| {
        found
            .iter()
            .any(|one| one.ratio.is_some_and(|ratio| ratio.low > limit) && one.figure != "worst")
    });
    Ok(if worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Differences between the folders that may change figures besides the allocators.
fn warnings(before: &Comparison, after: &Comparison) -> Vec<String> {
    let mut found = Vec::new();
    let mut differs = |what: &str, one: String, other: String| {
        if one != other {
            found.push(format!("the {what} differs: {one}, then {other}"));
        }
    };
    differs("journal", before.journal.name.clone(), after.journal.name.clone());
    let operations = |one: &Comparison| one.journal.operations.values().sum::<u64>().to_string();
    differs("number of operations", operations(before), operations(after));
    differs("pace", before.settings.pace.clone(), after.settings.pace.clone());
    differs("touch policy", before.settings.touch.clone(), after.settings.touch.clone());
    differs("clock", before.clock.name.clone(), after.clock.name.clone());
    differs("processor", before.machine.cpu.clone(), after.machine.cpu.clone());
    differs(
        "number of processors",
        before.machine.cpus.to_string(),
        after.machine.cpus.to_string(),
    );
    differs("kernel", before.machine.kernel.clone(), after.machine.kernel.clone());
    differs("C library", before.machine.libc.clone(), after.machine.libc.clone());
    for late in &after.allocators {
        if let Some(early) = before.allocators.iter().find(|early| early.name == late.name) {
            differs(
                &format!("version of {}", late.name),
                early.version.clone(),
                late.version.clone(),
            );
        }
    }
    found
}

fn as_json(one: &Difference) -> serde_json::Value {
    json!({
        "allocator": one.allocator,
        "operation": one.operation,
        "figure": one.figure,
        "before": one.before,
        "after": one.after,
        "ratio": one.ratio,
        "certain": one.is_significant(),
    })
}

/// Figures that are shown even without a significant difference.
fn is_main(one: &Difference) -> bool {
    match one.operation.as_str() {
        "malloc" | "free" => ["p50", "p99.9"].contains(&one.figure),
        RUN => one.figure != "elapsed",
        _ => false,
    }
}

fn text(found: &[Difference], all: bool) -> String {
    let mut rows =
        vec![["", "metric", "before", "after", "ratio", "95 %", ""].map(str::to_owned).to_vec()];
    let mut last = "";
    for one in found.iter().filter(|one| all || is_main(one) || one.is_significant()) {
        let show = |value: f64| match one.figure {
            "peak" => bytes(value as u64),
            _ => duration(value),
        };
        let name = if one.allocator == last { String::new() } else { one.allocator.clone() };
        last = &one.allocator;
        let (ratio, interval) = match one.ratio {
            Some(ratio) => {
                (format!("{:.3}", ratio.value), format!("{:.3} .. {:.3}", ratio.low, ratio.high))
            }
            None => (format!("{:.3}", one.after / one.before), "one run".to_owned()),
        };
        let word = match one.ratio {
            Some(ratio) if ratio.low > 1.0 => "higher",
            Some(ratio) if ratio.high < 1.0 => "lower",
            Some(_) => "same",
            None => "?",
        };
        let figure = format!("{} {}", one.operation, one.figure);
        rows.push(vec![
            name,
            figure,
            show(one.before),
            show(one.after),
            ratio,
            interval,
            word.to_owned(),
        ]);
    }
    table::aligned(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_results::Interval;

    fn difference(figure: &'static str, low: f64, high: f64) -> Difference {
        Difference {
            allocator: "keel".to_owned(),
            operation: "malloc".to_owned(),
            figure,
            before: 20.0,
            after: 30.0,
            ratio: Some(Interval { value: 1.5, low, high }),
        }
    }

    #[test]
    fn significant_differences_are_always_shown() {
        let found =
            [difference("p50", 0.9, 1.1), difference("p99", 1.2, 1.8), difference("p90", 0.9, 1.8)];
        let shown = text(&found, false);
        assert!(shown.contains("malloc p50") && shown.contains("same"), "{shown}");
        assert!(shown.contains("malloc p99") && shown.contains("higher"), "{shown}");
        assert!(!shown.contains("malloc p90"), "{shown}");
        assert!(text(&found, true).contains("malloc p90"));
    }

    #[test]
    fn another_machine_or_journal_is_a_warning() {
        let mut other = Comparison::default();
        assert!(warnings(&Comparison::default(), &other).is_empty());
        other.machine.kernel = "6.1".to_owned();
        other.journal.name = "b".to_owned();
        assert_eq!(warnings(&Comparison::default(), &other).len(), 2);
    }
}
