//! Synthetic allocation workloads: run by `keel-workload`, one fresh process each, and scheduled from here.

use keel_allocators::Allocator;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What to run.
pub struct Bench {
    /// The `keel-workload` executable.
    pub program: PathBuf,
    /// On which allocators.
    pub allocators: Vec<Allocator>,
    /// Which workloads, by name.
    pub workloads: Vec<String>,
    /// How often each.
    pub runs: u32,
}

/// One workload on one allocator, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The allocator's name.
    pub allocator: String,
    /// The workload's name.
    pub workload: String,
    /// The round, from 0. Within a round every pair of workload and allocator runs once.
    pub round: u32,
    /// What `keel-workload` printed, or why there is nothing.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The result of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As measured.
    Measured(Measured),
    /// A sentence.
    Failed(String),
}

/// What one run measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// `ns a pair`, `ns, worst call` or `bytes`.
    pub unit: String,
    /// In that unit; less is better.
    pub value: f64,
    /// For worst calls: the worst empty window of the same run, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// Peak resident bytes of the process.
    pub peak_rss: u64,
}

impl Measured {
    /// The value less the machine's own noise; never negative.
    pub fn excess(&self) -> f64 {
        (self.value - self.noise.unwrap_or(0.0)).max(0.0)
    }
}

/// Names of all workloads, as the program lists them.
///
/// # Errors
/// A sentence, if the program cannot be run.
pub fn list(program: &Path) -> Result<Vec<String>, String> {
    let output = std::process::Command::new(program)
        .arg("--list")
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{} --list: {error}", program.display()))
}

impl Bench {
    /// Runs everything, round by round; within a round in an order that `shuffle` decides anew. `progress` is told of
    /// each sample when it is there. A run that fails is a sample too.
    pub fn run(
        &self,
        mut shuffle: impl FnMut(&mut Vec<(usize, usize)>),
        mut progress: impl FnMut(&Sample),
    ) -> Vec<Sample> {
        let mut samples = Vec::new();
        for round in 0..self.runs {
            let all = (0..self.workloads.len()).flat_map(|w| (0..self.allocators.len()).map(move |a| (w, a)));
            let mut order: Vec<(usize, usize)> = all.collect();
            shuffle(&mut order);
            for (workload, allocator) in order {
                let sample = self.sample(&self.workloads[workload], &self.allocators[allocator], round);
                progress(&sample);
                samples.push(sample);
            }
        }
        samples
    }

    fn sample(&self, workload: &str, allocator: &Allocator, round: u32) -> Sample {
        let mut command = allocator.command(&self.program);
        let outcome = match command.arg(allocator.target()).arg(workload).output() {
            Err(error) => Outcome::Failed(format!("{}: {error}", self.program.display())),
            Ok(output) if !output.status.success() => {
                let told = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Outcome::Failed(if told.is_empty() { output.status.to_string() } else { told })
            }
            Ok(output) => match serde_json::from_slice(&output.stdout) {
                Ok(measured) => Outcome::Measured(measured),
                Err(error) => Outcome::Failed(format!("unreadable output: {error}")),
            },
        };
        Sample { allocator: allocator.name.clone(), workload: workload.to_owned(), round, outcome }
    }
}
