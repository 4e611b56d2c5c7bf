//! `keel completions`: a script with which a shell completes the command line of keel.

use crate::output;
use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use std::process::ExitCode;

/// Print the script with which a shell completes keel's commands and options
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    keel completions bash > ~/.local/share/bash-completion/completions/keel\n  \
    keel completions zsh > ~/.zfunc/_keel       # a folder of $fpath\n  \
    keel completions fish > ~/.config/fish/completions/keel.fish\n  \
    keel completions powershell >> $PROFILE")]
pub struct Arguments {
    /// The shell
    shell: Shell,
}

/// Runs the subcommand for this command line of keel.
pub fn run(arguments: &Arguments, keel: clap::Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    let mut keel = with_single_quotes(keel);
    clap_complete::generate(arguments.shell, &mut keel, "keel", &mut script);
    output::print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The script for fish contains the descriptions of an option's values in double quotes, and
/// `clap_complete` does not escape those of the text itself.
fn with_single_quotes(command: clap::Command) -> clap::Command {
    let quoted = |arg: clap::Arg| {
        let mut values = arg.get_possible_values();
        for value in &mut values {
            if let Some(help) = value.get_help().map(ToString::to_string) {
                *value = value.clone().help(help.replace('"', "'"));
            }
        }
        // The values of a flag are those of its own type.
        let is_option = arg.get_action().takes_values() && !values.is_empty();
        if is_option { arg.value_parser(PossibleValuesParser::new(values)) } else { arg }
    };
    command.mut_args(quoted).mut_subcommands(with_single_quotes)
}
