//! One run of a workload under the overseer.

use super::catalogue::{Case, Kind};
use super::interference::{Activity, Judge, Watch, is_less_disturbed};
use keel_allocators::Allocator;
use keel_results::{SuiteDiscarded, SuiteMeasured, SuiteOutcome, SuiteRun};
use serde::Deserialize;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The overseer's status for a run that took too long.
const LATE: i32 = 124;
const POLL: Duration = Duration::from_millis(2);

/// An allocator, and the variables that give it to a program.
#[derive(Clone, Debug)]
pub struct Entrant {
    /// The allocator.
    pub allocator: Allocator,
    /// See [`Allocator::program_environment`].
    pub environment: Vec<(OsString, OsString)>,
}

/// What all runs have in common.
#[derive(Clone, Debug)]
pub struct Runner {
    /// `lib/keel` of the installation.
    pub folder: PathBuf,
    /// The `keel` executable, for journals.
    pub keel: PathBuf,
    /// An empty folder for the files of a run.
    pub scratch: PathBuf,
    /// The size of synthetic workloads.
    pub scale: f64,
    /// A run that takes longer is ended.
    pub limit_seconds: f64,
    /// The rounds in which synthetic workloads run once more with each call timed. Patterns do so
    /// in the first round, unless this is 0.
    pub timed_rounds: u32,
    /// Whether the first round measures all that it can: calls of real programs too, and
    /// patterns sleep a second at the end of the run in which these are counted, for the memory
    /// that is resident then.
    pub complete: bool,
    /// Whether disturbed runs are repeated.
    pub repeat: bool,
}

/// A run: its figures, what printed them, and the machine's activity.
pub(super) struct Ended {
    pub printed: String,
    pub activity: Activity,
}

/// The figures of a run, and how the machine disturbed it.
struct Attempt {
    result: Result<SuiteMeasured, String>,
    others: f64,
    interference: Vec<String>,
}

/// What the overseer reports.
#[derive(Deserialize)]
pub(super) struct Overseen {
    status: i32,
    wall_s: f64,
    user_s: f64,
    sys_s: f64,
    peak_bytes: u64,
    #[serde(default)]
    average_bytes: u64,
    minor_faults: u64,
    major_faults: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    #[serde(default)]
    pub system_calls: i64,
    left: Vec<String>,
}

/// What `keel-synthetic` and `keel-patterns` report of themselves.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Own {
    elapsed_s: f64,
    cpu_s: f64,
    wall_ns: f64,
    cpu_ns: f64,
    peak_kib: Option<u64>,
    pub after_kib: Option<u64>,
}

/// A part of what `keel time --json` reports: the segment that ends at a mark.
#[derive(Deserialize)]
struct Replayed {
    marks: Vec<ReplayedMark>,
}
#[derive(Deserialize)]
struct ReplayedMark {
    median_ns: f64,
    resident_bytes: u64,
}

impl Runner {
    /// Runs a case once, and again while the machine disturbs it. None if `stop` was set meanwhile;
    /// then the run does not count.
    pub fn run(
        &self,
        case: &Case,
        entrant: &Entrant,
        round: u32,
        judge: &mut Judge,
        stop: &AtomicBool,
    ) -> Option<SuiteRun> {
        let mut kept = self.attempt(case, entrant, judge, stop);
        judge.note(&kept.interference, false);
        let mut discarded = Vec::new();
        while self.repeat && judge.repeats(&kept.interference, discarded.len()) {
            if kept.result.is_err() || stop.load(Ordering::Relaxed) {
                break;
            }
            let again = self.attempt(case, entrant, judge, stop);
            judge.note(&again.interference, true);
            let of = |one: &Attempt| (one.interference.clone(), one.others);
            let ((one, share), (other, rest)) = (of(&again), of(&kept));
            let better = again.result.is_err() || is_less_disturbed((&one, share), (&other, rest));
            let left = if better { std::mem::replace(&mut kept, again) } else { again };
            discarded.extend(left.discarded());
        }
        let mut incomplete = String::new();
        if let Ok(measured) = &mut kept.result
            && let Err(reason) = self.measure_more(case, entrant, round, measured, stop)
        {
            incomplete = reason;
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        Some(SuiteRun {
            workload: case.workload.key(),
            allocator: entrant.allocator.name.clone(),
            round,
            others: (kept.others * 1e3).round() / 1e3,
            interference: kept.interference,
            discarded,
            incomplete,
            outcome: match kept.result {
                Ok(measured) => SuiteOutcome::Measured(measured),
                Err(reason) => SuiteOutcome::Failed(reason),
            },
        })
    }

    fn attempt(
        &self,
        case: &Case,
        entrant: &Entrant,
        judge: &mut Judge,
        stop: &AtomicBool,
    ) -> Attempt {
        match self.measure(case, entrant, stop) {
            Err(reason) => Attempt { result: Err(reason), others: 0.0, interference: Vec::new() },
            Ok((measured, activity)) => {
                let own_ns = (measured.user_s + measured.system_s) * 1e9;
                Attempt {
                    result: Ok(measured),
                    others: activity.others(own_ns),
                    interference: judge.interference(&activity, own_ns),
                }
            }
        }
    }

    /// The figures, and the machine's activity meanwhile.
    fn measure(
        &self,
        case: &Case,
        entrant: &Entrant,
        stop: &AtomicBool,
    ) -> Result<(SuiteMeasured, Activity), String> {
        if let Kind::Script(file) = &case.kind {
            return self.script(case, file, entrant, stop);
        }
        let report = self.scratch.join("report.json");
        let mut command = self.overseer(&[], &report);
        self.put_program(&mut command, case, &entrant.allocator, &entrant.environment, self.scale);
        let ended = self.finish(&mut command, &report, stop)?;
        let overseen = read_report(&report, &self.scratch.join("err"))?;
        let mut measured = measured(&overseen);
        if matches!(case.kind, Kind::Journal(_)) {
            let replayed: Vec<Replayed> = serde_json::from_str(&ended.printed)
                .map_err(|error| format!("its output cannot be read: {error}"))?;
            let marks = || replayed.iter().flat_map(|one| &one.marks);
            measured.elapsed_s = marks().map(|mark| mark.median_ns).sum::<f64>() * 1e-9;
            // The process that measures also holds the plan of the replay.
            measured.peak_bytes = marks().map(|mark| mark.resident_bytes).max().unwrap_or(0);
            measured.average_bytes = None;
            return Ok((measured, ended.activity));
        }
        let own = own(&ended.printed)?;
        measured.elapsed_s = own.elapsed_s + own.wall_ns * 1e-9;
        measured.cpu_s = own.cpu_s + own.cpu_ns * 1e-9;
        if let Some(kib) = own.peak_kib {
            // Beyond what was resident before the pattern: that of small patterns is the program.
            measured.peak_bytes = measured.peak_bytes.max(kib * 1024);
        }
        Ok((measured, ended.activity))
    }

    /// The overseer with its own words.
    pub(super) fn overseer(&self, options: &[&str], report: &Path) -> Command {
        let mut command = Command::new(self.folder.join("keel-overseer"));
        command.args(options).arg(report).arg(self.limit_seconds.to_string());
        command
    }

    /// The words after the overseer's own.
    pub(super) fn put_program(
        &self,
        command: &mut Command,
        case: &Case,
        allocator: &Allocator,
        environment: &[(OsString, OsString)],
        scale: f64,
    ) {
        if let Kind::Journal(file) = &case.kind {
            command.arg(&self.keel).arg("time").arg(file);
            command.arg("--allocators").arg(spec_of(allocator));
            command.args(["--runs", "1", "--touch", "--json"]);
            return;
        }
        command.arg("env");
        command.args(environment.iter().map(|(name, value)| assignment(name, value)));
        match case.kind {
            Kind::Pattern => {
                command.arg(self.folder.join("keel-patterns")).arg(&case.workload.name);
            }
            _ => {
                command.arg(self.folder.join("keel-synthetic")).arg(&case.workload.name);
                command.args(["--scale", &scale.to_string()]);
            }
        }
    }

    /// Prepares the input of a real program if this is its first run, and runs it by `once.sh`.
    fn script(
        &self,
        case: &Case,
        file: &Path,
        entrant: &Entrant,
        stop: &AtomicBool,
    ) -> Result<(SuiteMeasured, Activity), String> {
        let (overseen, ended) = self.run_script(case, file, &entrant.environment, "", stop)?;
        Ok((measured(&overseen), ended.activity))
    }

    /// The same, with another environment and with options of the overseer.
    pub(super) fn run_script(
        &self,
        case: &Case,
        file: &Path,
        environment: &[(OsString, OsString)],
        options: &str,
        stop: &AtomicBool,
    ) -> Result<(Overseen, Ended), String> {
        let place = self.scratch.join(&case.workload.name);
        let report = place.join("run/report.json");
        self.prepare(file, &place, &report, stop)?;
        let mut command = self.once("run", file, &place);
        command.env("KEEL_OVERSEER_OPTIONS", options).arg("run").arg("env");
        for (name, value) in environment {
            command.arg(assignment(name, value));
            if name == "LD_PRELOAD" {
                command.arg(assignment("PRELOADED".as_ref(), &mapped(value)));
            }
        }
        let ended = self.finish(&mut command, &report, stop)?;
        let overseen = read_report(&report, &place.join("run/err"))?;
        let [printed, expected] =
            ["run/out", "expected"].map(|name| std::fs::read(place.join(name)));
        if printed.ok() != expected.ok() {
            return Err("it printed something else than on the C library's malloc".to_owned());
        }
        if !overseen.left.is_empty() {
            return Err(format!("it left processes behind: {}", overseen.left.join(", ")));
        }
        Ok((overseen, ended))
    }

    /// Prepares the input of a program before its first run, and its expected output: that on the
    /// C library's malloc. If this fails, the reason is kept for the other allocators.
    fn prepare(
        &self,
        file: &Path,
        place: &Path,
        report: &Path,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let (expected, reason) = (place.join("expected"), place.join("reason"));
        if let Ok(reason) = std::fs::read_to_string(&reason) {
            return Err(reason);
        }
        if expected.exists() {
            return Ok(());
        }
        let prepared = || {
            let _ = std::fs::remove_dir_all(place);
            self.finish(&mut self.once("prepare", file, place), report, stop)?;
            self.finish(self.once("run", file, place).arg("run").arg("env"), report, stop)?;
            read_report(report, &place.join("run/err"))?;
            std::fs::rename(place.join("run/out"), &expected)
                .map_err(|error| format!("its output cannot be kept: {error}"))
        };
        prepared().map_err(|error| {
            let text = format!("on the C library's malloc, before the first run, {error}");
            let _ = std::fs::create_dir_all(place);
            let _ = std::fs::write(&reason, &text);
            text
        })
    }

    fn once(&self, way: &str, file: &Path, place: &Path) -> Command {
        let mut command = Command::new(self.folder.join("programs/once.sh"));
        // The folder of the tools has the overseer under its own name.
        command.arg(way).arg(self.scratch.join("tools")).arg(file).arg(place);
        command.env("KEEL_LIMIT_SECONDS", self.limit_seconds.to_string());
        // The overseer below ends with its parent, and this script ends with `keel`.
        // SAFETY: between fork and exec only one system call is made.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        command
    }

    /// Runs a command to its end. Its processes form a group, so that Ctrl-C reaches only `keel`,
    /// which then ends them.
    pub(super) fn finish(
        &self,
        command: &mut Command,
        report: &Path,
        stop: &AtomicBool,
    ) -> Result<Ended, String> {
        let _ = std::fs::remove_file(report);
        let path = self.scratch.join("out");
        let cannot = |error: std::io::Error| format!("{}: {error}", self.scratch.display());
        let output = std::fs::File::create(&path).map_err(cannot)?;
        let errors = std::fs::File::create(self.scratch.join("err")).map_err(cannot)?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let watch = Watch::start();
        let mut child = command
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
        let group = child.id() as libc::pid_t;
        while let Ok(None) = child.try_wait() {
            if stop.load(Ordering::Relaxed) {
                // SAFETY: sends a signal to the group that this function created.
                unsafe { libc::kill(-group, libc::SIGKILL) };
                let _ = child.wait();
                return Err("it was stopped".to_owned());
            }
            std::thread::sleep(POLL);
        }
        let activity = watch.stop();
        // A program may print what is no text.
        let printed = std::fs::read(&path).unwrap_or_default();
        Ok(Ended { printed: String::from_utf8_lossy(&printed).into_owned(), activity })
    }
}

/// Reads the overseer's report, or explains why the run has no figures.
pub(super) fn read_report(report: &Path, errors: &Path) -> Result<Overseen, String> {
    let last_words = || {
        let text = std::fs::read(errors).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let line: String = line.chars().filter(|letter| !letter.is_control()).take(200).collect();
        if line.is_empty() { line } else { format!(": {line}") }
    };
    let text = std::fs::read_to_string(report)
        .map_err(|_| format!("it could not be started{}", last_words()))?;
    let overseen: Overseen = serde_json::from_str(&text)
        .map_err(|error| format!("the overseer's report cannot be read: {error}"))?;
    match overseen.status {
        0 => Ok(overseen),
        LATE => Err(format!("it took longer than {:.0} s", overseen.wall_s)),
        // A shell reports the signal of its child in the same way.
        status if status > 128 => Err(format!("it was ended by signal {}", status - 128)),
        status => Err(format!("it ended with status {status}{}", last_words())),
    }
}

fn measured(overseen: &Overseen) -> SuiteMeasured {
    SuiteMeasured {
        elapsed_s: overseen.wall_s,
        cpu_s: overseen.user_s + overseen.sys_s,
        process_elapsed_s: overseen.wall_s,
        user_s: overseen.user_s,
        system_s: overseen.sys_s,
        peak_bytes: overseen.peak_bytes,
        minor_faults: overseen.minor_faults,
        major_faults: overseen.major_faults,
        voluntary_switches: overseen.voluntary_switches,
        involuntary_switches: overseen.involuntary_switches,
        average_bytes: Some(overseen.average_bytes).filter(|&bytes| bytes > 0),
        ..SuiteMeasured::default()
    }
}

impl Attempt {
    /// What remains of a run that does not count.
    fn discarded(self) -> Option<SuiteDiscarded> {
        let measured = self.result.ok()?;
        Some(SuiteDiscarded {
            interference: self.interference,
            elapsed_s: measured.elapsed_s,
            cpu_s: measured.cpu_s,
            peak_bytes: measured.peak_bytes,
        })
    }
}

/// The last library of LD_PRELOAD, as the kernel names it: without symbolic links.
fn mapped(libraries: &std::ffi::OsStr) -> OsString {
    let text = libraries.to_string_lossy();
    let last = text.rsplit(':').next().unwrap_or_default();
    Path::new(last).canonicalize().map_or_else(|_| last.into(), PathBuf::into_os_string)
}

/// What a workload reports in its last line.
pub(super) fn own(printed: &str) -> Result<Own, String> {
    serde_json::from_str(printed.lines().last().unwrap_or_default())
        .map_err(|error| format!("its output cannot be read: {error}"))
}

fn assignment(name: &std::ffi::OsStr, value: &std::ffi::OsStr) -> OsString {
    let mut word = name.to_owned();
    word.push("=");
    word.push(value);
    word
}

/// The allocator as `--allocators` names it.
fn spec_of(allocator: &Allocator) -> OsString {
    use keel_allocators::Kind as Form;
    let file = allocator.file.clone().unwrap_or_default();
    let stem = file.file_stem().unwrap_or_default();
    let mut spec = match allocator.kind {
        Form::Floor => keel_allocators::FLOOR.into(),
        Form::System => "glibc".into(),
        Form::Keel => stem.to_string_lossy().trim_start_matches("lib").into(),
        Form::Peer => stem.to_owned(),
        Form::Preload => file.into_os_string(),
        Form::Prefixed => {
            let mut spec = file.clone().into_os_string();
            spec.push(":symbols=");
            spec.push(&allocator.symbols);
            spec
        }
    };
    for (name, value) in &allocator.environment {
        spec.push(format!(":{name}={value}"));
    }
    spec
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn a_run_without_figures_has_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (report, errors) = (folder.path().join("report"), folder.path().join("err"));
        std::fs::write(&errors, "one\nno memory\n\n").unwrap();
        let reason = |text: &str| {
            std::fs::write(&report, text).unwrap();
            read_report(&report, &errors).err()
        };
        let with_status = |status: i32| {
            format!(
                "{{\"status\":{status},\"wall_s\":5.1,\"user_s\":1,\"sys_s\":0,\"peak_bytes\":9,\
                 \"minor_faults\":1,\"major_faults\":0,\"voluntary_switches\":1,\
                 \"involuntary_switches\":0,\"left\":[]}}"
            )
        };
        assert_eq!(reason(&with_status(0)), None);
        assert_eq!(reason(&with_status(124)).unwrap(), "it took longer than 5 s");
        assert_eq!(reason(&with_status(139)).unwrap(), "it was ended by signal 11");
        assert_eq!(reason(&with_status(1)).unwrap(), "it ended with status 1: no memory");
        std::fs::remove_file(&report).unwrap();
        let reason = read_report(&report, &errors).err().unwrap();
        assert_eq!(reason, "it could not be started: no memory");
    }
}
