//! `keel import`: converts a trace of another tool into a journal.

mod native;

use crate::{format, output, progress};
use anyhow::{Result, bail};
use clap::Args;
use keel_import::{Form, Limits, Options, Summary};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Convert a trace of another tool into a journal
///
/// The command detects the format of the trace, and its compression (zstd, gzip, LZ4, or a zip
/// archive with one file). The formats:
///
///   doom3       a SIZE PTR THREAD NS, f PTR THREAD NS, c TOTAL PTR THREAD NS,
///               r SIZE OLDPTR NEWPTR THREAD NS, m ALIGN SIZE PTR THREAD NS; frees with
///               a size, an alignment or both: s SIZE PTR THREAD NS,
///               l ALIGN PTR THREAD NS, d ALIGN SIZE PTR THREAD NS
///   judy        a ADDR BYTES POPULATION; 0xADDR SEQ = j__udyAllocJBL(), Words = N;
///               0xADDR = JudyMalloc(N); other lines become markers
///   android     TID: malloc PTR SIZE [START_NS END_NS]           (malloc_debug, memory_replay)
///   logalloc    PID TID malloc(SIZE)=PTR, or =#NUMBER            (Mozilla)
///   cmt         malloc(SIZE) = PTR                               (CHERI)
///   mtrace      @ WHERE + PTR SIZE; with the calling function    (glibc)
///   valgrind    --PID-- malloc(SIZE) = PTR                       (valgrind --trace-malloc=yes)
///   heaptrack   + SIZE TRACE PTR (raw), or + KIND (interpreted); with call stacks
///   rep         a ID SIZE, r ID SIZE, f ID                       (CS:APP malloc lab)
///   tags        Allocate TAG SIZE, Free TAG
///   numbered    lines `Alloc(SIZE),` and `Free(N),`              (wee_alloc)
///   memray      binary capture files; with call stacks           (Python: memray 1.2 to 1.20)
///
/// The command always detects memray; `--from` and `keel capture` do not know this format.
///
/// Some formats have no times. Then the operations in the journal are 1 µs apart, and the journal
/// states that its times only show the order.
///
/// The command also reads these files of Keel:
///
///   FILE.partial, which `keel record` leaves if it is killed;
///   the file of a program that records itself through keel/recorder.h;
///   a journal, with --skip-module.
///
/// Examples:
///   keel import trace.txt.zst -o trace.journal.parquet
///   keel import game.journal.parquet.partial -o game.journal.parquet
///   keel import game.journal.parquet --skip-module libGLX_nvidia -o without-driver.journal.parquet
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The trace. If it has several parts, pass them in order. `-` is standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The journal to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// A file with the times at which frames of a game begin. It has one line for each frame: the
    /// letter F and the time in nanoseconds, such as `F 16666667`. The times must come from the
    /// clock of the trace. The file may be compressed with zstd
    #[arg(long, value_name = "FILE")]
    frames: Option<PathBuf>,
    /// Repair faults of the trace, such as times in the wrong order, and import what is there of a
    /// compressed file that was cut off. Print how many of each kind were repaired
    #[arg(long)]
    repair: bool,
    /// The format of the input [default: detected]
    #[arg(long, value_name = "FORMAT", value_parser = form)]
    from: Option<Form>,
    /// The process to import, if the trace contains several
    #[arg(long, value_name = "ID")]
    process: Option<u64>,
    /// Treat the input as an excerpt of a longer trace. All allocations that have the same
    /// timestamp as the first one are blocks that were live before the excerpt. A replay allocates
    /// them before its clock starts
    #[arg(long)]
    prologue: bool,
    /// For compressed input: the largest size after unpacking, in bytes or with K, M or G. For the
    /// file of --frames, the limit is 1/256 of this size
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = format::parse_size)]
    max_unpacked: u64,
    /// For files that were compressed with `zstd --long=LOG`: pass the same LOG. Unpacking needs
    /// 2^LOG bytes of memory
    #[arg(long, value_name = "LOG", default_value_t = 27,
          value_parser = clap::value_parser!(u32).range(10..=31))]
    zstd_window: u32,
    /// The name of the recorded program. The report shows it
    #[arg(long, default_value = "", value_name = "NAME", hide_default_value = true)]
    program: String,
    /// Leave out the calls of this module (a library or the program itself), and all operations on
    /// its blocks. MODULE is a path, or the beginning of a file name. The input must be a journal,
    /// or a recording through keel/recorder.h. This option can be repeated
    #[arg(long, value_name = "MODULE")]
    skip_module: Vec<String>,
}

/// Runs the subcommand.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    if arguments.inputs.contains(&arguments.output) {
        bail!("{} is both input and output: choose another output", arguments.output.display());
    }
    if let Some(done) =
        native::import(&arguments.inputs, &arguments.output, &arguments.skip_module)?
    {
        return Ok(done);
    }
    let started = Instant::now();
    let total = arguments
        .inputs
        .iter()
        .filter_map(|input| input.metadata().ok())
        .map(|status| status.len())
        .sum();
    let bar = progress::bar(total, "bytes");
    bar.set_message("importing");
    let options = Options {
        frames: arguments.frames,
        repair: arguments.repair,
        program: arguments.program,
        form: arguments.from,
        process: arguments.process,
        prologue: arguments.prologue,
        limits: Limits {
            unpacked_bytes: arguments.max_unpacked,
            zstd_window_log: arguments.zstd_window,
        },
        ..Options::default()
    };
    let summary =
        keel_import::import(&arguments.inputs, &arguments.output, &options, &mut |bytes| {
            bar.set_position(bytes);
        });
    bar.finish_and_clear();
    report(&summary?, &arguments.output, started.elapsed().as_secs_f64())?;
    Ok(ExitCode::SUCCESS)
}

/// The form with this name on the command line.
pub fn form(name: &str) -> Result<Form, String> {
    let known = || Form::ALL.map(Form::name).join(", ");
    Form::from_name(name).ok_or_else(|| format!("the formats are {}", known()))
}

fn report(summary: &Summary, journal: &Path, seconds: f64) -> Result<()> {
    let mut text = format!(
        "{} ({}): {}, {}, {}, {}; {} ({:.2} bytes per operation)\n",
        journal.display(),
        summary.form,
        format::counted(summary.rows, "operation"),
        format::counted(summary.threads, "thread"),
        format::counted(summary.frames, "frame mark"),
        format::counted(summary.marks, "marker"),
        format::bytes(summary.bytes),
        summary.bytes as f64 / summary.rows as f64,
    );
    for (kind, count) in &summary.repairs {
        text += &format!("  repaired {:>9}  {kind}\n", format::count(*count));
    }
    output::print_text(&text)?;
    say!(
        "{} of text in {seconds:.2} s, {:.0} MB/s",
        format::bytes(summary.text_bytes),
        summary.text_bytes as f64 / 1e6 / seconds
    );
    Ok(())
}
