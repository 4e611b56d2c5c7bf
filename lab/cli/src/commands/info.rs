//! `keel info`: the contents of a journal.

mod sampled;
mod top;

use crate::{format, output, progress};
use anyhow::{Result, bail};
use clap::Args;
use keel_journal::analysis::{Distribution, Facts, WrongFree};
use keel_journal::{CACHE_LEVELS, Caches, Metadata, Reader, Totals, Violation};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the contents of a journal: operations, threads, memory, sizes and lifetimes
///
/// If the journal has only samples (`keel record --sample`), the command shows estimates of the
/// totals and of the live blocks, with their standard errors, and nothing about single rows.
///
/// With --verify the exit code is 1 if the journal is not valid.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel info game.journal.parquet\n  keel info --top 20 \
        game.journal.parquet\n  \
                        keel info --verify --json game.journal.parquet")]
pub struct Arguments {
    /// The journal
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print JSON. Later versions of keel will use the same keys
    #[arg(long)]
    json: bool,
    /// Check every rule of the journal format, and print the first row that breaks one
    #[arg(long)]
    verify: bool,
    /// Also show the N modules with the most operations, and the N call sites with the most
    /// allocated blocks (without N: 10). A module is a library or the program itself. A call site
    /// is a line that calls the allocator. Call sites need a journal that was recorded with
    /// --stacks, and the object files of the program on this machine
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10")]
    top: Option<usize>,
}

/// Runs the subcommand.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let reader = Reader::open_any(&arguments.file)?;
    let bar = progress::bar(reader.rows(), "operations");
    bar.set_message("reading");
    if let Some(totals) = keel_journal::totals(&reader, &mut |rows| bar.set_position(rows))? {
        bar.finish_and_clear();
        return run_sampled(&arguments, &reader, &totals);
    }
    let facts = keel_journal::analysis::analyse(&reader, &mut |rows| bar.set_position(rows))?;
    bar.set_message("verifying");
    let verdict = match arguments.verify {
        true => Verdict::of(keel_journal::analysis::verify(&reader, &mut |rows| {
            bar.set_position(rows)
        })?),
        false => Verdict::NotChecked,
    };
    bar.set_message("counting");
    let top =
        arguments.top.map(|count| top::top(&reader, count, &mut |rows| bar.set_position(rows)));
    let top = top.transpose()?;
    bar.finish_and_clear();
    if arguments.json {
        output::print(&(json(&reader, &facts, top.as_ref(), &verdict)? + "\n"))?;
    } else {
        output::print_text(&text(&reader, &facts, top.as_ref(), &verdict))?;
    }
    Ok(verdict.exit_code())
}

/// For a journal of samples.
fn run_sampled(arguments: &Arguments, reader: &Reader, totals: &Totals) -> Result<ExitCode> {
    if arguments.top.is_some() {
        bail!("--top counts rows, and this journal has only samples: use keel blame");
    }
    let verdict = match arguments.verify {
        true => Verdict::of(keel_journal::analysis::verify(reader, &mut |_| {})?),
        false => Verdict::NotChecked,
    };
    if arguments.json {
        output::print_json(&serde_json::json!({
            "file": reader.path(),
            "bytes": reader.bytes(),
            "valid": verdict.valid(),
            "violation": verdict.violation(),
            "sampled": totals,
            "metadata": reader.metadata(),
        }))?;
    } else {
        let mut out = String::new();
        let mut line = |text: String| out += &(text.trim_end().to_owned() + "\n");
        line(format!("{}: {}", reader.path().display(), format::bytes(reader.bytes())));
        describe_metadata(reader.metadata(), &mut line);
        sampled::text(totals, reader.metadata(), &mut line);
        describe_verdict(&verdict, reader.rows(), &mut line);
        output::print_text(&out)?;
    }
    Ok(verdict.exit_code())
}

/// Why a journal may have no call sites.
const WITHOUT_STACKS: &str = "record with --stacks DEPTH";

/// Prints the modules and the call sites with the most operations, as with --top. `stacks`: the
/// depth that was recorded. Returns whether there are call sites.
pub fn print_top(journal: &Path, count: usize, stacks: u32) -> Result<bool> {
    let reader = Reader::open(journal)?;
    let mut top = top::top(&reader, count, &mut |_| {})?;
    // The call and its caller.
    top.sites.iter_mut().for_each(|site| site.name.truncate(2));
    let mut text = String::new();
    let no_sites = if stacks > 0 { "no call had a stack" } else { WITHOUT_STACKS };
    top::text(&top, no_sites, &mut |line| text += &(line + "\n"));
    output::print_text(&text)?;
    Ok(!top.sites.is_empty())
}

enum Verdict {
    NotChecked,
    Valid,
    Broken(Violation),
}

impl Verdict {
    fn of(violation: Option<Violation>) -> Verdict {
        violation.map_or(Verdict::Valid, Verdict::Broken)
    }

    fn valid(&self) -> Option<bool> {
        match self {
            Verdict::NotChecked => None,
            Verdict::Valid => Some(true),
            Verdict::Broken(_) => Some(false),
        }
    }

    fn violation(&self) -> Option<String> {
        match self {
            Verdict::Broken(violation) => Some(violation.to_string()),
            _ => None,
        }
    }

    fn exit_code(&self) -> ExitCode {
        if matches!(self, Verdict::Broken(_)) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

fn describe_verdict(verdict: &Verdict, rows: u64, line: &mut impl FnMut(String)) {
    match verdict {
        Verdict::NotChecked => {}
        Verdict::Valid => {
            line(format!("\nvalid: every rule holds for {}", format::counted(rows, "row")))
        }
        Verdict::Broken(violation) => line(format!("\nNOT VALID: {violation}")),
    }
}

fn json(
    reader: &Reader,
    facts: &Facts,
    top: Option<&top::Top>,
    verdict: &Verdict,
) -> Result<String> {
    #[derive(Serialize)]
    struct Column {
        name: String,
        bytes: u64,
    }
    #[derive(Serialize)]
    struct Document<'a> {
        file: String,
        bytes: u64,
        bytes_per_operation: f64,
        columns: Vec<Column>,
        valid: Option<bool>,
        violation: Option<String>,
        facts: &'a Facts,
        #[serde(skip_serializing_if = "Option::is_none")]
        top: Option<&'a top::Top>,
        metadata: &'a Metadata,
    }
    let columns = reader.column_sizes().into_iter();
    let document = Document {
        file: reader.path().display().to_string(),
        bytes: reader.bytes(),
        bytes_per_operation: bytes_per_operation(reader),
        columns: columns
            .map(|column| Column { name: column.name, bytes: column.compressed })
            .collect(),
        valid: verdict.valid(),
        violation: verdict.violation(),
        facts,
        top,
        metadata: reader.metadata(),
    };
    Ok(serde_json::to_string_pretty(&document)?)
}

fn bytes_per_operation(reader: &Reader) -> f64 {
    reader.bytes() as f64 / reader.rows().max(1) as f64
}

fn text(reader: &Reader, facts: &Facts, top: Option<&top::Top>, verdict: &Verdict) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(format!(
        "{}: {} in {}, {}; {} ({:.2} bytes per operation)",
        reader.path().display(),
        format::counted(facts.operations, "operation"),
        format::nanoseconds(facts.duration_ns),
        format::counted(facts.threads.len() as u64, "thread"),
        format::bytes(reader.bytes()),
        bytes_per_operation(reader),
    ));
    describe_metadata(reader.metadata(), &mut line);
    describe_operations(facts, &mut line);
    describe_memory(facts, &mut line);
    describe_distributions(facts, &mut line);
    describe_frames(facts, &mut line);
    describe_threads(facts, &mut line);
    if let Some(top) = top {
        top::text(top, WITHOUT_STACKS, &mut line);
    }
    describe_verdict(verdict, facts.operations, &mut line);
    if let Some(first) = &facts.wrong_frees.first {
        line(format!("\nfound: {}", wrong_frees(facts.wrong_frees.count, first)));
    }
    out
}

/// Wrong hints are faults of the recorded program, not of the journal.
fn wrong_frees(count: u64, first: &WrongFree) -> String {
    let words = |size: Option<u64>, align: Option<u64>| match (size, align) {
        (Some(size), Some(align)) => format!("{size} bytes aligned to {align}"),
        (Some(size), None) => format!("{size} bytes"),
        (None, Some(align)) => format!("alignment {align}"),
        (None, None) => "nothing".to_owned(),
    };
    let (count, noun) = (format::count(count), if count == 1 { "free" } else { "frees" });
    let passed = words(first.hint_size, first.hint_align);
    let requested = words(Some(first.size), first.align);
    format!(
        "{count} {noun} passed another size or alignment than the allocation requested; the first \
         is the {} in row {} by thread {}, which passed {passed}; the allocation requested \
         {requested}",
        first.kind, first.row, first.thread,
    )
}

fn describe_metadata(metadata: &Metadata, line: &mut impl FnMut(String)) {
    let command = std::iter::once(&metadata.program).chain(&metadata.arguments).map(String::as_str);
    let host = [&metadata.host, &metadata.kernel, &metadata.cpu].map(String::as_str).join(" ");
    let clock = match metadata.clock_hz {
        hz if hz > 0.0 && hz != 1e9 => format!("{} at {:.3} GHz", metadata.clock, hz / 1e9),
        _ => metadata.clock.clone(),
    };
    let settings = metadata.settings.iter().map(|(name, value)| format!("{name}={value}"));
    for (name, value) in [
        ("program", command.collect::<Vec<_>>().join(" ")),
        ("ended", metadata.ended.clone()),
        ("cause", metadata.cause.clone()),
        ("started", metadata.started.clone()),
        ("host", host),
        ("allocator", metadata.allocator.clone()),
        ("settings", settings.collect::<Vec<_>>().join(" ")),
        ("clock", clock),
        ("written by", metadata.writer.clone()),
    ] {
        if !value.trim().is_empty() {
            line(format!("  {name:<12}{}", value.trim()));
        }
    }
    for (name, value) in
        [("lost", metadata.drops), ("foreign", metadata.foreign), ("prologue", metadata.prologue)]
    {
        if value > 0 {
            line(format!("  {name:<12}{}", format::count(value)));
        }
    }
    if metadata.stalls > 0 {
        let (count, time) =
            (format::count(metadata.stalls), format::nanoseconds(metadata.stalled_ns));
        line(format!("  stalls      {count}, {time} in all"));
    }
    if !metadata.caches.is_empty() {
        line(format!("  caches      {}", evicted(&metadata.caches)));
    }
    for other in &metadata.other_allocators {
        let name = if other.name.is_empty() { "another allocator" } else { &other.name };
        let what = match other.recorded {
            true => "answers some of the recorded calls",
            false => "has functions of its own names, which are not recorded",
        };
        line(format!("  beside      {name} {what} ({})", other.path));
    }
    if let Some(peak) = metadata.memory.peak() {
        let [anonymous, resident] = [peak.anonymous, peak.resident].map(format::bytes);
        line(format!("  memory      at most {anonymous} without files ({resident} with them)"));
    }
    if metadata.memory.mapped_calls > 0 {
        let bytes = format::bytes(metadata.memory.mapped_bytes);
        line(format!(
            "  mmap        {} by the program itself, {bytes}",
            format::counted(metadata.memory.mapped_calls, "call")
        ));
    }
    for mark in &metadata.marks {
        line(format!("  mark        {:>12}  {}", format::nanoseconds(mark.time), mark.text));
    }
    for (kind, count) in &metadata.repairs {
        line(format!("  repaired    {} x {kind}", format::count(*count)));
    }
}

/// How often a level of the caches was evicted between two operations.
fn evicted(caches: &Caches) -> String {
    let samples = caches.samples();
    let total: u64 = samples.iter().sum();
    let level = |level: usize| {
        let evicted: u64 = samples[level..].iter().sum();
        format!("level {level} in {:.1} %", evicted as f64 * 100.0 / total.max(1) as f64)
    };
    let levels: Vec<String> = (1..=caches.sizes.len().min(CACHE_LEVELS)).map(level).collect();
    let total = format::counted(total, "sample");
    format!("evicted between two operations: {} ({total})", levels.join(", "))
}

fn describe_operations(facts: &Facts, line: &mut impl FnMut(String)) {
    line("\noperations".to_owned());
    for kind in facts.operations_by_kind.iter().filter(|kind| kind.count > 0) {
        let share = format::share(kind.count, facts.operations);
        line(format!("  {:<24}{:>14}{share:>12}", kind.kind, format::count(kind.count)));
    }
    let share = format::share(facts.cross_thread_releases, facts.releases);
    let count = format::count(facts.cross_thread_releases);
    line(format!("  {:<24}{count:>14}{share:>12} of frees", "freed by another thread"));
    line(format!(
        "  {:<24}{:>14} per second on average",
        "rate",
        format::count(facts.rate.mean.round() as u64)
    ));
    let second = facts.rate.peak_second;
    line(format!("  {:<24}{:>14} in second {second}", "  peak", format::count(facts.rate.peak)));
}

fn describe_memory(facts: &Facts, line: &mut impl FnMut(String)) {
    let peak = &facts.live_peak;
    line("\nmemory".to_owned());
    let mut row = |name: &str, bytes: u64, rest: String| {
        line(format!("  {name:<24}{:>14}  {rest}", format::bytes(bytes)));
    };
    row(
        "allocated in total",
        facts.allocated_bytes,
        format!("in {}", format::counted(facts.objects, "object")),
    );
    row("peak of live bytes", peak.bytes, format!("at {}", format::nanoseconds(peak.bytes_at_ns)));
    row(
        "never freed",
        facts.leaked.bytes,
        format!("in {}", format::counted(facts.leaked.objects, "object")),
    );
    let at = format::nanoseconds(peak.objects_at_ns);
    line(format!("  {:<24}{:>14}  at {at}", "peak of live objects", format::count(peak.objects)));
}

fn describe_distributions(facts: &Facts, line: &mut impl FnMut(String)) {
    let heads = ["mean", "p50", "p90", "p99", "p99.9", "max"];
    let row = |name: &str, cells: &[String]| {
        let mut text = format!("  {name:<24}");
        for cell in cells {
            let _ = write!(text, "{cell:>12}");
        }
        text
    };
    line(format!("\n{}", row("", &heads.map(str::to_owned)).trim_end()));
    let cells = |values: &Distribution, unit: fn(u64) -> String| {
        let mean = values.mean.round() as u64;
        [mean, values.p50, values.p90, values.p99, values.p999, values.max].map(unit)
    };
    line(row("size", &cells(&facts.sizes.bytes, format::bytes)));
    line(row("lifetime", &cells(&facts.lifetimes.ns, format::nanoseconds)));
    line(row("lifetime in operations", &cells(&facts.lifetimes.operations, format::count)));
    if let Some(frames) = &facts.frames {
        line(row("operations per frame", &cells(&frames.operations, format::count)));
        line(row("length of a frame", &cells(&frames.ns, format::nanoseconds)));
    }
    line(format!("\n  {:<24}{:>14}{:>12}{:>14}", "sizes", "objects", "", "bytes"));
    for bucket in &facts.sizes.histogram {
        let range = match (bucket.from, bucket.to) {
            (from, to) if from == to => format::bytes(from),
            (from, to) => format!("{} to {}", format::bytes(from), format::bytes(to)),
        };
        let share = format::share(bucket.count, facts.objects);
        let (count, bytes) = (format::count(bucket.count), format::bytes(bucket.bytes));
        line(format!("  {range:<24}{count:>14}{share:>12}{bytes:>14}"));
    }
}

fn describe_frames(facts: &Facts, line: &mut impl FnMut(String)) {
    let Some(frames) = &facts.frames else { return };
    line(format!(
        "\nframes: {}; {} before the first, {} after the last; most operations: \
            {} in frame {}",
        format::counted(frames.marks, "mark"),
        format::counted(frames.operations_before, "operation"),
        format::count(frames.operations_after),
        format::count(frames.operations.max),
        frames.busiest,
    ));
}

fn describe_threads(facts: &Facts, line: &mut impl FnMut(String)) {
    line(format!(
        "\n  {:<24}{:>14}{:>12}{:>14}{:>16}{:>12}{:>12}",
        "threads", "operations", "", "allocated", "others' blocks", "first", "last"
    ));
    for (index, thread) in facts.threads.iter().enumerate() {
        let name = if thread.name.is_empty() { String::new() } else { format!(" {}", thread.name) };
        line(format!(
            "  {:<24}{:>14}{:>12}{:>14}{:>16}{:>12}{:>12}",
            format!("{index}:{name} ({})", thread.id),
            format::count(thread.operations),
            format::share(thread.operations, facts.operations),
            format::bytes(thread.allocated_bytes),
            format::count(thread.cross_thread_releases),
            format::nanoseconds(thread.first_ns),
            format::nanoseconds(thread.last_ns),
        ));
    }
}
