//! `keel try`: record, compare and report in one command.

use super::report;
use crate::output;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Record a program, compare allocators on its journal, and open the report
///
/// Runs `keel record`, `keel compare` and `keel report`, one after another. All files are in one
/// folder.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel try -- ./game --level 3\n  \
                        keel try -a keel,glibc,mimalloc -r 3 -- sort big.txt")]
pub struct Arguments {
    /// The allocators to compare; see `keel compare --allocators`
    #[arg(short, long, default_value = "all")]
    allocators: String,
    /// The pace of the replay; see `keel compare --pace`
    #[arg(short, long, default_value = "max")]
    pace: String,
    /// Runs of each allocator [default: as in `keel compare`]
    #[arg(short, long)]
    runs: Option<u32>,
    /// The folder for the journal, the results and the page [default: PROGRAM.keel; if it exists, a
    /// name with a number]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Record the objects of a Python program, too; see `keel record --python-objects`
    #[arg(long)]
    python_objects: bool,
    /// Do not open the page in a browser
    #[arg(long)]
    no_open: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// Runs another subcommand, given its whole command line.
pub type Subcommand<'a> = &'a dyn Fn(Vec<OsString>) -> Result<ExitCode>;

/// Runs the steps in order and stops at the first that fails. The files of the steps before it
/// remain.
pub fn run(arguments: &Arguments, subcommand: Subcommand<'_>) -> Result<ExitCode> {
    let folder = folder(arguments)?;
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let (journal, results) = (folder.join("program.journal.parquet"), folder.join("results"));
    record(arguments, subcommand, &journal)?;
    let compared = compare(arguments, subcommand, &journal, &results)?;
    if compared != ExitCode::SUCCESS {
        return Ok(compared);
    }
    let page = folder.join("report.html");
    report::write_report(&[results], &page, keel_report::Matters::default())?;
    if !arguments.no_open {
        // Without a desktop the page cannot be opened; it is complete nevertheless.
        if let Err(error) = report::open(&page) {
            eprintln!("note: {error:#}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A program that fails does not end the command: its journal up to the failure is replayed.
fn record(arguments: &Arguments, subcommand: Subcommand<'_>, journal: &Path) -> Result<()> {
    let mut record = words(&["keel", "record", "-o"]);
    record.push(journal.into());
    if arguments.python_objects {
        record.push("--python-objects".into());
    }
    record.push("--".into());
    record.extend(arguments.command.iter().cloned());
    let recorded = subcommand(record)?;
    if !journal.is_file() {
        bail!("{} was not written: there is nothing to replay", journal.display());
    }
    if recorded != ExitCode::SUCCESS {
        eprintln!("note: the program failed; its journal up to that point is replayed");
    }
    Ok(())
}

fn compare(
    arguments: &Arguments,
    subcommand: Subcommand<'_>,
    journal: &Path,
    results: &Path,
) -> Result<ExitCode> {
    let mut compare =
        words(&["keel", "compare", "-a", &arguments.allocators, "-p", &arguments.pace]);
    if let Some(runs) = arguments.runs {
        compare.extend(words(&["-r", &runs.to_string()]));
    }
    compare.extend(["-o".into(), results.into(), journal.into()]);
    subcommand(compare)
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// A folder that does not exist or is empty.
fn folder(arguments: &Arguments) -> Result<PathBuf> {
    if let Some(folder) = &arguments.output {
        if output::is_occupied(folder) {
            bail!("{} exists already: choose another folder with -o", folder.display());
        }
        return Ok(folder.clone());
    }
    let program = arguments.command.first().map_or(OsStr::new("program"), OsString::as_os_str);
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    output::free_folder(&format!("{name}.keel"))
}
