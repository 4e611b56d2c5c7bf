//! Builds the page of one or several result folders.

use super::html::assemble;
use crate::counts::{Counted, Options};
use crate::error::ReportError;
use crate::facts::{Stacks, part};
use crate::figures::load;
use crate::verdict::hitch_calls;
use crate::words::folder_label;
use keel_blame::DebugFolders;
use std::path::PathBuf;

/// A finished page.
#[derive(Debug, Default)]
pub struct Report {
    /// The contents of the file.
    pub html: String,
    /// Calls in the tiles, over all allocators.
    pub calls: u64,
    /// Allocators whose calls are drawn.
    pub drawn: usize,
    /// Time columns of the tiles.
    pub columns: usize,
}

/// Like [`build_with_symbols`], without separate debug files.
pub fn build(
    folders: &[PathBuf],
    options: Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Report, ReportError> {
    build_with_symbols(folders, options, &DebugFolders::default(), progress)
}

/// Builds the page of one or several result folders, between which the page then switches.
/// `progress` gets the number of finished allocators and their total. `debug` has the folders of
/// separate debug files, for the names of call sites.
///
/// Takes time linear in the rows of one run of each allocator, eight bytes of memory per row
/// (sixteen if the replay followed a schedule), and the tiles.
pub fn build_with_symbols(
    folders: &[PathBuf],
    options: Options,
    debug: &DebugFolders,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Report, ReportError> {
    let comparisons = folders.iter().map(|folder| load(folder)).collect::<Result<Vec<_>, _>>()?;
    let total: usize = comparisons.iter().map(|comparison| comparison.allocators.len()).sum();
    let share = Options { max_cells: options.max_cells / folders.len().max(1), ..options };
    let (mut parts, mut report, mut done) = (Vec::new(), Report::default(), 0);
    for (number, (folder, comparison)) in folders.iter().zip(&comparisons).enumerate() {
        let progress = |one, _| progress(done + one, total);
        let counted = Counted::read(folder, comparison, share, hitch_calls(comparison), &progress)?;
        done += comparison.allocators.len();
        let prefix = if number == 0 { String::new() } else { format!("{}-", number + 1) };
        let stacks = Stacks::read(folder, &counted, debug)?;
        let part = part(&counted, prefix, folder_label(folder), share, stacks.as_ref())?;
        report.calls += part.facts.allocators.iter().map(|one| one.blocks.calls).sum::<u64>();
        report.drawn += counted.runs.iter().filter(|run| run.is_some()).count();
        report.columns = counted.columns;
        parts.push(part);
    }
    report.html = assemble(&parts);
    Ok(report)
}
