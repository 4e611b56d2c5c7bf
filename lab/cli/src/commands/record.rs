//! `keel record`: records a program's allocations into a journal.

pub mod common;
mod wait;

use self::common::CommonArguments;
use crate::format::{self, counted};
use crate::layout::Layout;
use crate::output;
use anyhow::Result;
use clap::Args;
use keel_record::{Error, Journal, Options, Progress, Recorded, Wait, When};
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The beginning of each line of `keel record`.
const RECORD: &str = "keel record";

/// Record every allocation of a program in a file, the journal
///
/// The program's input, output and signals are unchanged. Messages of keel go to stderr. If the
/// program is killed, the journal contains all operations up to that moment.
///
/// A signal to keel goes to the program. A second one ends the recording, and the program
/// continues. After the program's end, any signal ends the recording of the processes that it
/// started.
///
/// The exit code is that of the program, or 128 + n if signal n ended it. It is 1 if the program
/// succeeded but its journal is incomplete.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel record -- ./game --level 3\n  \
                        keel record -o sort.journal.parquet -- sort big.txt\n  \
                        keel record --last 30 --when frame=50ms --when crash -- ./game\n  \
                        keel record --follow-children -- gcc -O2 -c big.c")]
pub struct Arguments {
    /// The journal [default: PROGRAM.journal.parquet]. With --follow-children, each process has its
    /// own journal: NAME.PID.journal.parquet instead of NAME.journal.parquet
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also record the processes that the program starts, each in its own journal
    #[arg(short, long, conflicts_with_all = ["on", "last"])]
    follow_children: bool,
    /// For a program with its own allocator: record the operations that it reports through
    /// keel/recorder.h. Do not record its calls of malloc
    #[arg(short, long, conflicts_with = "sample")]
    embedded: bool,
    /// Record the objects of a Python program, too. Python then uses malloc instead of its own
    /// pools (PYTHONMALLOC=malloc), and is slower
    #[arg(long)]
    python_objects: bool,
    /// Begin the recording this many seconds after the start of the program. The journal also
    /// contains the blocks that are live then
    #[arg(long, value_name = "SECONDS", value_parser = seconds,
          conflicts_with_all = ["on", "last"])]
    after: Option<Duration>,
    #[command(flatten)]
    common: CommonArguments,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs the program and reports what was recorded.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let (progress, quiet) = (arguments.common.progress, arguments.common.quiet);
    let options = options(arguments)?;
    let line = ProgressLine::new(RECORD, progress, quiet);
    let recorded = line.record(&options, |show| keel_record::record_with(&options, show))?;
    Ok(exit_code(&recorded))
}

/// What [`record_for_try`] records.
pub struct With {
    /// Return addresses of each operation.
    pub stacks: u32,
    /// As `--python-objects`.
    pub python_objects: bool,
    /// Also the calls of locks, files and sleeps.
    pub calls: bool,
    /// The journal is removed at the end.
    pub temporary: bool,
}

/// Records a program as `keel record` does without options, except that it records stacks. Prints
/// the progress and a summary. `check` is called before anything is changed, if the program can be
/// recorded, and returns the journal.
pub fn record_for_try(
    command: &[OsString],
    with: With,
    place: impl FnOnce() -> Result<PathBuf>,
) -> Result<Recorded> {
    let arguments = Arguments {
        output: None,
        follow_children: false,
        embedded: false,
        python_objects: with.python_objects,
        after: None,
        common: CommonArguments::with_stacks(with.stacks),
        command: command.to_vec(),
    };
    let mut options = options(arguments)?;
    if with.calls {
        options.further_library = Some(Layout::discover()?.private("libkeel_calls.so")?);
    }
    keel_record::check(&options)?;
    let options = Options { output: place()?, ..options };
    let line =
        ProgressLine { temporary: with.temporary, ..ProgressLine::new(RECORD, false, false) };
    Ok(line.record(&options, |show| keel_record::record_with(&options, show))?)
}

/// Whether the journals contain everything.
pub fn is_complete(recorded: &Recorded) -> bool {
    recorded.problems.is_empty() && recorded.journals.iter().all(|one| one.written.is_ok())
}

/// Prints how to send the signal that the recording waits for.
fn announce(command: &str, options: &Options) {
    if let Some(signal) = options.wait.as_ref().and_then(Wait::signal) {
        let name = signal.to_string();
        let name = name.trim_start_matches("SIG");
        say!("{command}: waiting for {signal}: kill -{name} {}", std::process::id());
    }
}

fn options(arguments: Arguments) -> Result<Options> {
    let program = arguments.command.first().cloned().unwrap_or_default();
    let output = arguments.output.unwrap_or_else(|| default_output(&program));
    let mut options = Options {
        follow_children: arguments.follow_children,
        environment: environment(arguments.python_objects),
        embedded: arguments.embedded,
        after: arguments.after.filter(|after| !after.is_zero()),
        ..arguments.common.options(output, &When::Crash)?
    };
    set_program(&mut options, arguments.command);
    Ok(options)
}

/// Sets the program that keel starts, and what it inherits.
pub fn set_program(options: &mut Options, command: Vec<OsString>) {
    let mut command = command.into_iter();
    options.program = command.next().unwrap_or_default();
    options.arguments = command.collect();
    options.search_path = std::env::var_os("PATH");
    options.preload = std::env::var_os("LD_PRELOAD");
    options.only_children = true;
}

/// What makes interpreters allocate their objects with malloc.
fn environment(python_objects: bool) -> Vec<(&'static str, OsString)> {
    if python_objects { vec![("PYTHONMALLOC", "malloc".into())] } else { Vec::new() }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 =
        text.parse().map_err(|_| "give a number of seconds, such as 2.5".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "give a number of seconds that is not negative".to_owned())
}

fn some_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("give a number of seconds above 0".to_owned()),
        length => Ok(length),
    }
}

/// The progress while the program runs.
pub struct ProgressLine {
    command: &'static str,
    /// On a terminal: one line that is overwritten.
    in_place: bool,
    shown: bool,
    quiet: bool,
    /// The journals are in a temporary folder.
    pub temporary: bool,
    /// Only samples are recorded, so their numbers say nothing about the program.
    sampled: bool,
    last: Progress,
}

impl ProgressLine {
    pub fn new(command: &'static str, wanted: bool, quiet: bool) -> ProgressLine {
        let terminal = std::io::stderr().is_terminal();
        let last = Progress::default();
        let shown = (wanted || terminal) && !quiet;
        ProgressLine {
            command,
            in_place: terminal,
            shown,
            quiet,
            temporary: false,
            sampled: false,
            last,
        }
    }

    /// Records with `record`, which reports its progress to the function that it gets. Prints the
    /// progress, and what was recorded.
    pub fn record(
        mut self,
        options: &Options,
        record: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<Recorded, Error>,
    ) -> Result<Recorded, Error> {
        self.sampled = options.sample.is_some();
        if !self.quiet {
            announce(self.command, options);
        }
        let recorded = record(&mut |progress| self.show(progress))?;
        self.clear();
        if !self.quiet || !is_complete(&recorded) {
            report(self.command, &recorded, options.follow_children, !self.temporary);
        }
        Ok(recorded)
    }

    fn show(&mut self, now: Progress) {
        /// Progress arrives twice a second.
        const LINES_APART: f64 = 0.9;
        let command = self.command;
        if let Some(event) = &now.event {
            self.clear();
            if !self.quiet {
                say!("{command}: {event}");
            }
            return;
        }
        if let Some(processes) = &now.follows {
            self.clear();
            say!(
                "{command}: the program has ended; processes that it started are recorded until \
                 they end: {processes}. Ctrl-C, or a signal to keel, ends the recording"
            );
            return;
        }
        let seconds = now.seconds - self.last.seconds;
        if !self.shown || (!self.in_place && seconds < LINES_APART) {
            return;
        }
        let rate =
            (now.operations.saturating_sub(self.last.operations)) as f64 / seconds.max(0.001);
        let (time, operations) = (now.seconds, format::count(now.operations));
        let text = if self.sampled {
            format!("{command}: {time:.1} s, {operations} sampled operations")
        } else {
            let (rate, live) = (format::count(rate as u64), format::bytes(now.live_bytes));
            format!(
                "{command}: {time:.1} s, {operations} operations, {rate} per second, {live} live"
            )
        };
        if self.in_place {
            output::state(&format!("\r\x1b[2K{text}"));
        } else {
            say!("{text}");
        }
        self.last = now;
    }

    fn clear(&self) {
        if self.shown && self.in_place {
            output::state("\r\x1b[2K");
        }
    }
}

fn default_output(program: &OsStr) -> PathBuf {
    let mut name = Path::new(program).file_name().unwrap_or(OsStr::new("program")).to_owned();
    name.push(".journal.parquet");
    name.into()
}

/// Shared memory, unless it has no room: containers often have little.
fn default_spool() -> PathBuf {
    const ROOM: u64 = 16 << 20;
    let shared_memory = Path::new("/dev/shm");
    let has_room = output::free_bytes(shared_memory).is_some_and(|free| free >= ROOM);
    if has_room { shared_memory.to_path_buf() } else { std::env::temp_dir() }
}

/// Where a journal goes on if it cannot stay in its folder.
fn refuges() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    std::iter::once(std::env::temp_dir()).chain(home).filter(|folder| folder.is_dir()).collect()
}

/// The program's exit code as a shell reports it; 1 instead of 0 if the journal is incomplete.
pub fn exit_code(recorded: &Recorded) -> ExitCode {
    let code = match (recorded.status.code(), recorded.status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128 + signal.unwrap_or(0) as u8,
    };
    ExitCode::from(if code == 0 && !is_complete(recorded) { 1 } else { code })
}

fn report(command: &str, recorded: &Recorded, follow_children: bool, with_path: bool) {
    let silent = recorded.journals.iter().filter(|journal| journal.path.is_none()).count();
    for journal in recorded.journals.iter().filter(|journal| journal.path.is_some()) {
        say!("{command}: {}", summary(journal, follow_children, with_path));
        if let Err(error) = &journal.written {
            say!("{command}: error: {error}");
        }
    }
    if silent > 0 {
        // Some of them may be those of which a note says why they are not recorded.
        let what = if is_sampled(recorded) { "sample" } else { "recorded operation" };
        let (processes, have) =
            if silent == 1 { ("process", "has") } else { ("processes", "have") };
        say!("{command}: {silent} more {processes} without a {what} {have} no journal");
    }
    if recorded.still_runs {
        let by = if recorded.signal.is_some() { " by a signal" } else { "" };
        say!("{command}: note: the recording was ended{by}; the program still runs");
    }
    for note in &recorded.notes {
        say!("{command}: note: {note}");
    }
    for problem in &recorded.problems {
        say!("{command}: error: {problem}");
    }
    let longest = recorded.visits.iter().max_by_key(|visit| visit.pause);
    if let Some(longest) = longest {
        let stops: u32 = recorded.visits.iter().map(|visit| visit.stops).sum();
        say!(
            "{command}: one thread at a time was stopped {}, for {:.1} ms at most, of \
             which it worked {:.1} ms; {stops} stops of ptrace",
            counted(recorded.visits.len() as u64, "time"),
            longest.pause.as_secs_f64() * 1e3,
            longest.work.as_secs_f64() * 1e3
        );
    }
}

fn is_sampled(recorded: &Recorded) -> bool {
    recorded.journals.iter().any(|journal| journal.metadata.sample_bytes > 0)
}

fn summary(journal: &Journal, with_program: bool, with_path: bool) -> String {
    let metadata = &journal.metadata;
    let mut text = String::new();
    if with_program {
        let program =
            Path::new(&metadata.program).file_name().unwrap_or_default().to_string_lossy();
        text = format!("{program} [{}]: ", metadata.pid);
    }
    let operation = if metadata.sample_bytes > 0 { "sampled operation" } else { "operation" };
    text += &format!(
        "{} of {} in {:.2} s",
        counted(journal.operations, operation),
        counted(metadata.threads.len() as u64, "thread"),
        journal.seconds
    );
    if let (Ok(written), Some(path)) = (&journal.written, &journal.path) {
        if written.rows > 0 {
            let (bytes, rows) = (written.bytes as f64, written.rows as f64);
            text += &format!(", {:.1} MB, {:.2} bytes per operation", bytes / 1e6, bytes / rows);
        }
        if with_path {
            text += &format!(" -> {}", path.display());
        }
    }
    if metadata.prologue > 0 {
        text += &format!("; {} live at its start", counted(metadata.prologue, "block"));
    }
    if journal.limited {
        text += "; ended at its limit";
    }
    if metadata.stalls > 0 {
        let (times, seconds) = (counted(metadata.stalls, "time"), metadata.stalled_ns as f64 / 1e9);
        text += &format!("; waited {times} for the recorder, {seconds:.3} s");
    }
    if let Some(unnamed) = metadata.repairs.get("unnamed_code") {
        text += &format!(
            "; {} came from code that was unloaded before its name was known",
            counted(*unnamed, "call")
        );
    }
    if metadata.foreign > 0 {
        text += &format!(
            "; {} of blocks that were allocated before or outside the recording, or freed twice",
            counted(metadata.foreign, "free")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_journal::{Metadata, Written};

    #[test]
    fn a_summary_counts_one_as_one() {
        let metadata = Metadata { foreign: 1, stalls: 1, ..Metadata::default() };
        let journal = Journal {
            path: None,
            operations: 1,
            allocated_bytes: 0,
            seconds: 2.0,
            metadata,
            written: Ok(Written { rows: 1, bytes: 500 }),
            limited: false,
        };
        assert_eq!(
            summary(&journal, false, true),
            "1 operation of 0 threads in 2.00 s; waited 1 time for the recorder, 0.000 s; 1 free \
             of blocks that were allocated before or outside the recording, or freed twice"
        );
    }
}
