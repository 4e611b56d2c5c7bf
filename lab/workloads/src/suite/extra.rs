//! Additional runs of synthetic workloads and patterns, each in a process of its own, so that they
//! do not slow the runs whose time counts: with each call timed, and with system calls counted.

use super::catalogue::{Case, Kind};
use super::process::{Entrant, Runner, own, read_report};
use keel_results::SuiteMeasured;
use serde::Deserialize;
use std::ffi::OsString;
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

    fn time_calls(
        &self,
        case: &Case,
        entrant: &Entrant,
        measured: &mut SuiteMeasured,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let [report, times] = ["report.json", "times.json"].map(|name| self.scratch.join(name));
        let _ = std::fs::remove_file(&times);
        let bridge = self.folder.join("libkeel_bridge.so").into_os_string();
        let mut environment = with_bridge(&entrant.environment, bridge);
        environment.push(("KEEL_BRIDGE_TIMES".into(), times.clone().into()));
        let mut command = self.overseer(&[], &report);
        let scale = self.scale * TIMED_PART;
        self.put_program(&mut command, case, &entrant.allocator, &environment, scale);
        self.finish(&mut command, &report, stop)?;
        read_report(&report, &self.scratch.join("err"))?;
        let text = std::fs::read_to_string(&times)
            .map_err(|_| "it ended without writing them".to_owned())?;
        let calls: Calls = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        measured.p50_ns = Some(calls.p50_ns);
        measured.p999_ns = Some(calls.p999_ns);
        measured.worst_ns = Some(calls.worst_ns as u64);
        Ok(())
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
        if self.aftermath && case.kind == Kind::Pattern {
            command.args(["--after", "1"]);
        }
        let ended = self.finish(&mut command, &report, stop)?;
        let overseen = read_report(&report, &self.scratch.join("err"))?;
        measured.after_bytes = own(&ended.printed)?.after_kib.map(|kib| kib * 1024);
        measured.system_calls = u64::try_from(overseen.system_calls).ok();
        match measured.system_calls {
            Some(_) => Ok(()),
            None => Err("the system does not permit ptrace".to_owned()),
        }
    }
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
