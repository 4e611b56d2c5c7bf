//! `keel import`: a foreign trace to a journal.

use crate::{format, progress};
use anyhow::{Result, bail};
use clap::Args;
use keel_import::{Options, Summary};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Turn a text journal into a Keel journal.
///
/// Reads the text journals of the blog "Benchmarking Malloc with Doom 3" and their extension with calloc, realloc and
/// aligned lines, plain or compressed with zstd (told by content):
///
///   a SIZE PTR THREAD NS             malloc
///   f PTR THREAD NS                  free
///   c TOTAL PTR THREAD NS            calloc
///   r SIZE OLDPTR NEWPTR THREAD NS   realloc, OLDPTR 0 for NULL
///   m ALIGN SIZE PTR THREAD NS       aligned
///
/// Keel's own unfinished work is told by its content too: the FILE.partial of a killed `keel record`, and the file that
/// a program made of itself with keel/recorder.h. A journal can be imported with --skip-module.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Text journals; several are the parts of one, in this order; `-` is standard input
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
        ..Options::default()
    };
    let summary = keel_import::import(&arguments.inputs, &arguments.output, &options, &mut |bytes| {
        bar.set_position(bytes);
    });
    bar.finish_and_clear();
    report(&summary?, &arguments.output, started.elapsed().as_secs_f64())?;
    Ok(ExitCode::SUCCESS)
}

fn report(summary: &Summary, output: &Path, seconds: f64) -> Result<()> {
    let mut text = format!(
        "{}: {} operations, {} threads, {} frame marks; {} ({:.2} bytes an operation)\n",
        output.display(),
        format::count(summary.rows),
        summary.threads,
        format::count(summary.frames),
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
