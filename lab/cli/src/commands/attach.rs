//! `keel attach`: records a program that runs already.

use super::record::wait::WaitArguments;
use super::record::{
    ProgressLine, announce, default_spool, is_complete, refuges, report_attached, seconds,
};
use crate::format;
use crate::layout::Layout;
use anyhow::Result;
use clap::Args;
use keel_record::{Options, Signal, When};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The beginning of each line that it prints.
const ATTACH: &str = "keel attach";

/// Record a program that runs already
///
/// keel stops one thread of the process for some milliseconds, while that thread waits in a system
/// call, and loads the recorder into the process. At the end it stops a thread again and removes
/// the recorder's functions; the library stays loaded, and nothing calls it. A signal to keel
/// (Ctrl-C) ends the recording, and the program continues.
///
/// Blocks that the program allocated before are not known: their frees and reallocs are recorded as
/// those of foreign blocks. Calls inside the program file itself are recorded only if they go
/// through its table of functions, as those of malloc in other object files do.
///
/// This works for programs on x86-64 that are linked dynamically with glibc, and needs the right to
/// trace the process. keel says why if it cannot attach. The exit code is 1 then, or if the journal
/// is incomplete, else 0.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel attach 4711 --for 30 --stacks 16\n  \
                        keel attach $(pidof redis-server) -o redis.journal.parquet\n  \
                        keel attach 4711 --last 60 --when signal=USR1")]
pub struct Arguments {
    /// The process id
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: u32,
    /// The journal [default: NAME.PID.journal.parquet, with the name of the program]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// End the recording after this many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    length: Option<Duration>,
    /// Also record the call stack of each operation: the innermost DEPTH frames
    #[arg(long, value_name = "DEPTH", default_value_t = 0, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(0..=100))]
    stacks: u32,
    /// Leave out the calls of this module, and all operations on its blocks, as `keel record` does
    #[arg(long, value_name = "MODULE")]
    skip_module: Vec<String>,
    /// End the recording when the journal has this many operations
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_events: Option<u64>,
    /// End the recording when the journal has about this size, in bytes or with K, M or G (100M)
    #[arg(long, value_name = "SIZE", value_parser = format::parse_size)]
    max_size: Option<u64>,
    /// The folder for the files through which the program sends its operations to keel [default:
    /// /dev/shm, else TMPDIR]
    #[arg(long, value_name = "FOLDER")]
    spool: Option<PathBuf>,
    #[command(flatten)]
    waiting: WaitArguments,
    /// Print the progress every second. On a terminal, keel always shows the progress
    #[arg(long)]
    progress: bool,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

/// Records the process until it ends, or the recording does.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let (pid, quiet) = (arguments.pid, arguments.quiet);
    let mut line = ProgressLine::new(ATTACH, arguments.progress, quiet);
    let options = Options {
        output: arguments.output.unwrap_or_else(|| default_output(pid)),
        recorder_library: Layout::discover()?.library("libkeel_recorder.so")?,
        spool_folder: arguments.spool.unwrap_or_else(default_spool),
        stacks: arguments.stacks,
        skip_modules: arguments.skip_module,
        length: arguments.length,
        max_operations: arguments.max_events,
        max_bytes: arguments.max_size,
        wait: arguments.waiting.wait(&When::Signal(Signal::Usr1)),
        refuges: refuges(),
        ..Options::default()
    };
    if !quiet {
        announce(ATTACH, &options);
    }
    let recorded = keel_record::attach_with(pid, &options, &mut |progress| line.show(progress))?;
    line.clear();
    let complete = is_complete(&recorded);
    if !quiet || !complete {
        report_attached(ATTACH, &recorded);
    }
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn default_output(pid: u32) -> PathBuf {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = match name.trim() {
        "" => "program".to_owned(),
        name => name.replace(['/', ' '], "-"),
    };
    format!("{name}.{pid}.journal.parquet").into()
}
