//! `keel capture`: the first half of the Judy kit. A program's output goes in; its traces become a journal, and the
//! rest comes out.

use crate::format;
use anyhow::{Context as _, Result};
use clap::Args;
use keel_import::{Capture, Captured, Form, Heard, Options, Overlap};
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make a journal of the allocation traces in a program's output: `program | keel capture game.journal.parquet`.
///
/// Reads text on standard input, as programs print that are built with the Judy library and TRACEMI, TRACEMI2 or
/// TRACEJM, or in any other form that `keel import` reads. Every line that is no trace becomes a measurement marker in
/// the journal, at which `keel time` measures, and is printed through to standard output. Allocations that overlap a
/// live block are reported on standard error, and make the exit code 1; the journal is complete all the same.
#[derive(Args)]
pub struct Arguments {
    /// The journal to write
    output: PathBuf,
    /// Read the traces as this form, whatever they look like
    #[arg(long, value_name = "FORM", value_parser = super::import::form)]
    from: Option<Form>,
    /// The program's name, for reports
    #[arg(long, default_value = "", value_name = "NAME", hide_default_value = true)]
    program: String,
}

/// Overlaps that are told one by one.
const MOST_TOLD: u64 = 10;

/// Runs the subcommand. Exit code 1 if allocations overlapped.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let options = Options { form: arguments.from, program: arguments.program, ..Options::default() };
    let mut capture = Capture::create(&arguments.output, &options)?;
    let (mut input, mut line, mut number, mut told) = (std::io::stdin().lock(), Vec::new(), 0_u64, 0);
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
                // When nobody reads what is printed through, the journal is still wanted.
                if let Some(stdout) = &mut output
                    && stdout.write_all(&line).and_then(|()| stdout.flush()).is_err()
                {
                    output = None;
                }
            }
            Heard::Overlap(overlap) => {
                told += 1;
                if told <= MOST_TOLD {
                    eprintln!("keel: line {number}: {}", describe(&overlap));
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
        "the {bytes} bytes at {new:x} overlap the {live_bytes} bytes at {live:x}, \
         allocated at line {} and not freed since",
        overlap.line
    )
}

fn report(captured: &Captured, output: &Path) {
    eprintln!(
        "{} ({}): {} operations, {} markers, {} overlapping allocations; {}",
        output.display(),
        captured.form.name(),
        format::count(captured.rows),
        format::count(captured.marks),
        format::count(captured.overlaps),
        format::bytes(captured.bytes),
    );
    for (kind, count) in &captured.repairs {
        eprintln!("  mended {:>9}  {kind}", format::count(*count));
    }
}
