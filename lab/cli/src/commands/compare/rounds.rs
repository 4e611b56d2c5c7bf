//! `keel compare plan`, `run` and `merge`: a comparison whose rounds run separately, later or on
//! several machines.
//!
//! ```text
//! FOLDER/plan.json      the journal, its checksum, the arguments, the number of rounds
//! FOLDER/rounds/K/      the results of round K; exists only if the round is complete
//! FOLDER/tables/        the results as partitions for query engines
//! FOLDER/results/       the merged results
//! ```

use super::{How, Journal, ResultFolder, compared, file_name, needs, options, print, specs};
use crate::layout::Layout;
use crate::selection::chosen;
use crate::{interrupt, output};
use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser, Subcommand};
use keel_allocators::Allocator;
use keel_journal::Metadata;
use keel_replay::{Keep, MergedRound, Options, Outcome, Request};
use keel_results::Comparison;
use keel_results::raw::{OPERATIONS_FILE, STACKS_FILE};
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The parts of a comparison.
#[derive(Subcommand)]
pub enum Part {
    Plan(PlanArguments),
    Run(RunArguments),
    Merge(MergeArguments),
}

const RAW_HELP: &str = "The runs whose single calls are saved: median (in a plan, those of the \
    first round), all, or none";

/// Plan a comparison whose rounds run separately
///
/// There are three steps. `keel compare plan` writes a folder that describes the comparison. `keel
/// compare run` runs some of its rounds, on any machine that has the folder. `keel compare merge`
/// makes one result folder from all rounds.
///
/// If an allocator is a path, this path must be valid on all machines.
#[derive(Args)]
#[command(mut_arg("runs", |argument| argument.help("The number of rounds [default: 5]")))]
#[command(mut_arg("raw", |argument| argument.help(RAW_HELP)))]
pub struct PlanArguments {
    /// The journal. Each machine that runs rounds needs it
    journal: PathBuf,
    #[command(flatten)]
    how: How,
    /// The folder of the plan [default: NAME.plan in the working directory]
    #[arg(short, long)]
    output: Option<PathBuf>,
}

/// Run the rounds of a plan that are not complete
///
/// In a round, each allocator runs once, all on one machine. Machines that share the folder can run
/// different rounds. Ctrl-C discards the current round. The same command starts it again.
#[derive(Args)]
pub struct RunArguments {
    /// The folder of the plan
    folder: PathBuf,
    /// The rounds to run, separated by commas; the first is 0 [default: all that are not complete]
    #[arg(long, value_delimiter = ',', value_name = "K")]
    round: Vec<u32>,
    /// The path of the journal on this machine, if it differs from the path in `keel compare plan`
    #[arg(long)]
    journal: Option<PathBuf>,
}

/// Merge the complete rounds of a plan into one result folder
#[derive(Args)]
pub struct MergeArguments {
    /// The folder of the plan
    folder: PathBuf,
    /// The result folder [default: `results` in the folder of the plan]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Replace the results in an existing folder; see `keel compare --force`
    #[arg(long)]
    force: bool,
    /// Print the tables as JSON
    #[arg(long)]
    json: bool,
}

const PLAN_FILE: &str = "plan.json";
const ROUNDS: &str = "rounds";
const TABLES: &str = "tables";

/// The contents of `plan.json`.
#[derive(Serialize, Deserialize)]
struct Plan {
    keel_version: String,
    /// An absolute path.
    journal: PathBuf,
    /// Its bytes and their checksum.
    journal_bytes: u64,
    journal_checksum: String,
    rounds: u32,
    seed: u64,
    /// The words after `keel compare plan`.
    arguments: Vec<String>,
}

/// Parses the arguments of a plan again.
#[derive(Parser)]
struct Planned {
    #[command(flatten)]
    plan: PlanArguments,
}

/// Runs the part.
pub fn run(part: Part) -> Result<ExitCode> {
    match part {
        Part::Plan(arguments) => plan(&arguments),
        Part::Run(arguments) => run_rounds(&arguments),
        Part::Merge(arguments) => merge(&arguments),
    }
}

fn plan(arguments: &PlanArguments) -> Result<ExitCode> {
    // Each machine checks the allocators; here a typing error is found at once.
    if chosen(&Layout::discover()?, &specs(&arguments.how)).is_none() {
        return Ok(ExitCode::from(2));
    }
    let rounds = arguments.how.rounds()?;
    let opened = Journal::open(&arguments.journal)?;
    let folder = match &arguments.output {
        Some(folder) if output::is_occupied(folder) => {
            bail!("{} exists and is not empty: choose another with -o", folder.display())
        }
        Some(folder) => folder.clone(),
        None => {
            let name = file_name(&arguments.journal);
            output::free_folder(&format!("{}.plan", name.split('.').next().unwrap_or("journal")))?
        }
    };
    super::between::check(arguments.how.between, arguments.how.pace)?;
    let options = options(&arguments.how, opened.reader.metadata())?;
    let journal = arguments.journal.canonicalize()?;
    let (journal_bytes, journal_checksum) = checksum(&journal)?;
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let plan = Plan {
        keel_version: env!("CARGO_PKG_VERSION").to_owned(),
        journal,
        journal_bytes,
        journal_checksum,
        rounds,
        seed: options.seed,
        arguments: words.skip_while(|word| word != "plan").skip(1).collect(),
    };
    std::fs::create_dir_all(folder.join(ROUNDS))
        .with_context(|| format!("cannot create {}", folder.display()))?;
    output::write_whole(&folder.join(PLAN_FILE), &serde_json::to_vec_pretty(&plan)?)?;
    let shown = folder.display();
    let s = if rounds == 1 { "" } else { "s" };
    say!(
        "plan: {shown}, {rounds} round{s} (for each: keel compare run {shown} --round K; then: \
         keel compare merge {shown})"
    );
    Ok(ExitCode::SUCCESS)
}

impl Plan {
    fn load(folder: &Path) -> Result<Plan> {
        let path = folder.join(PLAN_FILE);
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!("{}: no plan; `keel compare plan JOURNAL -o FOLDER` makes one", path.display())
        })?;
        let plan: Plan = serde_json::from_str(&text)
            .with_context(|| format!("{}: not a plan of keel compare", path.display()))?;
        if plan.keel_version != env!("CARGO_PKG_VERSION") {
            bail!(
                "{}: planned by keel {}, but this is keel {}: use the same on all machines",
                path.display(),
                plan.keel_version,
                env!("CARGO_PKG_VERSION")
            );
        }
        Ok(plan)
    }

    /// The arguments, as given to `keel compare plan`.
    fn how(&self) -> Result<How> {
        let words = std::iter::once("plan").chain(self.arguments.iter().map(String::as_str));
        let planned = Planned::try_parse_from(words);
        Ok(planned.context("the arguments in plan.json are not valid")?.plan.how)
    }

    fn check_journal(&self, journal: &Path) -> Result<()> {
        let found = checksum(journal)?;
        if found != (self.journal_bytes, self.journal_checksum.clone()) {
            bail!(
                "{} is not the journal that was planned with: copy that one here, or give its \
                 path with --journal",
                journal.display()
            );
        }
        Ok(())
    }
}

/// Bytes of a file, and their FNV-1a checksum: against accidents, not against malice.
fn checksum(path: &Path) -> Result<(u64, String)> {
    let failed = || format!("cannot read {}", path.display());
    let mut file = std::fs::File::open(path).with_context(failed)?;
    let (mut bytes, mut sum, mut block) = (0, 0xcbf2_9ce4_8422_2325_u64, vec![0; 1 << 16]);
    loop {
        let read = file.read(&mut block).with_context(failed)?;
        if read == 0 {
            return Ok((bytes, format!("{sum:016x}")));
        }
        bytes += read as u64;
        for byte in &block[..read] {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The results of a round; None if it is not complete.
fn complete(folder: &Path, round: u32) -> Result<Option<Comparison>> {
    let place = folder.join(ROUNDS).join(round.to_string());
    if !place.exists() {
        return Ok(None);
    }
    let comparison = Comparison::load(&place)?;
    let ran = comparison.allocators.iter().all(|one| one.failure.is_some() || !one.runs.is_empty());
    Ok(ran.then_some(comparison))
}

fn run_rounds(arguments: &RunArguments) -> Result<ExitCode> {
    let (layout, plan) = (Layout::discover()?, Plan::load(&arguments.folder)?);
    let how = plan.how()?;
    let Some(mut allocators) = chosen(&layout, &specs(&how)) else { return Ok(ExitCode::from(2)) };
    if how.tuned {
        allocators = keel_allocators::with_tuned(allocators);
    }
    let path = arguments.journal.as_ref().unwrap_or(&plan.journal);
    plan.check_journal(path)?;
    let journal = Journal::open(path)?;
    let all: Vec<u32> = (0..plan.rounds).collect();
    for &round in if arguments.round.is_empty() { &all } else { &arguments.round } {
        if round >= plan.rounds {
            bail!("there is no round {round}: the plan has rounds 0 to {}", plan.rounds - 1);
        }
        if complete(&arguments.folder, round)?.is_some() {
            say!("round {round} is complete");
            continue;
        }
        let options = round_options(&how, journal.reader.metadata(), &plan, round)?;
        let ready =
            Ready { layout: &layout, journal: &journal, how: &how, allocators: &allocators, path };
        let Some(outcome) = ready.run(&arguments.folder, round, options)? else {
            say!("keel: stopped in round {round}; the same command continues with it");
            return Ok(ExitCode::from(130));
        };
        let mut comparison = outcome.comparison;
        for run in comparison.allocators.iter_mut().flat_map(|one| &mut one.runs) {
            run.round = round;
        }
        for run in comparison.allocators.iter_mut().flat_map(|one| &mut one.throughput) {
            run.round = round;
        }
        keel_export::partitions(&comparison, &arguments.folder.join(TABLES))?;
        say!("round {round} is done");
    }
    Ok(ExitCode::SUCCESS)
}

/// The rows of individual calls are kept from the first round only, unless all are wanted.
fn round_options(how: &How, metadata: &Metadata, plan: &Plan, round: u32) -> Result<Options> {
    let options = options(how, metadata)?;
    let keep = match options.keep {
        Keep::Median if round == 0 => Keep::All,
        Keep::Median => Keep::None,
        keep => keep,
    };
    Ok(Options {
        runs: 1,
        max_runs: 1,
        seed: plan.seed.wrapping_add(u64::from(round)),
        keep,
        usable_sizes: options.usable_sizes && round == 0,
        ..options
    })
}

/// What the rounds have in common.
struct Ready<'a> {
    layout: &'a Layout,
    journal: &'a Journal,
    how: &'a How,
    allocators: &'a [Allocator],
    path: &'a Path,
}

impl Ready<'_> {
    /// Runs a round; None if it was stopped. Then nothing of it remains.
    fn run(&self, folder: &Path, round: u32, options: Options) -> Result<Option<Outcome>> {
        let place = folder.join(ROUNDS).join(round.to_string());
        if place.exists() {
            // keel was killed before it could discard a stopped round.
            std::fs::remove_dir_all(&place).with_context(|| place.display().to_string())?;
        }
        let allocators = compared(self.how, self.allocators, self.journal.reader.metadata());
        needs::state(self.journal.reader.rows(), allocators.len(), &options, &place)?;
        let bars = super::Bars::new();
        let request = Request {
            source: &self.journal.reader,
            name: file_name(self.path),
            allocators,
            options,
            player: self.layout.private("keel-player")?,
            folder: place.clone(),
            command: std::env::args().collect(),
            stop: interrupt::stop_requested(),
        };
        let outcome = match keel_replay::compare(&request, &mut |progress| bars.show(progress)) {
            Ok(outcome) => outcome,
            Err(keel_replay::Error::Stopped) => return Ok(None),
            Err(error) => return Err(error).context(format!("cannot run round {round}")),
        };
        bars.bar.finish_and_clear();
        if outcome.stopped {
            std::fs::remove_dir_all(&place).with_context(|| place.display().to_string())?;
            return Ok(None);
        }
        Ok(Some(outcome))
    }
}

fn merge(arguments: &MergeArguments) -> Result<ExitCode> {
    let plan = Plan::load(&arguments.folder)?;
    let (mut rounds, mut missing) = (Vec::new(), Vec::new());
    for number in 0..plan.rounds {
        match complete(&arguments.folder, number)? {
            Some(comparison) => rounds.push(MergedRound { number, comparison }),
            None => missing.push(number.to_string()),
        }
    }
    let mut merged = keel_replay::merge(rounds).map_err(anyhow::Error::msg)?;
    if !missing.is_empty() {
        let done = plan.rounds as usize - missing.len();
        merged.notes.push(format!(
            "{done} of the {} planned rounds are complete; these are missing: {}.",
            plan.rounds,
            missing.join(", ")
        ));
    }
    let default = arguments.folder.join("results");
    let results = ResultFolder::at(arguments.output.as_ref().unwrap_or(&default), arguments.force)?;
    std::fs::create_dir_all(&results.written)
        .with_context(|| results.written.display().to_string())?;
    collect_rows(&mut merged, &arguments.folder.join(ROUNDS), &results.written)?;
    merged.save(&results.written)?;
    results.finish()?;
    print(arguments.json, &Outcome { comparison: merged, stopped: false }, &results.path)?;
    Ok(ExitCode::SUCCESS)
}

/// Collects the rows of individual calls of all rounds in one folder, under names of their rounds.
fn collect_rows(merged: &mut Comparison, rounds: &Path, to: &Path) -> Result<()> {
    let first = merged.allocators.iter().flat_map(|one| &one.runs).map(|run| run.round).min();
    let first = rounds.join(first.unwrap_or(0).to_string());
    for name in [OPERATIONS_FILE, STACKS_FILE] {
        if first.join(name).exists() {
            link(&first.join(name), &to.join(name))?;
        }
    }
    for run in merged.allocators.iter_mut().flat_map(|one| &mut one.runs) {
        let Some(raw) = &run.raw else { continue };
        let name = format!("round-{}-{raw}", run.round);
        link(&rounds.join(run.round.to_string()).join(raw), &to.join(&name))?;
        run.raw = Some(name);
    }
    Ok(())
}

/// A second name of a file, or a copy where that is not possible.
fn link(from: &Path, to: &Path) -> Result<()> {
    if std::fs::hard_link(from, to).is_err() {
        std::fs::copy(from, to)
            .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    }
    Ok(())
}
