//! The encoder thread: converts raw events to journals. The collector thread reads the rings and
//! feeds it.

use crate::assemble::Assembler;
use crate::beside;
use crate::clock::Clock;
use crate::origins::Mapping;
use crate::paths;
use crate::ring::RawEvent;
use crate::rows::{self, Filter, Names, RowSink, Taken};
use keel_journal::{Event, Metadata, Origin, Writer, Written};
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of raw events that may wait between the two threads. Beyond this limit, the rings fill up
/// and the program waits.
const BACKLOG_BYTES: usize = 256 << 20;

/// At this age a row group is written. A killed recorder loses no more. `Writer::finish` unites
/// small row groups.
const CUT_AFTER: Duration = Duration::from_millis(500);

/// A message to the encoder; `number` is that of the recorded image.
pub enum Work {
    /// An image appeared, which began at `origin` ticks. Its journal is `writer`; without one, it
    /// is created with the first row.
    Begin(Box<Begin>),
    /// Events read from its rings.
    Rows(Rows),
    /// It has ended after `seconds`.
    Ended { number: usize, seconds: f64 },
    /// Its journal can be completed.
    Finish { number: usize, metadata: Box<Metadata>, names: Names },
}

/// See [`Work::Begin`].
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
}

/// The events of one reading of an image's rings.
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
}

/// Handle of the thread.
pub struct Encoder {
    work: Sender<Work>,
    shared: Arc<Shared>,
    thread: JoinHandle<Vec<Finished>>,
}

#[derive(Default)]
struct Shared {
    backlog: AtomicUsize,
    over: AtomicBool,
    operations: AtomicU64,
    live_bytes: AtomicU64,
}

impl Encoder {
    /// Starts the thread. It calls `on_end` when a journal has reached a limit or failed.
    ///
    /// # Errors The system cannot create the thread.
    pub fn start(on_end: impl Fn() + Send + 'static) -> std::io::Result<Encoder> {
        let (work, receiver) = channel();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("journal writer".to_owned())
            .spawn(move || encode(&receiver, &theirs, &on_end))?;
        Ok(Encoder { work, shared, thread })
    }

    /// Sends a message.
    pub fn send(&self, work: Work) {
        if let Work::Rows(rows) = &work {
            self.shared.backlog.fetch_add(bytes_of(rows), AcqRel);
        }
        // The thread ends only when the sender is gone.
        drop(self.work.send(work));
    }

    /// Whether the backlog is full, so that the rings should not be read.
    pub fn is_behind(&self) -> bool {
        self.shared.backlog.load(Acquire) > BACKLOG_BYTES
    }

    /// Whether a journal has reached a limit or failed.
    pub fn is_over(&self) -> bool {
        self.shared.over.load(Acquire)
    }

    /// Operations written, and bytes in live blocks, of all processes.
    pub fn progress(&self) -> (u64, u64) {
        (self.shared.operations.load(Relaxed), self.shared.live_bytes.load(Relaxed))
    }

    /// Waits for all work to be done.
    pub fn finish(self) -> Vec<Finished> {
        drop(self.work);
        self.thread.join().unwrap_or_default()
    }
}

fn bytes_of(rows: &Rows) -> usize {
    rows.rings.iter().map(|(_, events)| events.len() * size_of::<RawEvent>()).sum()
}

/// A journal that is created with its first row.
struct Output {
    process_path: PathBuf,
    image: u32,
    path: PathBuf,
    seconds: f64,
    writer: Option<Writer>,
    error: Option<keel_journal::Error>,
    metadata: Metadata,
    max_bytes: u64,
    cut: Instant,
    refuges: Vec<PathBuf>,
}

impl Output {
    fn new(begin: Begin) -> Output {
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
    fn cut_old(&mut self, assembler: &Assembler) {
        let Some(writer) = &mut self.writer else { return };
        if writer.rows_in_memory() == 0 {
            self.cut = Instant::now();
        }
        if self.cut.elapsed() < CUT_AFTER {
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

fn encode(work: &Receiver<Work>, shared: &Shared, on_end: &dyn Fn()) -> Vec<Finished> {
    let mut images: FxHashMap<usize, (Assembler, Output)> = FxHashMap::default();
    let mut finished = Vec::new();
    while let Ok(work) = work.recv() {
        match work {
            Work::Begin(begin) => {
                let assembler = Assembler::new(begin.clock, begin.origin, &begin.filter);
                images.insert(begin.number, (assembler, Output::new(*begin)));
            }
            Work::Ended { number, seconds } => {
                if let Some((_, output)) = images.get_mut(&number) {
                    output.seconds = seconds;
                }
            }
            Work::Rows(rows) => {
                if let Some((assembler, output)) = images.get_mut(&rows.number) {
                    let before = assembler.progress();
                    take_rows(assembler, output, &rows);
                    output.cut_old(assembler);
                    let after = assembler.progress();
                    shared.operations.fetch_add(after.0.wrapping_sub(before.0), Relaxed);
                    shared.live_bytes.fetch_add(after.1.wrapping_sub(before.1), Relaxed);
                    if !assembler.is_open() && !shared.over.swap(true, AcqRel) {
                        on_end();
                    }
                }
                shared.backlog.fetch_sub(bytes_of(&rows), Release);
            }
            Work::Finish { number, metadata, names } => {
                if let Some((assembler, output)) = images.remove(&number) {
                    finished.push(finish(assembler, output, *metadata, &names));
                }
            }
        }
    }
    finished
}

fn take_rows(assembler: &mut Assembler, output: &mut Output, rows: &Rows) {
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

fn finish(assembler: Assembler, output: Output, mut metadata: Metadata, names: &Names) -> Finished {
    let (limited, early) = (assembler.is_limited(), assembler.is_early());
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
    }
}

/// Gives the name of each process to the journal of its image that requested the most bytes.
/// Operations are no measure: a script's launchers parse text in many small blocks.
///
/// # Errors
/// The text says which file cannot be renamed. All journals exist then, some under their earlier
/// names.
pub fn name_by_bytes(finished: &mut [Finished]) -> Result<(), String> {
    let mut processes: FxHashMap<PathBuf, Vec<usize>> = FxHashMap::default();
    for (index, one) in finished.iter().enumerate() {
        processes.entry(one.process_path.clone()).or_default().push(index);
    }
    for (path, images) in processes {
        // A journal that had to move keeps the name that it has there.
        let is_here = |one: &Finished| one.path.is_some() && one.moved_from.is_none();
        let written = || images.iter().copied().filter(|index| is_here(&finished[*index]));
        // Of several with equal numbers the first.
        let most = written().rev().max_by_key(|index| finished[*index].allocated_bytes);
        let Some(most) = most.filter(|index| finished[*index].image != 0) else { continue };
        let failed = |error| format!("cannot rename a journal to {}: {error}", path.display());
        if let Some(first) = written().find(|index| finished[*index].image == 0) {
            // The recorder created this file before the program began.
            if finished[first].operations == 0 {
                finished[first].path = None;
            } else {
                let other = paths::of_other_image(&path, 0);
                std::fs::rename(&path, &other).map_err(failed)?;
                finished[first].path = Some(other);
            }
        }
        std::fs::rename(paths::of_image(&path, finished[most].image), &path).map_err(failed)?;
        finished[most].path = Some(path);
    }
    Ok(())
}
