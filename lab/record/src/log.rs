//! Imports the file that a program wrote with `keel/recorder.h` (`journal/ring.h`, chunks).
//!
//! The chunks of each ring are in order; chunks of different rings are not. So the rings are
//! merged: of the rings with further chunks, the one whose last event is the earliest is read next.
//! Then rows are written up to shortly before the earliest of these last events. Not up to that
//! time itself, because the next chunk of that ring may begin at the same time, with events that
//! others depend on: the counters of many arm64 machines do not change for 40 ns, which is three
//! calls of malloc. Memory: a chunk for each ring, and the events between the positions of the
//! rings.

use crate::assemble::{Assembler, SKEW_NS};
use crate::clock::{Clock, Moment};
use crate::filter;
use crate::origins;
use crate::ring::{self, RawEvent, SpoolHeader};
use crate::rows::{self, Filter, Names, RowSink, Taken};
use crate::spool::{Spool, arguments, text};
use keel_journal::{Event, Metadata, Origin, Writer};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// The result of [`import_log`].
#[derive(Clone, Debug)]
pub struct Imported {
    /// Operations.
    pub rows: u64,
    /// Size of the journal.
    pub bytes: u64,
    /// The metadata in the journal's footer.
    pub metadata: Metadata,
    /// The program ended the recording; otherwise it crashed.
    pub ended_in_order: bool,
    /// Events found in the rings of a program that crashed.
    pub from_rings: u64,
    /// Bytes at the file's end that are not a whole event.
    pub torn_bytes: u64,
}

/// The reason why [`import_log`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// The file has another version.
    #[error(
        "{}: its recorder has version {found}, this keel reads {}; import it with the keel of the \
         same version as its libkeel_record",
        path.display(), ring::VERSION
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The file has no event.
    #[error("{} contains no operations: did the program call kl_record_alloc while its recording \
        was on?", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] keel_journal::Error),
}

fn read_at(mut file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(into)
}

/// Whether this file is a program's recording of itself.
pub fn is_log(path: &Path) -> bool {
    let mut magic = [0; 8];
    let read = File::open(path).and_then(|file| read_at(&file, &mut magic, 0));
    read.is_ok() && u64::from_le_bytes(magic) == ring::LOG_MAGIC
}

/// Converts the file `path`, with `<path>.rings` if the program crashed, to the journal `output`.
/// Both files stay unchanged.
///
/// # Errors
/// See [`LogError`]; the output is then as it was before.
pub fn import_log(
    path: &Path,
    output: &Path,
    skip_modules: &[String],
) -> Result<Imported, LogError> {
    let read_error = |cause| LogError::Read { path: path.to_path_buf(), cause };
    let log = Log::open(path).map_err(read_error)?;
    if log.version != ring::VERSION {
        return Err(LogError::Version { path: path.to_path_buf(), found: log.version });
    }
    let rings_path = PathBuf::from(format!("{}.rings", path.display()));
    let rest = match log.ended {
        true => Rest::default(),
        false => Rest::read(&rings_path, &log)
            .map_err(|cause| LogError::Read { path: rings_path.clone(), cause })?,
    };
    let filter = Filter { skip_modules: skip_modules.to_vec(), ..Filter::default() };
    let mut assembler = Assembler::new(log.clock, log.started, &filter);
    for maps in &log.maps {
        assembler.map(&origins::parse_maps(maps));
    }
    let mut sink =
        Sink { writer: Writer::with_options(output, filter::repeatable())?, error: None };
    log.merge(&rest, &mut assembler, &mut sink).map_err(read_error)?;
    let names = Names { program: log.program_name(), ..Names::default() };
    let facts = assembler.finish(&names);
    if let Some(error) = sink.error {
        drop(sink.writer.finish(Metadata::default()));
        return Err(error.into());
    }
    if facts.rows == 0 {
        return Err(LogError::Empty { path: path.to_path_buf() });
    }
    let mut metadata = log.metadata.clone();
    rows::describe(facts, &mut metadata);
    metadata.stalls = rest.stalls.max(log.stalls.0);
    metadata.stalled_ns = log.clock.duration(rest.stalled_ticks.max(log.stalls.1));
    metadata.ended = if log.ended { "still running" } else { "crashed" }.to_owned();
    let written = sink.writer.finish(metadata.clone())?;
    Ok(Imported {
        rows: written.rows,
        bytes: written.bytes,
        metadata,
        ended_in_order: log.ended,
        from_rings: rest.rings.values().map(|events| events.len() as u64).sum(),
        torn_bytes: log.torn_bytes,
    })
}

struct Sink {
    writer: Writer,
    error: Option<keel_journal::Error>,
}

impl RowSink for Sink {
    fn push(&mut self, event: &Event, origin: Origin, _: &dyn Fn(&mut Metadata)) -> Taken {
        match self.writer.push_from(event, origin) {
            Ok(()) => Taken::More,
            Err(error) => {
                self.error = Some(error);
                Taken::Failed
            }
        }
    }
}

/// Events of one ring in the file.
#[derive(Clone, Copy)]
struct Piece {
    at: u64,
    count: u64,
    first: u64,
}

struct Log {
    file: File,
    version: u32,
    started: u64,
    clock: Clock,
    metadata: Metadata,
    rings: BTreeMap<u32, Vec<Piece>>,
    maps: Vec<String>,
    /// Number and ticks: the sums of the last values of each ring.
    stalls: (u64, u64),
    ended: bool,
    torn_bytes: u64,
}

/// The events that a crashed program left in its rings.
#[derive(Default)]
struct Rest {
    rings: BTreeMap<u32, Vec<RawEvent>>,
    stalls: u64,
    stalled_ticks: u64,
    /// The time at which the recording ended by itself: an event was lost, so later ones are
    /// dropped.
    stop: Option<u64>,
}

const EVENT_BYTES: u64 = 32;
const CHUNK_BYTES: usize = 64;

/// A `struct kl_log_chunk`.
struct Chunk {
    kind: u32,
    ring: u32,
    first: u64,
    bytes: u64,
    moment: Moment,
    stalls: (u64, u64),
}

impl Chunk {
    fn read(file: &File, at: u64) -> io::Result<Option<Chunk>> {
        let mut bytes = [0; CHUNK_BYTES];
        match read_at(file, &mut bytes, at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            result => result?,
        }
        let word = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
            u64::from_le_bytes(word)
        };
        Ok((word(0) == ring::CHUNK_MAGIC).then(|| Chunk {
            kind: word(1) as u32,
            ring: (word(1) >> 32) as u32,
            first: word(2),
            bytes: word(3),
            moment: Moment { ticks: word(4), raw_ns: word(5) },
            stalls: (word(6), word(7)),
        }))
    }
}

impl Log {
    fn open(path: &Path) -> io::Result<Log> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut page = vec![0; ring::PAGE_BYTES];
        read_at(&file, &mut page, 0)?;
        let header = SpoolHeader::parse(&page);
        let (mut rings, mut maps) = (BTreeMap::<u32, Vec<Piece>>::new(), Vec::new());
        let (mut moments, mut stalls) = (Vec::new(), BTreeMap::new());
        let (mut at, mut ended) = (ring::PAGE_BYTES as u64, false);
        let mut torn_bytes = 0;
        while at < length {
            let Some(chunk) = Chunk::read(&file, at)? else {
                torn_bytes += length - at;
                break;
            };
            at += CHUNK_BYTES as u64;
            // A full disk truncates the last chunk.
            let present = chunk.bytes.min(length - at);
            moments.push(chunk.moment);
            match chunk.kind {
                // No such ring exists: the header of the chunk is damaged.
                ring::CHUNK_EVENTS if chunk.ring >= ring::RING_MAX => torn_bytes += present,
                ring::CHUNK_EVENTS => {
                    let count = present / EVENT_BYTES;
                    torn_bytes += present % EVENT_BYTES;
                    rings.entry(chunk.ring).or_default().push(Piece {
                        at,
                        count,
                        first: chunk.first,
                    });
                    stalls.insert(chunk.ring, chunk.stalls);
                }
                ring::CHUNK_MAPS => {
                    let mut text = vec![0; present as usize];
                    read_at(&file, &mut text, at)?;
                    maps.push(String::from_utf8_lossy(&text).into_owned());
                }
                ring::CHUNK_END => ended = true,
                _ => {}
            }
            at = at.saturating_add(chunk.bytes);
        }
        let latest = moments.iter().max_by_key(|moment| moment.ticks);
        let first = moments.first().copied().unwrap_or_default();
        let clock = Clock::between(header.clock, first, latest.copied().unwrap_or(first));
        let metadata = Metadata {
            writer: format!("keel import (recorder.h) {}", env!("CARGO_PKG_VERSION")),
            program: text(&header.program),
            arguments: arguments(&header.arguments),
            allocator: text(&header.allocator),
            pid: header.pid,
            clock: clock.name().to_owned(),
            clock_hz: clock.hz(),
            ..Metadata::default()
        };
        let stalls = stalls.values().fold((0, 0), |sum: (u64, u64), one: &(u64, u64)| {
            (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1))
        });
        let (version, started) = (header.version, header.started_ticks);
        Ok(Log { file, version, started, clock, metadata, rings, maps, stalls, ended, torn_bytes })
    }

    fn program_name(&self) -> String {
        let name =
            Path::new(&self.metadata.program).file_name().unwrap_or_default().to_string_lossy();
        name.chars().take(15).collect()
    }

    fn load(&self, piece: Piece) -> io::Result<Vec<RawEvent>> {
        let mut bytes = vec![0; (piece.count * EVENT_BYTES) as usize];
        read_at(&self.file, &mut bytes, piece.at)?;
        Ok(bytes.chunks_exact(EVENT_BYTES as usize).map(RawEvent::parse).collect())
    }

    fn merge(&self, rest: &Rest, assembler: &mut Assembler, sink: &mut Sink) -> io::Result<()> {
        let mut streams: Vec<Stream> = Vec::new();
        let mut indices: Vec<u32> = self.rings.keys().chain(rest.rings.keys()).copied().collect();
        indices.sort_unstable();
        indices.dedup();
        for ring in indices {
            let pieces = self.rings.get(&ring).map_or(&[][..], Vec::as_slice);
            let last = rest.rings.get(&ring).filter(|events| !events.is_empty());
            streams.push(Stream { ring, pieces, last: last.map(Vec::as_slice), reach: 0 });
        }
        loop {
            let waiting = streams.iter_mut().filter(|stream| stream.has_more());
            let Some(stream) = waiting.min_by_key(|stream| stream.reach) else { break };
            let mut events = stream.next(self)?;
            if let Some(stop) = rest.stop {
                events.retain(|event| event.time <= stop);
            }
            stream.reach = events.iter().map(|event| event.time).fold(stream.reach, u64::max);
            assembler.add(stream.ring as usize, &events);
            let reaches =
                streams.iter().filter(|stream| stream.has_more()).map(|stream| stream.reach);
            if let Some(reach) = reaches.min() {
                assembler.write(
                    self.clock,
                    reach.saturating_sub(self.clock.ticks_in(SKEW_NS)),
                    sink,
                );
            }
        }
        assembler.write(self.clock, u64::MAX, sink);
        Ok(())
    }
}

/// The events of a ring that are not merged yet.
struct Stream<'a> {
    ring: u32,
    pieces: &'a [Piece],
    last: Option<&'a [RawEvent]>,
    /// Time of its latest event so far.
    reach: u64,
}

impl Stream<'_> {
    fn has_more(&self) -> bool {
        !self.pieces.is_empty() || self.last.is_some()
    }

    fn next(&mut self, log: &Log) -> io::Result<Vec<RawEvent>> {
        if let Some((piece, others)) = self.pieces.split_first() {
            self.pieces = others;
            return log.load(*piece);
        }
        Ok(self.last.take().unwrap_or_default().to_vec())
    }
}

impl Rest {
    fn read(path: &Path, log: &Log) -> io::Result<Rest> {
        let spool = match Spool::open_left_behind(path) {
            Ok(Some(spool)) => spool,
            Ok(None) => return Ok(Rest::default()),
            // It was removed, or not copied with the log. The chunks are still valid.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Rest::default()),
            Err(error) => return Err(error),
        };
        let mut rings = BTreeMap::new();
        for ring in spool.used_rings() {
            let pieces = log.rings.get(&ring).and_then(|pieces| pieces.last());
            // The program may have crashed after writing a chunk and before releasing its slots.
            let written = pieces.map_or(0, |piece| piece.first.saturating_add(piece.count));
            let mut events = Vec::new();
            spool.copy_out(ring, written.max(spool.released_until(ring)), true, &mut events);
            rings.insert(ring, events);
        }
        let stalls = spool.stalls();
        let stop = spool.stopped().map(|(ticks, _)| ticks);
        Ok(Rest { rings, stalls: stalls.count, stalled_ticks: stalls.ticks, stop })
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
