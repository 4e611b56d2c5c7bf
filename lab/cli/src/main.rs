//! The `keel` command: one file for each subcommand under `commands/`. The only crate that prints,
//! exits or reads the environment. Everything that it prints goes through `output`.
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "some functions serve only commands that need Linux")
)]

#[macro_use]
mod output;
#[cfg(feature = "bundled")]
mod bundle;
mod commands;
mod format;
mod help;
#[cfg(target_os = "linux")]
mod interrupt;
#[cfg(target_os = "linux")]
mod layout;
mod progress;
#[cfg(target_os = "linux")]
mod selection;
mod table;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::process::ExitCode;

/// Keel records the memory allocations of a program in a file, the journal. It replays the journal
/// on several allocators, and shows how long each call took and why.
#[derive(Parser)]
#[command(name = "keel", version, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Record(commands::record::Arguments),
    Attach(commands::attach::Arguments),
    Watch(commands::watch::Arguments),
    Try(commands::r#try::Arguments),
    Check(commands::check::Arguments),
    Import(commands::import::Arguments),
    Capture(commands::capture::Arguments),
    Info(commands::info::Arguments),
    Slice(commands::slice::Arguments),
    Blame(commands::blame::Arguments),
    Export(commands::export::Arguments),
    Compare(commands::compare::Arguments),
    Time(commands::time::Arguments),
    Report(commands::report::Arguments),
    Plot(commands::plot::Arguments),
    Diff(commands::diff::Arguments),
    Bench(commands::bench::Arguments),
    Allocators(commands::allocators::Arguments),
    Doctor(commands::doctor::Arguments),
    Completions(commands::completions::Arguments),
    Manual(commands::manual::Arguments),
}

fn main() -> ExitCode {
    let matches = help::grouped::<Arguments>().get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            say!("keel: {error:#}");
            #[cfg(not(target_os = "linux"))]
            if error.is::<commands::NeedsLinux>() {
                return ExitCode::from(2);
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::Record(arguments) => commands::record::run(arguments),
        Command::Attach(arguments) => commands::attach::run(arguments),
        Command::Watch(arguments) => commands::watch::run(arguments),
        Command::Try(arguments) => commands::r#try::run(&arguments),
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Import(arguments) => commands::import::run(arguments),
        Command::Capture(arguments) => commands::capture::run(arguments),
        Command::Info(arguments) => commands::info::run(arguments),
        Command::Slice(arguments) => commands::slice::run(&arguments),
        Command::Blame(arguments) => commands::blame::run(&arguments),
        Command::Export(arguments) => commands::export::run(arguments),
        Command::Compare(arguments) => commands::compare::run(arguments),
        Command::Time(arguments) => commands::time::run(arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Plot(arguments) => commands::plot::run(&arguments),
        Command::Diff(arguments) => commands::diff::run(&arguments),
        Command::Bench(arguments) => commands::bench::run(arguments),
        Command::Allocators(arguments) => commands::allocators::run(arguments),
        Command::Doctor(arguments) => commands::doctor::run(arguments),
        Command::Completions(arguments) => {
            commands::completions::run(&arguments, Arguments::command())
        }
        Command::Manual(arguments) => commands::manual::run(&arguments, Arguments::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent_and_the_help_lists_every_command() {
        let mut command = help::grouped::<Arguments>();
        command.clone().debug_assert();
        let text = command.render_long_help().to_string();
        // Rendering adds the command `help`.
        let names = command.get_subcommands().map(clap::Command::get_name);
        for name in names.filter(|name| *name != "help") {
            let lines = text.lines().filter(|line| line.trim_start().starts_with(name));
            assert_eq!(lines.count(), 1, "{name}");
        }
        assert!(text.starts_with("Keel records the memory allocations"), "{text}");
    }
}
