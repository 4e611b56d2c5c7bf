//! `keel report`: result folders become one HTML file, or Markdown for a pull request.

use crate::{format, progress, table};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use keel_results::Comparison;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Make one self-contained HTML page of result folders: every call, drawn
///
/// Several folders become one page with a switch between them and a table of their figures side by side.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel report results --open\n  \
                        keel report results-max results-1x -o paces.html\n  \
                        keel report results --markdown >> $GITHUB_STEP_SUMMARY\n  \
                        keel report results --pair keel,jemalloc")]
pub struct ReportArguments {
    /// The folders that `keel compare` wrote
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Where to write the page [default: report.html in the folder; of several folders, beside you]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Open the page in a browser afterwards
    #[arg(long)]
    open: bool,
    /// Print the figures as Markdown, for a pull request, and write no page
    #[arg(long, conflicts_with_all = ["output", "open"])]
    markdown: bool,
    /// Print two allocators against each other, figure by figure, and write no page
    ///
    /// For every figure that both have: the median over runs of each, the first one's as a multiple of the second's,
    /// round by round, with its 95 % interval, and what that bears. With --markdown or --json in that form.
    #[arg(long, value_name = "A,B", value_parser = two_names, conflicts_with_all = ["output", "open"])]
    pair: Option<(String, String)>,
    /// Print the two as JSON: ns, and bytes for peak
    #[arg(long, requires = "pair", conflicts_with = "markdown")]
    json: bool,
}

fn two_names(text: &str) -> Result<(String, String), String> {
    match text.split(',').map(str::trim).collect::<Vec<_>>().as_slice() {
        [a, b] if !a.is_empty() && !b.is_empty() => Ok(((*a).to_owned(), (*b).to_owned())),
        _ => Err("two names with a comma between them, as in keel,jemalloc".to_owned()),
    }
}

/// Builds the page, writes it whole or not at all, and says what it cost.
pub fn run(arguments: &ReportArguments) -> Result<ExitCode> {
    if let Some((a, b)) = &arguments.pair {
        return print_pairs(arguments, a, b);
    }
    if arguments.markdown {
        for folder in &arguments.folders {
            format::output(&keel_report::markdown(folder)?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let default = match arguments.folders.as_slice() {
        [only] => only.join("report.html"),
        _ => PathBuf::from("report.html"),
    };
    let output = arguments.output.clone().unwrap_or(default);
    write_report(&arguments.folders, &output)?;
    if arguments.open {
        open(&output)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_pairs(arguments: &ReportArguments, a: &str, b: &str) -> Result<ExitCode> {
    let mut all = Vec::new();
    for folder in &arguments.folders {
        let comparison = Comparison::load(folder)?;
        let pair = keel_report::pair(&comparison, a, b).with_context(|| folder.display().to_string())?;
        all.push(pair);
    }
    if arguments.json {
        let pairs = arguments.folders.iter().zip(&all);
        let pairs: Vec<_> = pairs.map(|(folder, pair)| json!({ "folder": folder, "pair": pair })).collect();
        format::output(&(serde_json::to_string_pretty(&pairs)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (folder, pair) in arguments.folders.iter().zip(&all) {
        if arguments.markdown {
            format::output(&format!("{}\n", pair.markdown()))?;
            continue;
        }
        if all.len() > 1 {
            format::output(&format!("{}\n", folder.display()))?;
        }
        let rows: Vec<Vec<String>> = pair.table().into_iter().map(Vec::from).collect();
        format::output(&format!("{}\n{}\n", table::aligned(&rows), pair.words))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the page of `folders` into `output`, with a bar and a closing line on stderr. Also for other subcommands.
pub fn write_report(folders: &[PathBuf], output: &Path) -> Result<()> {
    if output.is_dir() {
        bail!("{} is a folder: name the page's file with -o", output.display());
    }
    let begin = Instant::now();
    let bar = progress::bar(0, "allocators");
    bar.set_message("drawing");
    let report = keel_report::build(folders, keel_report::Options::default(), &|done, total| {
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

/// Through a neighbour file, so that a full disk never leaves half a file under the wanted name.
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<()> {
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
pub fn open(path: &Path) -> Result<()> {
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
