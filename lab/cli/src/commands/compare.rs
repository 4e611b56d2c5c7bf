//! `keel compare`: replays a journal on several allocators and measures every call.

mod between;
mod folder;
mod needs;
mod rounds;
mod table;

use crate::layout::Layout;
use crate::selection::chosen;
use crate::{format, interrupt, output};
use anyhow::{Context as _, Result, bail};
use between::Between;
use clap::{Args, Parser};
use folder::ResultFolder;
use indicatif::ProgressBar;
use keel_allocators::{Allocator, FLOOR, Spec};
use keel_journal::{Metadata, Reader};
use keel_replay::{ClockChoice, Keep, Options, Outcome, Pace, Progress, Request, Touch};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tempfile::TempDir;

/// Replay a journal on each allocator and measure every call
///
/// The command runs in rounds. In a round, each allocator runs once, in random order. So a change
/// in the machine's speed affects all allocators. Each run has its own process. At pace max (the
/// default; see --pace), each run is followed by a second run. The second run measures the
/// throughput, without timing single calls.
///
/// Without -a and --allocator, the command compares all allocators that `keel allocators` lists,
/// except keel-secure and those with special settings (keel-no-keeper, NAME-tuned). It adds the row
/// NAME-tuned of the allocator that the program used, which is one more run in each round: a
/// setting may be enough, and needs no other library. It always adds the null allocator, which does
/// nothing: its times are the cost of measuring.
///
/// The rounds of a long comparison can run at different times or on different machines: see `keel
/// compare plan`.
///
/// The exit code is 2 if an allocator is unknown or cannot be used, 130 after Ctrl-C, and 1 if no
/// allocator gave a result. With --verify it is also 1 if any allocator failed.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  keel compare game.journal.parquet\n  \
                        keel compare game.journal.parquet -a keel,glibc,./libmine.so -p 1x -r \
                        5\n  \
                        keel compare game.journal.parquet -a glibc \
                        --allocator keel:KEEL_KEEPER=off --allocator keel:KEEL_KEEPER=on")]
pub struct Arguments {
    #[command(subcommand)]
    part: Option<rounds::Part>,
    /// The journal, or a trace in a format that `keel import` reads
    #[arg(required = true)]
    journal: Option<PathBuf>,
    #[command(flatten)]
    how: How,
    /// The result folder [default: NAME.comparison in the working directory; if it exists, a name
    /// with a number]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace the results in an existing folder, and the report.html and pinned.json that were
    /// made from them. Other files in it stay
    #[arg(long)]
    force: bool,
    /// Print the tables as JSON
    #[arg(long)]
    json: bool,
}

/// What to compare, and how.
#[derive(Args)]
struct How {
    /// The allocators, separated by commas: names that `keel allocators` lists, paths of libraries
    /// for LD_PRELOAD, or `all` (the same as without -a) [default: all]
    #[arg(short, long, value_delimiter = ',')]
    allocators: Vec<String>,
    /// One more allocator, with environment variables: [LABEL=]NAME[:VARIABLE=VALUE]..., such as
    /// keel:KEEL_KEEPER=off. LABEL is its name in the results. This option can be repeated. Without
    /// -a, only the allocators of this option are compared
    #[arg(long = "allocator", value_name = "SPEC")]
    single: Vec<String>,
    /// Also run all allocators with the settings that their makers document for low latency, not
    /// only that of the program. Their names are then NAME-tuned (jemalloc-tuned). `keel
    /// allocators` lists them
    #[arg(long)]
    tuned: bool,
    /// For allocators given as paths: call the library's functions with this prefix, instead of
    /// loading the library with LD_PRELOAD. For example, mi_ stands for mi_malloc and mi_free
    #[arg(long, value_name = "PREFIX")]
    symbols: Option<String>,
    /// When each operation begins. max: one after another, without pauses. 1x: at the recorded
    /// times. 4x, 0.5x ...: faster or slower than recorded. compressed: as 1x, but pauses of more
    /// than 1 ms are shortened to 1 ms
    #[arg(short, long, default_value = "max")]
    pace: Pace,
    /// Between two calls, each thread reads SIZE bytes of other memory (1M is 1 MiB). This evicts
    /// data from the caches, as the program's own work does. The thread stops reading when its next
    /// call is due. Needs a pace other than max. With evict=auto, SIZE is an estimate for each
    /// pause between two calls: what the recorded program evicted in pauses of about the same
    /// length. `keel record` measured this for some of its pauses. evict=auto needs pace 1x or
    /// compressed
    #[arg(long, value_name = "evict=SIZE|evict=auto", value_parser = between::parse)]
    between: Option<Between>,
    /// The bytes that are written into each new block: none, first-byte, page (one byte in each
    /// system page), or all
    #[arg(short, long, default_value = "page")]
    touch: Touch,
    /// Write into new blocks after the clock has stopped. Without this option, the write is a part
    /// of the measured call
    #[arg(long)]
    touch_untimed: bool,
    /// The number of rounds, or a range FEWEST..MOST. With a range, all allocators run FEWEST
    /// rounds. After that, the allocators without precise results run again, up to MOST rounds in
    /// total. Results are precise if p50 is known to within 2 % and p99.9 to within 5 %. auto is
    /// 5..12 [default: auto at pace max, else 1]
    #[arg(short, long, value_parser = runs)]
    runs: Option<Runs>,
    /// At pace max: keep disturbed runs, instead of repeating them. A run is disturbed if the
    /// processor was slowed, or if the hypervisor or other programs took processor time
    #[arg(long)]
    no_repeat: bool,
    /// The seed of the random order of runs [default: from the clock; the results contain it]
    #[arg(long)]
    seed: Option<u64>,
    /// Replay all operations on one thread, in the order of the journal
    #[arg(long)]
    serial: bool,
    /// Fill every block with a pattern and check the pattern when the block is freed
    #[arg(long)]
    verify: bool,
    /// The runs whose single calls are saved: median (the median run of each allocator), all, or
    /// none
    #[arg(long, default_value = "median", value_parser = keep)]
    raw: Keep,
    /// The clock that times each call: counter (the processor's counter), monotonic (the system's
    /// clock), or auto (the counter if it is reliable)
    #[arg(long, default_value = "auto", value_parser = clock)]
    clock: ClockChoice,
    /// At pace max: omit the second runs, which measure the throughput
    #[arg(long)]
    no_throughput: bool,
    /// Do not measure internal fragmentation, the bytes of blocks beyond the requested sizes.
    /// Without this option, each allocator has one more run for it, after all rounds
    #[arg(long)]
    no_usable_size: bool,
    /// Stop an allocator that completes no operation for this many seconds
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
}

impl How {
    /// The number of rounds of a plan, which does not depend on results.
    fn rounds(&self) -> Result<u32> {
        match self.runs {
            None => Ok(AUTO.0),
            Some(Runs(fewest, most)) if fewest == most => Ok(fewest),
            Some(_) => bail!("a plan has a fixed number of rounds: give one number with -r"),
        }
    }
}

/// Width of the chart below the tables, in characters.
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
        Some((fewest, most)) => {
            number(fewest).zip(number(most)).map(|(fewest, most)| Runs(fewest, most))
        }
    };
    found
        .filter(|runs| runs.0 <= runs.1)
        .ok_or_else(|| "give 1 to 1000, FEWEST..MOST, or auto".to_owned())
}

/// A text that `--runs` accepts.
pub fn checked_runs(text: &str) -> Result<String, String> {
    runs(text).map(|_| text.to_owned())
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

/// Runs the subcommand. Exit code 2 for an allocator that cannot be used, 130 if stopped, 1 if no
/// allocator gave a result, or if one failed and the contents are verified.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Some(part) = arguments.part {
        return rounds::run(part);
    }
    let Arguments { journal: Some(path), how, output, force, json, .. } = arguments else {
        bail!("no journal is given: keel compare JOURNAL");
    };
    let layout = Layout::discover()?;
    let specs = specs(&how);
    if how.symbols.is_some() && !specs.iter().any(|spec| Spec::parse(spec).is_path()) {
        say!(
            "keel: --symbols applies to libraries given by path, and there is none: add one, such \
             as -a ./libx.so"
        );
        return Ok(ExitCode::from(2));
    }
    let Some(mut allocators) = chosen(&layout, &specs) else { return Ok(ExitCode::from(2)) };
    if how.tuned {
        allocators = keel_allocators::with_tuned(allocators);
    }
    between::check(how.between, how.pace)?;
    let journal = Journal::open(&path)?;
    let folder = match &output {
        Some(folder) => ResultFolder::at(folder, force)?,
        None => ResultFolder::named_after(&path)?,
    };
    let options = options(&how, journal.reader.metadata())?;
    let verify = options.verify;
    let compared = compared(&how, &allocators, journal.reader.metadata());
    needs::state(journal.reader.rows(), compared.len(), &options, &folder.written)?;
    let bars = Bars::new();
    let request = Request {
        source: &journal.reader,
        name: file_name(&path),
        allocators: compared,
        options,
        player: layout.private("keel-player")?,
        folder: folder.written.clone(),
        command: std::env::args().collect(),
        stop: interrupt::stop_requested(),
    };
    let Some(outcome) = replay(&request, &bars, &path)? else { return Ok(ExitCode::from(130)) };
    bars.bar.finish_and_clear();
    folder.finish()?;
    print(json, &outcome, &folder.path)?;
    Ok(exit_code(&outcome, verify))
}

/// The comparison; `None` if it was stopped before there were results.
fn replay(request: &Request<'_>, bars: &Bars, journal: &Path) -> Result<Option<Outcome>> {
    match keel_replay::compare(request, &mut |progress| bars.show(progress)) {
        Ok(outcome) => Ok(Some(outcome)),
        Err(keel_replay::Error::Stopped) => {
            bars.bar.finish_and_clear();
            say!("keel: {}", keel_replay::Error::Stopped);
            Ok(None)
        }
        Err(error) => {
            bars.bar.finish_and_clear();
            Err(error).context(format!("cannot replay {}", journal.display()))
        }
    }
}

/// What `keel try` and `keel check` compare.
#[derive(Parser)]
#[command(no_binary_name = true)]
pub struct ForTry {
    #[command(flatten)]
    how: How,
    /// Show no progress.
    #[arg(skip)]
    silent: bool,
}

impl ForTry {
    /// From options of `keel compare`.
    pub fn parse(words: &[&str]) -> Result<ForTry> {
        Ok(ForTry::try_parse_from(words)?)
    }

    /// The same without progress, for one of many short replays.
    pub fn silent(self) -> ForTry {
        ForTry { silent: true, ..self }
    }

    /// The allocators; `None` if one is unknown or unusable, and stderr has the reason.
    pub fn allocators(&self) -> Result<Option<Vec<Allocator>>> {
        Ok(chosen(&Layout::discover()?, &specs(&self.how)))
    }

    /// Compares until the rounds agree. `None` if it was stopped before there were results.
    pub fn compare(
        &self,
        journal: &Path,
        allocators: &[Allocator],
        folder: &Path,
    ) -> Result<Option<Outcome>> {
        /// Fewest and most rounds.
        const ROUNDS: Runs = Runs(3, 8);
        let source = Reader::open(journal)?;
        let runs =
            self.how.runs.unwrap_or(if self.how.pace == Pace::Max { ROUNDS } else { Runs(1, 1) });
        let options = Options {
            runs: runs.0,
            max_runs: runs.1,
            decide: true,
            ..options(&self.how, source.metadata())?
        };
        let compared = compared(&self.how, allocators, source.metadata());
        if !self.silent {
            needs::state(source.rows(), compared.len(), &options, folder)?;
        }
        let bars = Bars { silent: self.silent, ..Bars::new() };
        let request = Request {
            source: &source,
            name: file_name(journal),
            allocators: compared,
            options,
            player: Layout::discover()?.private("keel-player")?,
            folder: folder.to_path_buf(),
            command: std::env::args().collect(),
            stop: interrupt::stop_requested(),
        };
        let outcome = replay(&request, &bars, journal)?;
        bars.bar.finish_and_clear();
        Ok(outcome)
    }
}

/// The specifications of the allocators, in the order of the tables.
fn specs(how: &How) -> Vec<String> {
    let mut specs = keel_allocators::requested(&how.allocators, &how.single);
    if let Some(prefix) = &how.symbols {
        let paths = specs.iter_mut().filter(|spec| {
            let spec = Spec::parse(spec);
            spec.symbols.is_none() && spec.is_path()
        });
        paths.for_each(|spec| *spec = format!("{spec}:symbols={prefix}"));
    }
    specs
}

/// An open journal. A trace of another tool is imported into a temporary file, which is removed
/// with this value.
struct Journal {
    reader: Reader,
    /// Its folder, which only this user can read, and whose name cannot be guessed.
    _imported: Option<TempDir>,
}

impl Journal {
    fn open(path: &Path) -> Result<Journal> {
        match Reader::open(path) {
            Ok(reader) => Ok(Journal { reader, _imported: None }),
            Err(keel_journal::Error::NotParquet { .. }) => Journal::import(path),
            Err(error) => Err(error.into()),
        }
    }

    fn import(path: &Path) -> Result<Journal> {
        let folder = tempfile::Builder::new().prefix("keel-compare-").tempdir()?;
        let imported = folder.path().join("imported.journal.parquet");
        let options = keel_import::Options { zstd_level: 1, ..keel_import::Options::default() };
        say!("{} is not a journal of Keel: importing it", path.display());
        keel_import::import(&[path.to_path_buf()], &imported, &options, &mut |_| {})?;
        let reader = Reader::open(&imported)?;
        Ok(Journal { reader, _imported: Some(folder) })
    }
}

/// Adds to `all` the program's allocator with settings, which need no new library. Adds the
/// settings of the recorded program, and the floor, which is always measured: it is the cost of the
/// measurement itself.
fn compared(how: &How, allocators: &[Allocator], metadata: &Metadata) -> Vec<Allocator> {
    let mut all = allocators.to_vec();
    if specs(how).iter().any(|spec| spec == "all") {
        all = keel_allocators::with_tuned_base(all, &metadata.allocator, &metadata.settings);
    }
    all = keel_allocators::with_recorded(all, &metadata.settings);
    if !all.iter().any(|allocator| allocator.name == FLOOR) {
        all.push(Allocator::default());
    }
    all
}

fn options(how: &How, metadata: &Metadata) -> Result<Options> {
    // A different order in each comparison makes repetitions meaningful; the results contain the
    // seed.
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let Runs(runs, max_runs) =
        how.runs.unwrap_or(if how.pace == Pace::Max { AUTO } else { Runs(1, 1) });
    Ok(Options {
        pace: how.pace,
        evict: between::eviction(how.between, metadata)?,
        touch: how.touch,
        touch_timed: !how.touch_untimed,
        runs,
        max_runs,
        repeat: !how.no_repeat,
        seed: how.seed.unwrap_or(seconds),
        serial: how.serial,
        verify: how.verify,
        keep: how.raw,
        clock: how.clock,
        throughput: !how.no_throughput,
        usable_sizes: !how.no_usable_size,
        decide: false,
        timeout: Duration::from_secs(how.timeout.max(1)),
    })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn print(json: bool, outcome: &Outcome, folder: &Path) -> Result<()> {
    let is_bare = !is_measured(outcome) && !json;
    if is_bare {
        // Tables of the floor alone would hide the errors below.
    } else if json {
        let json = table::json(&outcome.comparison, folder);
        output::print_json(&json)?;
    } else {
        output::print_text(&table::text(&outcome.comparison))?;
        output::print_text(&format!(
            "\n{}",
            keel_report::chart(&outcome.comparison, "malloc", CHART_WIDTH)
        ))?;
        output::print_text(&format!("\n{}", keel_report::verdict(&outcome.comparison, folder)?))?;
    }
    for note in &outcome.comparison.notes {
        say!("note: {note}");
    }
    for allocator in &outcome.comparison.allocators {
        if let Some(failure) = &allocator.failure {
            say!("keel: {}: {failure}", allocator.name);
        }
    }
    match is_bare {
        true => say!("results: {} (without measurements)", folder.display()),
        false => {
            let word = format::shell_word(folder);
            say!("results: {} (for the page: keel report {word})", folder.display())
        }
    }
    Ok(())
}

/// Whether any of the requested allocators was measured.
fn is_measured(outcome: &Outcome) -> bool {
    let allocators = &outcome.comparison.allocators;
    let only_floor = allocators.iter().all(|allocator| allocator.name == FLOOR);
    only_floor
        || allocators.iter().any(|allocator| allocator.name != FLOOR && !allocator.runs.is_empty())
}

fn exit_code(outcome: &Outcome, verify: bool) -> ExitCode {
    let allocators = &outcome.comparison.allocators;
    if outcome.stopped {
        ExitCode::from(130)
    } else if !is_measured(outcome)
        || (verify && allocators.iter().any(|one| one.failure.is_some()))
    {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Progress on stderr: a bar over all operations of all runs; if stderr is not a terminal, a line
/// for each run.
struct Bars {
    bar: ProgressBar,
    terminal: bool,
    silent: bool,
    before: std::cell::Cell<u64>,
}

impl Bars {
    fn new() -> Bars {
        use std::io::IsTerminal as _;
        Bars {
            bar: crate::progress::bar(0, "operations"),
            terminal: std::io::stderr().is_terminal(),
            silent: false,
            before: std::cell::Cell::new(0),
        }
    }

    fn show(&self, progress: Progress<'_>) {
        if self.silent {
            return;
        }
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
                    say!("run {}/{runs}: {allocator}", position + 1);
                }
            }
            Progress::Done(rows) => self.bar.set_position(self.before.get() + rows),
            Progress::Failed { allocator, reason } => {
                self.bar.suspend(|| say!("{allocator} is left out from now on: {reason}"));
            }
        }
    }
}
