//! An excerpt of a journal that replays like that part of the whole: the blocks that are live at
//! its start become its prologue.

use crate::encoder::Options;
use crate::{
    Error, Event, Mark, Memory, MemorySample, Metadata, Op, Origin, Reader, Result, Writer, Written,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The part of a journal to keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The first time, ns since the start of the journal.
    pub from: u64,
    /// The first time after the excerpt; None for the end of the journal.
    pub to: Option<u64>,
    /// The threads, as indices into [`Metadata::threads`]; None for all. An operation of another
    /// thread is kept if it concerns a block that one of these threads allocates, resizes or frees.
    pub threads: Option<BTreeSet<u32>>,
}

/// An excerpt that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sliced {
    /// The file.
    pub written: Written,
    /// Blocks that are live at its start. They are rows too.
    pub prologue: u64,
    /// Frame marks inside.
    pub frames: u64,
    /// Threads.
    pub threads: u64,
}

/// Writes the selected part of a journal to `output`. `progress` receives the number of rows read.
/// Returns None if no operation is selected; then nothing is written. It needs memory for the
/// blocks that are live at the same time and, if threads are selected, one bit for each object.
///
/// # Errors
/// Those of the reader and of the writer.
pub fn slice(
    reader: &Reader,
    selection: &Selection,
    output: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<Sliced>> {
    let mut blocks = match &selection.threads {
        Some(threads) => Some(selected_blocks(reader, selection, threads, progress)?),
        None => None,
    };
    let mut slicer = Slicer::new(selection.clone(), reader.metadata(), output)?;
    each_row(reader, selection, progress, &mut |row, event, origin| {
        let keeps = match (&mut blocks, &selection.threads) {
            (Some(blocks), Some(threads)) => blocks.keeps(event, threads),
            _ => true,
        };
        if keeps { slicer.add(row, event, origin) } else { Ok(()) }
    })?;
    slicer.finish()
}

/// Writes the whole journal as successive excerpts of `operations` rows each, or a few more: rows
/// of the same time stay together. `path` returns the file of each. The journal is read once. It
/// needs memory for the blocks that are live at the same time.
///
/// # Errors
/// Those of the reader and of the writer.
pub fn slice_every(
    reader: &Reader,
    operations: u64,
    path: &dyn Fn(u64) -> PathBuf,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Sliced>> {
    let mut windows = Windows {
        source: reader.metadata(),
        operations: operations.max(1),
        path,
        live: FxHashMap::default(),
        open: None,
        rows: 0,
        last_time: 0,
        finished: Vec::new(),
    };
    each_row(reader, &Selection::default(), progress, &mut |row, event, origin| {
        windows.add(row, event, origin)
    })?;
    windows.close(None)?;
    Ok(windows.finished)
}

/// The state of [`slice_every`].
struct Windows<'a> {
    source: &'a Metadata,
    operations: u64,
    path: &'a dyn Fn(u64) -> PathBuf,
    /// The live blocks by their number in the source.
    live: FxHashMap<u64, (Event, Origin)>,
    /// The excerpt that is being written.
    open: Option<Slicer<'a>>,
    /// Its rows without its prologue, and the time of the last one.
    rows: u64,
    last_time: u64,
    finished: Vec<Sliced>,
}

impl<'a> Windows<'a> {
    fn add(&mut self, row: u64, event: &Event, origin: Origin) -> Result<()> {
        if row >= self.source.prologue {
            if self.rows >= self.operations && event.time > self.last_time {
                self.close(Some(event.time))?;
            }
            let mut slicer = match self.open.take() {
                Some(slicer) => slicer,
                None => self.begun(event.time)?,
            };
            slicer.push(event, origin)?;
            self.open = Some(slicer);
            (self.rows, self.last_time) = (self.rows + 1, event.time);
        }
        self.live.remove(&event.released);
        if event.created != 0 {
            self.live.insert(event.created, (*event, origin));
        }
        Ok(())
    }

    /// A new excerpt whose first row has this time; the first one begins with the journal.
    fn begun(&self, time: u64) -> Result<Slicer<'a>> {
        let index = self.finished.len() as u64;
        let from = if index == 0 { 0 } else { time };
        let selection = Selection { from, ..Selection::default() };
        let mut slicer = Slicer::new(selection, self.source, &(self.path)(index))?;
        slicer.early = Some(self.live.clone());
        slicer.begin()?;
        Ok(slicer)
    }

    /// Finishes the excerpt that is being written.
    fn close(&mut self, to: Option<u64>) -> Result<()> {
        if let Some(mut slicer) = self.open.take() {
            slicer.selection.to = to;
            self.finished.extend(slicer.finish()?);
        }
        self.rows = 0;
        Ok(())
    }
}

/// Calls `take` with the number, the event and the origin of each row before the end of the
/// selection.
fn each_row(
    reader: &Reader,
    selection: &Selection,
    progress: &mut dyn FnMut(u64),
    take: &mut dyn FnMut(u64, &Event, Origin) -> Result<()>,
) -> Result<()> {
    let (mut batches, mut row) = (reader.batches(), 0);
    let (mut events, mut origins) = (Vec::new(), Vec::new());
    while batches.next_with_origins(&mut events, &mut origins)? {
        for (event, origin) in events.iter().zip(&origins) {
            if selection.to.is_some_and(|to| event.time >= to) {
                return Ok(());
            }
            take(row, event, *origin)?;
            row += 1;
        }
        progress(row);
    }
    Ok(())
}

fn selected_blocks(
    reader: &Reader,
    selection: &Selection,
    threads: &BTreeSet<u32>,
    progress: &mut dyn FnMut(u64),
) -> Result<Blocks> {
    let mut blocks = Blocks::default();
    each_row(reader, selection, progress, &mut |_, event, _| {
        blocks.note(event, threads);
        Ok(())
    })?;
    blocks.roots.clear();
    Ok(blocks)
}

/// The blocks that the selected threads use. A block that is resized counts as one block: the first
/// object of its chain of reallocs, its root, represents it.
#[derive(Default)]
struct Blocks {
    /// For each live object, its root.
    roots: FxHashMap<u64, u64>,
    /// Bit n: a selected thread uses the block with root n.
    used: Vec<u64>,
}

impl Blocks {
    /// The root of the block that an operation concerns; None if it concerns no recorded block.
    fn root(&mut self, event: &Event) -> Option<u64> {
        let released = self.roots.remove(&event.released);
        if event.created == 0 {
            return released;
        }
        let root = released.unwrap_or(event.created);
        self.roots.insert(event.created, root);
        Some(root)
    }

    fn note(&mut self, event: &Event, threads: &BTreeSet<u32>) {
        let root = self.root(event);
        if let Some(root) = root.filter(|_| threads.contains(&event.thread)) {
            let word = (root / 64) as usize;
            self.used.resize(self.used.len().max(word + 1), 0);
            self.used[word] |= 1 << (root % 64);
        }
    }

    /// Whether a row is kept. Must be called with every row, in order.
    fn keeps(&mut self, event: &Event, threads: &BTreeSet<u32>) -> bool {
        let used = self.root(event).is_some_and(|root| {
            self.used.get((root / 64) as usize).is_some_and(|word| word & 1 << (root % 64) != 0)
        });
        used || threads.contains(&event.thread)
    }
}

/// Writes the excerpt.
struct Slicer<'a> {
    selection: Selection,
    source: &'a Metadata,
    writer: Writer,
    /// Frame marks of the source up to the start.
    frames_before: u32,
    /// Until the first row of the excerpt: the live blocks by their number in the source.
    early: Option<FxHashMap<u64, (Event, Origin)>>,
    /// The numbers of live blocks: in the source, and in the excerpt.
    numbers: FxHashMap<u64, u64>,
    /// The threads of the excerpt, by their index in the source, in the order of their appearance.
    threads: Vec<u32>,
    thread_indices: FxHashMap<u32, u32>,
    prologue: u64,
    foreign: u64,
}

impl<'a> Slicer<'a> {
    fn new(selection: Selection, source: &'a Metadata, output: &Path) -> Result<Slicer<'a>> {
        let before = source.frames.partition_point(|mark| *mark <= selection.from);
        Ok(Slicer {
            selection,
            source,
            writer: Writer::with_options(output, Options::default())?,
            frames_before: before as u32,
            early: Some(FxHashMap::default()),
            numbers: FxHashMap::default(),
            threads: Vec::new(),
            thread_indices: FxHashMap::default(),
            prologue: 0,
            foreign: 0,
        })
    }

    fn add(&mut self, row: u64, event: &Event, origin: Origin) -> Result<()> {
        let is_early = row < self.source.prologue || event.time < self.selection.from;
        match &mut self.early {
            Some(early) if is_early => {
                early.remove(&event.released);
                if event.created != 0 {
                    early.insert(event.created, (*event, origin));
                }
                Ok(())
            }
            _ => {
                self.begin()?;
                self.push(event, origin)
            }
        }
    }

    /// Writes the live blocks, in the order of their allocation.
    fn begin(&mut self) -> Result<()> {
        let Some(early) = self.early.take() else { return Ok(()) };
        let mut blocks: Vec<(Event, Origin)> = early.into_values().collect();
        blocks.sort_unstable_by_key(|(event, _)| event.created);
        self.prologue = blocks.len() as u64;
        for (event, origin) in blocks {
            let op = match event.op {
                Op::Calloc | Op::Aligned => event.op,
                _ => Op::Malloc,
            };
            let Event { size, align, .. } = event;
            let (thread, created) = (self.thread(event.thread), self.number(event.created));
            let row = Event { thread, size, align, created, ..Event::at(0, op) };
            self.writer.push_from(&row, origin)?;
        }
        Ok(())
    }

    fn push(&mut self, event: &Event, origin: Origin) -> Result<()> {
        let from = self.selection.from;
        let released = self.numbers.remove(&event.released).unwrap_or(0);
        let created = if event.created == 0 { 0 } else { self.number(event.created) };
        self.foreign += u64::from(matches!(event.op, Op::ForeignFree | Op::ForeignRealloc));
        let row = Event {
            // The times of a damaged journal may decrease: then the writer reports an error.
            time: event.time.saturating_sub(from),
            // A realloc that began before the start begins at the start.
            begin: event.begin.saturating_sub(from),
            thread: self.thread(event.thread),
            created,
            released,
            frame: event.frame.saturating_sub(self.frames_before),
            ..*event
        };
        self.writer.push_from(&row, origin)
    }

    /// The number of the next object of the excerpt.
    fn number(&mut self, object: u64) -> u64 {
        let number = self.writer.objects() + 1;
        self.numbers.insert(object, number);
        number
    }

    /// The index of a thread in the excerpt.
    fn thread(&mut self, index: u32) -> u32 {
        *self.thread_indices.entry(index).or_insert_with(|| {
            self.threads.push(index);
            self.threads.len() as u32 - 1
        })
    }

    fn finish(mut self) -> Result<Option<Sliced>> {
        if self.early.is_some() {
            // No operation: the unfinished file is removed with its writer.
            return Ok(None);
        }
        let metadata = self.metadata();
        let (prologue, frames) = (self.prologue, metadata.frames.len() as u64);
        let threads = metadata.threads.len() as u64;
        let written = self.writer.finish(metadata)?;
        Ok(Some(Sliced { written, prologue, frames, threads }))
    }

    fn metadata(&mut self) -> Metadata {
        let selection = std::mem::take(&mut self.selection);
        let Selection { from, to, threads } = &selection;
        let is_before_end = |time: u64| to.is_none_or(|to| time < to);
        let inside = |time: &u64| *time > *from && is_before_end(*time);
        let chosen = |mark: &&Mark| {
            mark.time >= *from
                && is_before_end(mark.time)
                && threads.as_ref().is_none_or(|threads| threads.contains(&mark.thread))
        };
        let mut marks = Vec::new();
        for mark in self.source.marks.iter().filter(chosen) {
            let thread = self.thread(mark.thread);
            marks.push(Mark { time: mark.time - from, thread, ..mark.clone() });
        }
        let known =
            |index: &u32| self.source.threads.get(*index as usize).cloned().unwrap_or_default();
        Metadata {
            writer: format!("keel slice {}", env!("CARGO_PKG_VERSION")),
            threads: self.threads.iter().map(known).collect(),
            frames: self
                .source
                .frames
                .iter()
                .filter(|time| inside(time))
                .map(|t| t - from)
                .collect(),
            marks,
            foreign: self.foreign,
            prologue: self.prologue,
            ended: match to {
                Some(_) => "still running".to_owned(),
                None => self.source.ended.clone(),
            },
            memory: Memory {
                samples: self
                    .source
                    .memory
                    .samples
                    .iter()
                    .filter(|sample| inside(&sample.time))
                    .map(|sample| MemorySample { time: sample.time - from, ..*sample })
                    .collect(),
                ..self.source.memory
            },
            // The waits of the part are not known.
            stalls: 0,
            stalled_ns: 0,
            ..self.source.clone()
        }
    }
}

/// The times of a range of frames, the last included, as [`Selection::from`] and
/// [`Selection::to`]. Frame 0 is before the first mark.
///
/// # Errors
/// A frame that the journal does not have.
pub fn frame_times(metadata: &Metadata, first: u64, last: u64) -> Result<(u64, Option<u64>)> {
    let marks = &metadata.frames;
    let count = marks.len() as u64;
    if first > last || last > count {
        let asked = format!("{first}..{last}");
        return Err(Error::NoFrame { asked, last: count });
    }
    let start = |frame: u64| match frame {
        0 => Some(0),
        _ => marks.get(frame as usize - 1).copied(),
    };
    Ok((start(first).unwrap_or(0), start(last + 1)))
}
