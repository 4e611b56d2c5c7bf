//! `keel completions`: a script with which a shell completes the command line of keel.

use crate::output;
use anyhow::Result;
use clap::Args;
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
pub fn run(arguments: &Arguments, mut keel: clap::Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut keel, "keel", &mut script);
    output::print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
