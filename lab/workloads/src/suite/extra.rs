//! Additional runs, each in a process of its own, so that they do not slow the runs whose time
//! counts: with each call timed, and with system calls counted. Synthetic workloads and patterns
//! have them, and real programs in a full suite.

use super::catalogue::{Case, Kind};
use super::process::{Entrant, Runner, own, read_report};
use keel_results::SuiteMeasured;
use serde::Deserialize;
use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// A timed run of a synthetic workload has this part of its size: a reading of the clock at both
/// ends adds some 30 ns to each call.
const TIMED_PART: f64 = 0.25;

/// What the bridge writes about the calls.
#[derive(Deserialize)]
struct Calls {
    p50_ns: f64,
    p999_ns: f64,
    worst_ns: f64,
}

impl Runner {
    /// The figures that need further runs. The error is a clause: what is missing, and why.
    pub(super) fn measure_more(
        &self,
        case: &Case,
        entrant: &Entrant,
        round: u32,
        measured: &mut SuiteMeasured,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        if let Kind::Script(file) = &case.kind {
            return match round == 0 && self.complete {
                true => self.measure_script(case, file, entrant, measured, stop),
                false => Ok(()),
            };
        }
        if !matches!(case.kind, Kind::Synthetic | Kind::Pattern) {
            return Ok(());
        }
        // There are three times as many patterns as synthetic workloads.
        let rounds = if case.kind == Kind::Pattern { 1 } else { self.timed_rounds };
        if round < rounds.min(self.timed_rounds) {
            self.time_calls(case, entrant, measured, stop)
                .map_err(|reason| format!("no times of calls: {reason}"))?;
        }
        if round == 0 {
            self.count_system_calls(case, entrant, measured, stop)
                .map_err(|reason| format!("no count of system calls: {reason}"))?;
        }
        Ok(())
    }

    /// Both measurements of a real program, over all of its processes.
    fn measure_script(
        &self,
        case: &Case,
        file: &Path,
        entrant: &Entrant,
        measured: &mut SuiteMeasured,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let [shared, times] = ["shared", "times.json"].map(|name| self.scratch.join(name));
        for file in [&shared, &times] {
            // Servers that refuse to run as root run as another user, who must write these.
            std::fs::write(file, "")
                .and_then(|()| std::fs::set_permissions(file, Permissions::from_mode(0o666)))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let mut environment = self.bridged(entrant, &times);
        environment.push(("KEEL_BRIDGE_SHARED".into(), shared.into()));
        self.run_script(case, file, &environment, "", stop)
            .and_then(|_| keep_times(measured, &times))
            .map_err(|reason| format!("no times of calls: {reason}"))?;
        self.run_script(case, file, &entrant.environment, "--calls", stop)
            .and_then(|(overseen, _)| keep_count(measured, overseen.system_calls))
            .map_err(|reason| format!("no count of system calls: {reason}"))
    }

    /// The environment in which the bridge times the calls.
    fn bridged(&self, entrant: &Entrant, times: &Path) -> Vec<(OsString, OsString)> {
        let bridge = self.folder.join("libkeel_bridge.so").into_os_string();
        let mut environment = with_bridge(&entrant.environment, bridge);
        environment.push(("KEEL_BRIDGE_TIMES".into(), times.into()));
        environment
    }

    fn time_calls(
        &self,
        case: &Case,
        entrant: &Entrant,
        measured: &mut SuiteMeasured,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let [report, times] = ["report.json", "times.json"].map(|name| self.scratch.join(name));
        let _ = std::fs::remove_file(&times);
        let environment = self.bridged(entrant, &times);
        let mut command = self.overseer(&[], &report);
        let scale = self.scale * TIMED_PART;
        self.put_program(&mut command, case, &entrant.allocator, &environment, scale);
        self.finish(&mut command, &report, stop)?;
        read_report(&report, &self.scratch.join("err"))?;
        keep_times(measured, &times)
    }

    fn count_system_calls(
        &self,
        case: &Case,
        entrant: &Entrant,
        measured: &mut SuiteMeasured,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let report = self.scratch.join("report.json");
        let mut command = self.overseer(&["--calls"], &report);
        let (allocator, environment) = (&entrant.allocator, &entrant.environment);
        self.put_program(&mut command, case, allocator, environment, self.scale);
        if self.complete && case.kind == Kind::Pattern {
            command.args(["--after", "1"]);
        }
        let ended = self.finish(&mut command, &report, stop)?;
        let overseen = read_report(&report, &self.scratch.join("err"))?;
        measured.after_bytes = own(&ended.printed)?.after_kib.map(|kib| kib * 1024);
        keep_count(measured, overseen.system_calls)
    }
}

/// Reads what the bridge wrote.
fn keep_times(measured: &mut SuiteMeasured, times: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(times).unwrap_or_default();
    if text.is_empty() {
        return Err("it ended without writing them".to_owned());
    }
    let calls: Calls = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    measured.p50_ns = Some(calls.p50_ns);
    measured.p999_ns = Some(calls.p999_ns);
    measured.worst_ns = Some(calls.worst_ns as u64);
    Ok(())
}

/// The overseer reports -1 if it may not count.
fn keep_count(measured: &mut SuiteMeasured, count: i64) -> Result<(), String> {
    measured.system_calls = u64::try_from(count).ok();
    measured.system_calls.map(|_| ()).ok_or_else(|| "the system does not permit ptrace".to_owned())
}

/// The environment with the bridge, which then forwards calls to the allocator of `environment`.
fn with_bridge(
    environment: &[(OsString, OsString)],
    bridge: OsString,
) -> Vec<(OsString, OsString)> {
    let mut changed = environment.to_vec();
    if changed.iter().any(|(name, _)| name == "KEEL_BRIDGE") {
        return changed;
    }
    let mut preloaded = bridge;
    match changed.iter_mut().find(|(name, _)| name == "LD_PRELOAD") {
        Some((_, library)) => {
            preloaded.push(":");
            preloaded.push(&library);
            *library = preloaded;
        }
        None => changed.push(("LD_PRELOAD".into(), preloaded)),
    }
    changed.push(("KEEL_BRIDGE".into(), "next".into()));
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bridge_stands_before_the_library_that_it_forwards_to() {
        let words = |environment: &[(&str, &str)]| {
            let environment: Vec<_> =
                environment.iter().map(|&(name, value)| (name.into(), value.into())).collect();
            let changed = with_bridge(&environment, "b.so".into());
            let words = changed.iter().map(|(name, value)| {
                format!("{}={}", name.to_string_lossy(), value.to_string_lossy())
            });
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(&[]), "LD_PRELOAD=b.so KEEL_BRIDGE=next");
        assert_eq!(words(&[("LD_PRELOAD", "j.so")]), "LD_PRELOAD=b.so:j.so KEEL_BRIDGE=next");
        let bridged = [("LD_PRELOAD", "b.so"), ("KEEL_BRIDGE", "peer:p.so")];
        assert_eq!(words(&bridged), "LD_PRELOAD=b.so KEEL_BRIDGE=peer:p.so");
    }
}
