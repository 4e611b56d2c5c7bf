//! The allocators of a picture.

use super::options::PlotOptions;
use crate::counts::{Counted, CountedRun};
use crate::error::ReportError;
use crate::figures::FLOOR;
use crate::words::folder_label;
use std::path::{Path, PathBuf};

/// One allocator of one folder.
pub struct Entry<'a, 'b> {
    /// The counted comparison.
    pub counted: &'a Counted<'b>,
    /// Index of the allocator.
    pub index: usize,
    /// Which folder, from 0.
    pub folder: usize,
    /// Its name, with the folder if there are several.
    pub label: String,
}

impl Entry<'_, '_> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.counted.comparison.allocators[self.index].name
    }

    /// Its counted rows.
    ///
    /// Errors: [`ReportError::Plot`] if no rows were kept.
    pub fn run(&self) -> Result<&CountedRun, ReportError> {
        self.counted.runs[self.index].as_ref().ok_or_else(|| {
            ReportError::Plot(format!(
                "no raw rows of {} were kept: compare without --raw none",
                self.label
            ))
        })
    }
}

/// The allocators to show, in order.
pub fn entries<'a, 'b>(
    folders: &[PathBuf],
    counted: &'a [Counted<'b>],
    options: &PlotOptions,
) -> Result<Vec<Entry<'a, 'b>>, ReportError> {
    let mut entries = Vec::new();
    for (number, (folder, counted)) in folders.iter().zip(counted).enumerate() {
        let names: Vec<&str> =
            counted.comparison.allocators.iter().map(|one| one.name.as_str()).collect();
        let measured = |index: &usize| !counted.comparison.allocators[*index].runs.is_empty();
        let chosen: Vec<usize> = if options.allocators.is_empty() {
            (0..names.len()).filter(|index| names[*index] != FLOOR).filter(measured).collect()
        } else {
            let find = |wanted: &String| {
                names.iter().position(|name| name == wanted).filter(measured).ok_or_else(|| {
                    let known = names.join(", ");
                    ReportError::Plot(format!(
                        "{}: there are no results for {wanted}; there are results for {known}",
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
    if several { format!("{name} · {}", folder_label(folder)) } else { name.to_owned() }
}
