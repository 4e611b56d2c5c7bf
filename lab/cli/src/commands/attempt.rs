//! `keel try`: record, compare, report and open, in one go.

use super::report;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Record a program, replay it on every allocator and open the page: all in one go
///
/// The same as keel record, keel compare and keel report one after another. Everything goes into one folder:
/// the journal, the results, and the page.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel try -- ./game --level 3\n  \
                        keel try -a keel,system,mimalloc -r 3 -- sort big.txt")]
pub struct TryArguments {
    /// Allocators, as for keel compare
    #[arg(short, long, default_value = "all")]
    allocators: String,
    /// Pace of the replay, as for keel compare
    #[arg(short, long, default_value = "max")]
    pace: String,
    /// Runs of each allocator, as for keel compare
    #[arg(short, long)]
    runs: Option<u32>,
    /// The folder for all of it [default: PROGRAM.keel, numbered if it exists]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Do not open the page
    #[arg(long)]
    no_open: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs another subcommand, given its whole command line.
pub type Subcommand<'a> = &'a dyn Fn(Vec<OsString>) -> Result<ExitCode>;

/// Each step as its own subcommand would do it. Stops where one fails; what was made until then stays.
pub fn run(arguments: &TryArguments, subcommand: Subcommand<'_>) -> Result<ExitCode> {
    let folder = folder(arguments)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (journal, results) = (folder.join("program.journal.parquet"), folder.join("results"));
    // The program's own failure is told and does not end this: what it did until then is a journal as well.
    let mut record = words(&["keel", "record", "-o"]);
    record.extend([journal.clone().into(), "--".into()]);
    record.extend(arguments.command.iter().cloned());
    let recorded = subcommand(record)?;
    if !journal.is_file() {
        bail!("{} was not written: there is nothing to replay", journal.display());
    }
    if recorded != ExitCode::SUCCESS {
        eprintln!("the program did not end well; what it did until then is replayed");
    }
    let mut compare = words(&["keel", "compare", "-a", &arguments.allocators, "-p", &arguments.pace]);
    if let Some(runs) = arguments.runs {
        compare.extend(words(&["-r", &runs.to_string()]));
    }
    compare.extend(["-o".into(), results.clone().into(), journal.into()]);
    let compared = subcommand(compare)?;
    if compared != ExitCode::SUCCESS {
        return Ok(compared);
    }
    let page = folder.join("report.html");
    report::write_report(&[results], &page)?;
    if !arguments.no_open {
        // On a machine without a desktop the page is there all the same.
        if let Err(error) = report::open(&page) {
            eprintln!("note: {error:#}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// A folder that does not exist or is empty.
fn folder(arguments: &TryArguments) -> Result<PathBuf> {
    if let Some(folder) = &arguments.output {
        let occupied =
            folder.is_file() || std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
        if occupied {
            bail!("{} exists already: choose another folder with -o", folder.display());
        }
        return Ok(folder.clone());
    }
    let program = arguments.command.first().map_or(OsStr::new("program"), OsString::as_os_str);
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    let numbered = (1..).map(|number| match number {
        1 => PathBuf::from(format!("{name}.keel")),
        _ => PathBuf::from(format!("{name}.keel-{number}")),
    });
    numbered.into_iter().find(|folder| !folder.exists()).context("every folder name is taken")
}
