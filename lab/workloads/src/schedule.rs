//! The schedule of a bench: the runs and their order.

use crate::{Outcome, Pass, Sample, Suite, Workload};
use keel_allocators::Allocator;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

/// An allocator with its settings: the same one may take part more than once.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// The allocator, with its name in tables and its environment.
    pub allocator: Allocator,
    /// Bytes for `kl_warm` at the start; 0 for none. Only for libkeel.
    pub warm_bytes: u64,
}

impl Contestant {
    /// Its name in tables.
    pub fn name(&self) -> &str {
        &self.allocator.name
    }
}

/// A bench.
pub struct Bench {
    /// The `keel-workload` executable.
    pub program: PathBuf,
    /// The allocators.
    pub contestants: Vec<Contestant>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The number of runs of each.
    pub runs: u32,
}

/// A planned run: its pass and the indices of workload and contestant.
pub type Turn = (Pass, usize, usize);

/// All workloads, as the program lists them.
///
/// # Errors
/// A sentence, if the program cannot be run.
pub fn list(program: &Path) -> Result<Vec<Workload>, String> {
    let output = std::process::Command::new(program)
        .arg("--list")
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{} --list: {error}", program.display()))
}

impl Bench {
    /// The number of runs in all rounds.
    pub fn turns(&self) -> usize {
        (0..self.runs).map(|round| self.round(round).len()).sum()
    }

    /// Runs everything, round by round; `shuffle` chooses the order of each round. `progress`
    /// receives each sample. A failed run is a sample too. Ends early if `stop` is set; the run in
    /// progress is then dropped, because it may have been stopped as well.
    pub fn run(
        &self,
        mut shuffle: impl FnMut(&mut Vec<Turn>),
        mut progress: impl FnMut(&Sample),
        stop: &AtomicBool,
    ) -> Vec<Sample> {
        let mut samples = Vec::new();
        for round in 0..self.runs {
            let mut order = self.round(round);
            shuffle(&mut order);
            for turn in order {
                let sample = self.sample(turn, round);
                if stop.load(Ordering::Relaxed) {
                    return samples;
                }
                progress(&sample);
                samples.push(sample);
            }
        }
        samples
    }

    /// Counts hardly vary between runs, so that only the first round has counted passes.
    fn round(&self, round: u32) -> Vec<Turn> {
        let mut order = Vec::new();
        for (workload, about) in self.workloads.iter().enumerate() {
            for contestant in 0..self.contestants.len() {
                order.push((Pass::Timed, workload, contestant));
                if round == 0 && about.suite == Suite::Latency {
                    order.push((Pass::Counted, workload, contestant));
                }
            }
        }
        order
    }

    fn sample(&self, (pass, workload, contestant): Turn, round: u32) -> Sample {
        let (workload, contestant) =
            (&self.workloads[workload].name, &self.contestants[contestant]);
        let mut command = contestant.allocator.command(&self.program);
        let mut arguments: Vec<OsString> = vec![contestant.allocator.target(), workload.into()];
        if pass == Pass::Counted {
            arguments.push("--count".into());
        }
        if contestant.warm_bytes > 0 {
            arguments.push(format!("--warm={}", contestant.warm_bytes).into());
        }
        let outcome = match command.args(arguments).stdin(Stdio::null()).output() {
            Err(error) => Outcome::Failed(format!("{}: {error}", self.program.display())),
            Ok(output) if !output.status.success() => {
                let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Outcome::Failed(if message.is_empty() {
                    output.status.to_string()
                } else {
                    message
                })
            }
            Ok(output) => match serde_json::from_slice(&output.stdout) {
                Ok(measured) => Outcome::Measured(measured),
                Err(error) => Outcome::Failed(format!("unreadable output: {error}")),
            },
        };
        Sample {
            allocator: contestant.name().to_owned(),
            workload: workload.clone(),
            pass,
            round,
            outcome,
        }
    }
}
