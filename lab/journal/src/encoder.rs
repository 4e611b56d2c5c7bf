//! Encodes row groups and writes them to the file. This part of the writer runs on its own thread.
//!
//! A row group is encoded in memory and written in one piece. When the disk is full, the file is
//! cut to the end of the last complete row group, and a footer for these groups makes it a valid
//! journal. Therefore a failed write never destroys a row group that was written before.
//!
//! A record follows each row group (`journal/FORMAT.md`, Writing). If the writer is killed,
//! `salvage.rs` uses these records to make a journal of the file.

use crate::chunk::{Chunk, Column, Packer, Way};
use crate::columns::{
    Batch, CHECKSUMS_KEY, Checksum, Checksums, METADATA_KEY, layout_crc32, properties, schema,
};
use crate::encodings::Delta;
use crate::{Error, Metadata, Result};
use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::writer::{SerializedFileWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, SchemaDescPtr};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

/// How a journal is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// zstd level, 1 to 22. Level 1 is fast enough for a live recording. Levels above 9 compress
    /// little better than level 9.
    pub zstd_level: i32,
    /// Rows in a row group, at least 1. The writer keeps whole row groups in memory, a full disk
    /// loses whole row groups, and readers skip whole row groups.
    pub rows_per_group: usize,
    /// Number of threads that pack the columns of a row group, at least 1. A recording uses few
    /// threads, so that the program has the processors.
    pub encoding_threads: usize,
    /// Replace the `.partial` file of an earlier writer. Without it, [`crate::Writer`] fails if
    /// there is one, because a recording cannot be repeated.
    pub replace_partial: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            zstd_level: 1,
            rows_per_group: 1 << 18,
            encoding_threads: 1,
            replace_partial: false,
        }
    }
}

/// The destination of the bytes: a file, or in tests also a full disk.
pub(crate) trait Store: Write + Send {
    /// Discards all bytes from `length` on. The next write appends there.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// Buffers Parquet's output until [`Staged::commit`] writes it to the store.
struct Staged {
    store: Box<dyn Store>,
    pending: Vec<u8>,
    committed: u64,
}

impl Write for Staged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Staged {
    fn commit(&mut self) -> io::Result<()> {
        self.store.write_all(&self.pending)?;
        self.committed += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// The result of [`Encoder::close`].
pub(crate) struct Closed {
    pub rows: u64,
    pub bytes: u64,
    /// Set if rows are missing from the file.
    pub failure: Option<io::Error>,
}

/// The last eight bytes of a record.
pub(crate) const RECORD_MAGIC: &[u8; 8] = b"KLGROUP1";
/// A footer's length and magic.
const FOOTER_TRAILER_BYTES: usize = 8;
/// The end of a record: start of the row group, CRC-32 and length of the footer, magic.
pub(crate) const RECORD_TAIL_BYTES: usize = 24;

pub(crate) struct Encoder {
    /// The entries of the metadata's long lists that are in earlier records.
    recorded: RecordedLists,
    committed: Arc<AtomicU64>,
    file: SerializedFileWriter<Staged>,
    /// One packer for each thread that encodes columns.
    packers: Vec<Packer>,
    checksums: Vec<Checksum>,
    /// The first error of the store. After an error, nothing more is encoded.
    failure: Option<io::Error>,
}

impl Encoder {
    pub fn new(
        store: Box<dyn Store>,
        options: &Options,
        committed: Arc<AtomicU64>,
    ) -> Result<Encoder> {
        let staged = Staged { store, pending: Vec::new(), committed: 0 };
        let properties = Arc::new(properties());
        let file =
            SerializedFileWriter::new(staged, schema()?, properties).map_err(encode_error)?;
        let packers = (0..options.encoding_threads.max(1)).map(|_| Packer::new(options.zstd_level));
        let packers = packers.collect::<std::result::Result<_, _>>().map_err(encode_error)?;
        Ok(Encoder {
            recorded: RecordedLists::default(),
            committed,
            file,
            packers,
            checksums: Vec::new(),
            failure: None,
        })
    }

    /// The error that ended the writing, if there was one.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Writes one row group. After a failure of the store this does nothing.
    pub fn encode(&mut self, batch: &Batch) -> Result<()> {
        if self.failure.is_some() || batch.rows() == 0 {
            return Ok(());
        }
        self.encode_columns(batch).map_err(encode_error)?;
        self.file.flush().map_err(Error::from_flush)?;
        let staged = self.file.inner_mut();
        // The first commit also contains the four bytes of magic before the row group.
        let start = if staged.committed == 0 { MAGIC_BYTES } else { 0 };
        let group = &staged.pending[start..];
        let checksum = Checksum {
            offset: staged.committed + start as u64,
            length: group.len() as u64,
            crc32: crc32fast::hash(group),
        };
        let record = self.record(checksum, batch.description.as_deref())?;
        self.file.write_all(&record).and_then(|()| self.file.flush()).map_err(Error::from_flush)?;
        let staged = self.file.inner_mut();
        match staged.commit() {
            Ok(()) => self.checksums.push(checksum),
            Err(error) => self.failure = Some(error),
        }
        self.committed.store(self.file.inner_mut().committed, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the record of the row group that was just encoded: a footer for this row group alone,
    /// and the place of the row group.
    fn record(&mut self, checksum: Checksum, description: Option<&Metadata>) -> Result<Vec<u8>> {
        let group = self.file.flushed_row_groups().last().cloned();
        let group = group.ok_or_else(|| Error::Encode("a row group is missing".to_owned()))?;
        let descriptor = Arc::new(self.file.schema_descr().clone());
        let new = description
            .map_or_else(Metadata::default, |metadata| self.recorded.new_entries(metadata));
        let mut record = footer(&descriptor, vec![group], &[checksum], &new)?;
        // A file that is cut off here must not end like a complete file.
        record.truncate(record.len() - FOOTER_TRAILER_BYTES);
        let (crc, length) = (crc32fast::hash(&record), record.len() as u32);
        record.extend_from_slice(&checksum.offset.to_le_bytes());
        record.extend_from_slice(&crc.to_le_bytes());
        record.extend_from_slice(&length.to_le_bytes());
        record.extend_from_slice(RECORD_MAGIC);
        Ok(record)
    }

    fn encode_columns(&mut self, batch: &Batch) -> std::result::Result<(), ParquetError> {
        let descriptors = self.file.schema_descr().columns();
        let threads = if batch.rows() < ROWS_FOR_THREADS { 1 } else { self.packers.len() };
        let chunks = pack_all(&mut self.packers[..threads], &columns_of(batch), descriptors)?;
        let mut group = self.file.next_row_group()?;
        for (bytes, close) in chunks {
            group.append_column(&Bytes::from(bytes), close)?;
        }
        group.close().map(drop)
    }

    /// Writes the footer. After a failure, it is a footer for the row groups that are in the file.
    pub fn close(mut self, metadata: &Metadata) -> Result<Closed> {
        if self.failure.is_none() {
            let entries =
                footer_entries(metadata, &self.checksums, self.file.flushed_row_groups())?;
            for entry in entries {
                self.file.append_key_value_metadata(entry);
            }
            let parquet = self.file.finish().map_err(encode_error)?;
            let staged = self.file.inner_mut();
            match staged.commit().and_then(|()| staged.store.flush()) {
                Ok(()) => {
                    let rows = parquet.file_metadata().num_rows() as u64;
                    return Ok(Closed { rows, bytes: staged.committed, failure: None });
                }
                Err(error) => self.failure = Some(error),
            }
        }
        self.close_cut_short(metadata)
    }

    /// Removes row groups from the end until the rest and its footer fit on the disk.
    fn close_cut_short(mut self, metadata: &Metadata) -> Result<Closed> {
        let descriptor = Arc::new(self.file.schema_descr().clone());
        let mut groups = self.file.flushed_row_groups().to_vec();
        groups.truncate(self.checksums.len());
        loop {
            let rows: i64 = groups.iter().map(|group| group.num_rows()).sum();
            let length = self.checksums[..groups.len()]
                .last()
                .map_or(0, |group| group.offset + group.length);
            let mut footer =
                footer(&descriptor, groups.clone(), &self.checksums[..groups.len()], metadata)?;
            if length == 0 {
                footer.splice(..0, *b"PAR1");
            }
            let store = &mut self.file.inner_mut().store;
            let written = store
                .cut(length)
                .and_then(|()| store.write_all(&footer))
                .and_then(|()| store.flush());
            match written {
                Ok(()) => {
                    let bytes = length + footer.len() as u64;
                    return Ok(Closed { rows: rows as u64, bytes, failure: self.failure });
                }
                Err(error) if groups.pop().is_none() => {
                    return Ok(Closed { rows: 0, bytes: 0, failure: Some(error) });
                }
                Err(_) => {}
            }
        }
    }
}

/// Lengths of those lists of the metadata that only grow.
#[derive(Default)]
struct RecordedLists {
    frames: usize,
    marks: usize,
    sites: usize,
    nodes: usize,
    names: usize,
}

impl RecordedLists {
    /// Returns the metadata with only the new entries of its long lists.
    fn new_entries(&mut self, metadata: &Metadata) -> Metadata {
        let mut new = metadata.clone();
        let Metadata { frames, marks, stacks, .. } = metadata;
        new.frames.drain(..self.frames.min(frames.len()));
        new.marks.drain(..self.marks.min(marks.len()));
        new.stacks.sites.drain(..self.sites.min(stacks.sites.len()));
        new.stacks.nodes.drain(..self.nodes.min(stacks.nodes.len()));
        new.stacks.names.drain(..self.names.min(stacks.names.len()));
        let (sites, nodes, names) = (stacks.sites.len(), stacks.nodes.len(), stacks.names.len());
        *self = RecordedLists { frames: frames.len(), marks: marks.len(), sites, nodes, names };
        new
    }
}

/// The footer of a file with these row groups.
pub(crate) fn footer(
    descriptor: &SchemaDescPtr,
    groups: Vec<RowGroupMetaData>,
    checksums: &[Checksum],
    metadata: &Metadata,
) -> Result<Vec<u8>> {
    let rows: i64 = groups.iter().map(|group| group.num_rows()).sum();
    let created_by = Some(format!("keel {}", env!("CARGO_PKG_VERSION")));
    let entries = footer_entries(metadata, checksums, &groups)?;
    let file = FileMetaData::new(1, rows, created_by, Some(entries), Arc::clone(descriptor), None);
    let mut bytes = Vec::new();
    let parquet = ParquetMetaData::new(file, groups);
    ParquetMetaDataWriter::new(TrackedWrite::new(&mut bytes), &parquet)
        .finish()
        .map_err(encode_error)?;
    Ok(bytes)
}

const MAGIC_BYTES: usize = 4;

impl Error {
    /// Staged accepts every byte, so the error comes from the Parquet library itself.
    fn from_flush(error: io::Error) -> Error {
        Error::Encode(error.to_string())
    }
}

fn encode_error(error: ParquetError) -> Error {
    Error::Encode(error.to_string())
}

fn footer_entries(
    metadata: &Metadata,
    checksums: &[Checksum],
    groups: &[RowGroupMetaData],
) -> Result<Vec<KeyValue>> {
    let text = serde_json::to_string(metadata).map_err(|error| Error::Encode(error.to_string()))?;
    let checksums = Checksums {
        metadata: crc32fast::hash(text.as_bytes()),
        layout: layout_crc32(groups),
        row_groups: checksums.to_vec(),
    };
    let checksums =
        serde_json::to_string(&checksums).map_err(|error| Error::Encode(error.to_string()))?;
    Ok(vec![
        KeyValue::new(METADATA_KEY.to_owned(), text),
        KeyValue::new(CHECKSUMS_KEY.to_owned(), checksums),
    ])
}

/// A column of either type.
enum Numbers<'a> {
    Narrow(Column<'a, i32>),
    Wide(Column<'a, i64>),
}

/// The columns of a row group, in the order of the schema.
fn columns_of(batch: &Batch) -> [Numbers<'_>; 14] {
    use Numbers::{Narrow, Wide};
    [
        Wide(every(&batch.time, Way::SmallerDelta)),
        Wide(batch.begin.column(Way::Delta(Delta::Bits))),
        Narrow(every(&batch.thread, Way::Dictionary)),
        Narrow(every(&batch.op, Way::Dictionary)),
        Wide(every(&batch.size, Way::Split)),
        Wide(batch.align.column(Way::Dictionary)),
        Wide(batch.created.column(Way::Delta(Delta::Bits))),
        Wide(batch.released.column(Way::Delta(Delta::Repeating))),
        Narrow(every(&batch.frame, Way::Delta(Delta::Bits))),
        Narrow(batch.module.column(Way::Dictionary)),
        Narrow(batch.stack.column(Way::Dictionary)),
        Narrow(batch.free_hint.column(Way::Dictionary)),
        Wide(batch.hint_size.column(Way::Split)),
        Wide(batch.hint_align.column(Way::Dictionary)),
    ]
}

/// A column with a value for every row.
const fn every<T>(values: &[T], way: Way) -> Column<'_, T> {
    Column { values, present: None, rows: values.len(), way }
}

/// With fewer rows, it takes longer to start a thread than to encode the rows.
const ROWS_FOR_THREADS: usize = 1 << 12;

/// Makes the chunks of these columns with one thread per packer; the calling thread is one of them.
/// Each thread takes the next column that no other thread has taken. The first column takes about
/// as long as all others together.
fn pack_all(
    packers: &mut [Packer],
    columns: &[Numbers<'_>],
    descriptors: &[ColumnDescPtr],
) -> std::result::Result<Vec<Chunk>, ParquetError> {
    let next = AtomicUsize::new(0);
    let pack = |packer: &mut Packer| -> std::result::Result<Vec<(usize, Chunk)>, ParquetError> {
        let mut packed = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let (Some(column), Some(descriptor)) = (columns.get(index), descriptors.get(index))
            else {
                return Ok(packed);
            };
            let chunk = match column {
                Numbers::Narrow(column) => packer.chunk(descriptor, column)?,
                Numbers::Wide(column) => packer.chunk(descriptor, column)?,
            };
            packed.push((index, chunk));
        }
    };
    let failed = || ParquetError::General("a thread that encodes columns failed".to_owned());
    let (own, others) = packers.split_first_mut().ok_or_else(failed)?;
    let mut packed = thread::scope(|scope| {
        let start = |packer| {
            let pack = &pack;
            thread::Builder::new()
                .name("journal packer".to_owned())
                .spawn_scoped(scope, move || pack(packer))
        };
        // If a thread cannot be started, the other threads do its work.
        let threads: Vec<_> = others.iter_mut().filter_map(|packer| start(packer).ok()).collect();
        let mut packed = pack(own)?;
        for thread in threads {
            packed.extend(thread.join().map_err(|_| failed())??);
        }
        Ok::<_, ParquetError>(packed)
    })?;
    packed.sort_unstable_by_key(|(index, _)| *index);
    Ok(packed.into_iter().map(|(_, chunk)| chunk).collect())
}
