//! The workloads that can run here.

use keel_results::SuiteWorkload;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The suites, in the order of tables.
pub const SUITES: [&str; 4] = ["synthetic", "patterns", "real", "journals"];

/// Programs that run for at most a few seconds and whose time depends on the allocator.
const QUICK_PROGRAMS: [&str; 4] = ["sqlite", "lua", "perl", "compressors"];
/// The real programs of a full suite that names no suites: those that are typical for benchmarks of
/// allocators and run for at most some seconds.
const USUAL_PROGRAMS: [&str; 17] = [
    "compiler",
    "compressors",
    "ffmpeg",
    "freeciv",
    "ghostscript",
    "git",
    "lua",
    "node",
    "openttd",
    "perl",
    "postgres",
    "python",
    "redis",
    "rocksdb",
    "ruby",
    "sqlite",
    "z3",
];
/// Patterns of each kind: small, large, realloc, threads, fragmentation.
const QUICK_PATTERNS: [&str; 18] = [
    "replace-small",
    "replace-8k-32k",
    "replace-64k-512k",
    "replace-1m-8m",
    "replace-all-sizes",
    "turn-64",
    "turn-128k",
    "turn-6m",
    "random-small",
    "queue-small",
    "calloc-16k",
    "holes-small",
    "sawtooth-48m",
    "frames",
    "tree",
    "remote-random",
    "exchange-small",
    "pipeline-small",
];

/// A workload, and how to run it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its description.
    pub workload: SuiteWorkload,
    /// How to run it.
    pub kind: Kind,
}

/// How a workload is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `keel-synthetic NAME`.
    Synthetic,
    /// `keel-patterns NAME`.
    Pattern,
    /// A program's script, by `once.sh`.
    Script(PathBuf),
    /// A journal, replayed by `keel time`.
    Journal(PathBuf),
}

/// What the installation offers.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// In the order of tables.
    pub cases: Vec<Case>,
    /// Programs that are not installed, each with the reason.
    pub left_out: Vec<String>,
}

impl Catalogue {
    /// Lists the workloads of the suites. `folder` is `lib/keel` of the installation.
    ///
    /// # Errors
    /// A sentence, if a program of the installation cannot be run.
    pub fn read(folder: &Path, suites: &[String], journals: &[PathBuf]) -> Result<Self, String> {
        let mut catalogue = Catalogue::default();
        for suite in suites {
            match suite.as_str() {
                "synthetic" => {
                    catalogue.listed(folder, "keel-synthetic", suite, Kind::Synthetic)?
                }
                "patterns" => catalogue.listed(folder, "keel-patterns", suite, Kind::Pattern)?,
                "real" => catalogue.programs(&folder.join("programs"))?,
                _ => catalogue.journals(journals),
            }
        }
        Ok(catalogue)
    }

    /// Leaves the workloads of the short form.
    pub fn shorten(&mut self) {
        self.cases.retain(|case| match case.kind {
            Kind::Pattern => QUICK_PATTERNS.contains(&case.workload.name.as_str()),
            Kind::Script(_) => QUICK_PROGRAMS.contains(&case.workload.name.as_str()),
            _ => true,
        });
    }

    /// Leaves the usual ones of the real programs.
    pub fn leave_usual(&mut self) {
        self.cases.retain(|case| match case.kind {
            Kind::Script(_) => USUAL_PROGRAMS.contains(&case.workload.name.as_str()),
            _ => true,
        });
    }

    /// The lines of `PROGRAM --list`: name, about, stresses, source, what is not shown.
    fn listed(
        &mut self,
        folder: &Path,
        program: &str,
        suite: &str,
        kind: Kind,
    ) -> Result<(), String> {
        let path = folder.join(program);
        let output = Command::new(&path)
            .arg("--list")
            .output()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let mut fields = line.split('\t').map(str::to_owned);
            let mut next = || fields.next().unwrap_or_default();
            let workload = SuiteWorkload {
                suite: suite.to_owned(),
                name: next(),
                about: next(),
                stresses: next(),
                source: next(),
                not_shown: next(),
            };
            self.cases.push(Case { workload, kind: kind.clone() });
        }
        Ok(())
    }

    /// The scripts of a folder and of `large/` below it. A script names the commands that it needs
    /// in lines `# needs:`, and describes itself in lines `# about:`, `# stresses:` and
    /// `# not shown:`.
    fn programs(&mut self, folder: &Path) -> Result<(), String> {
        let mut files = Vec::new();
        for folder in [folder.to_path_buf(), folder.join("large")] {
            let entries = std::fs::read_dir(&folder)
                .map_err(|error| format!("{}: {error}", folder.display()))?;
            files.extend(entries.flatten().map(|entry| entry.path()));
        }
        files.retain(|file| file.extension().is_some_and(|extension| extension == "sh"));
        files.sort_by_key(|file| file.file_stem().map(std::ffi::OsStr::to_owned));
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&file)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            // `stress` is a test of this project and not a program.
            let tool = ["run", "once", "stress"].contains(&name.as_str());
            if tool || text.contains("\n# measured: no") {
                continue;
            }
            match missing(&text) {
                Some(command) => {
                    self.left_out.push(format!("real/{name}: {command} is not installed"));
                }
                None => self.cases.push(Case {
                    workload: SuiteWorkload {
                        suite: "real".to_owned(),
                        about: described(&text, "about"),
                        name,
                        stresses: described(&text, "stresses"),
                        source: format!("a real program: {}", needs(&text).join(", ")),
                        not_shown: described(&text, "not shown"),
                    },
                    kind: Kind::Script(file),
                }),
            }
        }
        Ok(())
    }

    fn journals(&mut self, journals: &[PathBuf]) {
        for path in journals {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.split(".journal").next().unwrap_or_default().to_owned();
            self.cases.push(Case {
                workload: SuiteWorkload {
                    suite: "journals".to_owned(),
                    about: "all operations of a journal, replayed on one thread".to_owned(),
                    name,
                    stresses: "the sizes, lifetimes and order of calls of a real program"
                        .to_owned(),
                    source: "a recording of a real program".to_owned(),
                    not_shown: "the program's own work and its use of the blocks between the calls"
                        .to_owned(),
                },
                kind: Kind::Journal(path.clone()),
            });
        }
    }
}

/// What a script says of itself; empty if it does not.
fn described(text: &str, what: &str) -> String {
    let start = format!("# {what}: ");
    text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default().to_owned()
}

fn needs(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| {
        line.strip_prefix("# needs: ").or_else(|| line.strip_prefix("# optional: "))
    });
    lines.flat_map(str::split_whitespace).collect()
}

/// The first command that a script needs and that is not installed.
fn missing(text: &str) -> Option<&str> {
    needs(text).into_iter().find(|command| !is_installed(command))
}

fn is_installed(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/games".into()]);
    Path::new(command).is_absolute() && Path::new(command).is_file()
        || folders.into_iter().any(|folder| folder.join(command).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_what_it_needs() {
        let text = "# needs: sh\n# optional: no-such-command-here\necho\n";
        assert_eq!(needs(text), ["sh", "no-such-command-here"]);
        assert_eq!(missing(text), Some("no-such-command-here"));
        assert_eq!(missing("# needs: sh\n"), None);
    }

    #[test]
    fn every_measured_program_describes_itself() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs");
        let mut catalogue = Catalogue::default();
        assert_eq!(catalogue.programs(&folder), Ok(()));
        assert!(!catalogue.cases.is_empty(), "no program of {} is installed", folder.display());
        for Case { workload, .. } in catalogue.cases {
            let SuiteWorkload { name, about, stresses, source, not_shown, .. } = workload;
            let texts = [about, stresses, source, not_shown];
            assert!(texts.iter().all(|text| !text.is_empty()), "{name}: {texts:?}");
        }
    }
}
