//! `keel report`: one HTML file, or Markdown, from result folders.

use crate::{format, output, progress, table};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use keel_results::Comparison;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// The page of a result folder, in that folder.
pub const PAGE_FILE: &str = "report.html";

/// Make one self-contained HTML page from the results
///
/// The page shows every call of one run of each allocator, and the values of all runs. Several
/// folders share one page. A table compares them, and buttons
/// select the folder that the charts show.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel report results --open\n  \
                        keel report results-max results-1x -o paces.html\n  \
                        keel report results --markdown >> $GITHUB_STEP_SUMMARY\n  \
                        keel report results --pair keel,jemalloc")]
pub struct Arguments {
    /// The folders that `keel compare` wrote
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The page [default: report.html in the result folder; for several folders, in the working
    /// directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Open the page in a browser
    #[arg(long)]
    open: bool,
    /// Print the tables as Markdown, and write no page
    #[arg(long, conflicts_with_all = ["output", "open"])]
    markdown: bool,
    /// The smallest differences that matter for the advice at the top of the page. The advice
    /// ignores smaller ones. NAME is one of these. time: a difference in the time of all calls, in
    /// % of the other allocator's time. program: the same difference, in % of the recorded time
    /// (only for programs without frames). frame: a difference in the time of the calls of a frame,
    /// in % of the usual length of a recorded frame. memory: a difference in the peak memory, in %
    /// of the other allocator's
    #[arg(
        long,
        value_name = "NAME=PERCENT,...",
        default_value = "time=5,program=1,frame=1,memory=5"
    )]
    matters: keel_report::Matters,
    /// Compare two allocators in each metric, and write no page
    ///
    /// The output has one row for each metric: the median of the runs of A and of B, the ratio A/B
    /// with its 95 % interval, and whether the difference is significant. The ratio is the
    /// geometric mean of the ratios in the rounds, not the ratio of the medians. The text beside
    /// the table states which rounds count. --markdown and --json select the format.
    #[arg(long, value_name = "A,B", value_parser = two_names,
          conflicts_with_all = ["output", "open"])]
    pair: Option<(String, String)>,
    /// Print the comparison of --pair as JSON. Times are in ns, the peak in bytes
    #[arg(long, requires = "pair", conflicts_with = "markdown")]
    json: bool,
}

fn two_names(text: &str) -> Result<(String, String), String> {
    match text.split(',').map(str::trim).collect::<Vec<_>>().as_slice() {
        [a, b] if !a.is_empty() && !b.is_empty() => Ok(((*a).to_owned(), (*b).to_owned())),
        _ => Err("give two names separated by a comma, such as keel,jemalloc".to_owned()),
    }
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some((a, b)) = &arguments.pair {
        return print_pairs(arguments, a, b);
    }
    if arguments.markdown {
        for folder in &arguments.folders {
            output::print_text(&keel_report::markdown(folder, arguments.matters)?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let default = match arguments.folders.as_slice() {
        [only] => only.join(PAGE_FILE),
        _ => PathBuf::from(PAGE_FILE),
    };
    let output = arguments.output.clone().unwrap_or(default);
    write_report(&arguments.folders, &output, arguments.matters)?;
    if arguments.open {
        open(&output)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_pairs(arguments: &Arguments, a: &str, b: &str) -> Result<ExitCode> {
    let mut all = Vec::new();
    for folder in &arguments.folders {
        let comparison = Comparison::load(folder)?;
        let pair =
            keel_report::pair(&comparison, a, b).with_context(|| folder.display().to_string())?;
        all.push(pair);
    }
    if arguments.json {
        let pairs = arguments.folders.iter().zip(&all);
        let pairs: Vec<_> =
            pairs.map(|(folder, pair)| json!({ "folder": folder, "pair": pair })).collect();
        output::print_json(&pairs)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (folder, pair) in arguments.folders.iter().zip(&all) {
        if arguments.markdown {
            output::print_text(&format!("{}\n", pair.markdown()))?;
            continue;
        }
        if all.len() > 1 {
            output::print_text(&format!("{}\n", folder.display()))?;
        }
        let rows: Vec<Vec<String>> = pair.table().into_iter().map(Vec::from).collect();
        output::print_text(&format!("{}\n{}\n", table::aligned(&rows), pair.words))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the page of `folders` and writes it to `page`; progress and a summary go to stderr.
pub fn write_report(folders: &[PathBuf], page: &Path, matters: keel_report::Matters) -> Result<()> {
    if page.is_dir() {
        bail!("{} is a folder: give a file with -o", page.display());
    }
    let begin = Instant::now();
    let bar = progress::bar(0, "allocators");
    bar.set_message("drawing");
    let options = keel_report::Options { matters, ..keel_report::Options::default() };
    let debug = super::blame::debug_folders();
    let report = keel_report::build_with_symbols(folders, options, &debug, &|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    output::write_whole(page, report.html.as_bytes())?;
    let size = report.html.len() as f64 / 1e6;
    let seconds = begin.elapsed().as_secs_f64();
    say!(
        "{}: {} of {}, {size:.1} MB, built in {seconds:.1} s",
        page.display(),
        format::counted(report.calls, "call"),
        format::counted(report.drawn as u64, "allocator")
    );
    Ok(())
}

/// Opens the page with the desktop's default program and does not wait for it.
pub fn open(path: &Path) -> Result<()> {
    let opener = match std::env::consts::OS {
        "macos" => "open",
        "windows" => "explorer",
        _ => "xdg-open",
    };
    // Windows' program takes only whole paths with its own separators.
    Command::new(opener)
        .arg(std::path::absolute(path)?)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| {
            format!("cannot start {opener}: open {} in a browser yourself", path.display())
        })?;
    Ok(())
}
