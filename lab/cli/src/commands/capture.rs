//! `keel capture`: the first half of the Judy kit. It reads a program's output, makes a journal of
//! the traces in it, and prints the rest.

use crate::format;
use anyhow::{Context as _, Result};
use clap::Args;
use keel_import::{Capture, Captured, Form, Heard, Options, Overlap};
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write a journal from the allocation trace that a program prints
///
/// The command reads the output of the program from standard input. The trace may have any text
/// format that `keel import` reads (not memray). For example, the Judy library prints a trace if it
/// was compiled with the macro TRACEMI, TRACEMI2 or TRACEJM.
///
/// A line of the output that is not part of the trace becomes a marker in the journal. `keel time`
/// measures the time between markers. The command also copies these lines to standard output.
///
/// If a new block overlaps a live block, the command prints a message to stderr, and the exit code
/// is 1. The journal is complete even then.
#[derive(Args)]
#[command(after_help = "Examples:\n  ./game | keel capture game.journal.parquet\n  \
                        ./server 2>&1 | keel capture --from mtrace server.journal.parquet")]
pub struct Arguments {
    /// The journal to write
    output: PathBuf,
    /// The format of the trace [default: detected]
    #[arg(long, value_name = "FORMAT", value_parser = super::import::form)]
    from: Option<Form>,
    /// The name of the program. The report shows it
    #[arg(long, default_value = "", value_name = "NAME", hide_default_value = true)]
    program: String,
}

/// Overlaps that are reported one by one.
const MOST_REPORTED: u64 = 10;

/// Runs the subcommand. Exit code 1 if allocations overlapped.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let options =
        Options { form: arguments.from, program: arguments.program, ..Options::default() };
    let mut capture = Capture::create(&arguments.output, &options)?;
    let (mut input, mut line, mut number, mut overlaps) =
        (std::io::stdin().lock(), Vec::new(), 0_u64, 0);
    let mut output = Some(std::io::stdout().lock());
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).context("standard input")? == 0 {
            break;
        }
        number += 1;
        match capture.take(line.strip_suffix(b"\n").unwrap_or(&line))? {
            Heard::Trace => {}
            Heard::Marker => {
                // A closed standard output does not end the journal.
                if let Some(stdout) = &mut output
                    && stdout.write_all(&line).and_then(|()| stdout.flush()).is_err()
                {
                    output = None;
                }
            }
            Heard::Overlap(overlap) => {
                overlaps += 1;
                if overlaps <= MOST_REPORTED {
                    say!("keel: line {number}: {}", describe(&overlap));
                }
            }
        }
    }
    let captured = capture.finish()?;
    report(&captured, &arguments.output);
    Ok(if captured.overlaps > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn describe(overlap: &Overlap) -> String {
    let ((new, bytes), (live, live_bytes)) = (overlap.new, overlap.live);
    format!(
        "the {bytes} bytes at {new:x} overlap the {live_bytes} bytes at {live:x}, allocated at \
         line {} and not freed since",
        overlap.line
    )
}

fn report(captured: &Captured, output: &Path) {
    say!(
        "{} ({}): {}, {}, {}; {}",
        output.display(),
        captured.form.name(),
        format::counted(captured.rows, "operation"),
        format::counted(captured.marks, "marker"),
        format::counted(captured.overlaps, "overlapping allocation"),
        format::bytes(captured.bytes),
    );
    for (kind, count) in &captured.repairs {
        say!("  repaired {:>9}  {kind}", format::count(*count));
    }
}
