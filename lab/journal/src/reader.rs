//! Streams events out of a journal file with bounded memory: one compressed row group and one batch of events.

use crate::columns::{
    CHECKSUMS_KEY, COLUMNS, Checksums, METADATA_KEY, ORIGIN_COLUMNS, TOLD_COLUMNS, layout_crc32,
};
use crate::{Error, Event, FORMAT_VERSION, Metadata, Op, Origin, Result, Told};
use bytes::{Buf as _, Bytes};
use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows a batch: some 600 KB of events, so that they stay in the cache between decoding and use.
const BATCH_ROWS: usize = 1 << 13;
/// The shortest Parquet file: magic, footer length, magic.
const LEAST_BYTES: u64 = 12;

/// An open journal. It can be read any number of times, also from several threads at once.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    bytes: u64,
    metadata: Metadata,
    parquet: ParquetMetaData,
    checksums: Option<Checksums>,
    /// Where each of `COLUMNS` stands in this file; other columns are passed over.
    positions: [usize; COLUMNS.len()],
    /// Likewise of `ORIGIN_COLUMNS`, which older files lack.
    origin_positions: [Option<usize>; ORIGIN_COLUMNS.len()],
    /// Likewise of `TOLD_COLUMNS`.
    told_positions: [Option<usize>; TOLD_COLUMNS.len()],
}

/// What a column takes in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSize {
    /// Its name.
    pub name: String,
    /// Bytes in the file.
    pub compressed: u64,
    /// Bytes encoded, before zstd.
    pub encoded: u64,
}

impl Reader {
    /// Opens a journal and reads its footer.
    ///
    /// # Errors
    /// What the file is instead, or what is wrong with it; see [`Error`].
    pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
        let path = path.as_ref().to_path_buf();
        let read_error = |cause| Error::Read { path: path.clone(), cause };
        let mut file = File::open(&path).map_err(read_error)?;
        let status = file.metadata().map_err(read_error)?;
        if status.is_dir() {
            return Err(read_error(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory")));
        }
        let bytes = status.len();
        check_frame(&path, &mut file, bytes)?;
        let parquet = guarded(|| ParquetMetaDataReader::new().parse_and_finish(&file))
            .map_err(|detail| Error::Corrupt { path: path.clone(), place: "footer".to_owned(), detail })?;
        let checksums =
            footer_entry(&parquet, CHECKSUMS_KEY).and_then(|text| serde_json::from_str(text).ok());
        let metadata = read_metadata(&path, &parquet, checksums.as_ref())?;
        let positions = find_columns(&path, &parquet)?;
        let origin_positions = ORIGIN_COLUMNS.map(|name| find_column(&parquet, name));
        let told_positions = TOLD_COLUMNS.map(|name| find_column(&parquet, name));
        let reader =
            Reader { path, bytes, metadata, parquet, checksums, positions, origin_positions, told_positions };
        reader.check_row_groups()?;
        Ok(reader)
    }

    /// What the journal knows beside its rows.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Number of operations.
    pub fn rows(&self) -> u64 {
        self.parquet.row_groups().iter().map(|group| group.num_rows() as u64).sum()
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

    /// What each column takes.
    pub fn column_sizes(&self) -> Vec<ColumnSize> {
        let size = |position: usize| {
            let chunks = || self.parquet.row_groups().iter().map(move |group| group.column(position));
            ColumnSize {
                name: chunks().next().map_or_else(String::new, |chunk| chunk.column_path().string()),
                compressed: chunks().map(|chunk| chunk.compressed_size() as u64).sum(),
                encoded: chunks().map(|chunk| chunk.uncompressed_size() as u64).sum(),
            }
        };
        let present = self.origin_positions.into_iter().chain(self.told_positions).flatten();
        self.positions.into_iter().chain(present).map(size).collect()
    }

    /// All events in order, a few thousand at a time. Each row group's checksum is verified before it is decoded.
    pub fn batches(&self) -> Batches<'_> {
        Batches { reader: self, next_group: 0, row: 0, group: None, failed: false, origins: false }
    }

    /// All events in order, one by one; [`Reader::batches`] is faster.
    pub fn events(&self) -> impl Iterator<Item = Result<Event>> + '_ {
        self.batches().flat_map(|batch| match batch {
            Ok(events) => events.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => vec![Err(error)],
        })
    }

    /// Every row group must lie inside the file and, if there are checksums, be one that they cover.
    fn check_row_groups(&self) -> Result<()> {
        let layout = layout_crc32(self.parquet.row_groups());
        if self.checksums.as_ref().is_some_and(|sums| sums.layout != layout) {
            let detail = "the checksum of its row groups' places does not match".to_owned();
            return Err(self.corrupt("footer".to_owned(), detail));
        }
        for (index, group) in self.parquet.row_groups().iter().enumerate() {
            let (start, end) = group_range(group);
            if group.num_rows() < 0 || end > self.bytes || start > end {
                let detail =
                    format!("it should span bytes {start} to {end}, and the file has {} bytes", self.bytes);
                return Err(self.corrupt(format!("row group {index}"), detail));
            }
            let covered = self.checksums.as_ref().is_none_or(|sums| {
                sums.row_groups
                    .get(index)
                    .is_some_and(|sum| (sum.offset, sum.offset + sum.length) == (start, end))
            });
            if !covered {
                return Err(
                    self.corrupt(format!("row group {index}"), "no checksum covers its bytes".to_owned())
                );
            }
        }
        Ok(())
    }

    fn corrupt(&self, place: String, detail: String) -> Error {
        Error::Corrupt { path: self.path.clone(), place, detail }
    }

    fn read_group(&self, index: usize, origins: bool) -> Result<Group> {
        let metadata = self.parquet.row_group(index);
        let (start, end) = group_range(metadata);
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
        let chunk = Arc::new(Chunk { start, bytes });
        let rows = metadata.num_rows() as usize;
        let open = |position: usize| {
            let column = metadata.column(position);
            guarded(|| {
                let pages = SerializedPageReader::new(Arc::clone(&chunk), column, rows, None)?;
                Ok(Column::new(get_column_reader(column.column_descr_ptr(), Box::new(pages))))
            })
            .map_err(|detail| self.corrupt(place(), detail))
        };
        let columns = self.positions.into_iter().map(open).collect::<Result<_>>()?;
        let wanted = self.origin_positions.map(|position| position.filter(|_| origins));
        let origins = wanted.into_iter().map(|position| position.map(open).transpose());
        let origins = origins.collect::<Result<_>>()?;
        // Most row groups have none, and their statistics say so.
        let told = self.told_positions.map(|position| position.filter(|&at| has_values(metadata, at)));
        let told = told.into_iter().map(|position| position.map(open).transpose());
        Ok(Group { columns, origins, told: told.collect::<Result<_>>()?, left: rows, index })
    }
}

/// Iterator over [`Reader::batches`]; ends after the first error.
pub struct Batches<'a> {
    reader: &'a Reader,
    next_group: usize,
    row: u64,
    group: Option<Group>,
    failed: bool,
    /// The columns of [`Origin`] are decoded too.
    origins: bool,
}

struct Group {
    columns: Vec<Column>,
    /// In the order of `ORIGIN_COLUMNS`; `None` for one that the file lacks or nobody wants.
    origins: Vec<Option<Column>>,
    /// In the order of `TOLD_COLUMNS`; `None` for one that the file lacks or that is all null.
    told: Vec<Option<Column>>,
    left: usize,
    index: usize,
}

impl Batches<'_> {
    /// Replaces `events` by the next ones, without a new allocation; false at the end.
    ///
    /// # Errors
    /// A damaged file; the place is named.
    pub fn next_into(&mut self, events: &mut Vec<Event>) -> Result<bool> {
        events.clear();
        if self.failed {
            return Ok(false);
        }
        let result = self.fill(events, &mut Vec::new());
        self.failed = result.is_err();
        result
    }

    /// The same with the origin of each event; to be called from the first batch on.
    ///
    /// # Errors
    /// A damaged file; the place is named.
    pub fn next_with_origins(&mut self, events: &mut Vec<Event>, origins: &mut Vec<Origin>) -> Result<bool> {
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
        while self.group.as_ref().is_none_or(|group| group.left == 0) {
            if self.next_group == self.reader.row_groups() {
                self.group = None;
                return Ok(false);
            }
            self.group = Some(self.reader.read_group(self.next_group, self.origins)?);
            self.next_group += 1;
        }
        let Some(group) = &mut self.group else { return Ok(false) };
        let count = group.left.min(BATCH_ROWS);
        let origin_columns = group.origins.iter_mut().zip(ORIGIN_COLUMNS);
        let origin_columns = origin_columns.filter_map(|(column, name)| Some((column.as_mut()?, name)));
        let told_columns = group.told.iter_mut().zip(TOLD_COLUMNS);
        let told_columns = told_columns.filter_map(|(column, name)| Some((column.as_mut()?, name)));
        let columns = group.columns.iter_mut().zip(COLUMNS);
        for (column, name) in columns.chain(origin_columns).chain(told_columns) {
            guarded(|| column.read(count)).map_err(|detail| {
                self.reader.corrupt(format!("row group {}, column {name}", group.index), detail)
            })?;
        }
        group.left -= count;
        for index in 0..count {
            let row = self.row + index as u64;
            let event =
                group.event(index).map_err(|detail| self.reader.corrupt(format!("row {row}"), detail))?;
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

/// The value that a nullable column has where it says nothing; no valid value is negative.
const NULL: i64 = -1;

impl Group {
    /// Puts one row together; the order is that of `COLUMNS`.
    #[inline]
    fn event(&self, index: usize) -> std::result::Result<Event, String> {
        let value = |column: usize| self.columns[column].dense[index];
        let optional = |column: usize| value(column).max(0) as u64;
        let (time, thread, op, size, frame) = (value(0), value(2), value(3), value(4), value(8));
        let begin = if value(1) == NULL { time } else { value(1) };
        if (time | begin | thread | op | size | frame) < 0 || (thread | frame) >> 32 != 0 {
            return Err("a number is out of range".to_owned());
        }
        let op = u8::try_from(op)
            .ok()
            .and_then(Op::from_code)
            .ok_or_else(|| format!("no operation has code {op}"))?;
        Ok(Event {
            time: time as u64,
            begin: begin as u64,
            thread: thread as u32,
            op,
            size: size as u64,
            align: optional(5),
            created: optional(6),
            released: optional(7),
            frame: frame as u32,
            told: self.told(index)?,
        })
    }

    #[inline]
    fn told(&self, index: usize) -> std::result::Result<Told, String> {
        let Some(codes) = &self.told[0] else { return Ok(Told::NOTHING) };
        let code = codes.dense[index];
        if code == NULL {
            return Ok(Told::NOTHING);
        }
        let value = |column: usize| {
            let number = self.told[column].as_ref().map_or(NULL, |column| column.dense[index]);
            u64::try_from(number).ok()
        };
        let told = u8::try_from(code).ok().and_then(|code| Told::from_file(code, value(1), value(2)));
        told.ok_or_else(|| format!("no free tells what has code {code}, with such values beside it"))
    }

    #[inline]
    fn origin(&self, index: usize) -> Origin {
        let value = |column: usize| {
            let number = self.origins[column].as_ref().map_or(NULL, |column| column.dense[index]);
            u32::try_from(number).unwrap_or(Origin::NONE)
        };
        Origin { module: value(0), stack: value(1) }
    }
}

/// A column of the current row group, and a batch of it with nulls in place.
struct Column {
    reader: ColumnReader,
    nullable: bool,
    levels: Vec<i16>,
    values: Vec<i64>,
    values_32: Vec<i32>,
    dense: Vec<i64>,
}

impl Column {
    fn new(reader: ColumnReader) -> Column {
        Column {
            nullable: false,
            reader,
            levels: Vec::new(),
            values: Vec::new(),
            values_32: Vec::new(),
            dense: Vec::new(),
        }
    }

    fn read(&mut self, count: usize) -> std::result::Result<(), ParquetError> {
        self.levels.clear();
        self.values.clear();
        match &mut self.reader {
            ColumnReader::Int64ColumnReader(reader) => {
                read_exactly::<Int64Type>(reader, count, &mut self.levels, &mut self.values)?;
            }
            ColumnReader::Int32ColumnReader(reader) => {
                self.values_32.clear();
                read_exactly::<Int32Type>(reader, count, &mut self.levels, &mut self.values_32)?;
                self.values.extend(self.values_32.iter().map(|value| i64::from(*value)));
            }
            _ => return Err(ParquetError::General("the column does not hold integers".to_owned())),
        }
        self.nullable = !self.levels.is_empty();
        if !self.nullable {
            std::mem::swap(&mut self.dense, &mut self.values);
            return Ok(());
        }
        self.dense.clear();
        let mut values = self.values.iter();
        let dense = self.levels.iter().map(|level| match level {
            0 => NULL,
            _ => values.next().copied().unwrap_or(NULL),
        });
        self.dense.extend(dense);
        Ok(())
    }
}

fn read_exactly<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    levels: &mut Vec<i16>,
    values: &mut Vec<T::T>,
) -> std::result::Result<(), ParquetError> {
    let (rows, present, _) = reader.read_records(count, Some(levels), None, values)?;
    let complete = rows == count && (present == count || levels.len() == count);
    if complete {
        Ok(())
    } else {
        Err(ParquetError::General(format!("{rows} rows where {count} were expected")))
    }
}

/// A row group's bytes, addressed as in the file.
struct Chunk {
    start: u64,
    bytes: Bytes,
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Chunk {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> std::result::Result<Self::T, ParquetError> {
        let rest = start.checked_sub(self.start).filter(|offset| *offset <= self.bytes.len() as u64);
        let offset =
            rest.ok_or_else(|| ParquetError::EOF(format!("byte {start} is outside the row group")))?;
        Ok(self.bytes.slice(offset as usize..).reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> std::result::Result<Bytes, ParquetError> {
        let end = start.saturating_add(length as u64);
        if start < self.start || end > self.len() {
            return Err(ParquetError::EOF(format!("bytes {start} to {end} are outside the row group")));
        }
        let offset = (start - self.start) as usize;
        Ok(self.bytes.slice(offset..offset + length))
    }
}

fn read_range(path: &Path, start: u64, end: u64) -> io::Result<Bytes> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = vec![0; (end - start) as usize];
    file.read_exact(&mut bytes)?;
    Ok(Bytes::from(bytes))
}

/// Whether a column has any value in a row group, as far as is known.
fn has_values(group: &RowGroupMetaData, position: usize) -> bool {
    let column = group.column(position);
    let nulls = column.statistics().and_then(|statistics| statistics.null_count_opt());
    nulls.is_none_or(|nulls| nulls < column.num_values() as u64)
}

fn group_range(group: &RowGroupMetaData) -> (u64, u64) {
    let ranges = || {
        group.columns().iter().map(|column| {
            let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
            let end = start.saturating_add(column.compressed_size());
            (start.max(0) as u64, end.max(0) as u64)
        })
    };
    let start = ranges().map(|range| range.0).min().unwrap_or(0);
    (start, ranges().map(|range| range.1).max().unwrap_or(0))
}

/// Runs a piece of the Parquet library: damaged input that makes it panic is damaged input all the same.
pub(crate) fn guarded<T>(
    work: impl FnOnce() -> std::result::Result<T, ParquetError>,
) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("its bytes make no sense".to_owned()),
    }
}

/// Magic and footer length: tells another kind of file from a damaged one.
fn check_frame(path: &Path, file: &mut File, bytes: u64) -> Result<()> {
    let read_error = |cause| Error::Read { path: path.to_path_buf(), cause };
    let mut head = Vec::new();
    file.take(64).read_to_end(&mut head).map_err(read_error)?;
    if !head.starts_with(b"PAR1") {
        let (found, advice) = describe_other(&head);
        return Err(Error::NotParquet { path: path.to_path_buf(), found, advice });
    }
    let truncated = |detail: String| Err(Error::Truncated { path: path.to_path_buf(), detail });
    if bytes < LEAST_BYTES {
        return truncated(format!("it has only {bytes} bytes"));
    }
    let mut tail = [0; 8];
    file.seek(SeekFrom::End(-8)).and_then(|_| file.read_exact(&mut tail)).map_err(read_error)?;
    if &tail[4..] != b"PAR1" {
        if crate::is_partial(path) {
            return Err(Error::Partial { path: path.to_path_buf() });
        }
        return truncated(format!("its {bytes} bytes end without a footer"));
    }
    let footer = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if footer + LEAST_BYTES > bytes {
        return truncated(format!("a footer of {footer} bytes does not fit in its {bytes} bytes"));
    }
    Ok(())
}

fn describe_other(head: &[u8]) -> (String, &'static str) {
    const IMPORT: &str = "Turn it into a journal first: keel import INPUT -o game.journal.parquet";
    const OTHER: &str = "Give a file that `keel record` or `keel import` wrote";
    if head.is_empty() {
        ("it is empty".to_owned(), OTHER)
    } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        ("it is compressed with zstd".to_owned(), IMPORT)
    } else if head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
        ("it is text".to_owned(), IMPORT)
    } else {
        ("it is not a Parquet file".to_owned(), OTHER)
    }
}

pub(crate) fn footer_entry<'a>(parquet: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let entries = parquet.file_metadata().key_value_metadata()?;
    entries.iter().find(|entry| entry.key == key)?.value.as_deref()
}

fn read_metadata(path: &Path, parquet: &ParquetMetaData, checksums: Option<&Checksums>) -> Result<Metadata> {
    let Some(text) = footer_entry(parquet, METADATA_KEY) else {
        let schema = parquet.file_metadata().schema_descr();
        let names: Vec<String> =
            schema.columns().iter().take(12).map(|column| column.path().string()).collect();
        return Err(Error::NotJournal { path: path.to_path_buf(), columns: names.join(", ") });
    };
    let corrupt = |detail: String| {
        let place = format!("footer, entry {METADATA_KEY}");
        Error::Corrupt { path: path.to_path_buf(), place, detail }
    };
    #[derive(serde::Deserialize)]
    struct Version {
        version: u64,
    }
    let Version { version } = serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))?;
    if version > u64::from(FORMAT_VERSION) {
        return Err(Error::Future { path: path.to_path_buf(), version, known: FORMAT_VERSION });
    }
    if checksums.is_some_and(|sums| sums.metadata != crc32fast::hash(text.as_bytes())) {
        return Err(corrupt("its checksum does not match".to_owned()));
    }
    serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))
}

fn find_columns(path: &Path, parquet: &ParquetMetaData) -> Result<[usize; COLUMNS.len()]> {
    let mut positions = [0; COLUMNS.len()];
    for (position, name) in positions.iter_mut().zip(COLUMNS) {
        *position = find_column(parquet, name).ok_or_else(|| {
            let detail = format!("there is no column `{name}` of integers");
            Error::Corrupt { path: path.to_path_buf(), place: "schema".to_owned(), detail }
        })?;
    }
    Ok(positions)
}

/// The column with this name, if it holds integers, one a row.
fn find_column(parquet: &ParquetMetaData, name: &str) -> Option<usize> {
    let columns = parquet.file_metadata().schema_descr().columns();
    columns.iter().position(|column| {
        column.path().parts() == [name]
            && matches!(column.physical_type(), PhysicalType::INT32 | PhysicalType::INT64)
            && column.max_rep_level() == 0
    })
}
