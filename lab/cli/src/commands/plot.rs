//! `keel plot`: the page's views as still pictures, without a browser.

use super::report::write_whole;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use keel_report::{Budget, Hue, PlotOptions, View};
use std::path::PathBuf;
use std::process::ExitCode;

/// Draw one view of result folders as PNG or SVG, for papers, CI and pull requests
///
/// Several folders are drawn side by side on the same axes: paces, policies of writing, machines.
#[derive(Args)]
#[command(after_help = "Examples:\n  keel plot results -o density.png\n  \
                        keel plot results --view percentiles -o percentiles.svg\n  \
                        keel plot results --view frames --budget 144Hz -o frames.png\n  \
                        keel plot max 1x -a system,keel -o paces.png")]
pub struct PlotArguments {
    /// The folders that `keel compare` wrote
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The picture; its ending, .png or .svg, says what it becomes
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// What to show
    #[arg(short, long, value_enum, default_value = "density")]
    view: Views,
    /// malloc, free, calloc, realloc, aligned; for percentiles also all [default: the busiest that creates blocks]
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// Allocators to show, with commas, in this order [default: all but the floor]
    #[arg(short, long, value_delimiter = ',')]
    allocators: Vec<String>,
    /// What hue tells in the density
    #[arg(long, value_enum, default_value = "size")]
    colour: Hues,
    /// Of frames: so many Hz, or audio buffers of so many ms (2, 4, 10) [default: 60Hz, or 2ms without frames]
    #[arg(long, value_name = "60Hz|2ms", value_parser = budget)]
    budget: Option<Budget>,
    /// Light on dark
    #[arg(long)]
    dark: bool,
    /// Width in CSS pixels
    #[arg(long, default_value_t = 1200, value_parser = clap::value_parser!(u32).range(320..=8192))]
    width: u32,
    /// Pixels of a PNG to each CSS pixel, 0.5 to 4
    #[arg(long, default_value_t = 1.0)]
    scale: f32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Views {
    /// Every call over time and latency, an allocator a panel
    Density,
    /// Latency by rarity
    Percentiles,
    /// Resident memory over time
    Memory,
    /// Every call over size and latency, an allocator a panel
    Sizes,
    /// Blocks over size and lifetime, a folder a panel
    Lifetimes,
    /// The share of each frame, or of each audio buffer, that went into calls, over time
    Frames,
    /// How late calls began, over time; of paces other than max
    Lateness,
}

/// `144Hz`, `4ms`, in capitals or not.
fn budget(text: &str) -> Result<Budget, String> {
    let text = text.to_ascii_lowercase();
    let number = |end: &str| text.strip_suffix(end).and_then(|number| number.trim().parse::<u32>().ok());
    match (number("hz"), number("ms")) {
        (Some(hertz @ 1..=1000), _) => Ok(Budget::Hertz(hertz)),
        (_, Some(ms @ 2..=1000)) if ms % 2 == 0 => Ok(Budget::Buffer(u64::from(ms) * 1_000_000)),
        _ => Err("give frames as 1Hz to 1000Hz, or audio buffers as an even number of ms, as 2ms".to_owned()),
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Hues {
    /// The blocks' size
    Size,
    /// Why calls took their time
    Cause,
    /// The thread that made most of the calls
    Thread,
}

/// Draws and writes the picture, whole or not at all.
pub fn run(arguments: &PlotArguments) -> Result<ExitCode> {
    let ending = arguments.output.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    if !matches!(ending, "png" | "svg") {
        bail!("{}: a picture is .png or .svg", arguments.output.display());
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
    write_whole(&arguments.output, &bytes)?;
    eprintln!("{}: {} KB", arguments.output.display(), bytes.len().div_ceil(1000));
    Ok(ExitCode::SUCCESS)
}
