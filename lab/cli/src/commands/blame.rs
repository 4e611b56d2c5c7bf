//! `keel blame`: the call sites that are responsible for memory and for time.

#[cfg_attr(not(target_os = "linux"), path = "blame/elsewhere.rs")]
mod pinned;
mod table;

use crate::{output, progress};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use keel_blame::{DebugFolders, Limits, ModuleState, Place, Profile};
use keel_journal::Reader;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The default of `--budget`.
pub const BUDGET_US: f64 = 100.0;
/// The default of `--slow`.
pub const SLOW_US: f64 = 10.0;
/// The default of `--short-lived`.
pub const SHORT_LIVED_US: u64 = 1000;

/// Show which lines of a program allocate most, keep most memory, or take most time
///
/// A call site is a line of the program that calls the allocator. Some functions allocate for their
/// callers, for example xmalloc and those of the standard libraries. The call site is then the line
/// that calls such a function.
///
/// The input is a journal that was recorded with --stacks, or the folder that `keel compare` wrote
/// for such a journal. The command prints one row for each call site.
///
/// For a journal, the columns are the number of calls, the requested bytes, the live bytes at the
/// peak of the program's memory, the bytes that are never freed, and the number of short-lived
/// blocks.
///
/// For a folder of `keel compare`, each allocator has three columns: the time in calls, the time
/// over the budget (see --budget), and the number of slow calls (see --slow).
///
/// The command reads names of functions and lines from the object files and the debug files on this
/// machine (/usr/lib/debug and the cache of debuginfod). It downloads nothing.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel record --stacks 16 -- ./game\n  \
                        keel blame game.journal.parquet\n  \
                        keel blame --sort kept game.journal.parquet\n  \
                        keel blame --pinned peak -a keel,jemalloc game.journal.parquet\n  \
                        keel compare game.journal.parquet\n  \
                        keel blame --budget 500 game.comparison")]
pub struct Arguments {
    /// The journal, or the folder that `keel compare` wrote
    input: PathBuf,
    /// Sort by this value [default: `bytes` for a journal; `over` for results, or `time` if no call
    /// is over the budget]
    #[arg(long, value_name = "VALUE")]
    sort: Option<Value>,
    /// Treat each line, each function or each module as one call site
    #[arg(long, value_name = "PLACE", default_value = "line")]
    by: By,
    /// How many stack frames are compared to distinguish call sites. 1: the call site itself. 2:
    /// also its caller, and so on
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..))]
    depth: u8,
    /// NAME is a function that allocates for its callers, or a module that contains such functions.
    /// The call site is then the line that calls the function. This option can be repeated
    #[arg(long, value_name = "NAME")]
    wrapper: Vec<String>,
    /// Show this many call sites
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Show this many callers of each call site
    #[arg(long, value_name = "N", default_value_t = 3)]
    callers: usize,
    /// Show which call sites keep memory resident at MOMENT. The command replays the journal on the
    /// allocators of -a. A resident system page can have bytes that are not live. The command
    /// divides them equally among the live blocks in the page. If the page has no live block, the
    /// command divides the whole page among the live blocks in the 64 KiB around it. The value of a
    /// call site is the sum of the shares that its blocks receive. The live bytes of the blocks
    /// themselves are not part of it
    #[arg(long, value_name = "MOMENT", conflicts_with = "sort")]
    pinned: Option<When>,
    /// With --pinned: also add the values to this result folder, so that the page of `keel report`
    /// shows them. The results must be of the same journal
    #[arg(long, value_name = "RESULTS", requires = "pinned")]
    save: Option<PathBuf>,
    /// For results: show only this allocator [default: all, sorted by the first one]. With
    /// --pinned: the allocators, separated by commas [default: keel,glibc]
    #[arg(short, long)]
    allocator: Option<String>,
    /// For results: the time in µs that all calls in one frame of a game may take together. If they
    /// take longer, the excess is divided among these calls. The column "time over the budget"
    /// shows the sum of these shares. In a program without frames: the time that one call may take
    #[arg(long, value_name = "US", default_value_t = BUDGET_US)]
    budget: f64,
    /// For results: a call that takes longer than this many µs is slow
    #[arg(long, value_name = "US", default_value_t = SLOW_US)]
    slow: f64,
    /// For journals: a block that is freed within this many µs is short-lived
    #[arg(long, value_name = "US", default_value_t = SHORT_LIVED_US)]
    short_lived: u64,
    /// Print JSON, with all values and whole call stacks
    #[arg(long)]
    json: bool,
}

/// The values to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Value {
    /// Number of calls; for a journal, only of calls that allocate
    Calls,
    /// Requested bytes
    Bytes,
    /// Journal: bytes at the peak of live bytes
    Peak,
    /// Journal: bytes that are never freed
    Kept,
    /// Journal: number of short-lived blocks
    Churn,
    /// Results: time in calls
    Time,
    /// Results: time over the budget
    Over,
    /// Results: slow calls
    Slow,
    /// Results: calls with page faults
    Faults,
}

/// The moments of `--pinned`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    /// When the program has the most live bytes
    Peak,
    /// At the end of the recording
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Function and line
    Line,
    /// Function
    Function,
    /// Object file
    Module,
}

impl Value {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some((profile, totals)) = read(arguments)? else { return Ok(ExitCode::from(2)) };
    let allocator = arguments.allocator.as_deref().filter(|_| arguments.pinned.is_none());
    // The values of --pinned are sorted by the first column.
    let sort = match arguments.pinned {
        Some(_) => 0,
        None => chosen_column(&profile, arguments.sort, allocator, "--sort")?,
    };
    let place = match arguments.by {
        By::Line => Place::Line,
        By::Function => Place::Function,
        By::Module => Place::Module,
    };
    let depth = usize::from(arguments.depth);
    let sites = keel_blame::sites(&profile, sort, depth, place, &arguments.wrapper);
    let shown = table::Shown {
        profile: &profile,
        sites: &sites,
        sort,
        top: arguments.top,
        callers: arguments.callers,
        place,
        allocator,
    };
    if arguments.json {
        output::print_json(&json!({
            "input": arguments.input,
            "sorted_by": profile.columns[sort],
            "columns": profile.columns,
            "sample_bytes": profile.sample_bytes,
            "call_sites": sites.sites.len(),
            "sites": table::json(&shown),
            "without_stack": sites.unknown,
            "memory": pinned::json(&totals),
            "modules": profile.modules.iter().map(|(module, state)| json!({
                "path": module.path, "build_id": module.build_id, "names": state,
            })).collect::<Vec<_>>(),
        }))?;
    } else {
        output::print_text(&table::text(&shown))?;
        if !totals.is_empty() {
            output::print_text(&pinned::text(&totals))?;
        }
    }
    warnings(&profile).iter().for_each(|warning| say!("note: {warning}"));
    Ok(ExitCode::SUCCESS)
}

/// Prints the call sites that request the most bytes, and warnings.
pub fn print_top(journal: &Path, count: usize) -> Result<()> {
    let profile = requested(journal, SHORT_LIVED_US)?;
    let sort = chosen_column(&profile, None, None, "--sort")?;
    let sites = keel_blame::sites(&profile, sort, 1, Place::Line, &[]);
    output::print("\n")?;
    output::print_text(&table::text(&table::Shown {
        profile: &profile,
        sites: &sites,
        sort,
        top: count,
        callers: 1,
        place: Place::Line,
        allocator: None,
    }))?;
    warnings(&profile).iter().for_each(|warning| say!("note: {warning}"));
    Ok(())
}

/// The values to show; for `--pinned` with the memory of each allocator. None if an allocator
/// cannot be used; stderr then has the reason.
fn read(arguments: &Arguments) -> Result<Option<(Profile, Vec<pinned::Total>)>> {
    let Arguments { input, short_lived, .. } = arguments;
    if let Some(when) = arguments.pinned {
        return pinned::run(arguments, when);
    }
    let of_program = matches!(arguments.sort, Some(Value::Peak | Value::Kept | Value::Churn));
    let profile = match (input.is_dir(), of_program) {
        (false, _) => requested(input, *short_lived)?,
        (true, false) => measured(input, arguments.budget, arguments.slow, None)?,
        (true, true) => {
            let short_ns = short_lived.saturating_mul(1000);
            keel_blame::requested_of_results(input, short_ns, &debug_folders())?
        }
    };
    Ok(Some((profile, Vec::new())))
}

/// What the call stacks of a journal requested.
pub fn requested(path: &Path, short_us: u64) -> Result<Profile> {
    let reader = Reader::open_any(path)?;
    let bar = progress::bar(2 * reader.rows(), "operations");
    bar.set_message("reading");
    let short_ns = short_us.saturating_mul(1000);
    let (mut done, mut last) = (0, 0);
    let profile = keel_blame::requested(&reader, short_ns, &debug_folders(), &mut |rows| {
        // The journal is read twice; each time the rows begin again.
        done += if rows < last { rows } else { rows - last };
        last = rows;
        bar.set_position(done);
    });
    bar.finish_and_clear();
    Ok(profile?)
}

/// What the calls of each call stack took, on all allocators or on one.
pub fn measured(
    folder: &Path,
    budget_us: f64,
    slow_us: f64,
    allocator: Option<&str>,
) -> Result<Profile> {
    let limits = Limits { budget_ns: budget_us * 1000.0, slow_ns: slow_us * 1000.0 };
    let mut profile = keel_blame::measured(folder, limits, &debug_folders())?;
    // The name is checked when the column is chosen.
    if allocator.is_some_and(|name| profile.allocators().contains(&name)) {
        profile.keep_allocator(allocator.unwrap_or_default());
    }
    Ok(profile)
}

/// The column of this value and this allocator, or the default. `option` is the name of the option
/// that chose the value.
pub fn chosen_column(
    profile: &Profile,
    value: Option<Value>,
    allocator: Option<&str>,
    option: &str,
) -> Result<usize> {
    let allocators = profile.allocators();
    let allocator = match (allocator, allocators.as_slice()) {
        (None, []) => "",
        (Some(_), []) => bail!("--allocator is for results, and this is a journal"),
        (Some(name), known) if known.contains(&name) => name,
        (Some(name), known) => {
            bail!(
                "the results have no rows of an allocator `{name}`; they have {}",
                known.join(", ")
            )
        }
        // The floor is no allocator that anyone uses.
        (None, known) => known.iter().find(|name| **name != "null").unwrap_or(&known[0]),
    };
    let name = match value {
        Some(value) => value.name(),
        None if allocators.is_empty() => "bytes".to_owned(),
        None => {
            let over = profile.column("over", allocator).map_or(0, |column| profile.total(column));
            if over > 0 { "over".to_owned() } else { "time".to_owned() }
        }
    };
    let Some(column) = profile.column(&name, allocator) else {
        let mut known: Vec<&str> = profile.columns.iter().map(|column| column.kind.name).collect();
        known.truncate(known.len() / allocators.len().max(1));
        let kind = if allocators.is_empty() { "a journal" } else { "results" };
        bail!("{option} {name}: the values of {kind} are {}", known.join(", "));
    };
    Ok(column)
}

/// The folders of debug files on this machine.
pub fn debug_folders() -> DebugFolders {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home_cache = variable("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from).or(home_cache);
    let own = variable("DEBUGINFOD_CACHE_PATH").map(PathBuf::from);
    let usual = cache.map(|folder| folder.join("debuginfod_client"));
    DebugFolders {
        debug: vec!["/usr/lib/debug".into()],
        debuginfod: own.into_iter().chain(usual).collect(),
    }
}

/// The modules whose functions have no names, and why.
pub fn warnings(profile: &Profile) -> Vec<String> {
    let warning = |path: &str, recorded: &str, state: &ModuleState| match state {
        ModuleState::Lines { .. } => None,
        ModuleState::Functions => Some(format!(
            "{path} has no debug information, and not all of its functions have names: compile it \
             with -g, or install its debug file (build id {})",
            if recorded.is_empty() { "unknown" } else { recorded }
        )),
        ModuleState::Missing => Some(format!(
            "{path} does not exist here, so its functions have no names (build id {})",
            if recorded.is_empty() { "unknown" } else { recorded }
        )),
        ModuleState::Changed { found } => {
            let found = if found.is_empty() { "none" } else { found };
            Some(format!(
                "{path} has changed since the recording, so its functions have no names (build id \
                 {recorded} when recorded, now {found}): record again"
            ))
        }
        ModuleState::Unreadable { detail } => {
            Some(format!("{path} cannot be read, so its functions have no names: {detail}"))
        }
    };
    let modules = profile.modules.iter().filter(|(module, state)| {
        !matches!(state, ModuleState::Functions) || has_nameless_calls(profile, &module.path)
    });
    modules.filter_map(|(module, state)| warning(&module.path, &module.build_id, state)).collect()
}

/// Whether a call in this module is shown as `module+offset`.
fn has_nameless_calls(profile: &Profile, path: &str) -> bool {
    let module = path.rsplit('/').next().unwrap_or(path);
    let prefix = format!("{module}+0x");
    profile.frames.iter().any(|frame| frame.module == module && frame.function.starts_with(&prefix))
}
