//! `keel report`: a result folder becomes one HTML file.

use crate::progress;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Make one self-contained HTML page of a result folder: every call, drawn
#[derive(Args)]
pub struct ReportArguments {
    /// The folder that `keel compare` wrote
    folder: PathBuf,
    /// Where to write the page [default: report.html in the folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Open the page in a browser afterwards
    #[arg(long)]
    open: bool,
}

/// Builds the page, writes it whole or not at all, and says what it cost.
pub fn run(arguments: &ReportArguments) -> Result<ExitCode> {
    let output = arguments.output.clone().unwrap_or_else(|| arguments.folder.join("report.html"));
    write_report(&arguments.folder, &output)?;
    if arguments.open {
        open(&output)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the page of `folder` into `output`, with a bar and a closing line on stderr. Also for other subcommands.
pub fn write_report(folder: &Path, output: &Path) -> Result<()> {
    if output.is_dir() {
        bail!("{} is a folder: name the page's file with -o", output.display());
    }
    let begin = Instant::now();
    let bar = progress::bar(0, "allocators");
    bar.set_message("drawing");
    let report = keel_report::build(folder, keel_report::Options::default(), &|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    write_whole(output, report.html.as_bytes())?;
    let size = report.html.len() as f64 / 1e6;
    let seconds = begin.elapsed().as_secs_f64();
    eprintln!(
        "{}: {} calls of {} allocators, {size:.1} MB, built in {seconds:.1} s",
        output.display(),
        report.calls,
        report.drawn
    );
    Ok(())
}

/// Through a neighbour file, so that a full disk never leaves half a page under the wanted name.
fn write_whole(path: &Path, contents: &[u8]) -> Result<()> {
    let name = path.file_name().with_context(|| format!("{} names no file", path.display()))?;
    let mut partial = name.to_os_string();
    partial.push(".part");
    let partial = path.with_file_name(partial);
    let written = std::fs::write(&partial, contents).and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Hands the page to the desktop's opener and does not wait for it.
fn open(path: &Path) -> Result<()> {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    Command::new(opener)
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {opener}: open {} in a browser by hand", path.display()))?;
    Ok(())
}
