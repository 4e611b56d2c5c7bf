//! The `keel` command: one file per subcommand under `commands/`. The only crate that prints, exits or reads the
//! environment.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is this crate's job")]

mod commands;
mod layout;
mod progress;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Record the allocations of any program, replay them on every allocator, see why each slow call was slow.
#[derive(Parser)]
#[command(name = "keel", version, about, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Report(commands::report::ReportArguments),
    Record(commands::record::RecordArguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("keel: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Record(arguments) => commands::record::run(arguments),
    }
}
