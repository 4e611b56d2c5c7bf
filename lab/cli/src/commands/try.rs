//! `keel try`: record, compare and report in one command.

use super::compare::ForTry;
use super::{blame, info, record, report};
use crate::format;
use crate::layout::Layout;
use crate::output;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use keel_record::Journal;
use keel_replay::Pace;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Record a program, compare allocators on its journal, and open the report
///
/// When the program has ended, the command shows which code allocates most. Then it replays the
/// recording on the allocators, until the rounds agree which ones are slower, and makes the page.
/// Without -a, one row more is the program's own allocator with the settings for low latency that
/// its makers document: a setting needs no other library.
/// All files are in one folder. After Ctrl-C, what is complete stays there, and the command prints
/// how to go on.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel try -- ./game --level 3\n  \
                        keel try -a keel,glibc,mimalloc -r 3 -- sort big.txt")]
pub struct Arguments {
    /// The allocators to compare; see `keel compare --allocators`. With `all`, also the program's
    /// own with settings (glibc-tuned)
    #[arg(short, long, default_value = "all")]
    allocators: String,
    /// The pace of the replay; see `keel compare --pace`
    #[arg(short, long, default_value = "max")]
    pace: Pace,
    /// Rounds, or a range FEWEST..MOST [default: 3..8 at pace max, else 1]
    #[arg(short, long, value_parser = super::compare::checked_runs)]
    runs: Option<String>,
    /// The number of stack frames that are recorded of each operation, so that the page names lines
    /// of the program. 0: none, which costs less time
    #[arg(long, value_name = "DEPTH", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(0..=100))]
    stacks: u32,
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
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Lines of each table that follows the recording.
const TOP: usize = 5;

/// The files of one call of the command.
struct Files {
    journal: PathBuf,
    results: PathBuf,
    page: PathBuf,
}

/// Runs the steps in order and stops at the first that fails. The files of the steps before it
/// remain.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let comparison = comparison(arguments)?;
    let Some(allocators) = comparison.allocators()? else { return Ok(ExitCode::from(2)) };
    Layout::discover()?.private("keel-player")?;
    let folder = folder(arguments)?;
    let is_new = !folder.exists();
    let files = Files {
        journal: folder.join("program.journal.parquet"),
        results: folder.join("results"),
        page: folder.join(super::report::PAGE_FILE),
    };
    let place = || {
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(files.journal.clone())
    };
    let Arguments { command, stacks, python_objects, .. } = arguments;
    let with = record::With {
        stacks: *stacks,
        python_objects: *python_objects,
        calls: false,
        temporary: false,
    };
    let recorded = record::record_for_try(command, with, place);
    let recorded = recorded.inspect_err(|_| remove_if_empty(&folder, is_new))?;
    let Some(journal) = chosen(&recorded.journals) else {
        drop(std::fs::remove_file(&files.journal));
        remove_if_empty(&folder, is_new);
        bail!("the recording has no operation, so there is nothing to replay");
    };
    let files = Files { journal, ..files };
    if recorded.signal.is_some() {
        say!("keel: interrupted while it recorded. Kept: {}", files.journal.display());
        go_on(arguments, &files, "compare");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if !recorded.status.success() {
        say!("note: the program failed; its journal up to that point is replayed");
    }
    show_first(&files.journal, arguments.stacks);
    let Some(outcome) = comparison.compare(&files.journal, &allocators, &files.results)? else {
        say!("keel: interrupted before a round was complete. Kept: {}", files.journal.display());
        go_on(arguments, &files, "compare");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    finish(arguments, &files, &outcome)
}

/// The journal of the program that requested the most bytes, of those that the process executed.
/// It may have moved. None if there is no operation.
fn chosen(journals: &[Journal]) -> Option<PathBuf> {
    let whole = journals.iter().filter(|one| one.operations > 0 && one.written.is_ok());
    let whole: Vec<&Journal> = whole.filter(|one| one.path.is_some()).collect();
    let most = whole.iter().max_by_key(|one| one.allocated_bytes)?;
    let path = most.path.clone()?;
    if whole.len() > 1 {
        say!(
            "note: the process executed {} programs; {} requested the most bytes, and its journal \
             is replayed: {}",
            whole.len(),
            most.metadata.program,
            path.display()
        );
    }
    Some(path)
}

/// Writes the page, and prints the decision and where the page is.
fn finish(
    arguments: &Arguments,
    files: &Files,
    outcome: &keel_replay::Outcome,
) -> Result<ExitCode> {
    for note in &outcome.comparison.notes {
        say!("note: {note}");
    }
    for allocator in &outcome.comparison.allocators {
        if let Some(failure) = &allocator.failure {
            say!("keel: {}: {failure}", allocator.name);
        }
    }
    let matters = keel_report::Matters::default();
    report::write_report(std::slice::from_ref(&files.results), &files.page, matters)?;
    // The page is complete, whether or not somebody can read this.
    let verdict = keel_report::verdict(&outcome.comparison, &files.results)?;
    let _ = output::print_text(&format!("\n{verdict}\nThe page: {}\n", files.page.display()));
    if outcome.stopped {
        say!("keel: interrupted; the page shows the rounds that were complete");
        go_on(arguments, files, "compare --force");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if !arguments.no_open {
        // Without a desktop the page cannot be opened; it is complete nevertheless.
        if let Err(error) = report::open(&files.page) {
            say!("note: {error:#}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The commands that do the remaining steps.
fn go_on(arguments: &Arguments, files: &Files, compare: &str) {
    let allocators = match arguments.allocators.as_str() {
        "all" => String::new(),
        some => format!(" -a '{some}'"),
    };
    let runs = arguments.runs.as_ref().map_or(String::new(), |runs| format!(" -r {runs}"));
    let [journal, results, page] =
        [&files.journal, &files.results, &files.page].map(|path| format::shell_word(path));
    say!(
        "To go on:\n  keel {compare}{allocators}{runs} -p {} {journal} -o {results}\n  keel \
         report {results} -o {page}",
        arguments.pace,
    );
}

/// What the journal shows without a replay. An error here must not end the command.
fn show_first(journal: &Path, stacks: u32) {
    let shown = info::print_top(journal, TOP, stacks).and_then(|has_sites| match has_sites {
        false => Ok(()),
        true => blame::print_top(journal, TOP),
    });
    if let Err(error) = shown {
        say!("note: {error:#}");
    }
}

/// The options of the comparison, checked before the program runs.
fn comparison(arguments: &Arguments) -> Result<ForTry> {
    let pace = arguments.pace.to_string();
    let mut words = vec!["-a", &arguments.allocators, "-p", &pace];
    if let Some(runs) = &arguments.runs {
        words.extend(["-r", runs]);
    }
    ForTry::parse(&words)
}

fn remove_if_empty(folder: &Path, is_new: bool) {
    if is_new {
        drop(std::fs::remove_dir(folder));
    }
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
