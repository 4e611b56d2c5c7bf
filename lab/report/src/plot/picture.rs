//! Draws a picture from result folders.

use super::entry::entries;
use super::options::{PlotOptions, View};
use super::scene::Scene;
use super::{budget, charts, density, lateness, png, svg};
use crate::counts::{Counted, Options};
use crate::error::ReportError;
use crate::figures::load;
use keel_results::{ALL_OPERATIONS, Comparison, OPERATIONS};
use std::path::PathBuf;

/// A finished picture.
pub struct Picture(Scene);

impl Picture {
    /// As SVG: shapes and text, densities as images within it.
    pub fn svg(&self) -> Result<String, ReportError> {
        svg::svg(&self.0)
    }

    /// As PNG.
    pub fn png(&self, scale: f32) -> Result<Vec<u8>, ReportError> {
        png::render(&self.0, scale)
    }
}

/// Draws one view of one or several result folders.
pub fn plot(folders: &[PathBuf], options: &PlotOptions) -> Result<Picture, ReportError> {
    let comparisons = folders.iter().map(|folder| load(folder)).collect::<Result<Vec<_>, _>>()?;
    refuse_mixed(&comparisons, options.view)?;
    let build = Options { threads: options.threads, max_cells: usize::MAX, ..Options::default() };
    let raw = options.view != View::Percentiles;
    let counted = folders
        .iter()
        .zip(&comparisons)
        .map(|(folder, comparison)| match raw {
            true => Counted::read(folder, comparison, build, Vec::new(), &|_, _| {}),
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

/// Latencies of different paces are not comparable: a chart of both is refused.
fn refuse_mixed(comparisons: &[Comparison], view: View) -> Result<(), ReportError> {
    let mut paces: Vec<&str> = comparisons.iter().map(|one| one.settings.pace.as_str()).collect();
    paces.dedup();
    if view == View::Percentiles && paces.len() > 1 {
        return Err(ReportError::Plot(format!(
            "folders of different paces ({}) share no percentile chart: plot them one by one, or \
             --view density",
            paces.join(", ")
        )));
    }
    Ok(())
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
        Some(name) if name == ALL_OPERATIONS || occurs(name) => Ok(name.clone()),
        Some(name) => {
            let known: Vec<&str> = OPERATIONS.into_iter().filter(|name| occurs(name)).collect();
            Err(ReportError::Plot(format!(
                "no call of {name} was measured; there are {}",
                known.join(", ")
            )))
        }
        None => {
            let creating = OPERATIONS.into_iter().filter(|name| *name != "free" && occurs(name));
            Ok(creating.max_by_key(|name| calls(name)).unwrap_or("free").to_owned())
        }
    }
}
