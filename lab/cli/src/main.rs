//! The `keel` command: one file per subcommand under `commands/`. The only crate that prints, exits or reads the
//! environment.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is this crate's job")]

mod commands;
mod format;
mod interrupt;
mod layout;
mod progress;
mod table;

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
    Try(commands::attempt::TryArguments),
    Record(commands::record::RecordArguments),
    Plot(commands::plot::PlotArguments),
    Report(commands::report::ReportArguments),
    Compare(commands::compare::Arguments),
    Diff(commands::diff::Arguments),
    Doctor(commands::doctor::Arguments),
    Allocators(commands::allocators::Arguments),
    Export(commands::export::Arguments),
    Import(commands::import::Arguments),
    Capture(commands::capture::Arguments),
    Time(commands::time::Arguments),
    Info(commands::info::Arguments),
    Bench(commands::bench::BenchArguments),
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
        Command::Try(arguments) => {
            commands::attempt::run(&arguments, &|words| run(Arguments::try_parse_from(words)?))
        }
        Command::Record(arguments) => commands::record::run(arguments),
        Command::Plot(arguments) => commands::plot::run(&arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Compare(arguments) => commands::compare::run(arguments),
        Command::Diff(arguments) => commands::diff::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(arguments),
        Command::Allocators(arguments) => commands::allocators::run(arguments),
        Command::Export(arguments) => commands::export::run(arguments),
        Command::Import(arguments) => commands::import::run(arguments),
        Command::Capture(arguments) => commands::capture::run(arguments),
        Command::Time(arguments) => commands::time::run(arguments),
        Command::Info(arguments) => commands::info::run(arguments),
        Command::Bench(arguments) => commands::bench::run(arguments),
    }
}
