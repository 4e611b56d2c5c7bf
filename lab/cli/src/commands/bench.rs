//! `keel bench`: synthetic workloads on every allocator, interleaved.

use crate::format;
use crate::layout::Layout;
use crate::progress;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use keel_allocators::{Allocator, Places};
use keel_workloads::{Bench, Measured, Outcome, Sample};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run synthetic workloads on several allocators, interleaved, each run in a process of its own.
///
/// The table shows the median over the runs and, behind it, the ratio to the best of the others. Worst calls are given
/// as the excess over the machine's own noise, which each run measures beside them.
#[derive(Args)]
pub struct BenchArguments {
    /// Workloads, separated by commas; `all`; `--list` names them.
    #[arg(default_value = "all", value_delimiter = ',')]
    workloads: Vec<String>,
    /// Allocators, separated by commas: names that `keel allocators` lists, paths of libraries, or `all`.
    #[arg(long, default_value = "all", value_delimiter = ',')]
    allocators: Vec<String>,
    /// Runs of each workload on each allocator.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Where to keep every single sample, as JSON; an existing file is not overwritten.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the samples as JSON instead of the table.
    #[arg(long)]
    json: bool,
    /// Name the workloads and end.
    #[arg(long)]
    list: bool,
}

/// Runs the command.
pub fn run(arguments: BenchArguments) -> Result<ExitCode> {
    let layout = Layout::discover()?;
    let program = layout.private("keel-workload")?;
    let known = keel_workloads::list(&program).map_err(anyhow::Error::msg)?;
    if arguments.list {
        format::output(&known.iter().map(|name| format!("{name}\n")).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(output) = arguments.output.as_ref().filter(|output| output.exists()) {
        bail!("{} exists; results are never overwritten: choose another name", output.display());
    }
    let bench = Bench {
        workloads: choose(&arguments.workloads, &known)?,
        allocators: allocators(&arguments, &layout)?,
        program,
        runs: arguments.runs,
    };
    let samples = run_with_progress(&bench);
    if let Some(output) = &arguments.output {
        let text = serde_json::to_string_pretty(&samples)?;
        std::fs::write(output, text).with_context(|| format!("cannot write {}", output.display()))?;
    }
    if arguments.json {
        format::output(&(serde_json::to_string_pretty(&samples)? + "\n"))?;
    } else {
        format::output(&tables(&bench, &samples))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn choose(asked: &[String], known: &[String]) -> Result<Vec<String>> {
    if asked.iter().any(|name| name == "all") {
        return Ok(known.to_vec());
    }
    for name in asked {
        if !known.contains(name) {
            bail!("there is no workload `{name}`; known are: {}", known.join(", "));
        }
    }
    Ok(asked.to_vec())
}

fn allocators(arguments: &BenchArguments, layout: &Layout) -> Result<Vec<Allocator>> {
    let places = Places { library: layout.folder("lib"), peers: layout.folder("lib/keel/peers") };
    let mut chosen = places.resolve(&arguments.allocators)?;
    // The floor of replay hands out memory without keeping it apart; workloads that look after their blocks need more.
    chosen.retain(|allocator| allocator.name != keel_allocators::FLOOR);
    if let Some(missing) = chosen.iter().find(|allocator| allocator.unavailable.is_some()) {
        bail!("{} cannot be used: {}", missing.name, missing.unavailable.as_deref().unwrap_or_default());
    }
    Ok(chosen)
}

fn run_with_progress(bench: &Bench) -> Vec<Sample> {
    let total = bench.workloads.len() * bench.allocators.len() * bench.runs as usize;
    let bar = progress::bar(total as u64, "runs");
    let mut shuffler = rand::rngs::SmallRng::from_os_rng();
    let samples = bench.run(
        |order| order.shuffle(&mut shuffler),
        |sample| {
            bar.set_message(format!("{} on {}", sample.workload, sample.allocator));
            bar.inc(1);
        },
    );
    bar.finish_and_clear();
    samples
}

fn tables(bench: &Bench, samples: &[Sample]) -> String {
    let mut text = String::new();
    for workload in &bench.workloads {
        text += &format!("{workload}\n");
        let rows: Vec<(&str, Result<Spread, String>)> = bench
            .allocators
            .iter()
            .map(|allocator| (allocator.name.as_str(), spread(samples, workload, &allocator.name)))
            .collect();
        for (name, row) in &rows {
            text += &match row {
                Ok(row) => format!("    {name:<12} {}\n", row.line(best_of_others(&rows, name))),
                Err(reason) => format!("    {name:<12} failed: {reason}\n"),
            };
        }
    }
    text
}

/// Median and range over the runs.
struct Spread {
    unit: String,
    median: f64,
    lowest: f64,
    highest: f64,
    peak_rss: u64,
}

impl Spread {
    fn line(&self, best: Option<f64>) -> String {
        let scale = if self.unit == "bytes" { 1e6 } else { 1.0 };
        let unit = if self.unit == "bytes" { "MB" } else { &self.unit };
        let (median, lowest, highest) = (self.median / scale, self.lowest / scale, self.highest / scale);
        let ratio = best
            .filter(|best| *best > 0.0)
            .map_or(String::new(), |best| format!("{:6.2} x best other", self.median / best));
        format!(
            "{median:10.1} {unit:<14} ({lowest:.1} .. {highest:.1}) {ratio}  peak {:.0} MB",
            self.peak_rss as f64 / 1e6
        )
    }
}

fn best_of_others(rows: &[(&str, Result<Spread, String>)], name: &str) -> Option<f64> {
    let others = rows.iter().filter(|(other, _)| *other != name);
    others.filter_map(|(_, row)| Some(row.as_ref().ok()?.median)).min_by(f64::total_cmp)
}

fn spread(samples: &[Sample], workload: &str, allocator: &str) -> Result<Spread, String> {
    let mine = samples.iter().filter(|s| s.workload == workload && s.allocator == allocator);
    let mut measured: Vec<&Measured> = Vec::new();
    for sample in mine {
        match &sample.outcome {
            Outcome::Measured(one) => measured.push(one),
            Outcome::Failed(reason) => return Err(reason.clone()),
        }
    }
    let mut values: Vec<f64> = measured.iter().map(|one| one.excess()).collect();
    values.sort_by(f64::total_cmp);
    let (Some(&lowest), Some(&highest)) = (values.first(), values.last()) else {
        return Err("no run".to_owned());
    };
    Ok(Spread {
        unit: measured[0].unit.clone(),
        median: values[values.len() / 2],
        lowest,
        highest,
        peak_rss: measured.iter().map(|one| one.peak_rss).max().unwrap_or(0),
    })
}
