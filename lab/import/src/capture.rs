//! Captures the trace that a running program prints: line by line, mixed with its other output.

use crate::error::Refusal;
use crate::forms::{Guess, Line, Parser, of_line};
use crate::objects::Objects;
use crate::overlaps::{Overlap, Overlaps};
use crate::{Error, Form, Options, Result, text};
use keel_journal::{Mark, Metadata, Writer};
use std::collections::BTreeMap;
use std::path::Path;

/// Writes a journal of the traces in a program's output. No line is an error: a line that is not a
/// trace becomes a marker, and contradictions are repaired and counted.
pub struct Capture {
    writer: Writer,
    objects: Objects,
    parser: Option<(Form, Parser)>,
    process: Option<u64>,
    program: String,
    overlaps: Overlaps,
    marks: Vec<Mark>,
    line: u64,
}

/// The kind of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A trace, or an ignored line.
    Trace,
    /// A trace of an allocation that overlaps a live block.
    Overlap(Overlap),
    /// Other output of the program, now a marker.
    Marker,
}

/// The result of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The form of the traces.
    pub form: Form,
    /// Operations in the journal.
    pub rows: u64,
    /// Size of the journal, bytes.
    pub bytes: u64,
    /// Markers.
    pub marks: u64,
    /// Allocations that overlapped a live block.
    pub overlaps: u64,
    /// Repairs by kind.
    pub repairs: BTreeMap<String, u64>,
}

impl Capture {
    /// Creates the journal file `output`.
    ///
    /// # Errors The file cannot be created.
    pub fn create(output: &Path, options: &Options) -> Result<Capture> {
        // The output of a program cannot be captured again.
        let journal = keel_journal::Options { replace_partial: false, ..options.journal() };
        let parser = options.form.map(|form| (form, Parser::new(form, options.process)));
        Ok(Capture {
            writer: Writer::with_options(output, journal)?,
            objects: Objects::new(true, Vec::new()),
            parser,
            process: options.process,
            program: options.program.clone(),
            overlaps: Overlaps::default(),
            marks: Vec::new(),
            line: 0,
        })
    }

    /// Reads the next line, given without its line break. The first line that only one form has
    /// determines the form.
    ///
    /// # Errors Only those of writing the journal.
    pub fn take(&mut self, line: &[u8]) -> Result<Heard> {
        self.line += 1;
        if self.parser.is_none()
            && let Guess::Surely(form) = of_line(line)
        {
            self.parser = Some((form, Parser::new(form, self.process)));
        }
        let Some((_, parser)) = &mut self.parser else { return Ok(self.mark(line)) };
        match parser.parse(line) {
            Ok(Line::Silent | Line::OtherProcess) => Ok(Heard::Trace),
            Ok(Line::ThreadEnds(id)) => {
                self.objects.end_thread(id);
                Ok(Heard::Trace)
            }
            Ok(Line::Operation(record)) => {
                self.objects.adapt_once(parser);
                let overlap = self.overlaps.check(&record, self.line);
                // With repairs, no line is refused.
                if let Err(Refusal::Journal(error)) = self.objects.apply(&record, &mut self.writer)
                {
                    return Err(error);
                }
                Ok(overlap.map_or(Heard::Trace, Heard::Overlap))
            }
            Ok(Line::Mark) | Err(_) => Ok(self.mark(line)),
        }
    }

    fn mark(&mut self, line: &[u8]) -> Heard {
        let line = text::without_byte_order_marks(line).trim_ascii_end();
        if line.is_empty() {
            return Heard::Marker;
        }
        let text = String::from_utf8_lossy(line).into_owned();
        self.marks.push(Mark {
            time: self.objects.now(),
            thread: self.objects.current_thread(),
            text,
            ..Mark::default()
        });
        Heard::Marker
    }

    /// Ends the capture.
    ///
    /// # Errors [`Error::Empty`] if there was no trace, and those of writing the journal.
    pub fn finish(self) -> Result<Captured> {
        let Some((form, _)) = self.parser.filter(|_| self.writer.rows() > 0) else {
            return Err(Error::Empty { path: "standard input".into() });
        };
        let timed = self.objects.is_timed();
        let remains = self.objects.finish();
        let metadata = Metadata {
            writer: format!("keel capture ({}) {}", form.name(), env!("CARGO_PKG_VERSION")),
            program: self.program,
            clock: if timed { "text" } else { "order" }.to_owned(),
            clock_hz: 1e9,
            threads: remains.threads,
            marks: self.marks,
            foreign: remains.foreign,
            repairs: remains.repairs.clone(),
            ..Metadata::default()
        };
        let (marks, overlaps) = (metadata.marks.len() as u64, self.overlaps.count());
        let written = self.writer.finish(metadata)?;
        let (rows, bytes, repairs) = (written.rows, written.bytes, remains.repairs);
        Ok(Captured { form, rows, bytes, marks, overlaps, repairs })
    }
}
