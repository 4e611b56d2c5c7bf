//! `keel import` of what is Keel's own: unfinished journals, programs' own recordings, journals to be filtered.

use crate::format;
use anyhow::{Result, bail};
use keel_journal::{Reader, Salvaged};
use keel_record::Imported;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Imports the input if it is of that kind; `None`: it is a foreign one.
pub fn import(inputs: &[PathBuf], output: &Path, skip_modules: &[String]) -> Result<Option<ExitCode>> {
    let Some(kind) = inputs.first().and_then(|path| Kind::of(path)) else {
        if !skip_modules.is_empty() {
            bail!("--skip-module needs to know the callers, which foreign traces do not tell; leave it out");
        }
        return Ok(None);
    };
    let [input] = inputs else { bail!("give {} alone, without other inputs", inputs[0].display()) };
    let text = match kind {
        Kind::Partial if !skip_modules.is_empty() => {
            bail!("salvage {} without --skip-module first, then import the journal with it", input.display())
        }
        Kind::Partial => salvaged(&keel_journal::salvage(input, output)?, input, output)?,
        Kind::Log => imported(&keel_record::import_log(input, output, skip_modules)?, output),
        Kind::Journal if skip_modules.is_empty() => {
            bail!("{} is a journal already: look at it with `keel info`", input.display())
        }
        Kind::Journal => {
            let kept = keel_record::skip_modules(input, output, skip_modules)?;
            let (kept, left_out) = (format::count(kept.rows), format::count(kept.left_out));
            format!("{}: {kept} operations, {left_out} left out\n", output.display())
        }
    };
    format::output(&text)?;
    Ok(Some(ExitCode::SUCCESS))
}

enum Kind {
    Partial,
    Log,
    Journal,
}

impl Kind {
    fn of(path: &Path) -> Option<Kind> {
        if keel_record::is_log(path) {
            Some(Kind::Log)
        } else if keel_journal::is_partial(path) {
            Some(Kind::Partial)
        } else {
            Reader::open(path).is_ok().then_some(Kind::Journal)
        }
    }
}

fn salvaged(salvaged: &Salvaged, input: &Path, output: &Path) -> Result<String> {
    let reader = Reader::open(output)?;
    let mut last = 0;
    for batch in reader.batches() {
        last = batch?.last().map_or(last, |event| event.time);
    }
    Ok(format!(
        "{}: {} operations of {} salvaged, up to {} after the start; {}\n\
         \x20 lost: what the recorder had in memory when it was killed, and {} at the end of the file\n",
        output.display(),
        format::count(salvaged.rows),
        input.display(),
        format::nanoseconds(last),
        format::bytes(salvaged.bytes),
        format::bytes(salvaged.torn_bytes),
    ))
}

fn imported(imported: &Imported, output: &Path) -> String {
    let metadata = &imported.metadata;
    let mut text = format!(
        "{}: {} operations, {} threads, {} frame marks, {} marks; {}\n",
        output.display(),
        format::count(imported.rows),
        metadata.threads.len(),
        format::count(metadata.frames.len() as u64),
        format::count(metadata.marks.len() as u64),
        format::bytes(imported.bytes),
    );
    if !imported.ended_in_order {
        text += &format!(
            "  the program did not end its recording: {} events were found in its rings\n",
            format::count(imported.from_rings)
        );
    }
    if imported.torn_bytes > 0 {
        text += &format!("  lost: an event cut off at the file's end ({} bytes)\n", imported.torn_bytes);
    }
    for (kind, count) in &metadata.repairs {
        text += &format!("  mended {:>9}  {kind}\n", format::count(*count));
    }
    text
}
