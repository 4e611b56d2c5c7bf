//! Reads events from a journal file with bounded memory: one compressed row group and one batch of
//! events.

use crate::columns::{CHECKSUMS_KEY, COLUMNS, Checksums, layout_crc32};
use crate::footer::{check_frame, find_columns, footer_entry, guarded, read_metadata};
use crate::row_group::{RowGroup, byte_range};
use crate::salvage::is_partial;
use crate::{Error, Event, Metadata, Origin, Result};
use bytes::Bytes;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Rows per batch. A batch has about 600 kB of events, so that they stay in the cache between
/// decoding and use.
const BATCH_ROWS: usize = 1 << 13;

/// An open journal. It can be read several times, also by several threads at the same time.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    bytes: u64,
    metadata: Metadata,
    parquet: ParquetMetaData,
    checksums: Option<Checksums>,
    /// The position of each of [`COLUMNS`] in this file. Other columns are ignored.
    positions: [usize; COLUMNS.len()],
}

/// The size of a column in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSize {
    /// The column's name.
    pub name: String,
    /// Bytes in the file.
    pub compressed: u64,
    /// Bytes after the encoding and before zstd.
    pub encoded: u64,
}

impl Reader {
    /// Opens a journal of all operations, and reads its footer.
    ///
    /// # Errors
    /// The file is not a journal, is damaged, or has samples only; see [`Error`].
    pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
        let reader = Reader::open_any(path)?;
        match reader.metadata.sample_bytes {
            0 => Ok(reader),
            sample_bytes => Err(Error::Sampled { path: reader.path, sample_bytes }),
        }
    }

    /// As [`Reader::open`], but the rows may be samples ([`Metadata::sample_bytes`]), which the
    /// caller weights.
    ///
    /// # Errors
    /// The file is not a journal, or is damaged; see [`Error`].
    pub fn open_any(path: impl AsRef<Path>) -> Result<Reader> {
        let path = path.as_ref().to_path_buf();
        let read_error = |cause| Error::Read { path: path.clone(), cause };
        let mut file = File::open(&path).map_err(read_error)?;
        let status = file.metadata().map_err(read_error)?;
        if status.is_dir() {
            return Err(read_error(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a directory",
            )));
        }
        let bytes = status.len();
        check_frame(&path, &mut file, bytes).map_err(|error| match error {
            Error::Truncated { .. } if is_partial(&path) => Error::Partial { path: path.clone() },
            error => error,
        })?;
        let parquet =
            guarded(|| ParquetMetaDataReader::new().parse_and_finish(&file)).map_err(|detail| {
                Error::Corrupt { path: path.clone(), place: "footer".to_owned(), detail }
            })?;
        let checksums =
            footer_entry(&parquet, CHECKSUMS_KEY).and_then(|text| serde_json::from_str(text).ok());
        let metadata = read_metadata(&path, &parquet, checksums.as_ref())?;
        let positions = find_columns(&path, &parquet)?;
        let reader = Reader { path, bytes, metadata, parquet, checksums, positions };
        reader.check_row_groups()?;
        Ok(reader)
    }

    /// The journal's metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Number of operations.
    pub fn rows(&self) -> u64 {
        let groups = self.parquet.row_groups().iter();
        groups.fold(0, |rows, group| rows.saturating_add(group.num_rows() as u64))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of row groups.
    pub fn row_groups(&self) -> usize {
        self.parquet.num_row_groups()
    }

    /// The size of each column.
    pub fn column_sizes(&self) -> Vec<ColumnSize> {
        let size = |(name, position): (&str, usize)| {
            let chunks =
                || self.parquet.row_groups().iter().map(move |group| group.column(position));
            let sum = |size: fn(&ColumnChunkMetaData) -> i64| {
                chunks().fold(0, |sum: u64, chunk| sum.saturating_add(size(chunk).max(0) as u64))
            };
            ColumnSize {
                name: name.to_owned(),
                compressed: sum(ColumnChunkMetaData::compressed_size),
                encoded: sum(ColumnChunkMetaData::uncompressed_size),
            }
        };
        COLUMNS.into_iter().zip(self.positions).map(size).collect()
    }

    /// Returns all events in order, in batches of a few thousand. Each row group's checksum is
    /// verified before it is decoded.
    pub fn batches(&self) -> Batches<'_> {
        Batches { reader: self, next_group: 0, row: 0, group: None, failed: false, origins: false }
    }

    /// Returns all events in order, one by one. [`Reader::batches`] is faster.
    pub fn events(&self) -> impl Iterator<Item = Result<Event>> + '_ {
        self.batches().flat_map(|batch| match batch {
            Ok(events) => events.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        })
    }

    /// Checks that every row group is inside the file. If the file has checksums, one of them must
    /// cover exactly the row group's bytes.
    fn check_row_groups(&self) -> Result<()> {
        let layout = layout_crc32(self.parquet.row_groups());
        if self.checksums.as_ref().is_some_and(|sums| sums.layout != layout) {
            let detail = "the checksum of the row groups' places does not match".to_owned();
            return Err(self.corrupt("footer".to_owned(), detail));
        }
        for (index, group) in self.parquet.row_groups().iter().enumerate() {
            let (start, end) = byte_range(group);
            if group.num_rows() < 0 || end > self.bytes || start > end {
                let detail = format!(
                    "it should span bytes {start} to {end}, but the file has {} bytes",
                    self.bytes
                );
                return Err(self.corrupt(format!("row group {index}"), detail));
            }
            let covered = self.checksums.as_ref().is_none_or(|sums| {
                sums.row_groups.get(index).is_some_and(|sum| {
                    (sum.offset, sum.offset.checked_add(sum.length)) == (start, Some(end))
                })
            });
            if !covered {
                return Err(self.corrupt(
                    format!("row group {index}"),
                    "no checksum covers its bytes".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Checks the numbers of a row by which readers index tables: its thread, and the object that
    /// it creates. Without this, a damaged row makes a reader ask for memory without bound.
    fn bounded(&self, row: u64, event: Event) -> std::result::Result<Event, String> {
        let Event { thread, created, .. } = event;
        let threads = self.metadata.threads.len();
        if thread as usize >= threads {
            return Err(format!("it is of thread {thread}, but the metadata lists {threads}"));
        }
        // A row creates at most one object, and objects are numbered in the order of the rows.
        if created > row + 1 {
            return Err(format!("it creates object {created}, but at most {} can exist", row + 1));
        }
        Ok(event)
    }

    fn corrupt(&self, place: String, detail: String) -> Error {
        Error::Corrupt { path: self.path.clone(), place, detail }
    }

    fn read_group(&self, index: usize, origins: bool) -> Result<RowGroup> {
        let metadata = self.parquet.row_group(index);
        let (start, end) = byte_range(metadata);
        let bytes = read_range(&self.path, start, end)
            .map_err(|cause| Error::Read { path: self.path.clone(), cause })?;
        let place = || format!("row group {index}, bytes {start} to {end}");
        if let Some(sum) = self.checksums.as_ref().and_then(|sums| sums.row_groups.get(index)) {
            let found = crc32fast::hash(&bytes);
            if found != sum.crc32 {
                let detail = format!("its checksum is {found:08x} instead of {:08x}", sum.crc32);
                return Err(self.corrupt(place(), detail));
            }
        }
        RowGroup::open(metadata, start, bytes, &self.positions, origins)
            .map_err(|detail| self.corrupt(place(), detail))
    }
}

/// The iterator of [`Reader::batches`]. It ends after the first error.
pub struct Batches<'a> {
    reader: &'a Reader,
    next_group: usize,
    row: u64,
    group: Option<RowGroup>,
    failed: bool,
    /// True if the columns of [`Origin`] are also decoded.
    origins: bool,
}

impl Batches<'_> {
    /// Replaces `events` with the next events, without a new allocation. Returns false at the end.
    ///
    /// # Errors
    /// A damaged file; the message names the place.
    pub fn next_into(&mut self, events: &mut Vec<Event>) -> Result<bool> {
        events.clear();
        if self.failed {
            return Ok(false);
        }
        let result = self.fill(events, &mut Vec::new());
        self.failed = result.is_err();
        result
    }

    /// Like [`Batches::next_into`], but also reads the origin of each event. A caller that needs
    /// origins must use this function from the first batch on.
    ///
    /// # Errors
    /// A damaged file; the message names the place.
    pub fn next_with_origins(
        &mut self,
        events: &mut Vec<Event>,
        origins: &mut Vec<Origin>,
    ) -> Result<bool> {
        events.clear();
        origins.clear();
        self.origins = true;
        if self.failed {
            return Ok(false);
        }
        let result = self.fill(events, origins);
        self.failed = result.is_err();
        result
    }

    fn fill(&mut self, events: &mut Vec<Event>, origins: &mut Vec<Origin>) -> Result<bool> {
        while self.group.as_ref().is_none_or(|group| group.rows_left() == 0) {
            if self.next_group == self.reader.row_groups() {
                self.group = None;
                return Ok(false);
            }
            self.group = Some(self.reader.read_group(self.next_group, self.origins)?);
            self.next_group += 1;
        }
        let Some(group) = &mut self.group else { return Ok(false) };
        let index = self.next_group - 1;
        let count = group.decode(BATCH_ROWS).map_err(|(column, detail)| {
            self.reader.corrupt(format!("row group {index}, column {column}"), detail)
        })?;
        for index in 0..count {
            let row = self.row + index as u64;
            let event = group
                .event(index)
                .and_then(|event| self.reader.bounded(row, event))
                .map_err(|detail| self.reader.corrupt(format!("row {row}"), detail))?;
            events.push(event);
        }
        if self.origins {
            origins.extend((0..count).map(|index| group.origin(index)));
        }
        self.row += count as u64;
        Ok(true)
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Vec<Event>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut events = Vec::with_capacity(BATCH_ROWS);
        match self.next_into(&mut events) {
            Ok(true) => Some(Ok(events)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

fn read_range(path: &Path, start: u64, end: u64) -> io::Result<Bytes> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = vec![0; (end - start) as usize];
    file.read_exact(&mut bytes)?;
    Ok(Bytes::from(bytes))
}
