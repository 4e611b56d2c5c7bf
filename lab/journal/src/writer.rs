//! Writes events to a journal file with bounded memory.

use crate::columns::Batch;
use crate::destination::Destination;
use crate::encoder::{Encoder, Options, Store};
use crate::place::{Place, PlacedFile, partial_path};
use crate::{Error, Event, FreeHint, Metadata, Op, Origin, Reader, Result, Thread};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// The result of [`Writer::finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Operations.
    pub rows: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// Writes a journal: [`Writer::create`], [`Writer::push`] for each event, [`Writer::finish`].
///
/// The writer writes to `<path>.partial`, and [`Writer::finish`] renames this file to `<path>`; of
/// a link, `<path>` is the file that it names. A writer that is dropped before that removes the
/// file. A writer that is killed leaves the file for [`crate::salvage`]; by default a later writer
/// does not overwrite it. Encoding runs on [`Options::encoding_threads`] threads of the writer. At
/// most two row groups wait for it (about 25 MB each with default options). The writer checks the
/// rules of [`Event`] that need no list of the live objects.
///
/// Call `finish` even after an error of the file system: it makes a valid journal of the rows that
/// were written.
pub struct Writer {
    path: PathBuf,
    options: Options,
    batch: Batch,
    rows: u64,
    objects: u64,
    last_time: u64,
    threads: usize,
    encoding: Encoding,
    /// The metadata of the last call of [`Writer::describe`].
    described: Metadata,
    /// Bytes that the encoder has written to the file.
    committed: Arc<AtomicU64>,
    /// The partial file exists, and this writer must remove it.
    open: bool,
    /// Row groups that [`Writer::cut`] ended.
    cuts: u64,
    place: Place,
}

type EncoderThread = JoinHandle<Result<Encoder>>;

/// The encoder runs on its own thread, or that thread has returned it.
enum Encoding {
    Running { full: SyncSender<Batch>, empty: Receiver<Batch>, thread: EncoderThread },
    Stopped(Box<Encoder>),
    Gone,
}

impl Writer {
    /// Starts a journal with the default options, those of a live recording.
    ///
    /// # Errors
    /// [`Error::Create`] when the file cannot be created. [`Error::Unfinished`] if
    /// `<path>.partial` exists.
    pub fn create(path: impl AsRef<Path>) -> Result<Writer> {
        Writer::with_options(path, Options::default())
    }

    /// Starts a journal.
    ///
    /// # Errors
    /// Those of [`Writer::create`], and [`Error::Encode`] for a level that zstd does not support.
    pub fn with_options(path: impl AsRef<Path>, options: Options) -> Result<Writer> {
        let path = path.as_ref().to_path_buf();
        let create_error = |cause| Error::Create { path: path.clone(), cause };
        let file = Destination::file(&path).map_err(create_error)?;
        let partial = partial_path(&file);
        if options.replace_partial {
            // If it cannot be removed, it cannot be created either.
            drop(std::fs::remove_file(&partial));
        }
        // A link with this name in a folder that others can write to is not followed.
        let place = Place::new(&file);
        let file = PlacedFile::create(&place).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::Unfinished { partial: partial.clone() },
            _ => create_error(error),
        })?;
        let writer = Writer::start(path, place, Box::new(file), options);
        if writer.is_err() {
            drop(std::fs::remove_file(partial));
        }
        writer
    }

    fn start(
        path: PathBuf,
        place: Place,
        store: Box<dyn Store>,
        options: Options,
    ) -> Result<Writer> {
        let options = Options { rows_per_group: options.rows_per_group.max(1), ..options };
        let committed = Arc::new(AtomicU64::new(0));
        let encoder = Encoder::new(store, &options, Arc::clone(&committed))?;
        let (full, full_receiver) = sync_channel::<Batch>(1);
        let (empty_sender, empty) = sync_channel::<Batch>(4);
        let thread = std::thread::Builder::new()
            .name("journal encoder".to_owned())
            .spawn(move || encode_all(encoder, &full_receiver, &empty_sender))
            .map_err(|cause| Error::Create { path: path.clone(), cause })?;
        Ok(Writer {
            path,
            options,
            batch: Batch::default(),
            rows: 0,
            objects: 0,
            last_time: 0,
            threads: 0,
            encoding: Encoding::Running { full, empty, thread },
            described: Metadata::default(),
            committed,
            open: true,
            cuts: 0,
            place,
        })
    }

    /// If the journal's folder disappears or its disk becomes full, the journal goes on in the
    /// first of these folders that can take it. [`Writer::place`] returns where it is.
    pub fn with_refuges(self, refuges: &[PathBuf]) -> Writer {
        self.place.set_refuges(refuges);
        self
    }

    /// Where the journal is, also after [`Writer::finish`].
    pub fn place(&self) -> Place {
        self.place.clone()
    }

    /// Returns the number of operations appended so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of objects created so far. The next event that creates an object has this
    /// number + 1 in `created`.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// Appends an event.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the event breaks a rule. The event is then not written, and the writer
    /// remains usable. [`Error::Write`] if the file system fails. After that only `finish` may be
    /// called.
    #[inline]
    pub fn push(&mut self, event: &Event) -> Result<()> {
        self.push_from(event, Origin::UNKNOWN)
    }

    /// Appends an event with its origin.
    ///
    /// # Errors
    /// Those of [`Writer::push`]. The caller must ensure that the metadata lists the module and the
    /// stack.
    #[inline]
    pub fn push_from(&mut self, event: &Event, origin: Origin) -> Result<()> {
        if self.breaks_rule(event) {
            return Err(Error::Invalid { row: self.rows, what: self.broken_rule(event) });
        }
        self.last_time = event.time;
        self.objects += u64::from(event.created != 0);
        self.threads = self.threads.max(event.thread as usize + 1);
        self.rows += 1;
        self.batch.push(event, origin);
        if self.batch.rows() >= self.options.rows_per_group {
            self.send_batch()?;
        }
        Ok(())
    }

    /// Returns true if the next event fills the row group, so that the row group is written.
    pub fn fills_group_next(&self) -> bool {
        self.batch.rows() + 1 >= self.options.rows_per_group
    }

    /// Returns the number of rows in the row group that is not yet full.
    pub fn rows_in_memory(&self) -> usize {
        self.batch.rows()
    }

    /// Returns the number of bytes written to the file, without the footer.
    pub fn bytes(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// Sets the metadata known so far. It is written with the current row group, so that
    /// [`crate::salvage`] finds it if this process is killed.
    pub fn describe(&mut self, metadata: Metadata) {
        self.described = self.complete(metadata);
        self.batch.description = Some(Box::new(self.described.clone()));
    }

    /// Ends the current row group even if it has few rows. This writes the rows to the file, from
    /// which they can be salvaged.
    ///
    /// # Errors
    /// As [`Writer::push`].
    pub fn cut(&mut self) -> Result<()> {
        if self.batch.rows() == 0 {
            return Ok(());
        }
        self.cuts += 1;
        self.send_batch()
    }

    /// Appends events in order.
    ///
    /// # Errors
    /// As [`Writer::push`]; the events before the invalid one are written.
    pub fn push_batch(&mut self, events: &[Event]) -> Result<()> {
        events.iter().try_for_each(|event| self.push(event))
    }

    #[inline]
    fn breaks_rule(&self, event: &Event) -> bool {
        let releases = match event.op {
            Op::Free => event.released != 0,
            Op::Realloc => true,
            _ => event.released == 0,
        };
        let in_order = (event.time >= self.last_time) & (event.begin <= event.time);
        let hint = (event.free_hint == FreeHint::NONE) | (event.op == Op::Free);
        let known = (event.created == self.next_object(event)) & (event.released <= self.objects);
        !(in_order & known & releases & !is_large(event) & hint)
    }

    /// Returns the object that the event must create, or 0 for none.
    #[inline]
    fn next_object(&self, event: &Event) -> u64 {
        if event.op.creates() { self.objects.wrapping_add(1) } else { 0 }
    }

    #[cold]
    fn broken_rule(&self, event: &Event) -> String {
        let created = self.next_object(event);
        if is_large(event) {
            format!("a number is too large for the format: {event:?}")
        } else if event.time < self.last_time {
            format!(
                "its time {} ns is before that of the row above, {} ns",
                event.time, self.last_time
            )
        } else if event.begin > event.time {
            format!("it begins at {} ns, after its time {} ns", event.begin, event.time)
        } else if event.created != created {
            format!("a {} must create object {created}, not {}", event.op.name(), event.created)
        } else if event.free_hint != FreeHint::NONE && event.op != Op::Free {
            format!("a {} cannot have the hint of a {}", event.op.name(), event.free_hint.name())
        } else if event.released > self.objects {
            format!("it releases object {}, but only {} were created", event.released, self.objects)
        } else {
            format!("a {} cannot release object {}", event.op.name(), event.released)
        }
    }

    fn send_batch(&mut self) -> Result<()> {
        self.batch.flush_pending();
        // Rows after the last description may be of threads that it does not list.
        let is_complete = self.described.threads.len() >= self.threads;
        if self.batch.description.is_none() || !is_complete {
            let described = std::mem::take(&mut self.described);
            self.describe(described);
        }
        let Encoding::Running { full, empty, .. } = &self.encoding else {
            return Err(self.stopped());
        };
        let next = empty.try_recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, next);
        if full.send(batch).is_ok() {
            return Ok(());
        }
        // The encoder ends early only if the store failed.
        self.join()?;
        Err(self.stopped())
    }

    /// Takes the encoder back from its thread.
    fn join(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.encoding, Encoding::Gone) {
            Encoding::Running { full, empty, thread } => {
                drop((full, empty));
                let encoder =
                    thread.join().map_err(|_| Error::Encode("the encoder failed".to_owned()))??;
                self.encoding = Encoding::Stopped(Box::new(encoder));
            }
            stopped => self.encoding = stopped,
        }
        Ok(())
    }

    fn stopped(&self) -> Error {
        let cause = match &self.encoding {
            Encoding::Stopped(encoder) => encoder.failure().map(copy_error),
            _ => None,
        };
        let cause = cause.unwrap_or_else(|| io::Error::other("the writer has stopped"));
        Error::Write { path: self.path.clone(), cause }
    }

    /// Writes the last rows and the footer, and renames the file. Sets the format version. If the
    /// metadata does not list all threads, adds the missing threads without names.
    ///
    /// # Errors
    /// [`Error::CutShort`] if the file system failed at some point. The file is then a valid
    /// journal of the first rows. [`Error::Write`] if not even such a journal could be written.
    /// Then no file remains.
    pub fn finish(mut self, metadata: Metadata) -> Result<Written> {
        if self.batch.rows() > 0 && matches!(self.encoding, Encoding::Running { .. }) {
            // A copy of the journal that lost its end can be salvaged with all metadata.
            self.describe(metadata.clone());
            match self.send_batch() {
                Ok(()) | Err(Error::Write { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.join()?;
        let Encoding::Stopped(encoder) = std::mem::replace(&mut self.encoding, Encoding::Gone)
        else {
            return Err(self.stopped());
        };
        let metadata = self.complete(metadata);
        let closed = encoder.close(&metadata)?;
        let write_error = |cause| Error::Write { path: self.path.clone(), cause };
        match closed.failure {
            Some(cause) if closed.rows == 0 => Err(write_error(cause)),
            failure => {
                if self.open {
                    self.place.finish().map_err(write_error)?;
                    self.open = false;
                    if failure.is_none() && self.has_small_groups(closed.rows) {
                        let cut = Written { rows: closed.rows, bytes: closed.bytes };
                        return Ok(unite(&self.place.path()).unwrap_or(cut));
                    }
                }
                match failure {
                    None => Ok(Written { rows: closed.rows, bytes: closed.bytes }),
                    Some(cause) => Err(Error::CutShort {
                        path: self.path.clone(),
                        rows: closed.rows,
                        lost: self.rows - closed.rows,
                        cause,
                    }),
                }
            }
        }
    }

    /// Whether row groups were ended before they were full, so that they take much more space.
    fn has_small_groups(&self, rows: u64) -> bool {
        const GROUPS_FEWEST: u64 = 3;
        const ROWS_FEWEST: u64 = 16_384;
        self.cuts >= GROUPS_FEWEST && rows / self.cuts < ROWS_FEWEST
    }

    fn complete(&self, mut metadata: Metadata) -> Metadata {
        metadata.version = metadata.format_version();
        if metadata.threads.len() < self.threads {
            metadata.threads.resize(self.threads, Thread::default());
        }
        metadata
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.join());
        if self.open {
            self.place.remove();
        }
    }
}

/// Writes the rows again in full row groups, and replaces the journal. After an error, the journal
/// is as it was.
fn unite(path: &Path) -> Result<Written> {
    let reader = Reader::open_any(path)?;
    let mut name = path.as_os_str().to_owned();
    name.push(".united");
    let options = Options { replace_partial: true, ..Options::default() };
    let mut writer = Writer::with_options(PathBuf::from(&name), options)?;
    writer.describe(reader.metadata().clone());
    let (mut batches, mut events, mut origins) = (reader.batches(), Vec::new(), Vec::new());
    while batches.next_with_origins(&mut events, &mut origins)? {
        for (event, origin) in events.iter().zip(&origins) {
            writer.push_from(event, *origin)?;
        }
    }
    let written = writer.finish(reader.metadata().clone())?;
    std::fs::rename(&name, path).map_err(|cause| {
        drop(std::fs::remove_file(&name));
        Error::Write { path: path.to_path_buf(), cause }
    })?;
    Ok(written)
}

fn encode_all(
    mut encoder: Encoder,
    full: &Receiver<Batch>,
    empty: &SyncSender<Batch>,
) -> Result<Encoder> {
    while let Ok(mut batch) = full.recv() {
        encoder.encode(&batch)?;
        if encoder.failure().is_some() {
            break;
        }
        batch.clear();
        // If the channel is full or closed, the buffer is no longer needed.
        drop(empty.try_send(batch));
    }
    Ok(encoder)
}

/// Returns true if a number is too large for the format.
#[inline]
fn is_large(event: &Event) -> bool {
    (event.time | event.size | event.align | hint_bits(event)) >> 63 != 0
        || (event.thread | event.frame) >> 31 != 0
}

/// Returns the bits of the values of a wrong hint.
#[inline]
fn hint_bits(event: &Event) -> u64 {
    event.free_hint.wrong_size().unwrap_or(0) | event.free_hint.wrong_align().unwrap_or(0)
}

fn copy_error(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(
        || io::Error::new(error.kind(), error.to_string()),
        io::Error::from_raw_os_error,
    )
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
