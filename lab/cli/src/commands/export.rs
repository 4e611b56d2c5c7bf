//! `keel export`: results and journals in formats of other tools.

use super::blame::{self, BUDGET_US, Value};
use crate::format;
use crate::output::WholeFile;
use anyhow::{Context as _, Result, bail};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use keel_blame::Limits;
use keel_export::{Timeline, TraceForm, Written, WrittenTrace};
use keel_journal::Reader;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

/// Write a journal, or the results of a comparison, in a format of another tool
///
/// From a result folder, the command writes a table, histograms or a trace of the measured calls.
/// From a journal, it writes a text trace, which `keel import` can read, or a trace of the live
/// memory, frames and marks for a viewer. From both it can write call stacks. If the format cannot
/// express some values, a message on stderr states how many.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
                  keel export game.journal.parquet --to mtrace -o game.mtrace\n  \
                  keel export game.comparison --to perfetto -o game.perfetto-trace\n  \
                  keel export game.comparison --to csv -a keel > calls.csv\n  \
                  keel export game.journal.parquet --to pprof --weight kept -o game.pb.gz")]
pub struct Arguments {
    /// The journal, or the folder that `keel compare` wrote
    input: PathBuf,
    /// The format [default: csv for a folder, doom3 for a journal]
    #[arg(long, value_name = "FORMAT")]
    to: Option<Format>,
    /// For a folder: write only this allocator [default: all; for csv the first one whose single
    /// calls were saved]
    #[arg(short, long)]
    allocator: Option<String>,
    /// For perfetto: leave out calls that took less than this many ns
    #[arg(long, value_name = "NS", default_value_t = 1000.0)]
    slower_than: f64,
    /// For call stacks (collapsed, speedscope, pprof, firefox): the value that the viewer shows
    /// first. The format collapsed contains only this value [default: as in `keel blame`]
    #[arg(long, value_name = "VALUE")]
    weight: Option<Value>,
    /// For call stacks of results: see `keel blame --budget`
    #[arg(long, value_name = "US", default_value_t = BUDGET_US)]
    budget: f64,
    /// The output file [default: standard output]
    #[arg(short, long)]
    output: Option<PathBuf>,
}

/// The formats of result folders, and the text forms of journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Parquet,
    Hdr,
    Perfetto,
    Json,
    Chrome,
    Stacks(StackForm),
    Trace(TraceForm),
}

/// Formats of call stacks, from journals and from results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StackForm {
    Collapsed,
    Speedscope,
    Pprof,
    Firefox,
}

const OF_STACKS: [StackForm; 4] =
    [StackForm::Collapsed, StackForm::Speedscope, StackForm::Pprof, StackForm::Firefox];

const OF_RESULTS: [Format; 5] =
    [Format::Csv, Format::Parquet, Format::Hdr, Format::Perfetto, Format::Json];

/// Parts of the time of a journal in the Firefox Profiler.
const PARTS: u32 = 256;

static FORMATS: LazyLock<Vec<Format>> = LazyLock::new(|| {
    let of_both = OF_STACKS.map(Format::Stacks);
    let traces = TraceForm::ALL.iter().copied().map(Format::Trace);
    OF_RESULTS.into_iter().chain([Format::Chrome]).chain(of_both).chain(traces).collect()
});

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Format] {
        &FORMATS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Format::Csv => {
                "Folder: CSV, a line for each block: when its malloc and its free began, and how \
                 long each of them took"
                    .into()
            }
            Format::Parquet => {
                "Folder: one Parquet table, a row for each call on each allocator".into()
            }
            Format::Hdr => "Folder: HdrHistogram interval log, one interval for each run, values \
                in ns"
                .into(),
            Format::Perfetto => "Perfetto trace, for ui.perfetto.dev. Folder: the calls and the \
                memory; journal: live memory, frames and marks"
                .into(),
            Format::Json => "Folder: percentiles, times and memory as JSON".into(),
            Format::Chrome => {
                "Journal: JSON trace of live memory, frames and marks, for ui.perfetto.dev and \
                 chrome://tracing"
                    .into()
            }
            Format::Stacks(form) => {
                format!("Call stacks of a journal or a folder: {}", form.what())
            }
            Format::Trace(form) => format!("Journal: {}", form.written_as()),
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

impl StackForm {
    fn what(self) -> &'static str {
        match self {
            StackForm::Collapsed => "a line for each stack, for flame graphs",
            StackForm::Speedscope => "JSON for speedscope.app, with all values",
            StackForm::Pprof => "profile for pprof, with all values",
            StackForm::Firefox => {
                "JSON for profiler.firefox.com, with frames and slow calls; each value is shown as \
                 a separate thread"
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            StackForm::Collapsed => "collapsed",
            StackForm::Speedscope => "speedscope",
            StackForm::Pprof => "pprof",
            StackForm::Firefox => "firefox",
        }
    }
}

impl Format {
    fn is_of_results(self) -> bool {
        OF_RESULTS.contains(&self) && self != Format::Perfetto
    }

    fn is_of_journals(self) -> bool {
        matches!(self, Format::Chrome | Format::Trace(_))
    }

    fn trace(self) -> Option<TraceForm> {
        match self {
            Format::Trace(form) => Some(form),
            _ => None,
        }
    }

    /// The name on the command line.
    fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Parquet => "parquet",
            Format::Hdr => "hdr",
            Format::Perfetto => "perfetto",
            Format::Json => "json",
            Format::Chrome => "chrome",
            Format::Stacks(form) => form.name(),
            Format::Trace(form) => form.name(),
        }
    }

    fn is_binary(self) -> bool {
        matches!(self, Format::Parquet | Format::Perfetto | Format::Stacks(StackForm::Pprof))
    }
}

/// Runs the subcommand.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let is_folder = arguments.input.is_dir();
    let format = arguments.to.unwrap_or(if is_folder {
        Format::Csv
    } else {
        Format::Trace(TraceForm::Doom3)
    });
    let input = arguments.input.display();
    match is_folder {
        true if format.is_of_journals() => {
            bail!(
                "{input} is a result folder, but {} can only be made from a journal: give the \
                 journal",
                format.name()
            )
        }
        false if arguments.input.is_file() && format.is_of_results() => {
            bail!(
                "{input} is a file, and {} is a format of results: give the result folder",
                format.name()
            )
        }
        _ => {}
    }
    if format.is_binary()
        && arguments.output.is_none()
        && std::io::IsTerminal::is_terminal(&std::io::stdout())
    {
        bail!("{} is a binary format: name a file with -o, or pipe the output", format.name());
    }
    match &arguments.output {
        None => write(
            &arguments,
            format,
            &mut BufWriter::new(std::io::stdout()),
            Path::new("standard output"),
        )?,
        Some(path) => {
            let same = |one: &Path, other: &Path| {
                one.canonicalize().ok().is_some_and(|one| other.canonicalize().ok() == Some(one))
            };
            if same(path, &arguments.input) {
                bail!("{input} is both input and output: choose another output");
            }
            let cannot = || format!("cannot write {}", path.display());
            let mut file = BufWriter::new(WholeFile::create(path).with_context(cannot)?);
            write(&arguments, format, &mut file, path)?;
            // Nothing is left in the buffer, or nobody reads the pipe any more.
            file.into_parts().0.finish().with_context(cannot)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write(
    arguments: &Arguments,
    format: Format,
    output: &mut (dyn Write + Send),
    place: &Path,
) -> Result<()> {
    if let Format::Stacks(form) = format {
        if let Some(count) = unless_closed(stacks(arguments, form, output))? {
            say!("{}", format::counted(count, "stack"));
        }
        unless_closed(output.flush().with_context(|| place.display().to_string()))?;
        return Ok(());
    }
    let is_journal = !arguments.input.is_dir();
    if format == Format::Chrome || format == Format::Perfetto && is_journal {
        let reader = Reader::open(&arguments.input)?;
        let outcome = match format {
            Format::Chrome => keel_export::chrome(&reader, output),
            _ => keel_export::perfetto_of_journal(&reader, output),
        };
        let outcome = outcome.map_err(anyhow::Error::from);
        if let Some(count) = unless_closed(outcome)? {
            say!("{}", format::counted(count, "event"));
        }
        unless_closed(output.flush().with_context(|| place.display().to_string()))?;
        return Ok(());
    }
    match format.trace() {
        Some(form) => {
            let reader = Reader::open(&arguments.input)?;
            let outcome = keel_export::trace(&reader, form, output);
            if let Some(written) = unless_closed(outcome.map_err(anyhow::Error::from))? {
                report_losses(&written);
            }
        }
        None => {
            let outcome = results(arguments, format, output).map_err(anyhow::Error::from);
            if let Some(written) = unless_closed(outcome)? {
                say!("{} {} of {}", format::count(written.lines), unit(format), written.allocator);
            }
        }
    }
    unless_closed(output.flush().with_context(|| place.display().to_string()))?;
    Ok(())
}

/// A closed pipe (`keel export ... | head`) is not an error.
fn unless_closed<T>(outcome: Result<T>) -> Result<Option<T>> {
    let closed = |error: &anyhow::Error| {
        error
            .chain()
            .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
            .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
    };
    match outcome {
        Err(error) if closed(&error) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Writes the call stacks and returns their number.
fn stacks(arguments: &Arguments, form: StackForm, output: &mut (dyn Write + Send)) -> Result<u64> {
    if form == StackForm::Firefox {
        return firefox(arguments, output);
    }
    let mut profile = match arguments.input.is_dir() {
        true => {
            let allocator = arguments.allocator.as_deref();
            blame::measured(&arguments.input, arguments.budget, blame::SLOW_US, allocator)?
        }
        false => blame::requested(&arguments.input, blame::SHORT_LIVED_US)?,
    };
    profile.drop_variances();
    let allocator = arguments.allocator.as_deref();
    let column = blame::chosen_column(&profile, arguments.weight, allocator, "--weight")?;
    blame::warnings(&profile).iter().for_each(|warning| say!("note: {warning}"));
    let name = name(&arguments.input);
    Ok(match form {
        StackForm::Collapsed => keel_export::collapsed(&profile, column, output)?,
        StackForm::Speedscope => keel_export::speedscope(&profile, column, &name, output)?,
        _ => keel_export::pprof(&profile, column, output)?,
    })
}

/// The name of the input in the viewer.
fn name(input: &Path) -> String {
    input.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Writes the call stacks over time, the frames and the slow calls; returns the number of stacks.
fn firefox(arguments: &Arguments, output: &mut (dyn Write + Send)) -> Result<u64> {
    let (input, allocator) = (&arguments.input, arguments.allocator.as_deref());
    let (short_ns, folders) = (blame::SHORT_LIVED_US * 1000, blame::debug_folders());
    let (explained, timeline) = if input.is_dir() {
        let (budget_ns, slow_ns) = (arguments.budget * 1000.0, blame::SLOW_US * 1000.0);
        let timeline = Timeline::of_results(input, allocator, slow_ns)?;
        let limits = Limits { budget_ns, slow_ns };
        let times = (short_ns, timeline.span_ns);
        let mut explained = keel_blame::explained(input, limits, times, &folders)?;
        // Without an allocator, the columns of the journal are left out, as in other formats.
        explained.keep_columns(|name| allocator.map_or(!name.is_empty(), |one| one == name));
        (explained, timeline)
    } else {
        let reader = Reader::open(input)?;
        let explained =
            keel_blame::requested_over_time(&reader, short_ns, PARTS, &folders, &mut |_| {})?;
        (explained, Timeline::of_journal(&reader)?)
    };
    let column = blame::chosen_column(&explained.profile, arguments.weight, allocator, "--weight")?;
    blame::warnings(&explained.profile).iter().for_each(|warning| say!("note: {warning}"));
    Ok(keel_export::firefox(&explained, &timeline, column, &name(input), output)?)
}

fn results(
    arguments: &Arguments,
    format: Format,
    output: &mut (dyn Write + Send),
) -> Result<Written, keel_export::ExportError> {
    let (folder, allocator) = (arguments.input.as_path(), arguments.allocator.as_deref());
    match format {
        Format::Hdr => keel_export::hdr(folder, allocator, output),
        Format::Json => keel_export::summary(folder, allocator, output),
        Format::Perfetto => keel_export::perfetto(folder, allocator, arguments.slower_than, output),
        Format::Parquet => keel_export::table(folder, allocator, output),
        _ => keel_export::csv(folder, allocator, output),
    }
}

const fn unit(format: Format) -> &'static str {
    match format {
        Format::Hdr => "histograms",
        Format::Json => "allocators",
        Format::Perfetto => "slices",
        Format::Parquet => "calls",
        _ => "blocks",
    }
}

fn report_losses(written: &WrittenTrace) {
    say!("{}", format::counted(written.operations, "operation"));
    for (what, count) in &written.losses {
        say!("  {:>11}  {what}", format::count(*count));
    }
}
