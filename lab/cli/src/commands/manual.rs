//! `keel manual`: the pages for `man`, made of the texts that `--help` prints.

use anyhow::{Context as _, Result};
use clap::Args;
use keel_results::rfc3339;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

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
    let mut keel = keel.disable_help_subcommand(true);
    keel.build();
    std::fs::create_dir_all(folder)
        .and_then(|()| write(&keel, folder, &date()))
        .with_context(|| format!("cannot write the manual pages to {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The day of the pages: that of SOURCE_DATE_EPOCH, which builds of packages set, or today.
fn date() -> String {
    let seconds = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let time = seconds.map_or_else(SystemTime::now, |seconds| {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    });
    rfc3339(time)[..10].to_owned()
}

/// Writes the page of this command and those of its subcommands.
fn write(command: &clap::Command, folder: &Path, date: &str) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write(inner, folder, date)?;
    }
    let source = concat!("keel ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command.clone()).date(date).source(source).generate_to(folder).map(drop)
}
