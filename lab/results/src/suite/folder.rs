//! Reading and writing the folder of a suite.

use super::{SUITE_VERSION, Suite, SuiteHead, SuiteRun};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The file with the [`SuiteHead`].
pub const SUITE_FILE: &str = "suite.json";
const RUNS_FILE: &str = "runs.jsonl";

/// Why the folder of a suite could not be read, written or continued, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The folder has other contents.
    #[error(
        "{}: the folder is not empty and holds no suite: give an empty or a new folder with -o",
        .0.display()
    )]
    Foreign(PathBuf),
    /// The folder holds a suite with other options.
    #[error(
        "{} holds another suite ({difference}): continue it with the options that it was started \
         with (keel {command}), or give another folder with -o",
        folder.display()
    )]
    Other {
        /// The folder.
        folder: PathBuf,
        /// The first difference.
        difference: String,
        /// The words after `keel` that started it.
        command: String,
    },
    /// A file has unexpected contents.
    #[error("{}: {detail}; give another folder with -o, or remove this one", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        detail: String,
    },
    /// The system reported an error.
    #[error("{}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// A suite in a folder, to which runs are appended.
pub struct SuiteLog {
    folder: PathBuf,
    file: File,
    /// The suite with all runs so far.
    pub suite: Suite,
}

impl SuiteLog {
    /// Begins the suite in an empty or new folder, or continues the suite that the folder holds,
    /// which must have the same workloads, allocators and options.
    pub fn open(folder: &Path, head: SuiteHead) -> Result<SuiteLog, SuiteError> {
        std::fs::create_dir_all(folder).map_err(io(folder))?;
        let head_path = folder.join(SUITE_FILE);
        if !head_path.exists() {
            let mut entries = std::fs::read_dir(folder).map_err(io(folder))?;
            if entries.next().is_some() {
                return Err(SuiteError::Foreign(folder.to_path_buf()));
            }
            let text = serde_json::to_string_pretty(&head)
                .map_err(|error| malformed(&head_path, error.to_string()))?;
            std::fs::write(&head_path, text + "\n").map_err(io(&head_path))?;
        }
        let suite = Suite::load(folder)?;
        if let Some(difference) = difference(&suite.head, &head) {
            let command = suite.head.command.join(" ");
            return Err(SuiteError::Other { folder: folder.to_path_buf(), difference, command });
        }
        let path = folder.join(RUNS_FILE);
        let file = File::options().append(true).create(true).open(&path).map_err(io(&path))?;
        // A run of which only a part was written is made again.
        let complete = complete_lines(&std::fs::read_to_string(&path).map_err(io(&path))?).len();
        file.set_len(complete as u64).map_err(io(&path))?;
        Ok(SuiteLog { folder: folder.to_path_buf(), file, suite })
    }

    /// Appends a run, in the file and in memory.
    pub fn append(&mut self, run: SuiteRun) -> Result<(), SuiteError> {
        let path = self.folder.join(RUNS_FILE);
        let line =
            serde_json::to_string(&run).map_err(|error| malformed(&path, error.to_string()))?;
        // One write, so that a line is not mixed with another one.
        self.file.write_all((line + "\n").as_bytes()).map_err(io(&path))?;
        self.suite.runs.push(run);
        Ok(())
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Suite {
    /// Reads a folder. An incomplete last line is ignored.
    pub fn load(folder: &Path) -> Result<Suite, SuiteError> {
        let path = folder.join(SUITE_FILE);
        let text = std::fs::read_to_string(&path).map_err(io(&path))?;
        let head: SuiteHead =
            serde_json::from_str(&text).map_err(|error| malformed(&path, error.to_string()))?;
        if head.version != SUITE_VERSION {
            let found = head.version;
            let detail = format!("format {found}, but this keel reads format {SUITE_VERSION}");
            return Err(malformed(&path, detail));
        }
        let path = folder.join(RUNS_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(io(&path)(error)),
        };
        let mut runs = Vec::new();
        for (index, line) in complete_lines(&text).lines().enumerate() {
            let run: SuiteRun = serde_json::from_str(line)
                .map_err(|error| malformed(&path, format!("line {}: {error}", index + 1)))?;
            runs.push(run);
        }
        Ok(Suite { head, runs })
    }
}

fn complete_lines(text: &str) -> &str {
    &text[..text.rfind('\n').map_or(0, |at| at + 1)]
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> SuiteError + '_ {
    |source| SuiteError::Io { path: path.to_path_buf(), source }
}

fn malformed(path: &Path, detail: String) -> SuiteError {
    SuiteError::Malformed { path: path.to_path_buf(), detail }
}

/// The first difference between the suites after which runs are not comparable.
fn difference(old: &SuiteHead, new: &SuiteHead) -> Option<String> {
    let workloads =
        |head: &SuiteHead| head.workloads.iter().map(super::SuiteWorkload::key).collect::<Vec<_>>();
    let allocators = |head: &SuiteHead| {
        let entry = |one: &super::SuiteAllocator| {
            [vec![one.name.clone(), one.version.clone()], one.settings.clone()].concat().join(" ")
        };
        head.allocators.iter().map(entry).collect::<Vec<_>>()
    };
    let options = |head: &SuiteHead| vec![head.scale.to_string(), head.limit_seconds.to_string()];
    let machine = |head: &SuiteHead| {
        vec![
            head.machine.cpu.clone(),
            head.machine.kernel.clone(),
            format!("{} processors", head.machine.cpus),
        ]
    };
    let parts: [(&str, Vec<String>, Vec<String>); 5] = [
        ("workloads", workloads(old), workloads(new)),
        ("allocators", allocators(old), allocators(new)),
        ("sizes or time limits", options(old), options(new)),
        ("machine", machine(old), machine(new)),
        ("version of Keel", vec![old.keel_version.clone()], vec![new.keel_version.clone()]),
    ];
    parts.into_iter().find_map(|(what, old, new)| {
        let differing = old.iter().find(|one| !new.contains(one)).map(|one| format!("had `{one}`"));
        let added = || new.iter().find(|one| !old.contains(one)).map(|one| format!("new: `{one}`"));
        let found = differing.or_else(added)?;
        Some(format!("other {what}: {found}"))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::{SuiteAllocator, SuiteOutcome};

    fn head(allocator: &str) -> SuiteHead {
        SuiteHead {
            version: SUITE_VERSION,
            command: vec!["bench".into(), "--suite".into()],
            allocators: vec![SuiteAllocator {
                name: allocator.into(),
                ..SuiteAllocator::default()
            }],
            ..SuiteHead::default()
        }
    }

    fn run(round: u32) -> SuiteRun {
        SuiteRun {
            workload: "synthetic/larson".into(),
            allocator: "keel".into(),
            round,
            others: 0.25,
            outcome: SuiteOutcome::Failed("it took longer than 60 s".into()),
            ..SuiteRun::default()
        }
    }

    #[test]
    fn runs_are_appended_and_a_partial_line_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = SuiteLog::open(folder.path(), head("keel")).unwrap();
        log.append(run(0)).unwrap();
        log.append(run(1)).unwrap();
        let path = folder.path().join(RUNS_FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 20]).unwrap();
        let mut log = SuiteLog::open(folder.path(), head("keel")).unwrap();
        assert_eq!(log.suite.runs, [run(0)]);
        log.append(run(1)).unwrap();
        assert_eq!(Suite::load(folder.path()).unwrap().runs, [run(0), run(1)]);
    }

    #[test]
    fn another_suite_and_foreign_folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        SuiteLog::open(folder.path(), head("keel")).unwrap();
        let error = SuiteLog::open(folder.path(), head("glibc")).err().unwrap().to_string();
        assert!(error.contains("other allocators: had `keel") && error.contains("bench --suite"));
        std::fs::write(folder.path().join(RUNS_FILE), "{}\n").unwrap();
        let error = SuiteLog::open(folder.path(), head("keel")).err().unwrap().to_string();
        assert!(error.contains("line 1"), "{error}");
        let foreign = tempfile::tempdir().unwrap();
        std::fs::write(foreign.path().join("letter.txt"), "").unwrap();
        let error = SuiteLog::open(foreign.path(), head("keel")).err().unwrap().to_string();
        assert!(error.contains("holds no suite"), "{error}");
    }
}
