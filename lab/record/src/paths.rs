//! The names of a recording's journals.
//!
//! A program that a process executes begins with an empty heap, so each program image has its own
//! journal. The image with the most operations gets the name that the user gave. The others get the
//! number of the image in the order of execution: `NAME.image-1.journal.parquet`.

use crate::Options;
use crate::encode::Finished;
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};

/// `<name>.<pid>.journal.parquet`, or without children the name that the user gave. A pid that was
/// used before in this recording gets a number as well.
pub fn of_process(options: &Options, pid: u32, uses: u32) -> PathBuf {
    if !options.follow_children {
        return options.output.clone();
    }
    let number = if uses == 0 { String::new() } else { format!("-{}", uses + 1) };
    insert(&options.output, &format!("{pid}{number}"))
}

/// The journal of one of the images of a process, from 0, while the process runs.
pub fn of_image(process: &Path, image: u32) -> PathBuf {
    if image == 0 { process.to_path_buf() } else { of_other_image(process, image) }
}

fn of_other_image(process: &Path, image: u32) -> PathBuf {
    insert(process, &format!("image-{}", image + 1))
}

/// Inserts a part before `.journal.parquet`.
fn insert(path: &Path, part: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = name.strip_suffix(".parquet").unwrap_or(&name);
    let stem = stem.strip_suffix(".journal").unwrap_or(stem);
    path.with_file_name(format!("{stem}.{part}.journal.parquet"))
}

/// Gives the name of each process to the journal of its image with the most operations.
///
/// # Errors
/// The text says which file cannot be renamed. All journals exist then, some under their earlier
/// names.
pub fn name_by_operations(finished: &mut [Finished]) -> Result<(), String> {
    let mut processes: FxHashMap<PathBuf, Vec<usize>> = FxHashMap::default();
    for (index, one) in finished.iter().enumerate() {
        processes.entry(one.process_path.clone()).or_default().push(index);
    }
    for (path, images) in processes {
        let written = || images.iter().copied().filter(|index| finished[*index].path.is_some());
        // Of several with equal numbers the first.
        let most = written().rev().max_by_key(|index| finished[*index].operations);
        let Some(most) = most.filter(|index| finished[*index].image != 0) else { continue };
        let failed = |error| format!("cannot rename a journal to {}: {error}", path.display());
        if let Some(first) = written().find(|index| finished[*index].image == 0) {
            // The recorder created this file before the program began.
            if finished[first].operations == 0 {
                finished[first].path = None;
            } else {
                let other = of_other_image(&path, 0);
                std::fs::rename(&path, &other).map_err(failed)?;
                finished[first].path = Some(other);
            }
        }
        std::fs::rename(of_image(&path, finished[most].image), &path).map_err(failed)?;
        finished[most].path = Some(path);
    }
    Ok(())
}
