//! The thread that turns raw events into journals, behind the one that empties the rings.

use crate::assemble::{self, Assembler, Names, RowSink};
use crate::clock::Clock;
use crate::ring::RawEvent;
use keel_journal::{Event, Metadata, Writer, Written};
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Raw events that may wait between the two threads; beyond, the rings fill up and the program waits.
const BACKLOG_BYTES: usize = 256 << 20;

/// What to do next; `process` numbers the recorded processes.
pub enum Work {
    /// A process appeared, which began at `origin` ticks. Its journal is `writer`, or made at `path` when it has a row.
    Begin { process: usize, origin: u64, clock: Clock, path: PathBuf, writer: Option<Box<Writer>> },
    /// It runs another program now.
    Exec { process: usize, names: Names },
    /// Its rings held this.
    Rows(Rows),
    /// It is over.
    Finish { process: usize, metadata: Box<Metadata>, names: Names },
}

/// One reading of a process's rings.
pub struct Rows {
    /// Which.
    pub process: usize,
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
    failed: AtomicBool,
}

impl Encoder {
    /// Starts the thread. `on_failure` is called there when a journal can be written no further.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(on_failure: impl Fn() + Send + 'static) -> std::io::Result<Encoder> {
        let (work, receiver) = channel();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("journal writer".to_owned())
            .spawn(move || encode(&receiver, &theirs, &on_failure))?;
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

    /// Whether a journal could not be written further.
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Acquire)
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
}

impl RowSink for Output {
    fn push(&mut self, event: &Event) -> bool {
        if self.writer.is_none() && self.error.is_none() {
            match Writer::create(&self.path) {
                Ok(writer) => self.writer = Some(writer),
                Err(error) => self.error = Some(error),
            }
        }
        let Some(writer) = &mut self.writer else { return false };
        match writer.push(event) {
            Ok(()) => true,
            Err(error) => {
                self.error = Some(error);
                false
            }
        }
    }
}

fn encode(work: &Receiver<Work>, shared: &Shared, on_failure: &dyn Fn()) -> Vec<Finished> {
    let mut processes: FxHashMap<usize, (Assembler, Output)> = FxHashMap::default();
    let mut finished = Vec::new();
    while let Ok(work) = work.recv() {
        match work {
            Work::Begin { process, origin, clock, path, writer } => {
                let output = Output { path, writer: writer.map(|writer| *writer), error: None };
                processes.insert(process, (Assembler::new(clock, origin), output));
            }
            Work::Exec { process, names } => {
                if let Some((assembler, _)) = processes.get_mut(&process) {
                    assembler.exec(&names);
                }
            }
            Work::Rows(rows) => {
                if let Some((assembler, output)) = processes.get_mut(&rows.process) {
                    take_rows(assembler, output, &rows);
                    if !assembler.is_open() && !shared.failed.swap(true, AcqRel) {
                        on_failure();
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
    let facts = assembler.finish(names);
    let operations = facts.rows;
    assemble::describe(facts, &mut metadata);
    let Output { path, writer, error } = output;
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
    Finished { process, path, metadata, operations, written }
}
