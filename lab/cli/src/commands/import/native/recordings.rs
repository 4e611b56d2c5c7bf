//! What `keel import` shares with the recorder.

use crate::format;
use anyhow::Result;
use keel_record::Imported;
use std::path::Path;

pub use keel_record::is_log as is_recording;

/// Imports a recording made through keel/recorder.h; describes the journal.
pub fn import(input: &Path, journal: &Path, skip_modules: &[String]) -> Result<String> {
    Ok(describe(&keel_record::import_log(input, journal, skip_modules)?, journal))
}

/// Writes the journal without these modules, and describes it.
pub fn skip(input: &Path, journal: &Path, modules: &[String]) -> Result<String> {
    let kept = keel_record::skip_modules(input, journal, modules)?;
    let (kept, left_out) = (format::count(kept.rows), format::count(kept.left_out));
    Ok(format!("{}: {kept} operations, {left_out} left out\n", journal.display()))
}

fn describe(imported: &Imported, output: &Path) -> String {
    let metadata = &imported.metadata;
    let mut text = format!(
        "{}: {}, {}, {}, {}; {}\n",
        output.display(),
        format::counted(imported.rows, "operation"),
        format::counted(metadata.threads.len() as u64, "thread"),
        format::counted(metadata.frames.len() as u64, "frame mark"),
        format::counted(metadata.marks.len() as u64, "mark"),
        format::bytes(imported.bytes),
    );
    if !imported.ended_in_order {
        text += &format!(
            "  the program did not end its recording: {} events were read from its rings\n",
            format::count(imported.from_rings)
        );
    }
    if imported.torn_bytes > 0 {
        text += &format!(
            "  lost: an event cut off at the file's end ({} bytes)\n",
            imported.torn_bytes
        );
    }
    for (kind, count) in &metadata.repairs {
        text += &format!("  repaired {:>9}  {kind}\n", format::count(*count));
    }
    text
}
