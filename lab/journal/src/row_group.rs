//! Decodes one row group.

use crate::columns::COLUMNS;
use crate::footer::guarded;
use crate::{Event, FreeHint, Op, Origin};
use bytes::{Buf as _, Bytes};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use std::sync::Arc;

/// The columns that every reader decodes; see [`COLUMNS`].
const EVENT_COLUMNS: usize = 9;
const OPTIONAL_COLUMNS: usize = COLUMNS.len() - EVENT_COLUMNS;
// Indices into `RowGroup::optional`.
const MODULE: usize = 0;
const STACK: usize = 1;
const FREE_HINT: usize = 2;
const HINT_SIZE: usize = 3;
const HINT_ALIGN: usize = 4;

/// A null of a nullable column; no valid value is negative.
const NULL: i64 = -1;

/// A row group. Each call of [`RowGroup::decode`] decodes its next batch of rows.
pub(crate) struct RowGroup {
    /// The first [`EVENT_COLUMNS`] of [`COLUMNS`].
    columns: Vec<Column>,
    /// The other columns; `None` for a column that is all null or was not requested.
    optional: [Option<Column>; OPTIONAL_COLUMNS],
    left: usize,
}

impl RowGroup {
    /// Opens a row group. `bytes` are the bytes of the file from `start` on. The error is a text.
    pub fn open(
        metadata: &RowGroupMetaData,
        start: u64,
        bytes: Bytes,
        positions: &[usize; COLUMNS.len()],
        origins: bool,
    ) -> Result<RowGroup, String> {
        let chunk = Arc::new(Chunk { start, bytes });
        let rows = metadata.num_rows() as usize;
        let open = |position: usize| {
            let column = metadata.column(position);
            guarded(|| {
                let pages = SerializedPageReader::new(Arc::clone(&chunk), column, rows, None)?;
                Ok(Column::new(get_column_reader(column.column_descr_ptr(), Box::new(pages))))
            })
        };
        let (always, others) = positions.split_at(EVENT_COLUMNS);
        let columns = always.iter().map(|position| open(*position)).collect::<Result<_, _>>()?;
        let mut optional = [const { None }; OPTIONAL_COLUMNS];
        for (index, (column, position)) in optional.iter_mut().zip(others).enumerate() {
            // In most row groups, the statistics show that most of these columns are all null.
            if (origins || index >= FREE_HINT) && has_values(metadata, *position) {
                *column = Some(open(*position)?);
            }
        }
        Ok(RowGroup { columns, optional, left: rows })
    }

    pub fn rows_left(&self) -> usize {
        self.left
    }

    /// Decodes at most `most` further rows and returns their number. An error names the column.
    pub fn decode(&mut self, most: usize) -> Result<usize, (&'static str, String)> {
        let count = self.left.min(most);
        let optional = self.optional.iter_mut().zip(&COLUMNS[EVENT_COLUMNS..]);
        let optional = optional.filter_map(|(column, name)| Some((column.as_mut()?, name)));
        for (column, name) in self.columns.iter_mut().zip(&COLUMNS).chain(optional) {
            guarded(|| column.read(count)).map_err(|detail| (*name, detail))?;
        }
        self.left -= count;
        Ok(count)
    }

    /// Returns one of the rows that were decoded last.
    #[inline]
    pub fn event(&self, index: usize) -> Result<Event, String> {
        let value = |column: usize| self.columns[column].dense[index];
        let optional = |column: usize| value(column).max(0) as u64;
        // In the order of `COLUMNS`.
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
            free_hint: self.free_hint(index)?,
        })
    }

    #[inline]
    fn optional(&self, column: usize, index: usize) -> i64 {
        self.optional[column].as_ref().map_or(NULL, |column| column.dense[index])
    }

    #[inline]
    fn free_hint(&self, index: usize) -> Result<FreeHint, String> {
        let code = self.optional(FREE_HINT, index);
        if code == NULL {
            return Ok(FreeHint::NONE);
        }
        let value = |column: usize| u64::try_from(self.optional(column, index)).ok();
        u8::try_from(code)
            .ok()
            .and_then(|code| FreeHint::from_file(code, value(HINT_SIZE), value(HINT_ALIGN)))
            .ok_or_else(|| format!("free_hint {code} is not valid with the values beside it"))
    }

    #[inline]
    pub fn origin(&self, index: usize) -> Origin {
        let value =
            |column: usize| u32::try_from(self.optional(column, index)).unwrap_or(Origin::NONE);
        Origin { module: value(MODULE), stack: value(STACK) }
    }
}

/// A column of a row group, and the values of the rows that were decoded last. Nulls are stored as
/// [`NULL`].
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

    fn read(&mut self, count: usize) -> Result<(), ParquetError> {
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
) -> Result<(), ParquetError> {
    let (rows, present, _) = reader.read_records(count, Some(levels), None, values)?;
    let complete = rows == count && (present == count || levels.len() == count);
    if complete {
        Ok(())
    } else {
        Err(ParquetError::General(format!("{rows} rows where {count} were expected")))
    }
}

/// The bytes of a row group. They are addressed by their offset in the file.
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

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let rest =
            start.checked_sub(self.start).filter(|offset| *offset <= self.bytes.len() as u64);
        let offset = rest
            .ok_or_else(|| ParquetError::EOF(format!("byte {start} is outside the row group")))?;
        Ok(self.bytes.slice(offset as usize..).reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = start.saturating_add(length as u64);
        if start < self.start || end > self.len() {
            return Err(ParquetError::EOF(format!(
                "bytes {start} to {end} are outside the row group"
            )));
        }
        let offset = (start - self.start) as usize;
        Ok(self.bytes.slice(offset..offset + length))
    }
}

/// Returns true if a column may have a value in a row group.
fn has_values(group: &RowGroupMetaData, position: usize) -> bool {
    let column = group.column(position);
    let nulls = column.statistics().and_then(|statistics| statistics.null_count_opt());
    nulls.is_none_or(|nulls| nulls < column.num_values() as u64)
}

/// Returns the offset of a row group's first byte in the file, and the offset after its last byte.
pub(crate) fn byte_range(group: &RowGroupMetaData) -> (u64, u64) {
    let ranges = || {
        group.columns().iter().map(|column| {
            let start =
                column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
            let end = start.saturating_add(column.compressed_size());
            (start.max(0) as u64, end.max(0) as u64)
        })
    };
    let start = ranges().map(|range| range.0).min().unwrap_or(0);
    (start, ranges().map(|range| range.1).max().unwrap_or(0))
}
