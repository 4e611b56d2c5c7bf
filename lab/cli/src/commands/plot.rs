//! `keel plot`: the page's views as pictures, drawn without a browser.

use crate::output;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use keel_report::{Budget, Hue, PlotOptions, View};
use std::path::PathBuf;
use std::process::ExitCode;

/// Draw one view of the results as PNG or SVG
///
/// Several folders share one picture. Their charts are side by side and have the same axes.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel plot results -o density.png\n  \
                        keel plot results --view percentiles -o percentiles.svg\n  \
                        keel plot results --view frames --budget 144Hz -o frames.png\n  \
                        keel plot max 1x -a glibc,keel -o paces.png")]
pub struct Arguments {
    /// The folders that `keel compare` wrote
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The picture. Its ending selects the format: .png or .svg
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// What to draw
    #[arg(short, long, value_enum, default_value = "density")]
    view: Views,
    /// The operation to draw: malloc, free, calloc, realloc or aligned. For the view
    /// `percentiles` also `all`: all operations together [default: the most frequent operation
    /// that allocates]
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// The allocators to draw, in this order, separated by commas [default: all except the null
    /// allocator]
    #[arg(short, long, value_delimiter = ',')]
    allocators: Vec<String>,
    /// What the colours of the density view show
    #[arg(long, value_enum, default_value = "size")]
    colour: Hues,
    /// For the view `frames`: the frame rate in Hz, or the length of an audio buffer in ms (an even
    /// number) [default: 60Hz; 2ms if the journal has no frames]
    #[arg(long, value_name = "60Hz|2ms", value_parser = budget)]
    budget: Option<Budget>,
    /// Draw light text on a dark background
    #[arg(long)]
    dark: bool,
    /// The width in CSS pixels
    #[arg(long, default_value_t = 1200, value_parser = clap::value_parser!(u32).range(320..=8192))]
    width: u32,
    /// The number of PNG pixels for each CSS pixel, 0.5 to 4
    #[arg(long, default_value_t = 1.0)]
    scale: f32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Views {
    /// Every call: when it was made, and how long it took. One panel for each allocator
    Density,
    /// Latency percentiles
    Percentiles,
    /// Resident memory over time
    Memory,
    /// Every call: its size and its latency. One panel for each allocator
    Sizes,
    /// Every block: its size and its lifetime. One panel for each folder
    Lifetimes,
    /// The share of each frame (or audio buffer) that was spent in calls, over time
    Frames,
    /// How late calls began, over time; for paces other than max
    Lateness,
}

/// `144Hz` or `4ms`, in upper or lower case.
fn budget(text: &str) -> Result<Budget, String> {
    let text = text.to_ascii_lowercase();
    let number =
        |end: &str| text.strip_suffix(end).and_then(|number| number.trim().parse::<u32>().ok());
    match (number("hz"), number("ms")) {
        (Some(hertz @ 1..=1000), _) => Ok(Budget::Hertz(hertz)),
        (_, Some(ms @ 2..=1000)) if ms % 2 == 0 => Ok(Budget::Buffer(u64::from(ms) * 1_000_000)),
        _ => {
            Err("give a frame rate of 1Hz to 1000Hz, or an audio buffer as an even number of ms, \
                such as 2ms"
                .to_owned())
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Hues {
    /// The size of the blocks
    Size,
    /// The cause of the latency, for example a page fault
    Cause,
    /// The thread that made more than half of the calls in this place of the chart. If no thread
    /// did, the colour has no meaning
    Thread,
}

/// Draws the picture and writes it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let ending = arguments.output.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    if !matches!(ending, "png" | "svg") {
        bail!("{}: the file name must end in .png or .svg", arguments.output.display());
    }
    if !(0.5..=4.0).contains(&arguments.scale) {
        bail!("--scale {}: give 0.5 to 4", arguments.scale);
    }
    let options = PlotOptions {
        view: match arguments.view {
            Views::Density => View::Density,
            Views::Percentiles => View::Percentiles,
            Views::Memory => View::Memory,
            Views::Sizes => View::Sizes,
            Views::Lifetimes => View::Lifetimes,
            Views::Frames => View::Frames,
            Views::Lateness => View::Lateness,
        },
        operation: arguments.operation.clone(),
        allocators: arguments.allocators.clone(),
        hue: match arguments.colour {
            Hues::Size => Hue::Size,
            Hues::Cause => Hue::Cause,
            Hues::Thread => Hue::Thread,
        },
        budget: arguments.budget,
        dark: arguments.dark,
        width: arguments.width,
        scale: arguments.scale,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let picture = keel_report::plot(&arguments.folders, &options)?;
    let bytes = match ending {
        "svg" => picture.svg()?.into_bytes(),
        _ => picture.png(arguments.scale)?,
    };
    output::write_whole(&arguments.output, &bytes)?;
    say!("{}: {} KB", arguments.output.display(), bytes.len().div_ceil(1000));
    Ok(ExitCode::SUCCESS)
}
