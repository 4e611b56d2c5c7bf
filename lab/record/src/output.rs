//! The journal of one image: what it begins with, the rows that it receives, and its end.

use crate::assemble::Assembler;
use crate::beside;
use crate::clock::Clock;
use crate::origins::Mapping;
use crate::paths;
use crate::ring::RawEvent;
use crate::rows::{self, Filter, Names, RowSink, Taken};
use crate::wait::Wait;
use keel_journal::{Event, Metadata, Origin, Writer, Written};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// At this age a row group is written. A killed recorder loses no more. `Writer::finish` unites
/// small row groups.
const CUT_AFTER: Duration = Duration::from_millis(500);
/// Likewise for samples, which are few and may be recorded for days.
const CUT_SAMPLES_AFTER: Duration = Duration::from_secs(60);

/// An image whose journal begins.
pub struct Begin {
    /// Number of the image.
    pub number: usize,
    /// Ticks.
    pub origin: u64,
    /// The calibration so far.
    pub clock: Clock,
    /// Path of the process's journal.
    pub process_path: PathBuf,
    /// Number of programs that the process executed before.
    pub image: u32,
    /// The journal, if it has been created already.
    pub writer: Option<Writer>,
    /// The facts known about the image.
    pub metadata: Metadata,
    /// Selects the rows.
    pub filter: Filter,
    /// The journal ends when it has about this many bytes; 0: no limit.
    pub max_bytes: u64,
    /// See [`crate::Options::refuges`].
    pub refuges: Vec<PathBuf>,
    /// See [`crate::Options::wait`].
    pub wait: Option<Wait>,
}

/// The events of one reading of an image's rings.
#[derive(Clone)]
pub struct Rows {
    /// Number of the image.
    pub number: usize,
    /// Where the program's code is mapped now, if that has changed.
    pub maps: Option<Vec<Mapping>>,
    /// The latest calibration.
    pub clock: Clock,
    /// The time before the rings were read, ticks.
    pub until: u64,
    /// Later events are dropped.
    pub cut: Option<u64>,
    /// Ring by ring.
    pub rings: Vec<(u32, Vec<RawEvent>)>,
}

/// The journal of one image.
pub struct Finished {
    /// As in [`Begin`].
    pub process_path: PathBuf,
    /// As in [`Begin`].
    pub image: u32,
    /// The file; `None` if there was no operation and no file was requested.
    pub path: Option<PathBuf>,
    /// The place where it could not stay.
    pub moved_from: Option<PathBuf>,
    /// Its metadata, with threads, frames and counts.
    pub metadata: Metadata,
    /// Operations seen, whether or not they could be written.
    pub operations: u64,
    /// Bytes that they requested.
    pub allocated_bytes: u64,
    /// From its first allocation to its end.
    pub seconds: f64,
    /// Size of the file, or why it is not complete.
    pub written: Result<Written, keel_journal::Error>,
    /// It ended at a limit, before the program did.
    pub limited: bool,
    /// The image ended before the first row was wanted.
    pub early: bool,
    /// The seconds that it covers, if they are fewer than wanted for lack of memory.
    pub shortened: Option<f64>,
}

/// A journal that is created with its first row.
pub struct Output {
    process_path: PathBuf,
    image: u32,
    path: PathBuf,
    pub seconds: f64,
    writer: Option<Writer>,
    error: Option<keel_journal::Error>,
    metadata: Metadata,
    max_bytes: u64,
    cut: Instant,
    refuges: Vec<PathBuf>,
}

impl Output {
    pub fn new(begin: Begin) -> Output {
        Output {
            path: paths::of_image(&begin.process_path, begin.image),
            process_path: begin.process_path,
            image: begin.image,
            seconds: 0.0,
            writer: begin.writer,
            error: None,
            metadata: begin.metadata,
            max_bytes: begin.max_bytes,
            cut: Instant::now(),
            refuges: begin.refuges,
        }
    }

    /// What was known when it began.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Creates the journal, in a refuge if its folder is gone or its disk is full.
    fn create(&mut self) -> Result<Writer, keel_journal::Error> {
        let mut created = Writer::create(&self.path);
        if created.is_err()
            && let Some(folder) = self.path.parent()
        {
            drop(std::fs::create_dir_all(folder));
            created = Writer::create(&self.path);
        }
        let name = self.path.file_name().unwrap_or_default().to_owned();
        for folder in &self.refuges {
            let path = folder.join(&name);
            if created.is_err()
                && !path.exists()
                && let Ok(writer) = Writer::create(path)
            {
                created = Ok(writer);
            }
        }
        created.map(|writer| writer.with_refuges(&self.refuges))
    }

    /// Writes the current row group if it is old.
    pub fn cut_old(&mut self, assembler: &Assembler) {
        let Some(writer) = &mut self.writer else { return };
        if writer.rows_in_memory() == 0 {
            self.cut = Instant::now();
        }
        let is_sampled = self.metadata.sample_bytes > 0;
        if self.cut.elapsed() < if is_sampled { CUT_SAMPLES_AFTER } else { CUT_AFTER } {
            return;
        }
        assembler.known(&mut self.metadata);
        writer.describe(self.metadata.clone());
        self.cut = Instant::now();
        // An error, for instance of a full disk, appears again with the next row.
        drop(writer.cut());
    }
}

impl RowSink for Output {
    fn push(&mut self, event: &Event, origin: Origin, known: &dyn Fn(&mut Metadata)) -> Taken {
        if self.writer.is_none() && self.error.is_none() {
            match self.create() {
                Ok(writer) => self.writer = Some(writer),
                Err(error) => self.error = Some(error),
            }
        }
        let Some(writer) = &mut self.writer else { return Taken::Failed };
        if writer.fills_group_next() {
            known(&mut self.metadata);
            writer.describe(self.metadata.clone());
            self.cut = Instant::now();
        }
        if let Err(error) = writer.push_from(event, origin) {
            self.error = Some(error);
            return Taken::Failed;
        }
        /// Approximate size in the file of a row in memory.
        const ROW_BYTES: u64 = 3;
        let bytes = writer.bytes() + writer.rows_in_memory() as u64 * ROW_BYTES;
        if self.max_bytes > 0 && bytes >= self.max_bytes { Taken::Enough } else { Taken::More }
    }
}

/// Applies the events of one reading.
pub fn take_rows(assembler: &mut Assembler, output: &mut dyn RowSink, rows: &Rows) {
    if !assembler.is_open() {
        return;
    }
    for (ring, events) in &rows.rings {
        assembler.add(*ring as usize, events);
    }
    // They were read after these rings, so they are later than the unloadings in them.
    if let Some(maps) = &rows.maps {
        assembler.map(maps);
    }
    if let Some(ticks) = rows.cut {
        assembler.cut(ticks);
    }
    assembler.write(rows.clock, rows.until, output);
}

/// Completes a journal.
pub fn finish(
    assembler: Assembler,
    output: Output,
    mut metadata: Metadata,
    names: &Names,
) -> Finished {
    let (limited, early) = (assembler.is_limited(), assembler.is_early());
    let left_out = assembler.left_out();
    metadata.memory.samples.retain(|sample| sample.time >= left_out);
    metadata.memory.samples.iter_mut().for_each(|sample| sample.time -= left_out);
    let facts = assembler.finish(names);
    let (operations, allocated_bytes) = (facts.rows, facts.allocated_bytes);
    rows::describe(facts, &mut metadata);
    beside::add_others(&mut metadata, &names.files);
    let Output { process_path, image, path: wanted, seconds, writer, error, .. } = output;
    let place = writer.as_ref().map(Writer::place);
    let written = match (writer, error) {
        // An invalid row is our fault, not the disk's; it is reported rather than the result of
        // `finish`.
        (Some(writer), Some(error @ keel_journal::Error::Invalid { .. })) => {
            drop(writer.finish(metadata.clone()));
            Some(Err(error))
        }
        (Some(writer), _) => Some(writer.finish(metadata.clone())),
        (None, Some(error)) => Some(Err(error)),
        (None, None) => None,
    };
    let path = written.is_some().then(|| place.map_or(wanted.clone(), |place| place.path()));
    let moved_from = path.as_ref().filter(|path| **path != wanted).map(|_| wanted);
    let written = written.unwrap_or(Ok(Written { rows: 0, bytes: 0 }));
    Finished {
        process_path,
        image,
        path,
        moved_from,
        metadata,
        operations,
        allocated_bytes,
        seconds,
        written,
        limited,
        early,
        shortened: None,
    }
}
