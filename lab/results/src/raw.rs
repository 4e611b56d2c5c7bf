//! The raw rows of a result folder: streaming writers and readers of `operations.parquet` and
//! `run-*.parquet`.
//!
//! Memory use does not depend on the number of rows: a writer holds one row group, a reader one
//! batch. Writers take and readers return the same borrowed struct of slices, so that no row is
//! converted on its own.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, RecordBatch, UInt8Array, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File name of the operations in a result folder.
pub const OPERATIONS_FILE: &str = "operations.parquet";
/// File name of the call stacks in a result folder, which exists if the journal had call stacks:
/// JSON with the keys `modules` and `stacks` of the journal's metadata.
pub const STACKS_FILE: &str = "stacks.json";
/// Rows in a batch of a reader, and the most that a writer converts at a time.
pub const BATCH_ROWS: usize = 1 << 16;
const ROW_GROUP_ROWS: usize = 1 << 20;

const OPERATION_COLUMNS: [(&str, DataType); 5] = [
    ("op", DataType::UInt8),
    ("size", DataType::UInt64),
    ("thread", DataType::UInt32),
    ("frame", DataType::UInt32),
    ("time", DataType::UInt64),
];
/// The distance in rows to the row that allocated the block released by this row; 0 if it releases
/// none. With it, other tools can find the allocation of each free.
const AGE_COLUMN: (&str, DataType) = ("age", DataType::UInt32);
/// The node of the call stack, an index into the nodes of [`STACKS_FILE`]; `u32::MAX` for none.
/// Only results of a journal with call stacks have this column.
const STACK_COLUMN: (&str, DataType) = ("stack", DataType::UInt32);
const RUN_COLUMNS: [(&str, DataType); 3] =
    [("start", DataType::UInt64), ("ticks", DataType::UInt32), ("cause", DataType::UInt8)];

/// An error of a file of raw rows. The text names the file and what to do.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// The file cannot be opened, created or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The file cannot be written, for example because the disk is full.
    #[error(
        "cannot write {}: {cause}; free some disk space, or choose another place",
        path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The file is not a Parquet file, or is truncated.
    #[error("{}: {detail}; the file may be truncated: run `keel compare` again", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The Parquet library's message.
        detail: String,
    },
    /// The file is Parquet, but of another kind.
    #[error("{}: no column `{column}` of type {expected}: this is not a file of \
        {kind}", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// The column that is missing or of another type.
        column: &'static str,
        /// The type it must have.
        expected: String,
        /// The expected contents of the file.
        kind: &'static str,
    },
}

/// Replayed operations in journal order. All slices have the same length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperationRows<'a> {
    /// Code of the operation, as in the `op` column of a journal.
    pub op: &'a [u8],
    /// Requested bytes; for a free, the bytes of the block that it frees (0 if unknown).
    pub size: &'a [u64],
    /// The journal's thread index.
    pub thread: &'a [u32],
    /// Number of frame marks at or before the operation.
    pub frame: &'a [u32],
    /// Time in the journal, ns since its start; never decreasing.
    pub time: &'a [u64],
}

/// The measurements of one run, for each row of `operations.parquet`. All slices have the same
/// length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunRows<'a> {
    /// Start of the call, ns since the run's start.
    pub start: &'a [u64],
    /// Ticks inside the call; [`crate::Clock::ticks_per_ns`] of them are a nanosecond.
    pub ticks: &'a [u32],
    /// Set of `CAUSE_*` bits.
    pub cause: &'a [u8],
}

/// Writes `operations.parquet`. Call [`OperationWriter::finish`]: without it the file has no footer
/// and is unreadable.
pub struct OperationWriter {
    table: TableWriter,
    has_stacks: bool,
}

/// Writes `run-<allocator>-<number>.parquet`. Call [`RunWriter::finish`].
pub struct RunWriter(TableWriter);

/// Reads `operations.parquet`, a batch at a time.
pub struct OperationReader(TableReader);

/// Reads `run-<allocator>-<number>.parquet`, a batch at a time.
pub struct RunReader(TableReader);

/// Reads the ages of `operations.parquet`, a batch at a time: see
/// [`OperationWriter::write_with_ages`].
pub struct AgeReader(TableReader);

/// Reads the call stacks of `operations.parquet`, a batch at a time: see
/// [`OperationWriter::create_with_stacks`].
pub struct StackReader(TableReader);

impl StackReader {
    /// Opens the file and checks that it has the column.
    pub fn open(path: &Path) -> Result<Self, RawError> {
        TableReader::open(path, &[STACK_COLUMN], "operations with call stacks").map(StackReader)
    }

    /// The next at most [`BATCH_ROWS`] rows; None at the end. `u32::MAX` represents no stack.
    pub fn next_rows(&mut self) -> Result<Option<&[u32]>, RawError> {
        Ok(self
            .0
            .advance()?
            .map(|batch| -> &[u32] { batch.column(0).as_primitive::<UInt32Type>().values() }))
    }
}

impl AgeReader {
    /// Opens the file and checks that it has the column.
    pub fn open(path: &Path) -> Result<Self, RawError> {
        TableReader::open(path, &[AGE_COLUMN], "operations with their ages").map(AgeReader)
    }

    /// The next at most [`BATCH_ROWS`] rows; None at the end.
    pub fn next_rows(&mut self) -> Result<Option<&[u32]>, RawError> {
        Ok(self
            .0
            .advance()?
            .map(|batch| -> &[u32] { batch.column(0).as_primitive::<UInt32Type>().values() }))
    }
}

impl OperationWriter {
    /// Creates or replaces the file at `path`.
    pub fn create(path: &Path) -> Result<Self, RawError> {
        let [op, size, thread, frame, time] = OPERATION_COLUMNS;
        let table = TableWriter::create(path, &[op, size, thread, frame, time, AGE_COLUMN])?;
        Ok(OperationWriter { table, has_stacks: false })
    }

    /// Creates or replaces the file at `path`, with a column for call stacks. Rows are then written
    /// with [`OperationWriter::write_with_stacks`].
    pub fn create_with_stacks(path: &Path) -> Result<Self, RawError> {
        let [op, size, thread, frame, time] = OPERATION_COLUMNS;
        let columns = [op, size, thread, frame, time, AGE_COLUMN, STACK_COLUMN];
        Ok(OperationWriter { table: TableWriter::create(path, &columns)?, has_stacks: true })
    }

    /// Appends any number of rows with unknown ages.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn write(&mut self, rows: OperationRows<'_>) -> Result<(), RawError> {
        self.write_with_ages(rows, &vec![0; rows.op.len()])
    }

    /// Appends rows. `ages` holds, for each row, the distance in rows to the allocation of the
    /// block that it releases, or 0.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn write_with_ages(
        &mut self,
        rows: OperationRows<'_>,
        ages: &[u32],
    ) -> Result<(), RawError> {
        self.write_with_stacks(rows, ages, &[])
    }

    /// Like [`OperationWriter::write_with_ages`]; `stacks` holds the call stack of each row. It is
    /// empty if and only if the file has no column for stacks.
    ///
    /// # Panics
    /// If the slices differ in length, or if the file has no column for these stacks.
    pub fn write_with_stacks(
        &mut self,
        rows: OperationRows<'_>,
        ages: &[u32],
        stacks: &[u32],
    ) -> Result<(), RawError> {
        let count = rows.op.len();
        let stacks_expected = if self.has_stacks { count } else { 0 };
        assert!(stacks.len() == stacks_expected, "a stack for each row of a file with stacks");
        assert!(
            [rows.size.len(), rows.time.len(), ages.len()] == [count; 3],
            "columns of one length"
        );
        assert!([rows.thread.len(), rows.frame.len()] == [count; 2], "columns of one length");
        for from in (0..count).step_by(BATCH_ROWS) {
            let part = from..count.min(from + BATCH_ROWS);
            let mut columns: Vec<ArrayRef> = vec![
                Arc::new(UInt8Array::from(rows.op[part.clone()].to_vec())),
                Arc::new(UInt64Array::from(rows.size[part.clone()].to_vec())),
                Arc::new(UInt32Array::from(rows.thread[part.clone()].to_vec())),
                Arc::new(UInt32Array::from(rows.frame[part.clone()].to_vec())),
                Arc::new(UInt64Array::from(rows.time[part.clone()].to_vec())),
                Arc::new(UInt32Array::from(ages[part.clone()].to_vec())),
            ];
            if self.has_stacks {
                columns.push(Arc::new(UInt32Array::from(stacks[part].to_vec())));
            }
            self.table.write(columns)?;
        }
        Ok(())
    }

    /// Writes the footer; returns the number of rows in the file.
    pub fn finish(self) -> Result<u64, RawError> {
        self.table.finish()
    }
}

impl RunWriter {
    /// Creates or replaces the file at `path`.
    pub fn create(path: &Path) -> Result<Self, RawError> {
        TableWriter::create(path, &RUN_COLUMNS).map(RunWriter)
    }

    /// Appends any number of rows.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn write(&mut self, rows: RunRows<'_>) -> Result<(), RawError> {
        let count = rows.start.len();
        assert!([rows.ticks.len(), rows.cause.len()] == [count; 2], "columns of one length");
        for from in (0..count).step_by(BATCH_ROWS) {
            let part = from..count.min(from + BATCH_ROWS);
            self.0.write(vec![
                Arc::new(UInt64Array::from(rows.start[part.clone()].to_vec())),
                Arc::new(UInt32Array::from(rows.ticks[part.clone()].to_vec())),
                Arc::new(UInt8Array::from(rows.cause[part].to_vec())),
            ])?;
        }
        Ok(())
    }

    /// Writes the footer; returns the number of rows in the file.
    pub fn finish(self) -> Result<u64, RawError> {
        self.0.finish()
    }
}

impl OperationReader {
    /// Opens the file and checks its columns.
    pub fn open(path: &Path) -> Result<Self, RawError> {
        TableReader::open(path, &OPERATION_COLUMNS, "operations").map(OperationReader)
    }

    /// Rows in the file.
    pub fn rows(&self) -> u64 {
        self.0.rows
    }

    /// The next at most [`BATCH_ROWS`] rows; None at the end.
    pub fn next_rows(&mut self) -> Result<Option<OperationRows<'_>>, RawError> {
        Ok(self.0.advance()?.map(|batch| OperationRows {
            op: batch.column(0).as_primitive::<UInt8Type>().values(),
            size: batch.column(1).as_primitive::<UInt64Type>().values(),
            thread: batch.column(2).as_primitive::<UInt32Type>().values(),
            frame: batch.column(3).as_primitive::<UInt32Type>().values(),
            time: batch.column(4).as_primitive::<UInt64Type>().values(),
        }))
    }
}

/// One row of `operations.parquet`, as in [`OperationRows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// See [`OperationRows::op`].
    pub op: u8,
    /// See [`OperationRows::size`].
    pub size: u64,
    /// See [`OperationRows::time`].
    pub time: u64,
}

/// Reads one row of the file at `path`; None if there is no such row. Does not read the rows before
/// it.
pub fn operation_at(path: &Path, row: u64) -> Result<Option<Operation>, RawError> {
    let skipped = usize::try_from(row).unwrap_or(usize::MAX);
    let mut reader =
        OperationReader(TableReader::open_at(path, &OPERATION_COLUMNS, "operations", skipped, 1)?);
    let rows = if row < reader.rows() { reader.next_rows()? } else { None };
    Ok(rows.filter(|rows| !rows.op.is_empty()).map(|rows| Operation {
        op: rows.op[0],
        size: rows.size[0],
        time: rows.time[0],
    }))
}

impl RunReader {
    /// Opens the file and checks its columns.
    pub fn open(path: &Path) -> Result<Self, RawError> {
        TableReader::open(path, &RUN_COLUMNS, "a run's measurements").map(RunReader)
    }

    /// Rows in the file.
    pub fn rows(&self) -> u64 {
        self.0.rows
    }

    /// The next at most [`BATCH_ROWS`] rows; None at the end.
    pub fn next_rows(&mut self) -> Result<Option<RunRows<'_>>, RawError> {
        Ok(self.0.advance()?.map(|batch| RunRows {
            start: batch.column(0).as_primitive::<UInt64Type>().values(),
            ticks: batch.column(1).as_primitive::<UInt32Type>().values(),
            cause: batch.column(2).as_primitive::<UInt8Type>().values(),
        }))
    }
}

/// A Parquet file with these columns, none of them nullable.
struct TableWriter {
    path: PathBuf,
    schema: Arc<Schema>,
    writer: ArrowWriter<File>,
    rows: u64,
}

impl TableWriter {
    fn create(path: &Path, columns: &[(&'static str, DataType)]) -> Result<Self, RawError> {
        let io = |cause| RawError::Io { path: path.to_path_buf(), cause };
        let file = File::create(path).map_err(io)?;
        let fields: Vec<Field> =
            columns.iter().map(|(name, kind)| Field::new(*name, kind.clone(), false)).collect();
        let schema = Arc::new(Schema::new(fields));
        let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties()))
            .map_err(|error| write_error(path, error))?;
        Ok(TableWriter { path: path.to_path_buf(), schema, writer, rows: 0 })
    }

    fn write(&mut self, columns: Vec<ArrayRef>) -> Result<(), RawError> {
        let batch = RecordBatch::try_new(self.schema.clone(), columns)
            .map_err(|error| parquet_error(&self.path, &error))?;
        self.rows += batch.num_rows() as u64;
        self.writer.write(&batch).map_err(|error| write_error(&self.path, error))
    }

    fn finish(mut self) -> Result<u64, RawError> {
        self.writer.finish().map_err(|error| write_error(&self.path, error))?;
        // Now, so that the system does not write the rows back during a later timed run.
        let synced = self.writer.inner().sync_data();
        synced.map_err(|cause| RawError::Write { path: self.path.clone(), cause })?;
        Ok(self.rows)
    }
}

/// Times rise and ticks cluster, so delta encoding suits them. The other columns have few distinct
/// values and use dictionaries.
fn properties() -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_compression(Compression::ZSTD(ZstdLevel::default()));
    for column in ["time", "start", "ticks"] {
        builder = builder
            .set_column_dictionary_enabled(column.into(), false)
            .set_column_encoding(column.into(), Encoding::DELTA_BINARY_PACKED);
    }
    builder.build()
}

struct TableReader {
    path: PathBuf,
    rows: u64,
    batches: ParquetRecordBatchReader,
    current: Option<RecordBatch>,
}

impl TableReader {
    fn open(
        path: &Path,
        columns: &[(&'static str, DataType)],
        kind: &'static str,
    ) -> Result<Self, RawError> {
        Self::open_at(path, columns, kind, 0, BATCH_ROWS)
    }

    /// Skips the first `skipped` rows; `batch` is the number of rows in a batch.
    fn open_at(
        path: &Path,
        columns: &[(&'static str, DataType)],
        kind: &'static str,
        skipped: usize,
        batch: usize,
    ) -> Result<Self, RawError> {
        let file =
            File::open(path).map_err(|cause| RawError::Io { path: path.to_path_buf(), cause })?;
        let builder = guarded(path, || ParquetRecordBatchReaderBuilder::try_new(file))?;
        let mut indices = Vec::with_capacity(columns.len());
        for (column, expected) in columns {
            let found = builder.schema().column_with_name(column);
            match found {
                Some((index, field)) if field.data_type() == expected => indices.push(index),
                _ => {
                    let (path, expected) = (path.to_path_buf(), expected.to_string());
                    return Err(RawError::Schema { path, column, expected, kind });
                }
            }
        }
        // A projection keeps the file's order of columns, and this crate writes only this order.
        if !indices.is_sorted() {
            return Err(parquet_error(
                path,
                &"columns in an order that this version does not write",
            ));
        }
        let rows = builder.metadata().file_metadata().num_rows().max(0) as u64;
        let mask = ProjectionMask::roots(builder.parquet_schema(), indices);
        let builder = builder.with_projection(mask).with_batch_size(batch).with_offset(skipped);
        let batches = guarded(path, || builder.build())?;
        Ok(TableReader { path: path.to_path_buf(), rows, batches, current: None })
    }

    fn advance(&mut self) -> Result<Option<&RecordBatch>, RawError> {
        let batches = &mut self.batches;
        self.current = guarded(&self.path, || batches.next().transpose())?;
        Ok(self.current.as_ref())
    }
}

/// Runs code of the Parquet library. If damaged input makes it panic, the result is an error.
fn guarded<T, E: std::fmt::Display>(
    path: &Path,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, RawError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| parquet_error(path, &error)),
        Err(_) => Err(parquet_error(path, &"its bytes cannot be decoded")),
    }
}

/// The system's error, if the Parquet library passed one on.
fn write_error(path: &Path, error: ParquetError) -> RawError {
    match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(cause) => RawError::Write { path: path.to_path_buf(), cause: *cause },
            Err(cause) => parquet_error(path, &cause),
        },
        other => parquet_error(path, &other),
    }
}

fn parquet_error(path: &Path, error: &dyn std::fmt::Display) -> RawError {
    RawError::Parquet { path: path.to_path_buf(), detail: error.to_string() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn operations_are_read_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(OPERATIONS_FILE);
        let count = BATCH_ROWS * 2 + 17;
        let op: Vec<u8> = (0..count).map(|row| (row % 5) as u8).collect();
        let size: Vec<u64> =
            (0..count).map(|row| (row as u64).wrapping_mul(0x9e37_79b9) % 100_000).collect();
        let thread: Vec<u32> = (0..count).map(|row| (row % 3) as u32).collect();
        let frame: Vec<u32> = (0..count).map(|row| (row / 1000) as u32).collect();
        let time: Vec<u64> = (0..count).map(|row| row as u64 * 37).collect();
        let rows =
            OperationRows { op: &op, size: &size, thread: &thread, frame: &frame, time: &time };
        let mut writer = OperationWriter::create(&path).unwrap();
        writer.write(rows).unwrap();
        assert_eq!(writer.finish().unwrap(), count as u64);

        let mut reader = OperationReader::open(&path).unwrap();
        assert_eq!(reader.rows(), count as u64);
        let mut seen = 0;
        while let Some(rows) = reader.next_rows().unwrap() {
            let part = seen..seen + rows.op.len();
            assert_eq!(rows.op, &op[part.clone()]);
            assert_eq!(rows.size, &size[part.clone()]);
            assert_eq!(rows.thread, &thread[part.clone()]);
            assert_eq!(rows.frame, &frame[part.clone()]);
            assert_eq!(rows.time, &time[part.clone()]);
            seen = part.end;
        }
        assert_eq!(seen, count);
        for row in [0, 1, BATCH_ROWS + 5, count - 1] {
            let found = Operation { op: op[row], size: size[row], time: time[row] };
            assert_eq!(operation_at(&path, row as u64).unwrap(), Some(found));
        }
        assert_eq!(operation_at(&path, count as u64).unwrap(), None);
    }

    #[test]
    fn ages_are_read_as_written_and_are_0_if_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(OPERATIONS_FILE);
        let rows = OperationRows {
            op: &[0, 1],
            size: &[8, 8],
            thread: &[0, 0],
            frame: &[0, 0],
            time: &[1, 2],
        };
        let mut writer = OperationWriter::create(&path).unwrap();
        writer.write_with_ages(rows, &[0, 1]).unwrap();
        writer.write(rows).unwrap();
        writer.finish().unwrap();
        let mut ages = AgeReader::open(&path).unwrap();
        assert_eq!(ages.next_rows().unwrap().unwrap(), [0, 1, 0, 0]);
        assert!(ages.next_rows().unwrap().is_none());
        assert_eq!(OperationReader::open(&path).unwrap().rows(), 4);
    }

    #[test]
    fn a_run_with_extreme_values_is_read_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run-keel-0.parquet");
        let start = [0, 1, u64::MAX / 2, u64::MAX];
        let ticks = [0, u32::MAX, 1, 77];
        let cause = [0, 255, 1, 2];
        let mut writer = RunWriter::create(&path).unwrap();
        writer.write(RunRows { start: &start, ticks: &ticks, cause: &cause }).unwrap();
        writer.finish().unwrap();
        let mut reader = RunReader::open(&path).unwrap();
        let rows = reader.next_rows().unwrap().unwrap();
        assert_eq!(rows, RunRows { start: &start, ticks: &ticks, cause: &cause });
        assert!(reader.next_rows().unwrap().is_none());
    }

    #[test]
    fn a_full_disk_is_named_with_what_to_do() {
        let mut writer = RunWriter::create(Path::new("/dev/full")).unwrap();
        let rows = RunRows { start: &[1, 2], ticks: &[3, 4], cause: &[0, 0] };
        let written = writer.write(rows).and_then(|()| writer.finish());
        let message = written.unwrap_err().to_string();
        assert!(
            message.starts_with("cannot write /dev/full: No space left on device"),
            "{message}"
        );
        assert!(message.ends_with("; free some disk space, or choose another place"), "{message}");
    }

    #[test]
    fn errors_of_truncated_and_foreign_files_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let torn = folder.path().join("torn.parquet");
        std::fs::write(&torn, b"PAR1 and then nothing").unwrap();
        let text = RunReader::open(&torn).err().unwrap().to_string();
        assert!(text.contains("torn.parquet") && text.contains("truncated"), "{text}");

        let run = folder.path().join("run.parquet");
        let mut writer = RunWriter::create(&run).unwrap();
        writer.write(RunRows { start: &[1], ticks: &[2], cause: &[3] }).unwrap();
        writer.finish().unwrap();
        let text = OperationReader::open(&run).err().unwrap().to_string();
        assert!(text.contains("no column `op`") && text.contains("operations"), "{text}");

        let missing =
            RunReader::open(&folder.path().join("absent.parquet")).err().unwrap().to_string();
        assert!(missing.contains("absent.parquet"), "{missing}");
    }
}
