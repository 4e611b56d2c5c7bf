//! One run: starts a player and watches it until it ends.

use crate::sampler::Sampler;
use keel_allocators::{Allocator, Kind};
use keel_plan::{Orders, Plan, Results, State};
use keel_results::text::{count, counted};
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The player's executable and its timeout.
#[derive(Clone, Debug)]
pub struct Player {
    /// The executable.
    pub executable: PathBuf,
    /// The longest time without a completed operation.
    pub timeout: Duration,
}

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunFailure {
    /// The allocator, or its player, failed; a sentence.
    Failed(String),
    /// The user stopped it.
    Stopped,
}

/// A run fails if more than one call in this many returned no memory. Fewer become a note: some
/// allocators refuse rare requests, as rpmalloc refuses alignments of its span size.
const MAX_REFUSED_SHARE: u64 = 1000;

/// The interval between reports of progress.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

impl Player {
    /// Executes the plan on the allocator. On success the results are complete and consistent.
    /// `progress` receives the number of rows done.
    ///
    /// # Errors
    /// See [`RunFailure`].
    pub fn play(
        &self,
        allocator: &Allocator,
        plan: &Plan,
        results: &Results,
        orders: Orders,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Sampler, RunFailure> {
        results.reset(orders);
        let mut child = self.start(allocator, plan, results).map_err(RunFailure::Failed)?;
        let watched = self.watch(&mut child, plan, results, stop, progress);
        if watched.is_err() {
            // This fails if the player has ended already.
            let _ = child.kill();
        }
        let status = child.wait();
        let message = last_line(&mut child);
        let (sampler, ()) = (watched?, ());
        if stop.load(Relaxed) {
            return Err(RunFailure::Stopped);
        }
        let status =
            status.map_err(|error| RunFailure::Failed(format!("its player was lost: {error}")))?;
        match judge(status, results, &message, plan.header().rows, allocator.kind) {
            None => Ok(sampler),
            Some(failure) => Err(RunFailure::Failed(failure)),
        }
    }

    fn start(
        &self,
        allocator: &Allocator,
        plan: &Plan,
        results: &Results,
    ) -> Result<Child, String> {
        let mut command = allocator.command(&self.executable);
        let pair =
            (plan.memory().descriptor().as_raw_fd(), results.memory().descriptor().as_raw_fd());
        command
            .arg(allocator.target())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Only keel receives Ctrl-C; it then ends the player.
            .process_group(0);
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(move || {
                pass_descriptors(pair)?;
                // Ends the player if keel is killed.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        command.spawn().map_err(|error| {
            format!("the player {} cannot be started: {error}", self.executable.display())
        })
    }

    /// Waits for the end of the player, samples its memory and checks its progress.
    fn watch(
        &self,
        child: &mut Child,
        plan: &Plan,
        results: &Results,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Sampler, RunFailure> {
        let mut sampler = Sampler::new(child.id());
        let (mut seen, mut since, mut reported) = (u64::MAX, Instant::now(), Instant::now());
        loop {
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(_)) => break,
                Err(error) => {
                    return Err(RunFailure::Failed(format!("its player was lost: {error}")));
                }
            }
            if stop.load(Relaxed) {
                return Err(RunFailure::Stopped);
            }
            if results.control().state() == State::Running {
                sampler.read();
            }
            if reported.elapsed() >= REPORT_INTERVAL {
                reported = Instant::now();
                let (done, mark) = progress_of(results, plan.header().rows);
                progress(done);
                if mark != seen {
                    (seen, since) = (mark, Instant::now());
                } else if since.elapsed() > self.timeout {
                    return Err(RunFailure::Failed(format!(
                        "it hung: no operation was completed for {} s, {done} of {} were done",
                        self.timeout.as_secs(),
                        plan.header().rows
                    )));
                }
            }
            std::thread::sleep(sampler.interval());
        }
        let control = results.control();
        sampler.add(control.end_ns.load(Relaxed), control.end_bytes.load(Relaxed));
        Ok(sampler)
    }
}

/// Moves plan and results to descriptors 3 and 4. Called after fork.
fn pass_descriptors((plan, results): (i32, i32)) -> std::io::Result<()> {
    let check = |code: i32| if code < 0 { Err(std::io::Error::last_os_error()) } else { Ok(code) };
    // SAFETY: our own descriptors. The first copies avoid 3 and 4, the second ones survive exec.
    unsafe {
        let plan = check(libc::fcntl(plan, libc::F_DUPFD_CLOEXEC, 10))?;
        let results = check(libc::fcntl(results, libc::F_DUPFD_CLOEXEC, 10))?;
        check(libc::dup2(plan, 3))?;
        check(libc::dup2(results, 4))?;
    }
    Ok(())
}

/// The rows done by the slowest thread, and a number that changes with the progress of any thread.
fn progress_of(results: &Results, rows: u64) -> (u64, u64) {
    let next = || results.states().iter().map(|state| state.next_row.load(Relaxed));
    let slowest = next().filter(|&row| row != u32::MAX).min();
    let running = results.control().state() == State::Running;
    let done = if running { slowest.map_or(rows, u64::from) } else { 0 };
    let mark = next()
        .fold(u64::from(running), |sum, row| sum.wrapping_mul(31).wrapping_add(u64::from(row)));
    (done.min(rows), mark)
}

/// The last line of the player's stderr, truncated.
fn last_line(child: &mut Child) -> String {
    let mut bytes = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // The line is left out if it cannot be read.
        let _ = stderr.take(1 << 20).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes);
    text.trim().lines().last().unwrap_or_default().chars().take(300).collect()
}

/// Why the run failed; None if it succeeded.
fn judge(
    status: ExitStatus,
    results: &Results,
    message: &str,
    rows: u64,
    kind: Kind,
) -> Option<String> {
    let control = results.control();
    if control.state() == State::Failed {
        return Some(control.message());
    }
    if let Some(signal) = status.signal() {
        let detail = if message.is_empty() { String::new() } else { format!(": {message}") };
        let done = progress_of(results, rows).0;
        return Some(format!(
            "it crashed with {} after about {} of {}{detail}",
            name(signal),
            count(done),
            counted(rows, "operation")
        ));
    }
    if !status.success() || control.state() != State::Done {
        let detail = if message.is_empty() { "it printed no message" } else { message };
        return Some(format!("its player ended with {status}: {detail}"));
    }
    let (refused, corrupt) = (control.refused.load(Relaxed), control.corrupt.load(Relaxed));
    if refused > rows / MAX_REFUSED_SHARE && kind != Kind::Floor {
        let row = control.first_refused.load(Relaxed);
        let place = place(row);
        let calls = counted(rows, "call");
        return Some(format!("it returned NULL from {} of {calls}, first {place}", count(refused)));
    }
    if corrupt > 0 {
        let row = control.first_corrupt.load(Relaxed);
        let place = place(row);
        return Some(format!(
            "{} did not hold what was written there, first {place}",
            counted(corrupt, "block")
        ));
    }
    None
}

/// The position of a row, in words.
pub fn place(row: u64) -> String {
    if row == u64::from(keel_plan::PROLOGUE_ROW) {
        return "among the blocks that were live when the recording began".to_owned();
    }
    format!("at row {row}")
}

fn name(signal: i32) -> String {
    let known = match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGABRT => "SIGABRT",
        libc::SIGILL => "SIGILL",
        libc::SIGFPE => "SIGFPE",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGKILL => "SIGKILL (possibly out of memory)",
        _ => return format!("signal {signal}"),
    };
    known.to_owned()
}
