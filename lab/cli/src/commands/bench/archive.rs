//! The file of a bench: every sample, with the machine and the allocators it was measured on.

use anyhow::{Context as _, Result, bail};
use keel_allocators::Kind;
use keel_results::Machine;
use keel_workloads::{Bench, Contestant, Sample, Suite, Workload};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The version of the file's format.
const FORMAT: u32 = 2;

/// The file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Archive {
    /// [`FORMAT`].
    pub format: u32,
    /// The start, in UTC.
    pub date: String,
    /// The version under test; empty if it was not given.
    pub commit: String,
    /// Facts about the machine.
    pub machine: Machine,
    /// `/proc/loadavg` before the first run.
    pub load_before: String,
    /// Rounds.
    pub runs: u32,
    /// Whether the bench was stopped before its end.
    pub stopped: bool,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The allocators.
    pub contestants: Vec<Entrant>,
    /// A sample for each run.
    pub samples: Vec<Sample>,
}

/// A contestant, without the paths of its files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entrant {
    /// The name in the samples.
    pub name: String,
    /// See [`keel_allocators::remark`].
    #[serde(default)]
    pub remark: String,
    /// The version, if the allocator reports one.
    pub version: String,
    /// Environment variables, and the warmed memory.
    pub settings: Vec<String>,
}

impl Archive {
    /// An archive without samples.
    pub fn begin(bench: &Bench, player: &Path, commit: &str) -> Archive {
        let load_before =
            std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned();
        Archive {
            format: FORMAT,
            date: keel_results::rfc3339(std::time::SystemTime::now()),
            commit: commit.to_owned(),
            machine: keel_results::machine(),
            load_before,
            runs: bench.runs,
            stopped: false,
            workloads: bench.workloads.clone(),
            contestants: bench.contestants.iter().map(|one| entrant(one, player)).collect(),
            samples: Vec::new(),
        }
    }

    /// A contestant's name with its remark, for people.
    pub fn label(&self, name: &str) -> String {
        match self.contestants.iter().find(|one| one.name == name) {
            Some(one) if !one.remark.is_empty() => format!("{name} ({})", one.remark),
            _ => name.to_owned(),
        }
    }

    /// The contestants' names.
    pub fn names(&self) -> Vec<String> {
        self.contestants.iter().map(|one| one.name.clone()).collect()
    }

    /// `latency`, `throughput`, or `bench` if there are workloads of both suites.
    pub fn suite_name(&self) -> &'static str {
        let has = |suite| self.workloads.iter().any(|one| one.suite == suite);
        match (has(Suite::Latency), has(Suite::Throughput)) {
            (true, false) => "latency",
            (false, true) => "throughput",
            _ => "bench",
        }
    }

    /// Writes the archive to a new file.
    pub fn write(&self, path: &Path) -> Result<()> {
        use std::io::Write as _;
        let cannot = || format!("cannot write {}", path.display());
        let mut file = std::fs::File::create_new(path).with_context(cannot)?;
        // One sample in each line, so that files can be read and compared.
        let mut text = serde_json::to_string(&Archive { samples: Vec::new(), ..self.facts() })?;
        let end = text.rfind("[]").context("the archive has no place for samples")?;
        text.truncate(end);
        text.push_str("[\n");
        let lines: Vec<String> =
            self.samples.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        text.push_str(&lines.join(",\n"));
        text.push_str("\n]}\n");
        file.write_all(text.as_bytes()).with_context(cannot)
    }

    fn facts(&self) -> Archive {
        Archive {
            format: self.format,
            date: self.date.clone(),
            commit: self.commit.clone(),
            machine: self.machine.clone(),
            load_before: self.load_before.clone(),
            runs: self.runs,
            stopped: self.stopped,
            workloads: self.workloads.clone(),
            contestants: self.contestants.clone(),
            samples: Vec::new(),
        }
    }

    fn read(path: &Path) -> Result<Archive> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let archive: Archive = serde_json::from_str(&text).with_context(|| {
            format!("{} does not contain samples of `keel bench`", path.display())
        })?;
        if archive.format != FORMAT {
            bail!(
                "{} has format {}, and this keel reads format {FORMAT}: use the version of keel \
                 that wrote it",
                path.display(),
                archive.format
            );
        }
        Ok(archive)
    }
}

fn entrant(contestant: &Contestant, player: &Path) -> Entrant {
    // A preloaded library replaces malloc of the C library and has no function that returns its
    // version.
    let version = match contestant.allocator.kind {
        Kind::Preload => String::new(),
        _ => contestant.allocator.describe(player).unwrap_or_default(),
    };
    let mut settings: Vec<String> = contestant
        .allocator
        .environment
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if contestant.warm_bytes > 0 {
        settings.push(format!("kl_warm({})", contestant.warm_bytes));
    }
    Entrant {
        name: contestant.name().to_owned(),
        remark: contestant.allocator.remark.clone(),
        version,
        settings,
    }
}

/// Combines the files of a bench that was run in parts. Each workload may occur in one file only,
/// since figures are comparable only within one interleaved run.
pub fn read_all(paths: &[PathBuf]) -> Result<Archive> {
    let (first, rest) = paths.split_first().context("no file is given")?;
    let mut archive = Archive::read(first)?;
    for path in rest {
        let other = Archive::read(path)?;
        if let Some(twice) = other.workloads.iter().find(|one| archive.workloads.contains(one)) {
            bail!(
                "{} contains the workload `{}` again: figures of different runs cannot be combined",
                path.display(),
                twice.name
            );
        }
        let new = other.contestants.into_iter().filter(|one| !archive.contestants.contains(one));
        let new: Vec<Entrant> = new.collect();
        archive.contestants.extend(new);
        archive.workloads.extend(other.workloads);
        archive.samples.extend(other.samples);
        archive.stopped |= other.stopped;
        archive.runs = archive.runs.min(other.runs);
    }
    Ok(archive)
}

/// `NAME.json`, `NAME-2.json`, ...: the first that does not exist, and neither does its table.
pub fn free_name(folder: &Path, name: &str) -> Result<PathBuf> {
    let names = (1..10_000).map(|number| match number {
        1 => folder.join(format!("{name}.json")),
        _ => folder.join(format!("{name}-{number}.json")),
    });
    let mut free = names.filter(|path| !path.exists() && !path.with_extension("md").exists());
    free.next().with_context(|| format!("{} is full of results", folder.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use keel_workloads::{Measured, Outcome, Pass};

    fn archive(workload: &str) -> Archive {
        let sample = |round| Sample {
            allocator: "keel".to_owned(),
            workload: workload.to_owned(),
            pass: Pass::Timed,
            round,
            outcome: Outcome::Measured(Measured {
                pairs: 5,
                ns_a_pair: 2.5,
                ..Measured::default()
            }),
        };
        Archive {
            format: FORMAT,
            date: "2026-11-22T00:00:00Z".to_owned(),
            commit: String::new(),
            machine: Machine::default(),
            load_before: String::new(),
            runs: 2,
            stopped: false,
            workloads: vec![Workload {
                name: workload.to_owned(),
                suite: Suite::Throughput,
                about: String::new(),
            }],
            contestants: vec![Entrant {
                name: "keel".to_owned(),
                remark: String::new(),
                version: "0.1.0".to_owned(),
                settings: Vec::new(),
            }],
            samples: vec![sample(0), sample(1)],
        }
    }

    #[test]
    fn archives_are_read_again_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = free_name(folder.path(), "throughput").unwrap();
        archive("a").write(&path).unwrap();
        assert!(archive("b").write(&path).is_err());
        let second = free_name(folder.path(), "throughput").unwrap();
        assert_eq!(second.file_name().unwrap(), "throughput-2.json");
        archive("b").write(&second).unwrap();
        let both = read_all(&[path.clone(), second]).unwrap();
        assert_eq!((both.samples.len(), both.workloads.len(), both.contestants.len()), (4, 2, 1));
        let twice = read_all(&[path.clone(), path]).unwrap_err();
        assert!(twice.to_string().contains("again"), "{twice}");
    }
}
