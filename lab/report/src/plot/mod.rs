//! The page's views as still pictures, SVG or PNG, without a browser: for papers, for CI, for pull requests.
//!
//! ```text
//! result folders -> Counted (as for the page) -> density, sizes, lifetimes | percentiles, memory | budget, lateness
//!                                                -> Scene -> SVG text, PNG bytes
//! ```

mod axes;
mod budget;
mod charts;
mod colour;
mod density;
mod lateness;
mod png;
mod scene;

use crate::ReportError;
use crate::build::{Counted, Options, load};
use crate::operations::OPERATION_NAMES;
use crate::rows::CountedRun;
use crate::verdict::FLOOR;
use keel_results::Comparison;
use scene::Scene;
use std::path::{Path, PathBuf};

/// What a picture shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View {
    /// Every call over time and latency, an allocator a panel.
    Density,
    /// Latency by rarity.
    Percentiles,
    /// Resident memory over time.
    Memory,
    /// Every call over size and latency, an allocator a panel.
    Sizes,
    /// Blocks over size and lifetime, a folder a panel.
    Lifetimes,
    /// Share of each frame's or audio buffer's time in calls, over time, an allocator a lane.
    Frames,
    /// How late calls began, over time.
    Lateness,
}

/// The time that malloc may take a part of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// Frames, so many a second; at least 1.
    Hertz(u32),
    /// Audio buffers of so many ns, a multiple of 2 ms.
    Buffer(u64),
}

/// What hue tells in the density.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hue {
    /// The blocks' size.
    Size,
    /// Why calls took their time.
    Cause,
    /// The thread that made most of a cell's calls.
    Thread,
}

/// How to draw a picture.
#[derive(Clone, Debug)]
pub struct PlotOptions {
    /// What to show.
    pub view: View,
    /// `malloc`, `free`, ...; None for the busiest that creates blocks.
    pub operation: Option<String>,
    /// Names of the allocators to show, in this order; empty for all but the floor.
    pub allocators: Vec<String>,
    /// What hue tells.
    pub hue: Hue,
    /// Of [`View::Frames`]; None for frames of 60 Hz, or buffers of 2 ms where the journal has no frames.
    pub budget: Option<Budget>,
    /// Light lines on a dark ground.
    pub dark: bool,
    /// Width in CSS pixels, 320 to 8192.
    pub width: u32,
    /// Pixels of a PNG to a CSS pixel.
    pub scale: f32,
    /// Threads that count.
    pub threads: usize,
}

/// A finished picture.
pub struct Picture(Scene);

impl Picture {
    /// As SVG: shapes and text, densities as images within it.
    pub fn svg(&self) -> Result<String, ReportError> {
        scene::svg(&self.0)
    }

    /// As PNG.
    pub fn png(&self, scale: f32) -> Result<Vec<u8>, ReportError> {
        png::render(&self.0, scale)
    }
}

/// One allocator of one folder.
struct Entry<'a, 'b> {
    counted: &'a Counted<'b>,
    index: usize,
    /// Which folder, from 0.
    folder: usize,
    /// What it is called: with its folder where there are several.
    label: String,
}

impl Entry<'_, '_> {
    fn name(&self) -> &str {
        &self.counted.comparison.allocators[self.index].name
    }

    /// Its counted rows; refuses, with a sentence, where none were kept.
    fn run(&self) -> Result<&CountedRun, ReportError> {
        self.counted.runs[self.index].as_ref().ok_or_else(|| {
            ReportError::Plot(format!("no raw rows of {} were kept: compare without --raw none", self.label))
        })
    }
}

/// Draws one view of one or several result folders.
pub fn plot(folders: &[PathBuf], options: &PlotOptions) -> Result<Picture, ReportError> {
    let comparisons = folders.iter().map(|folder| load(folder)).collect::<Result<Vec<_>, _>>()?;
    refuse_mixed(&comparisons, options.view)?;
    let build = Options { threads: options.threads, max_cells: usize::MAX };
    let raw = options.view != View::Percentiles;
    let counted = folders
        .iter()
        .zip(&comparisons)
        .map(|(folder, comparison)| match raw {
            true => Counted::read(folder, comparison, build, &|_, _| {}),
            false => Ok(Counted::figures(comparison)),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let entries = entries(folders, &counted, options)?;
    let operation = operation(&comparisons, options)?;
    Ok(Picture(match options.view {
        View::Density => density::time(&entries, &operation, options)?,
        View::Sizes => density::sizes(&entries, &operation, options)?,
        View::Percentiles => charts::percentiles(&entries, &operation, options),
        View::Memory => charts::memory(&entries, options),
        View::Lifetimes => density::lifetimes(folders, &counted, options)?,
        View::Frames => budget::frames(&entries, options)?,
        View::Lateness => lateness::lateness(&entries, options)?,
    }))
}

/// Curves of different paces or clocks in one chart would compare what cannot be compared.
fn refuse_mixed(comparisons: &[Comparison], view: View) -> Result<(), ReportError> {
    let mut paces: Vec<&str> = comparisons.iter().map(|one| one.settings.pace.as_str()).collect();
    paces.dedup();
    if view == View::Percentiles && paces.len() > 1 {
        return Err(ReportError::Plot(format!(
            "folders of different paces ({}) share no percentile chart: plot them one by one, or --view density",
            paces.join(", ")
        )));
    }
    Ok(())
}

fn entries<'a, 'b>(
    folders: &[PathBuf],
    counted: &'a [Counted<'b>],
    options: &PlotOptions,
) -> Result<Vec<Entry<'a, 'b>>, ReportError> {
    let mut entries = Vec::new();
    for (number, (folder, counted)) in folders.iter().zip(counted).enumerate() {
        let names: Vec<&str> = counted.comparison.allocators.iter().map(|one| one.name.as_str()).collect();
        let measured = |index: &usize| !counted.comparison.allocators[*index].runs.is_empty();
        let chosen: Vec<usize> = if options.allocators.is_empty() {
            (0..names.len()).filter(|index| names[*index] != FLOOR).filter(measured).collect()
        } else {
            let find = |wanted: &String| {
                names.iter().position(|name| name == wanted).filter(measured).ok_or_else(|| {
                    let known = names.join(", ");
                    ReportError::Plot(format!(
                        "{}: no results of {wanted}; there are {known}",
                        folder.display()
                    ))
                })
            };
            options.allocators.iter().map(find).collect::<Result<_, _>>()?
        };
        entries.extend(chosen.into_iter().map(|index| Entry {
            counted,
            index,
            folder: number,
            label: label(folder, names[index], folders.len() > 1),
        }));
    }
    Ok(entries)
}

fn label(folder: &Path, name: &str, several: bool) -> String {
    if several { format!("{name} · {}", crate::build::label(folder)) } else { name.to_owned() }
}

fn operation(comparisons: &[Comparison], options: &PlotOptions) -> Result<String, ReportError> {
    let calls = |name: &str| -> u64 {
        comparisons.iter().map(|one| one.journal.operations.get(name).copied().unwrap_or(0)).sum()
    };
    let occurs = |name: &str| {
        comparisons
            .iter()
            .flat_map(|one| &one.allocators)
            .flat_map(|one| &one.runs)
            .any(|run| run.latency.contains_key(name))
    };
    match &options.operation {
        Some(name) if name == crate::summary::ALL_OPERATIONS || occurs(name) => Ok(name.clone()),
        Some(name) => {
            let known: Vec<&str> = OPERATION_NAMES.into_iter().filter(|name| occurs(name)).collect();
            Err(ReportError::Plot(format!("no call of {name} was measured; there are {}", known.join(", "))))
        }
        None => {
            let creating = OPERATION_NAMES.into_iter().filter(|name| *name != "free" && occurs(name));
            Ok(creating.max_by_key(|name| calls(name)).unwrap_or("free").to_owned())
        }
    }
}
