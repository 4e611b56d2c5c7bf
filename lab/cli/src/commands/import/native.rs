//! `keel import` of Keel's own files: unfinished journals, recordings made through keel/recorder.h,
//! and journals from which modules are to be removed.

mod recordings;

use crate::{format, output};
use anyhow::{Result, bail};
use keel_journal::{Reader, Salvaged};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Imports the input if it is such a file; `None`: it is a trace of another tool.
pub fn import(
    inputs: &[PathBuf],
    journal: &Path,
    skip_modules: &[String],
) -> Result<Option<ExitCode>> {
    let Some(kind) = inputs.first().and_then(|path| Kind::of(path)) else {
        if !skip_modules.is_empty() {
            bail!(
                "--skip-module needs a journal or a recording: first import the trace without it, \
                 then import the resulting journal with it"
            );
        }
        return Ok(None);
    };
    let [input] = inputs else { bail!("{} must be the only input", inputs[0].display()) };
    let text = match kind {
        Kind::Partial if !skip_modules.is_empty() => {
            bail!(
                "first import {} without --skip-module; then import the resulting journal with \
                 --skip-module",
                input.display()
            )
        }
        Kind::Partial => salvaged(&keel_journal::salvage(input, journal)?, input, journal)?,
        Kind::Log => recordings::import(input, journal, skip_modules)?,
        Kind::Journal if skip_modules.is_empty() => {
            bail!("{} is already a journal: read it with `keel info`", input.display())
        }
        Kind::Journal => recordings::skip(input, journal, skip_modules)?,
    };
    output::print_text(&text)?;
    Ok(Some(ExitCode::SUCCESS))
}

enum Kind {
    Partial,
    Log,
    Journal,
}

impl Kind {
    fn of(path: &Path) -> Option<Kind> {
        if recordings::is_recording(path) {
            Some(Kind::Log)
        } else if keel_journal::is_partial(path) {
            Some(Kind::Partial)
        } else {
            Reader::open_any(path).is_ok().then_some(Kind::Journal)
        }
    }
}

fn salvaged(salvaged: &Salvaged, input: &Path, output: &Path) -> Result<String> {
    let reader = Reader::open_any(output)?;
    let mut last = 0;
    for batch in reader.batches() {
        last = batch?.last().map_or(last, |event| event.time);
    }
    Ok(format!(
        "{}: {} operations of {} salvaged, up to {} after the start; {}\n\
         \x20 lost: the events in memory if the recorder was killed, and {} at the end of the \
         file\n",
        output.display(),
        format::count(salvaged.rows),
        input.display(),
        format::nanoseconds(last),
        format::bytes(salvaged.bytes),
        format::bytes(salvaged.torn_bytes),
    ))
}
