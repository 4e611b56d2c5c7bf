//! One run of a workload under the overseer.

use super::catalogue::{Case, Kind};
use keel_allocators::Allocator;
use keel_results::{ProcessorTime, SuiteMeasured, SuiteOutcome, SuiteRun};
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
    /// Whether patterns run a second time in the first round, for the slowest call and the memory
    /// that is resident a second after the end.
    pub aftermath: bool,
}

/// What the overseer reports.
#[derive(Deserialize)]
struct Overseen {
    status: i32,
    wall_s: f64,
    user_s: f64,
    sys_s: f64,
    peak_bytes: u64,
    minor_faults: u64,
    major_faults: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    left: Vec<String>,
}

/// What `keel-synthetic` and `keel-patterns` report of themselves.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Own {
    elapsed_s: f64,
    cpu_s: f64,
    wall_ns: f64,
    cpu_ns: f64,
    peak_kib: Option<u64>,
    worst_ns: u64,
    after_kib: Option<u64>,
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
    /// Runs a case once. None if `stop` was set meanwhile; then the run does not count.
    pub fn run(
        &self,
        case: &Case,
        entrant: &Entrant,
        round: u32,
        stop: &AtomicBool,
    ) -> Option<SuiteRun> {
        let mut result = self.measure(case, entrant, &[], stop);
        let others = result.as_ref().map_or(0.0, |(_, others)| *others);
        if let (Ok((measured, _)), Kind::Pattern, true, 0) =
            (&mut result, &case.kind, self.aftermath, round)
        {
            let again = self.measure(case, entrant, &["--calls", "--after", "1"], stop);
            if let Ok((again, _)) = again {
                measured.worst_ns = again.worst_ns;
                measured.after_bytes = again.after_bytes;
            }
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        Some(SuiteRun {
            workload: case.workload.key(),
            allocator: entrant.allocator.name.clone(),
            round,
            others: (others * 1e3).round() / 1e3,
            outcome: match result {
                Ok((measured, _)) => SuiteOutcome::Measured(measured),
                Err(reason) => SuiteOutcome::Failed(reason),
            },
        })
    }

    /// The figures, and the share of the processors that others used meanwhile.
    fn measure(
        &self,
        case: &Case,
        entrant: &Entrant,
        more: &[&str],
        stop: &AtomicBool,
    ) -> Result<(SuiteMeasured, f64), String> {
        if let Kind::Script(file) = &case.kind {
            return self.script(case, file, entrant, stop);
        }
        let report = self.scratch.join("report.json");
        let mut command = Command::new(self.folder.join("keel-overseer"));
        command.arg(&report).arg(self.limit_seconds.to_string());
        self.put_program(&mut command, case, entrant);
        command.args(more);
        let (printed, spent) = self.finish(&mut command, &report, stop)?;
        let overseen = read_report(&report, &self.scratch.join("err"))?;
        let mut measured = measured(&overseen);
        let others = others(spent, &measured);
        if matches!(case.kind, Kind::Journal(_)) {
            let replayed: Vec<Replayed> = serde_json::from_str(&printed)
                .map_err(|error| format!("its output cannot be read: {error}"))?;
            let marks = || replayed.iter().flat_map(|one| &one.marks);
            measured.elapsed_s = marks().map(|mark| mark.median_ns).sum::<f64>() * 1e-9;
            // The process that measures also holds the plan of the replay.
            measured.peak_bytes = marks().map(|mark| mark.resident_bytes).max().unwrap_or(0);
            return Ok((measured, others));
        }
        let own: Own = serde_json::from_str(printed.lines().last().unwrap_or_default())
            .map_err(|error| format!("its output cannot be read: {error}"))?;
        measured.elapsed_s = own.elapsed_s + own.wall_ns * 1e-9;
        measured.cpu_s = own.cpu_s + own.cpu_ns * 1e-9;
        if own.worst_ns > 0 {
            measured.worst_ns = Some(own.worst_ns);
        }
        measured.after_bytes = own.after_kib.map(|kib| kib * 1024);
        if let Some(kib) = own.peak_kib {
            // Beyond what was resident before the pattern: that of small patterns is the program.
            measured.peak_bytes = measured.peak_bytes.max(kib * 1024);
        }
        Ok((measured, others))
    }

    /// The words after the overseer's own.
    fn put_program(&self, command: &mut Command, case: &Case, entrant: &Entrant) {
        if let Kind::Journal(file) = &case.kind {
            command.arg(&self.keel).arg("time").arg(file);
            command.arg("--allocators").arg(spec_of(&entrant.allocator));
            command.args(["--runs", "1", "--touch", "--json"]);
            return;
        }
        command.arg("env");
        command.args(entrant.environment.iter().map(|(name, value)| assignment(name, value)));
        match case.kind {
            Kind::Pattern => {
                command.arg(self.folder.join("keel-patterns")).arg(&case.workload.name);
            }
            _ => {
                command.arg(self.folder.join("keel-synthetic")).arg(&case.workload.name);
                command.args(["--scale", &self.scale.to_string()]);
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
    ) -> Result<(SuiteMeasured, f64), String> {
        let place = self.scratch.join(&case.workload.name);
        let report = place.join("run/report.json");
        if !place.join("input").exists() {
            let mut command = self.once("prepare", file, &place);
            self.finish(&mut command, &report, stop)?;
            // The output on the C library's malloc is the expected one; the run is not measured.
            self.finish(self.once("run", file, &place).arg("run").arg("env"), &report, stop)?;
            read_report(&report, &place.join("run/err"))?;
            std::fs::rename(place.join("run/out"), place.join("expected"))
                .map_err(|error| format!("its output cannot be kept: {error}"))?;
        }
        let mut command = self.once("run", file, &place);
        command.arg("run").arg("env");
        for (name, value) in &entrant.environment {
            command.arg(assignment(name, value));
            if name == "LD_PRELOAD" {
                command.arg(assignment("PRELOADED".as_ref(), value));
            }
        }
        let (_, spent) = self.finish(&mut command, &report, stop)?;
        let overseen = read_report(&report, &place.join("run/err"))?;
        let [printed, expected] =
            ["run/out", "expected"].map(|name| std::fs::read(place.join(name)));
        if printed.ok() != expected.ok() {
            return Err("it printed something else than on the C library's malloc".to_owned());
        }
        if !overseen.left.is_empty() {
            return Err(format!("it left processes behind: {}", overseen.left.join(", ")));
        }
        let measured = measured(&overseen);
        let others = others(spent, &measured);
        Ok((measured, others))
    }

    fn once(&self, way: &str, file: &Path, place: &Path) -> Command {
        let mut command = Command::new(self.folder.join("programs/once.sh"));
        // The folder of the tools has the overseer under its own name.
        command.arg(way).arg(self.scratch.join("tools")).arg(file).arg(place);
        command
    }

    /// Runs a command to its end. Returns what it printed, and the time that all programs spent on
    /// the processors meanwhile, ns. Its processes form a group, so that Ctrl-C reaches only
    /// `keel`, which then ends them.
    fn finish(
        &self,
        command: &mut Command,
        report: &Path,
        stop: &AtomicBool,
    ) -> Result<(String, u64), String> {
        let _ = std::fs::remove_file(report);
        let path = self.scratch.join("out");
        let cannot = |error: std::io::Error| format!("{}: {error}", self.scratch.display());
        let output = std::fs::File::create(&path).map_err(cannot)?;
        let errors = std::fs::File::create(self.scratch.join("err")).map_err(cannot)?;
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        let spent = || {
            let time = ProcessorTime::now();
            time.busy_ns + time.stolen_ns
        };
        let before = spent();
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
        let spent = spent().saturating_sub(before);
        Ok((std::fs::read_to_string(&path).unwrap_or_default(), spent))
    }
}

/// Reads the overseer's report, or explains why the run has no figures.
fn read_report(report: &Path, errors: &Path) -> Result<Overseen, String> {
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
        after_bytes: None,
        worst_ns: None,
    }
}

/// The share of all processors that others used, if all programs together spent `spent` ns.
fn others(spent: u64, measured: &SuiteMeasured) -> f64 {
    let own = (measured.user_s + measured.system_s) * 1e9;
    // SAFETY: queries a number.
    let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as f64;
    let whole = measured.process_elapsed_s * 1e9 * processors;
    if whole > 0.0 { ((spent as f64 - own) / whole).clamp(0.0, 1.0) } else { 0.0 }
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
