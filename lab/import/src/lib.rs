//! Imports foreign trace formats into journals; one module for each format.
//!
//! [`import`] streams: one thread reads and decompresses, the calling thread parses and numbers the
//! objects, and the thread of the journal writer encodes. Memory is bounded by the live set.

mod capture;
mod error;
mod forms;
mod live;
mod memray;
mod object_files;
mod objects;
mod opening;
mod overlaps;
mod plain;
mod profiles;
mod source;
mod stacks;
mod text;
mod zip;

pub use capture::{Capture, Captured, Heard};
pub use error::{Error, Result};
pub use forms::detect;
pub use keel_journal::TextForm as Form;
pub use overlaps::Overlap;
pub use source::Limits;

use error::Fault;
use forms::{Line, Parser, Record, doom3};
use keel_journal::{Event, Mark, Metadata, Origin, Writer};
use memray::Memray;
use objects::Objects;
use opening::Opening;
use source::{Block, Source};
use std::path::{Path, PathBuf};

/// The options of an import.
#[derive(Clone, Debug)]
pub struct Options {
    /// A file of frame marks, lines `F NS`, plain or compressed with zstd.
    pub frames: Option<PathBuf>,
    /// Repair what can be repaired safely and count it by kind, instead of failing.
    pub repair: bool,
    /// The recorded program, for the journal's metadata; empty if unknown.
    pub program: String,
    /// zstd level of the journal, 1 to 22.
    pub zstd_level: i32,
    /// The form of the text; None to detect it from the content.
    pub form: Option<Form>,
    /// The process to read, for a text with several processes.
    pub process: Option<u64>,
    /// The allocations at the first time in the text are blocks that were live when it began. The
    /// journal records them as its prologue, and a replay allocates them before its clock starts.
    /// Needs a form with times.
    pub prologue: bool,
    /// Of compressed inputs.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            frames: None,
            repair: false,
            program: String::new(),
            zstd_level: 3,
            form: None,
            process: None,
            prologue: false,
            limits: Limits::default(),
        }
    }
}

impl Options {
    fn journal(&self) -> keel_journal::Options {
        keel_journal::Options {
            zstd_level: self.zstd_level,
            encoding_threads: 2,
            replace_partial: true,
            ..keel_journal::Options::default()
        }
    }
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The name of the trace's form.
    pub form: &'static str,
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
    /// Markers: lines of text between the operations of a Judy trace.
    pub marks: u64,
    /// Repairs by kind.
    pub repairs: std::collections::BTreeMap<String, u64>,
}

/// Imports text journals, the parts of one journal in the given order, into the journal file
/// `output`. `-` is standard input. Calls `progress` from time to time with the number of input
/// bytes read.
///
/// # Errors
/// See [`Error`]; the output is then as it was before.
pub fn import(
    inputs: &[PathBuf],
    output: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Summary> {
    let mut frames =
        options.frames.as_deref().map_or(Ok(Vec::new()), |path| read_frames(path, options))?;
    let source = Source::start(inputs, options.limits, options.repair)?;
    let mut trace = None;
    let (mut text_bytes, mut cut_inputs) = (0, 0);
    while let Some(block) = source.next() {
        let block = block?;
        let path = &inputs[block.input];
        let trace = match &mut trace {
            Some(trace) => trace,
            none => {
                let journal = || {
                    Ok(Opening::new(
                        Writer::with_options(output, options.journal())?,
                        options.prologue,
                    ))
                };
                let frames = std::mem::take(&mut frames);
                none.insert(Trace::start(block.text(), path, options, frames, journal)?)
            }
        };
        text_bytes += block.text().len() as u64;
        trace.take(&block, path)?;
        cut_inputs += u64::from(block.is_cut);
        progress(block.consumed);
        source.recycle(block);
    }
    let last = inputs.last().cloned().unwrap_or_default();
    let Some(trace) = trace else { return Err(Error::Empty { path: last }) };
    let form = trace.form();
    let (opening, mut metadata) = trace.finish(&last, &options.program)?;
    if options.prologue && metadata.clock == ORDER {
        return Err(Error::Unsupported {
            path: last,
            found: "its operations have no times, so the operations of the prologue cannot be \
                distinguished"
                .to_owned(),
            advice: "import it without --prologue",
        });
    }
    if cut_inputs > 0 {
        metadata.repairs.insert(CUT_INPUT.to_owned(), cut_inputs);
    }
    object_files::locate(&mut metadata);
    let (writer, prologue) = opening.into_parts();
    metadata.prologue = prologue;
    if writer.rows() == 0 {
        return Err(Error::Empty { path: last });
    }
    let (frames, threads) = (metadata.frames.len() as u64, metadata.threads.len() as u64);
    let (marks, repairs) = (metadata.marks.len() as u64, metadata.repairs.clone());
    let written = writer.finish(metadata)?;
    let (rows, bytes) = (written.rows, written.bytes);
    Ok(Summary { form, rows, bytes, text_bytes, frames, threads, marks, repairs })
}

/// A trace while it is read.
enum Trace {
    Lines(Box<Lines<Opening>>),
    Memray(Box<Memray<Opening>>),
}

impl Trace {
    fn start(
        bytes: &[u8],
        path: &Path,
        options: &Options,
        frames: Vec<u64>,
        journal: impl FnOnce() -> Result<Opening>,
    ) -> Result<Trace> {
        if options.form.is_none()
            && let Some(found) = profiles::recognise(bytes)
        {
            let (path, found) = (path.to_path_buf(), found.to_owned());
            return Err(Error::Unsupported { path, found, advice: profiles::ADVICE });
        }
        if memray::recognises(bytes) {
            return Ok(Trace::Memray(Box::new(Memray::new(options, frames, journal()?))));
        }
        Ok(Trace::Lines(Box::new(Lines::start(bytes, path, options, frames, journal)?)))
    }

    fn take(&mut self, block: &Block, path: &Path) -> Result<()> {
        match self {
            Trace::Lines(lines) => {
                if block.input != lines.input {
                    (lines.input, lines.line) = (block.input, 0);
                }
                lines.take(block.text(), path)
            }
            Trace::Memray(_) if block.input > 0 => Err(Error::Unsupported {
                path: path.to_path_buf(),
                found: "it follows a capture file of memray, which is a whole trace".to_owned(),
                advice: "import each file into a separate journal",
            }),
            Trace::Memray(memray) => memray.take(block.text(), path),
        }
    }

    fn form(&self) -> &'static str {
        match self {
            Trace::Lines(lines) => lines.form.name(),
            Trace::Memray(_) => memray::NAME,
        }
    }

    fn finish(self, path: &Path, program: &str) -> Result<(Opening, Metadata)> {
        match self {
            Trace::Lines(lines) => lines.finish(path, program),
            Trace::Memray(memray) => memray.finish(path, program),
        }
    }
}

/// Converts a plain text in memory to events, with the metadata that their journal would have.
///
/// # Errors As [`import`], with an empty path. A text without operations is not an error here.
pub fn parse(text: &[u8], options: &Options) -> Result<(Vec<Event>, Metadata)> {
    let (text, path) = (text::without_byte_order_marks(text), Path::new(""));
    let mut lines = Lines::start(text, path, options, Vec::new(), || Ok(Vec::new()))?;
    lines.take(text, path)?;
    lines.finish(path, &options.program)
}

/// Converts the lines of the inputs to the rows of the journal.
struct Lines<S> {
    form: Form,
    parser: Parser,
    objects: Objects,
    sink: S,
    input: usize,
    /// Number of the last line read, from 1.
    line: u64,
    repair: bool,
    /// Number of truncated last lines that were left out.
    cut_off: u64,
    /// Lines parsed and not yet applied, with their numbers; only the first ones are used.
    waiting: Vec<(u64, Record)>,
    waiting_count: usize,
    /// The origins of the lines in `waiting`, if the form has call stacks.
    origins: Vec<Origin>,
    marks: Vec<Mark>,
}

/// The reason why parsing stopped before the end of a block.
enum Stop {
    /// A line that is not an operation, and its text.
    Aside(Line),
    Fault(Fault),
}

/// Number of lines that are parsed before they are applied. The table of live addresses is larger
/// than the caches. Looking up many addresses together lets the processor load many cache lines in
/// parallel.
const WAITING_LINES: usize = 64;

/// The repair of compressed data that are cut off or damaged.
const CUT_INPUT: &str = "compressed data cut off or damaged: the rest left out";

/// The clock of a journal whose text has no times.
const ORDER: &str = "order";

/// Receives the events.
pub(crate) trait Sink {
    fn push(&mut self, event: &Event) -> Result<()>;

    /// Sets the origin of the events that follow.
    fn set_origin(&mut self, _origin: Origin) {}
}

impl Sink for Writer {
    #[inline]
    fn push(&mut self, event: &Event) -> Result<()> {
        Writer::push(self, event).map_err(Error::from)
    }
}

impl Sink for Vec<Event> {
    fn push(&mut self, event: &Event) -> Result<()> {
        Vec::push(self, *event);
        Ok(())
    }
}

impl<S: Sink> Lines<S> {
    fn start(
        text: &[u8],
        path: &Path,
        options: &Options,
        frames: Vec<u64>,
        sink: impl FnOnce() -> Result<S>,
    ) -> Result<Lines<S>> {
        let form = match options.form {
            Some(form) => form,
            None => detect(text).ok_or_else(|| unknown(text, path))?,
        };
        Ok(Lines {
            form,
            parser: Parser::new(form, options.process),
            objects: Objects::new(options.repair, frames),
            sink: sink()?,
            input: 0,
            line: 0,
            repair: options.repair,
            cut_off: 0,
            waiting: vec![(0, Record::default()); WAITING_LINES],
            waiting_count: 0,
            origins: Vec::new(),
            marks: Vec::new(),
        })
    }

    /// Reads a block of whole lines; only the last line of an input may lack its line break.
    fn take(&mut self, mut bytes: &[u8], path: &Path) -> Result<()> {
        while !bytes.is_empty() {
            let (line, rest, stop) = self.parse_some(bytes);
            self.apply_waiting(path)?;
            match stop {
                Some(Stop::Fault(_))
                    if self.repair && rest.is_empty() && bytes.last() != Some(&b'\n') =>
                {
                    self.cut_off += 1;
                }
                Some(Stop::Fault(fault)) => return Err(fault.at(path, self.line)),
                Some(Stop::Aside(aside)) => {
                    self.note(&aside, line).map_err(|fault| fault.at(path, self.line))?
                }
                None => {}
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Parses lines into `waiting`, up to the first that is not an operation; returns that line and
    /// the rest of the text.
    fn parse_some<'a>(&mut self, mut bytes: &'a [u8]) -> (&'a [u8], &'a [u8], Option<Stop>) {
        let mut line = &[][..];
        while !bytes.is_empty() && self.waiting_count < WAITING_LINES {
            let (number, record) = &mut self.waiting[self.waiting_count];
            if let Some(length) = self.parser.parse_plain(bytes, record) {
                self.line += 1;
                *number = self.line;
                self.waiting_count += 1;
                bytes = &bytes[length..];
                continue;
            }
            let end = memchr::memchr(b'\n', bytes);
            (line, bytes) = end.map_or((bytes, &[][..]), |end| (&bytes[..end], &bytes[end + 1..]));
            self.line += 1;
            match self.parser.parse(line) {
                Ok(Line::Silent) => {}
                Ok(Line::Operation(record)) => {
                    self.waiting[self.waiting_count] = (self.line, record);
                    self.waiting_count += 1;
                    if self.parser.has_stacks() {
                        self.origins.push(self.parser.origin());
                    }
                }
                Ok(aside) => return (line, bytes, Some(Stop::Aside(aside))),
                Err(fault) => return (line, bytes, Some(Stop::Fault(fault))),
            }
        }
        (line, bytes, None)
    }

    fn apply_waiting(&mut self, path: &Path) -> Result<()> {
        let waiting = &self.waiting[..std::mem::take(&mut self.waiting_count)];
        if !waiting.is_empty() {
            self.objects.adapt_once(&self.parser);
        }
        self.objects.warm(waiting.iter().map(|(_, record)| record));
        if !self.origins.is_empty() {
            for ((line, record), origin) in waiting.iter().zip(self.origins.drain(..)) {
                self.sink.set_origin(origin);
                self.objects
                    .apply(record, &mut self.sink)
                    .map_err(|refusal| refusal.at(path, *line))?;
            }
            return Ok(());
        }
        for (line, record) in waiting {
            self.objects
                .apply(record, &mut self.sink)
                .map_err(|refusal| refusal.at(path, *line))?;
        }
        Ok(())
    }

    /// Handles a line that is not an operation.
    #[cold]
    fn note(&mut self, aside: &Line, line: &[u8]) -> std::result::Result<(), Fault> {
        match aside {
            Line::ThreadEnds(id) => self.objects.end_thread(*id),
            Line::OtherProcess => return self.objects.other_process(),
            Line::Mark => {
                let line = text::without_byte_order_marks(line).trim_ascii_end();
                let text = String::from_utf8_lossy(line).into_owned();
                let (time, thread) = (self.objects.now(), self.objects.current_thread());
                self.marks.push(Mark { time, thread, text, ..Mark::default() });
            }
            Line::Silent | Line::Operation(_) => {}
        }
        Ok(())
    }

    fn finish(mut self, path: &Path, program: &str) -> Result<(S, Metadata)> {
        match self.parser.finish() {
            Err(_) if self.repair => self.cut_off += 1,
            ended => ended.map_err(|fault| fault.at(path, self.line))?,
        }
        let timed = self.objects.is_timed();
        let (modules, stacks) = self.parser.into_stacks().into_parts();
        let mut remains = self.objects.finish();
        if self.cut_off > 0 {
            remains.repairs.insert("incomplete last line: left out".to_owned(), self.cut_off);
        }
        let metadata = Metadata {
            writer: format!("keel import ({}) {}", self.form.name(), env!("CARGO_PKG_VERSION")),
            program: program.to_owned(),
            clock: if timed { "text" } else { ORDER }.to_owned(),
            clock_hz: 1e9,
            threads: remains.threads,
            frames: remains.frames,
            marks: self.marks,
            foreign: remains.foreign,
            modules,
            stacks,
            repairs: remains.repairs,
            ..Metadata::default()
        };
        Ok((self.sink, metadata))
    }
}

/// The error for a text of no known form; it shows the first line.
fn unknown(text: &[u8], path: &Path) -> Error {
    let says_something =
        |line: &&[u8]| !line.trim_ascii().is_empty() && !line.trim_ascii().starts_with(b"#");
    let mut lines = text.split(|byte| *byte == b'\n').zip(1..);
    match lines.find(|(line, _)| says_something(line)) {
        None => Error::Empty { path: path.to_path_buf() },
        Some((line, number)) => Error::Unknown {
            path: path.to_path_buf(),
            line: number,
            found: text::quote(line.trim_ascii_end()),
            known: Form::ALL.map(Form::name).join(", "),
        },
    }
}

fn read_frames(path: &Path, options: &Options) -> Result<Vec<u64>> {
    let bytes = source::read_whole(path, options.limits)?;
    let mut frames = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let number = index as u64 + 1;
        let Some(time) = doom3::parse_frame(line).map_err(|fault| fault.at(path, number))? else {
            continue;
        };
        let last = frames.last().copied().unwrap_or(0);
        if time < last && !options.repair {
            let fault = Fault {
                expected: format!("a time of at least {last} ns, that of the frame above"),
                found: time.to_string(),
                advice: "Sort the frames, or let --repair do it",
                column: None,
            };
            return Err(fault.at(path, number));
        }
        frames.push(time);
    }
    frames.sort_unstable();
    Ok(frames)
}
