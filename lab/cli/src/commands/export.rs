//! `keel export`: results in other tools' formats.

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the results of a comparison in another tool's format.
#[derive(Args)]
pub struct Arguments {
    /// The result folder
    folder: PathBuf,
    /// The format
    #[arg(long, default_value = "csv")]
    to: Format,
    /// The allocator whose run is written [default: the first that has one]
    #[arg(short, long)]
    allocator: Option<String>,
    /// The file [default: standard output]
    #[arg(short, long)]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// The Doom 3 blog's: a line for each block, with the times of its malloc and its free
    Csv,
}

/// Runs the subcommand.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let Format::Csv = arguments.to;
    let written = match &arguments.output {
        None => {
            let mut output = BufWriter::new(std::io::stdout().lock());
            let written = keel_export::csv(&arguments.folder, arguments.allocator.as_deref(), &mut output)?;
            output.flush().context("standard output")?;
            written
        }
        Some(path) => {
            let file = File::create(path).with_context(|| path.display().to_string())?;
            let mut output = BufWriter::new(file);
            let written = keel_export::csv(&arguments.folder, arguments.allocator.as_deref(), &mut output)?;
            output.flush().with_context(|| path.display().to_string())?;
            written
        }
    };
    eprintln!("{} blocks of {}", written.lines, written.allocator);
    Ok(ExitCode::SUCCESS)
}
