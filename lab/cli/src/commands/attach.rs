//! `keel attach`: records a program that runs already.

use super::record::common::CommonArguments;
use super::record::{ProgressLine, exit_code};
use anyhow::Result;
use clap::Args;
use keel_record::{Signal, When};
use std::path::PathBuf;
use std::process::ExitCode;

/// The beginning of each line that it prints.
const ATTACH: &str = "keel attach";

/// Record a program that runs already
///
/// keel stops one thread of the process for some milliseconds, while that thread waits in a system
/// call, and loads the recorder into the process. At the end it stops a thread again and puts back
/// the addresses in the tables through which the program calls the recorder. The library stays
/// loaded, because another thread may still be in one of its functions. A signal to keel (Ctrl-C)
/// ends the recording, and the program continues.
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
    #[command(flatten)]
    common: CommonArguments,
}

/// Records the process until it ends, or the recording does.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { pid, output, common } = arguments;
    let line = ProgressLine::new(ATTACH, common.progress, common.quiet);
    let output = output.unwrap_or_else(|| default_output(pid));
    let options = common.options(output, &When::Signal(Signal::Usr1))?;
    let recorded = line.record(&options, |show| keel_record::attach_with(pid, &options, show))?;
    Ok(exit_code(&recorded))
}

fn default_output(pid: u32) -> PathBuf {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = match name.trim() {
        "" => "program".to_owned(),
        name => name.replace(['/', ' '], "-"),
    };
    format!("{name}.{pid}.journal.parquet").into()
}
