//! `keel import`: a foreign trace to a journal.

use crate::{format, progress};
use anyhow::{Result, bail};
use clap::Args;
use keel_import::{Form, Options, Summary};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Turn a trace of another tool into a journal.
///
/// The form is told by content, and so is its packing: plain text, zstd, gzip, or a zip archive with one member.
///
///   doom3       a SIZE PTR THREAD NS, f PTR THREAD NS, c TOTAL PTR THREAD NS,
///               r SIZE OLDPTR NEWPTR THREAD NS, m ALIGN SIZE PTR THREAD NS
///   judy        a ADDR BYTES POPULATION; 0xADDR SEQ = j__udyAllocJBL(), Words = N; 0xADDR = JudyMalloc(N);
///               other lines are markers
///   android     TID: malloc PTR SIZE [START_NS END_NS]           (malloc_debug, memory_replay)
///   logalloc    PID TID malloc(SIZE)=PTR, or =#NUMBER            (Mozilla)
///   cmt         malloc(SIZE) = PTR                               (CHERI)
///   mtrace      @ WHERE + PTR SIZE                               (glibc)
///   valgrind    --PID-- malloc(SIZE) = PTR                       (valgrind --trace-malloc=yes)
///   heaptrack   + SIZE TRACE PTR, or + KIND                      (raw and interpreted)
///   rep         a ID SIZE, r ID SIZE, f ID                       (malloc lab)
///   tags        Allocate TAG SIZE, Free TAG
///   numbered    Alloc(SIZE), and Free(N),                        (wee_alloc)
///
/// Where a form has no times, operations are a microsecond apart: they only count, and the journal says so.
///
/// Keel's own unfinished work is told by its content too: the FILE.partial of a killed `keel record`, and the file that
/// a program made of itself with keel/recorder.h. A journal can be imported with --skip-module.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Traces; several are the parts of one, in this order; `-` is standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The journal to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Frame marks of the same clock: lines `F NS`, plain or zstd
    #[arg(long, value_name = "FILE")]
    frames: Option<PathBuf>,
    /// Mend times out of order, unknown frees, doubled allocations and the like, and count them by kind
    #[arg(long)]
    repair: bool,
    /// Read the input as this form, whatever it looks like
    #[arg(long, value_name = "FORM", value_parser = form)]
    from: Option<Form>,
    /// Of a trace with several processes, the one to read
    #[arg(long, value_name = "ID")]
    process: Option<u64>,
    /// The allocations at the trace's first moment are of blocks that lived when it began: a replay makes them before
    /// its clock starts. For a piece of a longer trace, with times
    #[arg(long)]
    prologue: bool,
    /// The recorded program's name, for reports
    #[arg(long, default_value = "", value_name = "NAME", hide_default_value = true)]
    program: String,
    /// Leave out what a module calls: the beginning of its file's name, or its path. For a journal, or the file of a
    /// program's own recording
    #[arg(long, value_name = "MODULE")]
    skip_module: Vec<String>,
}

pub fn run(arguments: Arguments) -> Result<ExitCode> {
    if arguments.inputs.contains(&arguments.output) {
        bail!("{} is both input and output: choose another output", arguments.output.display());
    }
    if let Some(done) =
        super::import_own::import(&arguments.inputs, &arguments.output, &arguments.skip_module)?
    {
        return Ok(done);
    }
    let started = Instant::now();
    let total =
        arguments.inputs.iter().filter_map(|input| input.metadata().ok()).map(|status| status.len()).sum();
    let bar = progress::bar(total, "bytes");
    bar.set_message("importing");
    let options = Options {
        frames: arguments.frames,
        repair: arguments.repair,
        program: arguments.program,
        form: arguments.from,
        process: arguments.process,
        prologue: arguments.prologue,
        ..Options::default()
    };
    let summary = keel_import::import(&arguments.inputs, &arguments.output, &options, &mut |bytes| {
        bar.set_position(bytes);
    });
    bar.finish_and_clear();
    report(&summary?, &arguments.output, started.elapsed().as_secs_f64())?;
    Ok(ExitCode::SUCCESS)
}

/// A form by its name on the command line.
pub fn form(name: &str) -> Result<Form, String> {
    let known = || Form::ALL.map(Form::name).join(", ");
    Form::from_name(name).ok_or_else(|| format!("known are {}", known()))
}

fn report(summary: &Summary, output: &Path, seconds: f64) -> Result<()> {
    let mut text = format!(
        "{} ({}): {} operations, {} threads, {} frame marks, {} markers; {} ({:.2} bytes an operation)\n",
        output.display(),
        summary.form.name(),
        format::count(summary.rows),
        summary.threads,
        format::count(summary.frames),
        format::count(summary.marks),
        format::bytes(summary.bytes),
        summary.bytes as f64 / summary.rows as f64,
    );
    for (kind, count) in &summary.repairs {
        text += &format!("  mended {:>9}  {kind}\n", format::count(*count));
    }
    format::output(&text)?;
    eprintln!(
        "{} of text in {seconds:.2} s, {:.0} MB/s",
        format::bytes(summary.text_bytes),
        summary.text_bytes as f64 / 1e6 / seconds
    );
    Ok(())
}
