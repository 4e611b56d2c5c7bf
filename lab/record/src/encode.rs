//! The thread that turns raw events into journals, behind the one that empties the rings.

use crate::assemble::Assembler;
use crate::clock::Clock;
use crate::origins::Mapping;
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

/// Raw events that may wait between the two threads; beyond, the rings fill up and the program waits.
const BACKLOG_BYTES: usize = 256 << 20;

/// A row group is written when it has so many rows and is so old: more than that a killed recorder does not lose.
const CUT_ROWS: usize = 4096;
const CUT_AFTER: Duration = Duration::from_secs(10);
/// Then it is written however small it is.
const CUT_ALL_AFTER: Duration = Duration::from_secs(60);

/// What to do next; `process` numbers the recorded processes.
pub enum Work {
    /// A process appeared, which began at `origin` ticks. Its journal is `writer`, or made at `path` when it has a row.
    Begin(Box<Begin>),
    /// It runs another program now.
    Exec { process: usize, names: Names },
    /// Its rings held this.
    Rows(Rows),
    /// It is over.
    Finish { process: usize, metadata: Box<Metadata>, names: Names },
}

/// See [`Work::Begin`].
pub struct Begin {
    /// Which.
    pub process: usize,
    /// Ticks.
    pub origin: u64,
    /// The calibration so far.
    pub clock: Clock,
    /// The journal's.
    pub path: PathBuf,
    /// The journal, if it is begun already.
    pub writer: Option<Writer>,
    /// What is known of the process.
    pub metadata: Metadata,
    /// What becomes a row.
    pub filter: Filter,
    /// The journal ends when it has about so many bytes; 0: no limit.
    pub max_bytes: u64,
}

/// One reading of a process's rings.
pub struct Rows {
    /// Which.
    pub process: usize,
    /// Where the program's code lies now, if that has changed.
    pub maps: Option<Vec<Mapping>>,
    /// The latest calibration.
    pub clock: Clock,
    /// Noted before the rings were read.
    pub until: u64,
    /// Later events do not count.
    pub cut: Option<u64>,
    /// Ring by ring.
    pub rings: Vec<(u32, Vec<RawEvent>)>,
}

/// The journal of one process.
pub struct Finished {
    /// Which.
    pub process: usize,
    /// Where it lies; `None` when it had no operation and no file was asked for.
    pub path: Option<PathBuf>,
    /// What the metadata says, with threads, frames and counts.
    pub metadata: Metadata,
    /// Operations seen, whether or not they could be written.
    pub operations: u64,
    /// What became of the file.
    pub written: Result<Written, keel_journal::Error>,
    /// It ended at a limit, before the program did.
    pub limited: bool,
    /// It ended before its first row was wanted.
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
    /// Starts the thread. `on_end` is called there when a journal has all it can or shall take.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(on_end: impl Fn() + Send + 'static) -> std::io::Result<Encoder> {
        let (work, receiver) = channel();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("journal writer".to_owned())
            .spawn(move || encode(&receiver, &theirs, &on_end))?;
        Ok(Encoder { work, shared, thread })
    }

    /// Gives work.
    pub fn send(&self, work: Work) {
        if let Work::Rows(rows) = &work {
            self.shared.backlog.fetch_add(bytes_of(rows), AcqRel);
        }
        // The thread ends only when the sender is gone.
        drop(self.work.send(work));
    }

    /// Whether the rings should rather stay full.
    pub fn is_behind(&self) -> bool {
        self.shared.backlog.load(Acquire) > BACKLOG_BYTES
    }

    /// Whether a journal has all it can or shall take.
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

/// A journal that comes to be with its first row.
struct Output {
    path: PathBuf,
    writer: Option<Writer>,
    error: Option<keel_journal::Error>,
    metadata: Metadata,
    max_bytes: u64,
    cut: Instant,
}

impl Output {
    /// Lets no row group grow old.
    fn cut_old(&mut self, assembler: &Assembler) {
        let Some(writer) = &mut self.writer else { return };
        let (rows, age) = (writer.rows_in_memory(), self.cut.elapsed());
        if rows == 0 || age < CUT_AFTER || (rows < CUT_ROWS && age < CUT_ALL_AFTER) {
            return;
        }
        assembler.known(&mut self.metadata);
        writer.describe(self.metadata.clone());
        self.cut = Instant::now();
        // A full disk is seen again with the next row.
        drop(writer.cut());
    }
}

impl RowSink for Output {
    fn push(&mut self, event: &Event, origin: Origin, known: &dyn Fn(&mut Metadata)) -> Taken {
        if self.writer.is_none() && self.error.is_none() {
            match Writer::create(&self.path) {
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
        /// What a row in memory takes in the file, about.
        const ROW_BYTES: u64 = 3;
        let bytes = writer.bytes() + writer.rows_in_memory() as u64 * ROW_BYTES;
        if self.max_bytes > 0 && bytes >= self.max_bytes { Taken::Enough } else { Taken::More }
    }
}

fn encode(work: &Receiver<Work>, shared: &Shared, on_end: &dyn Fn()) -> Vec<Finished> {
    let mut processes: FxHashMap<usize, (Assembler, Output)> = FxHashMap::default();
    let mut finished = Vec::new();
    while let Ok(work) = work.recv() {
        match work {
            Work::Begin(begin) => {
                let Begin { process, origin, clock, path, writer, metadata, filter, max_bytes } = *begin;
                let cut = Instant::now();
                let output = Output { path, writer, error: None, metadata, max_bytes, cut };
                processes.insert(process, (Assembler::new(clock, origin, &filter), output));
            }
            Work::Exec { process, names } => {
                if let Some((assembler, _)) = processes.get_mut(&process) {
                    assembler.exec(&names);
                }
            }
            Work::Rows(rows) => {
                if let Some((assembler, output)) = processes.get_mut(&rows.process) {
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
            Work::Finish { process, metadata, names } => {
                if let Some((assembler, output)) = processes.remove(&process) {
                    finished.push(finish(process, assembler, output, *metadata, &names));
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
    if let Some(maps) = &rows.maps {
        assembler.map(maps);
    }
    for (ring, events) in &rows.rings {
        assembler.add(*ring as usize, events);
    }
    if let Some(ticks) = rows.cut {
        assembler.cut(ticks);
    }
    assembler.write(rows.clock, rows.until, output);
}

fn finish(
    process: usize,
    assembler: Assembler,
    output: Output,
    mut metadata: Metadata,
    names: &Names,
) -> Finished {
    let (limited, early) = (assembler.is_limited(), assembler.is_early());
    let facts = assembler.finish(names);
    let operations = facts.rows;
    rows::describe(facts, &mut metadata);
    let Output { path, writer, error, .. } = output;
    let (path, written) = match (writer, error) {
        // A fault of ours, not of the disk, is worth more than the journal's usual end.
        (Some(writer), Some(error @ keel_journal::Error::Invalid { .. })) => {
            drop(writer.finish(metadata.clone()));
            (Some(path), Err(error))
        }
        (Some(writer), _) => (Some(path), writer.finish(metadata.clone())),
        (None, Some(error)) => (Some(path), Err(error)),
        (None, None) => (None, Ok(Written { rows: 0, bytes: 0 })),
    };
    Finished { process, path, metadata, operations, written, limited, early }
}
