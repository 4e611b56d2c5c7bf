//! `keel record`: a program's allocations into a journal.

use crate::format;
use crate::layout::Layout;
use anyhow::Result;
use clap::Args;
use keel_record::{Journal, Options, Recorded};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

/// Record every allocation of a program into a journal.
///
/// The program runs as without keel: its input, output, signals and exit code are its own (128 + n when signal n ended
/// it). keel's own words go to stderr. A program that is killed leaves a whole journal of all it did.
///
/// The exit code is 1 when the program succeeded and its journal is not whole.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel record -- ./game --level 3\n  \
                        keel record -o sort.journal.parquet -- sort big.txt\n  \
                        keel record --follow-children -- gcc -O2 -c big.c")]
pub struct RecordArguments {
    /// The journal [default: PROGRAM.journal.parquet]. With --follow-children, NAME.journal.parquet stands for
    /// NAME.PID.journal.parquet
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Give each process that the program starts a journal of its own. Without it they run unrecorded
    #[arg(short, long)]
    follow_children: bool,
    /// Where the shared memory between program and recorder lies [default: /dev/shm, else TMPDIR]
    #[arg(long, value_name = "FOLDER")]
    spool: Option<PathBuf>,
    /// Say nothing at the end when all went well
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs the program and tells what was recorded.
pub fn run(arguments: RecordArguments) -> Result<ExitCode> {
    let quiet = arguments.quiet;
    let options = options(arguments)?;
    let recorded = keel_record::record(&options)?;
    let whole =
        recorded.problems.is_empty() && recorded.journals.iter().all(|journal| journal.written.is_ok());
    if !quiet || !whole {
        tell(&recorded, options.follow_children);
    }
    Ok(exit_code(recorded.status, whole))
}

fn options(arguments: RecordArguments) -> Result<Options> {
    let mut command = arguments.command.into_iter();
    let program = command.next().unwrap_or_default();
    Ok(Options {
        output: arguments.output.unwrap_or_else(|| default_output(&program)),
        program,
        arguments: command.collect(),
        follow_children: arguments.follow_children,
        recorder_library: Layout::discover()?.library("libkeel_recorder.so")?,
        spool_folder: arguments.spool.unwrap_or_else(default_spool),
        search_path: std::env::var_os("PATH"),
        preload: std::env::var_os("LD_PRELOAD"),
    })
}

fn default_output(program: &OsStr) -> PathBuf {
    let mut name = Path::new(program).file_name().unwrap_or(OsStr::new("program")).to_owned();
    name.push(".journal.parquet");
    name.into()
}

fn default_spool() -> PathBuf {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { shared_memory.to_path_buf() } else { std::env::temp_dir() }
}

/// The program's own, as a shell tells it; 1 in place of 0 when the journal is not whole.
fn exit_code(status: ExitStatus, whole: bool) -> ExitCode {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => 128 + signal.unwrap_or(0) as u8,
    };
    ExitCode::from(if code == 0 && !whole { 1 } else { code })
}

fn tell(recorded: &Recorded, follow_children: bool) {
    let silent = recorded.journals.iter().filter(|journal| journal.path.is_none()).count();
    for journal in recorded.journals.iter().filter(|journal| journal.path.is_some()) {
        eprintln!("keel record: {}", summary(journal, follow_children));
        if let Err(error) = &journal.written {
            eprintln!("keel record: error: {error}");
        }
    }
    if silent > 0 {
        eprintln!("keel record: {silent} more processes allocated nothing, and have no journal");
    }
    for problem in &recorded.problems {
        eprintln!("keel record: error: {problem}");
    }
}

fn summary(journal: &Journal, with_program: bool) -> String {
    let metadata = &journal.metadata;
    let mut text = String::new();
    if with_program {
        let program = Path::new(&metadata.program).file_name().unwrap_or_default().to_string_lossy();
        text = format!("{program} [{}]: ", metadata.pid);
    }
    let threads = metadata.threads.len();
    text += &format!(
        "{} operations of {threads} thread{} in {:.2} s",
        format::count(journal.operations),
        if threads == 1 { "" } else { "s" },
        journal.seconds
    );
    if let (Ok(written), Some(path)) = (&journal.written, &journal.path) {
        let each = written.bytes as f64 / written.rows.max(1) as f64;
        text += &format!(
            ", {:.1} MB, {each:.2} bytes an operation -> {}",
            written.bytes as f64 / 1e6,
            path.display()
        );
    }
    if metadata.stalls > 0 {
        let (count, seconds) = (format::count(metadata.stalls), metadata.stalled_ns as f64 / 1e9);
        text += &format!("; waited {count} times for the recorder, {seconds:.3} s");
    }
    if metadata.foreign > 0 {
        text += &format!("; {} frees of blocks from before or outside", format::count(metadata.foreign));
    }
    text
}
