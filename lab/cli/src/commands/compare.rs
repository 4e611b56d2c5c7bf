//! `keel compare`: replays a journal on several allocators and tells which serves it best.

mod table;

use crate::format;
use crate::interrupt;
use crate::layout::Layout;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use keel_allocators::{Allocator, FLOOR, Places, Spec};
use keel_journal::Reader;
use keel_replay::{ClockChoice, Keep, Options, Outcome, Pace, Progress, Request, Touch};
use keel_results::RESULTS_FILE;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Replay a journal on every allocator and compare them, call by call.
#[derive(Args)]
pub struct Arguments {
    /// The journal: a `.journal.parquet`, or a text journal, plain or `.zst`
    journal: PathBuf,
    /// Allocators, with commas: names of `keel allocators`, paths of libraries for LD_PRELOAD, or `all` [default: all]
    #[arg(short, long, value_delimiter = ',')]
    allocators: Vec<String>,
    /// An allocator with settings, [LABEL=]NAME[:VARIABLE=VALUE]..., as keel:KEEL_KEEPER=off, in addition to those of -a
    /// (without -a: only these); can be repeated
    #[arg(long = "allocator", value_name = "SPEC")]
    single: Vec<String>,
    /// Call libraries given by path by functions with this prefix, as mi_ for mi_malloc, instead of by LD_PRELOAD
    #[arg(long, value_name = "PREFIX")]
    symbols: Option<String>,
    /// When operations are due: max, 1x, 4x, 0.5x ..., or compressed (1x, but no pause longer than 1 ms)
    #[arg(short, long, default_value = "max")]
    pace: Pace,
    /// What is written into each fresh block: none, first-byte, page (a byte in each page), all
    #[arg(short, long, default_value = "page")]
    touch: Touch,
    /// Touch after the clock has stopped, not as a part of the call
    #[arg(long)]
    touch_untimed: bool,
    /// Runs of each allocator: a number, 5..12 (5, and up to 12 until its medians settle), or auto, which is 5..12
    /// [default: auto at pace max, else 1]
    #[arg(short, long, value_parser = runs)]
    runs: Option<Runs>,
    /// At pace max, keep runs that the machine disturbed (a slowed processor, stolen time, other programs), instead of
    /// making them again
    #[arg(long)]
    no_repeat: bool,
    /// Seed of the order of runs [default: of the day, and stored in the results]
    #[arg(long)]
    seed: Option<u64>,
    /// All operations on one thread, in journal order
    #[arg(long)]
    serial: bool,
    /// Fill every block with a pattern and check it when it is released
    #[arg(long)]
    verify: bool,
    /// Of which runs every call is kept: median (one of each allocator), all, none
    #[arg(long, default_value = "median", value_parser = keep)]
    raw: Keep,
    /// The clock around each call: auto (the processor's counter where it can be trusted), counter, monotonic
    #[arg(long, default_value = "auto", value_parser = clock)]
    clock: ClockChoice,
    /// At pace max, leave out the second run of each turn, which does not time each call and so tells the throughput
    #[arg(long)]
    no_throughput: bool,
    /// Skip the last run, which asks for the usable size of every block
    #[arg(long)]
    no_usable_size: bool,
    /// Stop an allocator that completes no operation for this many seconds
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// The result folder [default: NAME.comparison beside you, numbered if it exists]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace the result folder if there is one
    #[arg(long)]
    force: bool,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
}

/// Characters of the chart under the tables: what any terminal has.
const CHART_WIDTH: usize = 80;

/// Fewest and most runs of each allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Runs(u32, u32);

const AUTO: Runs = Runs(5, 12);

fn runs(text: &str) -> Result<Runs, String> {
    let number = |text: &str| text.parse().ok().filter(|number| (1..=1000).contains(number));
    let found = match text.split_once("..") {
        None if text == "auto" => Some(AUTO),
        None => number(text).map(|runs| Runs(runs, runs)),
        Some((fewest, most)) => number(fewest).zip(number(most)).map(|(fewest, most)| Runs(fewest, most)),
    };
    found.filter(|runs| runs.0 <= runs.1).ok_or_else(|| "give 1 to 1000, FEWEST..MOST, or auto".to_owned())
}

fn keep(text: &str) -> Result<Keep, String> {
    match text {
        "median" => Ok(Keep::Median),
        "all" => Ok(Keep::All),
        "none" => Ok(Keep::None),
        _ => Err("give median, all or none".to_owned()),
    }
}

fn clock(text: &str) -> Result<ClockChoice, String> {
    match text {
        "auto" => Ok(ClockChoice::Auto),
        "counter" => Ok(ClockChoice::Counter),
        "monotonic" => Ok(ClockChoice::Monotonic),
        _ => Err("give auto, counter or monotonic".to_owned()),
    }
}

/// Runs the subcommand. Exit code 2 for an allocator that cannot be used, 130 if stopped, 1 if no allocator gave a
/// result.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let layout = Layout::discover()?;
    let specs = specs(&arguments);
    if arguments.symbols.is_some() && !specs.iter().any(|spec| Spec::parse(spec).is_path()) {
        eprintln!("keel: --symbols is for libraries given by path, and none is: give one, as -a ./libx.so");
        return Ok(ExitCode::from(2));
    }
    let Some(allocators) = chosen(&layout, &specs) else { return Ok(ExitCode::from(2)) };
    let journal = Journal::open(&arguments.journal)?;
    let folder = ResultFolder::choose(&arguments)?;
    let options = options(&arguments);
    let verify = options.verify;
    let bars = Bars::new();
    let request = Request {
        source: &journal.reader,
        name: file_name(&arguments.journal),
        allocators: with_floor(&allocators),
        options,
        player: layout.private("keel-player")?,
        folder: folder.written.clone(),
        command: std::env::args().collect(),
        stop: interrupt::asked_to_stop(),
    };
    let outcome = match keel_replay::compare(&request, &mut |progress| bars.show(progress)) {
        Ok(outcome) => outcome,
        Err(keel_replay::Error::Stopped) => {
            eprintln!("keel: {}", keel_replay::Error::Stopped);
            return Ok(ExitCode::from(130));
        }
        Err(error) => {
            return Err(error).context(format!("cannot compare on {}", arguments.journal.display()));
        }
    };
    bars.bar.finish_and_clear();
    folder.finish()?;
    print(&arguments, &outcome, &folder.path)?;
    Ok(exit_code(&outcome, verify))
}

/// What was asked for, in the order of tables.
fn specs(arguments: &Arguments) -> Vec<String> {
    let mut specs = keel_allocators::requested(&arguments.allocators, &arguments.single);
    if let Some(prefix) = &arguments.symbols {
        let paths = specs.iter_mut().filter(|spec| {
            let spec = Spec::parse(spec);
            spec.symbols.is_none() && spec.is_path()
        });
        paths.for_each(|spec| *spec = format!("{spec}:symbols={prefix}"));
    }
    specs
}

/// An open journal; a text journal is imported on the fly into a file that goes with this.
struct Journal {
    reader: Reader,
    imported: Option<PathBuf>,
}

impl Journal {
    fn open(path: &Path) -> Result<Journal> {
        match Reader::open(path) {
            Ok(reader) => Ok(Journal { reader, imported: None }),
            Err(keel_journal::Error::NotParquet { .. }) => Journal::import(path),
            Err(error) => Err(error.into()),
        }
    }

    fn import(path: &Path) -> Result<Journal> {
        let imported =
            std::env::temp_dir().join(format!("keel-compare-{}.journal.parquet", std::process::id()));
        let options = keel_import::Options { zstd_level: 1, ..keel_import::Options::default() };
        eprintln!("{} is no Keel journal: reading it as a text journal", path.display());
        keel_import::import(&[path.to_path_buf()], &imported, &options, &mut |_| {})?;
        let reader = Reader::open(&imported)?;
        Ok(Journal { reader, imported: Some(imported) })
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if let Some(path) = &self.imported {
            // A file in the folder for temporary files; what cannot be removed is removed by the system some day.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Where the allocators lie.
pub fn places(layout: &Layout) -> Places {
    Places { library: layout.folder("lib"), peers: layout.folder("lib/keel/peers") }
}

/// Those that the specifications ask for, each of which can be used; before the first run and not minutes into it,
/// where the one that was mistyped would be missed. `None`: stderr says which cannot, and why.
pub fn chosen(layout: &Layout, specs: &[String]) -> Option<Vec<Allocator>> {
    let allocators = match places(layout).resolve(specs) {
        Ok(allocators) => allocators,
        Err(unknown) => {
            eprintln!("keel: {unknown}");
            return None;
        }
    };
    for allocator in &allocators {
        if let Some(reason) = &allocator.unavailable {
            eprintln!("keel: {} cannot be used: {reason}", allocator.name);
            return None;
        }
    }
    Some(allocators)
}

/// The floor is always measured: without it nobody can tell what the instrument adds.
fn with_floor(allocators: &[Allocator]) -> Vec<Allocator> {
    let mut all = allocators.to_vec();
    if !all.iter().any(|allocator| allocator.name == FLOOR) {
        all.push(Allocator::default());
    }
    all
}

fn options(arguments: &Arguments) -> Options {
    // A different order each time is what makes repeats worth something; it is stored, so it can be had again.
    let seconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    let Runs(runs, max_runs) =
        arguments.runs.unwrap_or(if arguments.pace == Pace::Max { AUTO } else { Runs(1, 1) });
    Options {
        pace: arguments.pace,
        touch: arguments.touch,
        touch_timed: !arguments.touch_untimed,
        runs,
        max_runs,
        repeat: !arguments.no_repeat,
        seed: arguments.seed.unwrap_or(seconds),
        serial: arguments.serial,
        verify: arguments.verify,
        keep: arguments.raw,
        clock: arguments.clock,
        throughput: !arguments.no_throughput,
        usable_sizes: !arguments.no_usable_size,
        timeout: Duration::from_secs(arguments.timeout.max(1)),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Where the results are to be. Those that they replace stay until the new ones are whole.
struct ResultFolder {
    path: PathBuf,
    /// Where they are written: the same, or beside it; it does not exist or is empty.
    written: PathBuf,
}

impl ResultFolder {
    fn choose(arguments: &Arguments) -> Result<ResultFolder> {
        let Some(folder) = &arguments.output else {
            let name = file_name(&arguments.journal);
            let stem = name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or("journal");
            let numbered = (1..).map(|number| match number {
                1 => PathBuf::from(format!("{stem}.comparison")),
                _ => PathBuf::from(format!("{stem}.comparison-{number}")),
            });
            let free = numbered.into_iter().find(|folder| !folder.exists());
            let path = free.context("every folder name is taken")?;
            return Ok(ResultFolder { written: path.clone(), path });
        };
        let path = folder.clone();
        let occupied =
            folder.is_file() || std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
        if !occupied {
            return Ok(ResultFolder { written: path.clone(), path });
        }
        if !folder.join(RESULTS_FILE).is_file() {
            bail!("{} exists and is not a result folder: choose another with -o", folder.display());
        }
        if !arguments.force {
            bail!(
                "{} holds results already: choose another folder with -o, or add --force to replace it",
                folder.display()
            );
        }
        // The real one, so that it is written beside what it replaces and not beside a link to it.
        let path = folder.canonicalize().with_context(|| folder.display().to_string())?;
        let mut written = path.clone().into_os_string();
        written.push(format!(".new-{}", std::process::id()));
        Ok(ResultFolder { path, written: written.into() })
    }

    /// The new results are whole, and take the place of the old.
    fn finish(&self) -> Result<()> {
        if self.written != self.path {
            let failed = || {
                format!(
                    "cannot replace {}; the new results are {}",
                    self.path.display(),
                    self.written.display()
                )
            };
            std::fs::remove_dir_all(&self.path).with_context(failed)?;
            std::fs::rename(&self.written, &self.path).with_context(failed)?;
        }
        Ok(())
    }
}

fn print(arguments: &Arguments, outcome: &Outcome, folder: &Path) -> Result<()> {
    let is_bare = !is_measured(outcome) && !arguments.json;
    if is_bare {
        // Tables of the floor alone would only hide what went wrong.
    } else if arguments.json {
        let json = table::json(&outcome.comparison, folder);
        format::output(&(serde_json::to_string_pretty(&json)? + "\n"))?;
    } else {
        format::output(&table::text(&outcome.comparison))?;
        format::output(&format!("\n{}", keel_report::chart(&outcome.comparison, "malloc", CHART_WIDTH)))?;
        format::output(&format!("\n{}", keel_report::verdict(&outcome.comparison, folder)?))?;
    }
    for note in &outcome.comparison.notes {
        eprintln!("note: {note}");
    }
    for allocator in &outcome.comparison.allocators {
        if let Some(failure) = &allocator.failure {
            eprintln!("keel: {}: {failure}", allocator.name);
        }
    }
    match is_bare {
        true => eprintln!("results: {}, which say no more than this", folder.display()),
        false => {
            eprintln!("results: {} (a page of them: keel report {})", folder.display(), folder.display())
        }
    }
    Ok(())
}

/// Whether anything that was asked for was measured.
fn is_measured(outcome: &Outcome) -> bool {
    let allocators = &outcome.comparison.allocators;
    let only_floor = allocators.iter().all(|allocator| allocator.name == FLOOR);
    only_floor || allocators.iter().any(|allocator| allocator.name != FLOOR && !allocator.runs.is_empty())
}

fn exit_code(outcome: &Outcome, verify: bool) -> ExitCode {
    let allocators = &outcome.comparison.allocators;
    if outcome.stopped {
        ExitCode::from(130)
    } else if !is_measured(outcome) || (verify && allocators.iter().any(|one| one.failure.is_some())) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Progress on stderr: a bar over all operations of all runs; where stderr is no terminal, a line for each run.
struct Bars {
    bar: ProgressBar,
    terminal: bool,
    before: std::cell::Cell<u64>,
}

impl Bars {
    fn new() -> Bars {
        use std::io::IsTerminal as _;
        Bars {
            bar: crate::progress::bar(0, "operations"),
            terminal: std::io::stderr().is_terminal(),
            before: std::cell::Cell::new(0),
        }
    }

    fn show(&self, progress: Progress<'_>) {
        match progress {
            Progress::Compiling(done, total) => {
                self.bar.set_message("reading");
                self.bar.set_length(total);
                self.bar.set_position(done);
            }
            Progress::Begins { allocator, position, runs, rows } => {
                self.before.set(u64::from(position) * rows);
                self.bar.set_length(u64::from(runs) * rows);
                self.bar.set_position(self.before.get());
                self.bar.set_message(format!("{:>2}/{runs} {allocator:<10}", position + 1));
                if !self.terminal {
                    eprintln!("run {}/{runs}: {allocator}", position + 1);
                }
            }
            Progress::Done(rows) => self.bar.set_position(self.before.get() + rows),
            Progress::Failed { allocator, reason } => {
                self.bar.suspend(|| eprintln!("{allocator} is left out from here on: {reason}"));
            }
        }
    }
}
