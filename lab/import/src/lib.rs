//! Foreign trace formats to journals, one file each.
//!
//! [`import`] streams: one thread reads and decompresses, the caller's parses and numbers the objects, the journal
//! writer's encodes. Memory is bounded by the live set.

mod doom3;
mod error;
mod objects;
mod source;

pub use error::{Error, Result};

use doom3::Record;
use error::Fault;
use keel_journal::{Metadata, Writer};
use objects::Objects;
use source::Source;
use std::path::{Path, PathBuf};

/// How to import.
#[derive(Clone, Debug)]
pub struct Options {
    /// A file of frame marks, lines `F NS`, plain or compressed with zstd.
    pub frames: Option<PathBuf>,
    /// Mend what is safely mended, and count it by kind, where it would be an error otherwise.
    pub repair: bool,
    /// The recorded program, for the journal's metadata; empty if unknown.
    pub program: String,
    /// zstd level of the journal, 1 to 22.
    pub zstd_level: i32,
}

impl Default for Options {
    fn default() -> Self {
        Options { frames: None, repair: false, program: String::new(), zstd_level: 3 }
    }
}

/// What came of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Operations in the journal.
    pub rows: u64,
    /// Size of the journal, bytes.
    pub bytes: u64,
    /// Bytes of text, decompressed.
    pub text_bytes: u64,
    /// Frame marks.
    pub frames: u64,
    /// Threads.
    pub threads: u64,
    /// Mends by kind.
    pub repairs: std::collections::BTreeMap<String, u64>,
}

/// Imports text journals, which together are one in the order given, into the journal file `output`. `-` is standard
/// input. `progress` is told now and then how many bytes of the inputs, as they lie on the disk, have been read.
///
/// # Errors
/// See [`Error`]; the output is then as it was before.
pub fn import(
    inputs: &[PathBuf],
    output: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Summary> {
    let frames =
        options.frames.as_deref().map_or(Ok(Vec::new()), |path| read_frames(path, options.repair))?;
    let source = Source::start(inputs)?;
    let mut lines = Lines {
        objects: Objects::new(options.repair, frames),
        writer: Writer::with_options(
            output,
            keel_journal::Options { zstd_level: options.zstd_level, ..keel_journal::Options::default() },
        )?,
        input: 0,
        line: 0,
        repair: options.repair,
        cut_off: 0,
        waiting: Vec::with_capacity(WAITING_LINES),
    };
    let mut text_bytes = 0;
    while let Some(block) = source.next() {
        let block = block?;
        if block.input != lines.input {
            (lines.input, lines.line) = (block.input, 0);
        }
        text_bytes += block.bytes.len() as u64;
        lines.take(&block.bytes, &inputs[block.input])?;
        source.recycle(block.bytes);
        progress(block.consumed);
    }
    if lines.writer.rows() == 0 {
        return Err(Error::Empty { path: inputs.last().cloned().unwrap_or_default() });
    }
    lines.finish(&options.program, text_bytes)
}

/// The lines of the inputs on their way into the journal.
struct Lines {
    objects: Objects,
    writer: Writer,
    input: usize,
    /// Number of the line last taken, from 1.
    line: u64,
    repair: bool,
    /// Last lines that were cut off and left out.
    cut_off: u64,
    /// Lines parsed and not yet applied, with their numbers.
    waiting: Vec<(u64, Record)>,
}

/// Lines that are parsed before they are applied. The table of live addresses is larger than the caches; looking all of
/// them up in a row lets the processor wait for many lines of memory at once instead of one after the other.
const WAITING_LINES: usize = 64;

impl Lines {
    /// Takes a block of whole lines; only an input's last line may lack its line break.
    fn take(&mut self, mut bytes: &[u8], path: &Path) -> Result<()> {
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        if self.line == 0 {
            bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        }
        while !bytes.is_empty() {
            let (rest, fault) = self.parse_some(bytes);
            self.apply_waiting(path)?;
            match fault {
                Some(_) if self.repair && rest.is_empty() && bytes.last() != Some(&b'\n') => {
                    self.cut_off += 1
                }
                Some(fault) => return Err(fault.at(path, self.line)),
                None => {}
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Parses some lines into `waiting`, up to the first that is no operation; returns what follows.
    fn parse_some<'a>(&mut self, mut bytes: &'a [u8]) -> (&'a [u8], Option<Fault>) {
        while !bytes.is_empty() && self.waiting.len() < WAITING_LINES {
            let end = memchr::memchr(b'\n', bytes);
            let (line, rest) = end.map_or((bytes, &[][..]), |end| (&bytes[..end], &bytes[end + 1..]));
            self.line += 1;
            bytes = rest;
            match doom3::parse_line(line) {
                Ok(None) => {}
                Ok(Some(record)) => self.waiting.push((self.line, record)),
                Err(fault) => return (bytes, Some(fault)),
            }
        }
        (bytes, None)
    }

    fn apply_waiting(&mut self, path: &Path) -> Result<()> {
        self.objects.warm(self.waiting.iter().map(|(_, record)| record));
        let mut waiting = std::mem::take(&mut self.waiting);
        for (line, record) in waiting.drain(..) {
            let events = self.objects.apply(&record).map_err(|fault| fault.at(path, line))?;
            for event in events.iter().flatten() {
                self.push(event)?;
            }
        }
        self.waiting = waiting;
        Ok(())
    }

    #[inline]
    fn push(&mut self, event: &keel_journal::Event) -> Result<()> {
        self.writer.push(event).map_err(Error::from)
    }

    fn finish(self, program: &str, text_bytes: u64) -> Result<Summary> {
        let mut remains = self.objects.finish();
        if self.cut_off > 0 {
            remains.repairs.insert("last line cut off: left out".to_owned(), self.cut_off);
        }
        let metadata = Metadata {
            writer: concat!("keel import (doom3) ", env!("CARGO_PKG_VERSION")).to_owned(),
            program: program.to_owned(),
            clock: "text".to_owned(),
            clock_hz: 1e9,
            threads: remains.threads,
            frames: remains.frames,
            foreign: remains.foreign,
            repairs: remains.repairs.clone(),
            ..Metadata::default()
        };
        let (frames, threads) = (metadata.frames.len() as u64, metadata.threads.len() as u64);
        let written = self.writer.finish(metadata)?;
        let repairs = remains.repairs;
        Ok(Summary { rows: written.rows, bytes: written.bytes, text_bytes, frames, threads, repairs })
    }
}

fn read_frames(path: &Path, repair: bool) -> Result<Vec<u64>> {
    let bytes = source::read_whole(path)?;
    let mut frames = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let number = index as u64 + 1;
        let Some(time) = doom3::parse_frame(line).map_err(|fault| fault.at(path, number))? else { continue };
        let last = frames.last().copied().unwrap_or(0);
        if time < last && !repair {
            let fault = Fault {
                expected: format!("a time of at least {last} ns, that of the frame above"),
                found: time.to_string(),
                advice: "Sort the frames, or let --repair do it",
            };
            return Err(fault.at(path, number));
        }
        frames.push(time);
    }
    frames.sort_unstable();
    Ok(frames)
}
