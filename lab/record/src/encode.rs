//! The encoder thread: converts raw events to journals. The collector thread reads the rings and
//! feeds it.

use crate::Options;
use crate::assemble::Assembler;
use crate::output::{Begin, Finished, Output, Rows, finish, take_rows};
use crate::paths;
use crate::recent::{Recent, Write};
use crate::ring::RawEvent;
use crate::rows::Names;
use crate::watch::{Snapshot, Watching};
use keel_journal::Metadata;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of raw events that may wait between the two threads. Beyond this limit, the rings fill up
/// and the program waits.
const BACKLOG_BYTES: usize = 256 << 20;
/// Likewise for a recording that waits, which may run for days beside the program.
const WAITING_BACKLOG_BYTES: usize = 16 << 20;

/// A message to the encoder; `number` is that of the recorded image.
pub enum Work {
    /// An image appeared, which began at `origin` ticks. Its journal is `writer`; without one, it
    /// is created with the first row.
    Begin(Box<Begin>),
    /// Events read from its rings.
    Rows(Rows),
    /// It has ended, or the recording has, `seconds` after its first allocation.
    Ended {
        number: usize,
        seconds: f64,
    },
    /// Of a recording that waits: write the last seconds, begin a journal, end it.
    Write {
        number: usize,
        write: Box<Write>,
    },
    Open {
        number: usize,
        begin: Box<Begin>,
    },
    Close {
        number: usize,
        metadata: Box<Metadata>,
        names: Names,
    },
    /// Its journal can be completed.
    Finish {
        number: usize,
        metadata: Box<Metadata>,
        names: Names,
    },
}

/// Handle of the thread.
pub struct Encoder {
    work: Sender<Work>,
    shared: Arc<Shared>,
    backlog_bytes: usize,
    thread: JoinHandle<Vec<Finished>>,
}

#[derive(Default)]
struct Shared {
    backlog: AtomicUsize,
    over: AtomicBool,
    operations: AtomicU64,
    live_bytes: AtomicU64,
    kept_bytes: AtomicUsize,
    watched: Mutex<Vec<Snapshot>>,
}

impl Shared {
    fn watched(&self) -> MutexGuard<'_, Vec<Snapshot>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Encoder {
    /// Starts the thread. It calls `on_end` when a journal has reached a limit or failed.
    ///
    /// # Errors The system cannot create the thread.
    pub fn start(
        options: &Options,
        on_end: impl Fn() + Send + 'static,
    ) -> std::io::Result<Encoder> {
        let waits = options.wait.is_some();
        let watch = options.watch.as_ref().map(|watch| watch.interval);
        let (work, receiver) = channel();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("journal writer".to_owned())
            .spawn(move || encode(&receiver, &theirs, &on_end, watch))?;
        let backlog_bytes = if waits { WAITING_BACKLOG_BYTES } else { BACKLOG_BYTES };
        Ok(Encoder { work, shared, backlog_bytes, thread })
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
        self.shared.backlog.load(Acquire) > self.backlog_bytes
    }

    /// Whether a journal has reached a limit or failed.
    pub fn is_over(&self) -> bool {
        self.shared.over.load(Acquire)
    }

    /// Operations written, and bytes in live blocks, of all processes.
    pub fn progress(&self) -> (u64, u64) {
        (self.shared.operations.load(Relaxed), self.shared.live_bytes.load(Relaxed))
    }

    /// The sums of a watched program since the last call.
    pub fn watched(&self) -> Vec<Snapshot> {
        std::mem::take(&mut *self.shared.watched())
    }

    /// Waits for all work to be done. Also returns the most memory that the recent events of
    /// recordings that wait have taken, bytes, and the last sums of a watched program.
    pub fn finish(self) -> (Vec<Finished>, usize, Vec<Snapshot>) {
        drop(self.work);
        let finished = self.thread.join().unwrap_or_default();
        let watched = std::mem::take(&mut *self.shared.watched());
        (finished, self.shared.kept_bytes.load(Relaxed), watched)
    }
}

fn bytes_of(rows: &Rows) -> usize {
    rows.rings.iter().map(|(_, events)| events.len() * size_of::<RawEvent>()).sum()
}

/// The images by their number: those that are recorded, and those that wait.
#[derive(Default)]
struct Images {
    /// The interval, if images are watched.
    watch: Option<Duration>,
    recorded: FxHashMap<usize, (Assembler, Output)>,
    waiting: FxHashMap<usize, Recent>,
    watched: FxHashMap<usize, Watching>,
    finished: Vec<Finished>,
}

fn encode(
    work: &Receiver<Work>,
    shared: &Shared,
    on_end: &dyn Fn(),
    watch: Option<Duration>,
) -> Vec<Finished> {
    let mut images = Images { watch, ..Images::default() };
    while let Ok(work) = work.recv() {
        match work {
            Work::Begin(begin) => images.begin(*begin),
            Work::Ended { number, seconds } => {
                if let Some((assembler, output)) = images.recorded.get_mut(&number) {
                    output.seconds = match assembler.is_limited() {
                        true => assembler.last_moment() as f64 / 1e9,
                        false => seconds - assembler.left_out() as f64 / 1e9,
                    };
                }
            }
            Work::Rows(rows) => {
                let bytes = bytes_of(&rows);
                images.rows(rows, shared, on_end);
                shared.backlog.fetch_sub(bytes, Release);
            }
            Work::Write { number, write } => {
                let written = images.waiting.get(&number).map(|recent| recent.write(*write));
                images.finished.extend(written);
            }
            Work::Open { number, begin } => {
                if let Some(recent) = images.waiting.get_mut(&number) {
                    recent.open(*begin);
                }
            }
            Work::Close { number, metadata, names } => {
                let recent = images.waiting.get_mut(&number);
                let closed = recent.and_then(|recent| recent.close(*metadata, &names));
                images.finished.extend(closed);
            }
            Work::Finish { number, metadata, names } => {
                images.finish(number, *metadata, &names, shared);
            }
        }
    }
    images.finished
}

impl Images {
    fn begin(&mut self, begin: Begin) {
        if let Some(wait) = &begin.wait {
            self.waiting.insert(begin.number, Recent::new(&begin, wait));
            return;
        }
        if self.watch.is_some() {
            self.watched.insert(begin.number, Watching::new(&begin));
            return;
        }
        let assembler = Assembler::new(begin.clock, begin.origin, &begin.filter);
        self.recorded.insert(begin.number, (assembler, Output::new(begin)));
    }

    fn rows(&mut self, rows: Rows, shared: &Shared, on_end: &dyn Fn()) {
        if let Some(recent) = self.waiting.get_mut(&rows.number) {
            recent.take(rows);
            shared.live_bytes.store(recent.live_bytes(), Relaxed);
            shared.kept_bytes.fetch_max(recent.kept_bytes(), Relaxed);
            return;
        }
        if let Some(watching) = self.watched.get_mut(&rows.number) {
            watching.take(rows);
            if self.watch.is_some_and(|watch| watching.is_due(watch)) {
                shared.watched().push(watching.snapshot());
            }
            return;
        }
        let Some((assembler, output)) = self.recorded.get_mut(&rows.number) else { return };
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

    fn finish(&mut self, number: usize, metadata: Metadata, names: &Names, shared: &Shared) {
        if let Some(mut watching) = self.watched.remove(&number) {
            shared.watched().push(watching.snapshot());
            return;
        }
        if let Some(mut recent) = self.waiting.remove(&number) {
            self.finished.extend(recent.close(metadata, names));
        } else if let Some((assembler, output)) = self.recorded.remove(&number) {
            self.finished.push(finish(assembler, output, metadata, names));
        }
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
