//! `keel manual`: the pages for `man`, made of the texts that `--help` prints.

use anyhow::{Context as _, Result};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the manual pages: keel(1) and a page for each command
#[derive(Args)]
#[command(after_help = "Example:\n  keel manual ~/.local/share/man/man1 && man keel-record")]
pub struct Arguments {
    /// The folder; it is created if it does not exist
    folder: PathBuf,
}

/// Runs the subcommand for this command line of keel.
pub fn run(arguments: &Arguments, keel: clap::Command) -> Result<ExitCode> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(keel.disable_help_subcommand(true), folder))
        .with_context(|| format!("cannot write the manual pages to {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
