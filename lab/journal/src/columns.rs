//! The columns of a journal file; `journal/FORMAT.md` describes them for other programs.
//!
//! The encoding of each column was chosen by measurements of seventeen real journals
//! (docs/reference/journal-size.md):
//! - `time`, `created`, `released` grow with the row: DELTA_BINARY_PACKED stores the small
//!   differences. The differences of `released` repeat. They are packed in whole bytes, so that
//!   zstd finds the repetitions;
//! - `size` repeats but has many distinct values: BYTE_STREAM_SPLIT gathers its zero bytes, and
//!   zstd removes them. A dictionary would be larger and would overflow;
//! - `op`, `thread`, `align`, `free_hint` have few values: they use a dictionary.

use crate::chunk::{Column, Way};
use crate::{Error, Event, FreeHint, Origin, Result};
use parquet::file::metadata::{RowGroupMetaData, SortingColumn};
use parquet::file::properties::WriterProperties;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;
use std::sync::Arc;

/// Key of the footer entry with the [`crate::Metadata`] as JSON.
pub(crate) const METADATA_KEY: &str = "keel.journal";
/// Key of the footer entry with the checksums as JSON.
pub(crate) const CHECKSUMS_KEY: &str = "keel.checksums";

/// Names in the order of the file. The first nine columns are always decoded. The columns of
/// [`Origin`] and of [`FreeHint`] follow.
pub(crate) const COLUMNS: [&str; 14] = [
    "time",
    "begin",
    "thread",
    "op",
    "size",
    "align",
    "created",
    "released",
    "frame", // Event
    "module",
    "stack", // Origin
    "free_hint",
    "hint_size",
    "hint_align",
];

const SCHEMA: &str = "
message journal {
  REQUIRED INT64 time;
  OPTIONAL INT64 begin;
  REQUIRED INT32 thread;
  REQUIRED INT32 op (INTEGER(8,true));
  REQUIRED INT64 size;
  OPTIONAL INT64 align;
  OPTIONAL INT64 created;
  OPTIONAL INT64 released;
  REQUIRED INT32 frame;
  OPTIONAL INT32 module;
  OPTIONAL INT32 stack;
  OPTIONAL INT32 free_hint (INTEGER(8,true));
  OPTIONAL INT64 hint_size;
  OPTIONAL INT64 hint_align;
}";

/// Checksums of the file's bytes: CRC-32 (IEEE).
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Checksums {
    /// Checksum of the UTF-8 text of the metadata entry.
    pub metadata: u32,
    /// Checksum of the places and sizes in the footer; see [`layout_crc32`].
    pub layout: u32,
    /// Checksum of each row group, in order.
    pub row_groups: Vec<Checksum>,
}

#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Checksum {
    pub offset: u64,
    pub length: u64,
    pub crc32: u32,
}

/// Returns the CRC-32 of these numbers as 64-bit little-endian integers. For each row group: its
/// number of rows, and for each of its columns `num_values`, `total_compressed_size`,
/// `data_page_offset`, `dictionary_page_offset` (0 if there is none).
pub(crate) fn layout_crc32(groups: &[RowGroupMetaData]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for group in groups {
        hasher.update(&group.num_rows().to_le_bytes());
        for column in group.columns() {
            hasher.update(&column.num_values().to_le_bytes());
            hasher.update(&column.compressed_size().to_le_bytes());
            hasher.update(&column.data_page_offset().to_le_bytes());
            hasher.update(&column.dictionary_page_offset().unwrap_or(0).to_le_bytes());
        }
    }
    hasher.finalize()
}

pub(crate) fn schema() -> Result<TypePtr> {
    let schema = parse_message_type(SCHEMA).map_err(|error| Error::Encode(error.to_string()))?;
    Ok(Arc::new(schema))
}

pub(crate) fn properties() -> WriterProperties {
    let by_time = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
    WriterProperties::builder()
        .set_created_by(format!("keel {}", env!("CARGO_PKG_VERSION")))
        .set_offset_index_disabled(true)
        .set_sorting_columns(Some(vec![by_time]))
        .build()
}

/// A nullable column in Parquet's form: a flag for each row, and the values of the rows that have
/// one.
#[derive(Default)]
pub(crate) struct Nullable<T> {
    rows: usize,
    /// For each row, true if it has a value. Empty while no row has one.
    present: Vec<bool>,
    values: Vec<T>,
}

impl<T: Copy + Default + PartialEq> Nullable<T> {
    /// Appends at most [`PENDING_ROWS`] rows. A row with `none` has no value. A branch on this
    /// would be unpredictable, so the code has no branch: every row writes its value, and if the
    /// value is `none`, the next row overwrites it.
    fn extend(&mut self, values: &[T], none: T) {
        if values.iter().fold(true, |all, value| all & (*value == none)) {
            return self.extend_with_nulls(values.len());
        }
        self.present.resize(self.rows, false);
        self.rows += values.len();
        self.present.extend(values.iter().map(|value| *value != none));
        let (mut kept, mut end) = ([none; PENDING_ROWS], 0);
        for value in values {
            kept[end % PENDING_ROWS] = *value;
            end += usize::from(*value != none);
        }
        self.values.extend_from_slice(&kept[..end]);
    }

    /// Appends rows without a value.
    fn extend_with_nulls(&mut self, rows: usize) {
        self.rows += rows;
        if !self.values.is_empty() {
            self.present.resize(self.rows, false);
        }
    }

    fn clear(&mut self) {
        self.rows = 0;
        self.present.clear();
        self.values.clear();
    }

    pub fn column(&self, way: Way) -> Column<'_, T> {
        Column { values: &self.values, present: Some(&self.present), rows: self.rows, way }
    }
}

/// Represents a missing value in columns where 0 is a value.
const NONE: i64 = -1;

/// Number of rows that are gathered before they are appended to the columns. They fit in the
/// first-level cache.
const PENDING_ROWS: usize = 256;

/// The last rows, by column. Each number is stored once, in the place from which it is copied to
/// its column. To assemble a row and copy it, or to append to nine columns for each row, would take
/// several times as long.
struct Pending {
    count: usize,
    time: [i64; PENDING_ROWS],
    /// [`NONE`] if `begin` is equal to `time`.
    begin: [i64; PENDING_ROWS],
    thread: [i32; PENDING_ROWS],
    op: [i32; PENDING_ROWS],
    size: [i64; PENDING_ROWS],
    align: [i64; PENDING_ROWS],
    created: [i64; PENDING_ROWS],
    released: [i64; PENDING_ROWS],
    frame: [i32; PENDING_ROWS],
}

impl Default for Pending {
    fn default() -> Pending {
        let (wide, narrow) = ([0; PENDING_ROWS], [0; PENDING_ROWS]);
        Pending {
            count: 0,
            time: wide,
            begin: wide,
            thread: narrow,
            op: narrow,
            size: wide,
            align: wide,
            created: wide,
            released: wide,
            frame: narrow,
        }
    }
}

/// The rows of the next row group, by column. [`Batch::flush_pending`] must be called after the
/// last row.
#[derive(Default)]
pub(crate) struct Batch {
    pending: Box<Pending>,
    /// Origins of the pending rows; empty while all are unknown.
    pending_origins: Vec<Origin>,
    /// Hints of the pending rows; empty while no row has a hint.
    pending_hints: Vec<FreeHint>,
    /// The metadata known so far, for [`crate::salvage`].
    pub description: Option<Box<crate::Metadata>>,
    pub time: Vec<i64>,
    pub begin: Nullable<i64>,
    pub thread: Vec<i32>,
    pub op: Vec<i32>,
    pub size: Vec<i64>,
    pub align: Nullable<i64>,
    pub created: Nullable<i64>,
    pub released: Nullable<i64>,
    pub frame: Vec<i32>,
    pub module: Nullable<i32>,
    pub stack: Nullable<i32>,
    pub free_hint: Nullable<i32>,
    pub hint_size: Nullable<i64>,
    pub hint_align: Nullable<i64>,
}

impl Batch {
    pub fn rows(&self) -> usize {
        self.time.len() + self.pending.count
    }

    /// Appends one row. [`crate::Writer::push`] has checked that its numbers fit.
    #[inline]
    pub fn push(&mut self, event: &Event, origin: Origin) {
        let pending = &mut *self.pending;
        let row = pending.count;
        if (origin != Origin::UNKNOWN) | !self.pending_origins.is_empty() {
            append_at(&mut self.pending_origins, row, origin, Origin::UNKNOWN);
        }
        if (event.free_hint != FreeHint::NONE) | !self.pending_hints.is_empty() {
            append_at(&mut self.pending_hints, row, event.free_hint, FreeHint::NONE);
        }
        pending.time[row] = event.time as i64;
        pending.begin[row] = if event.begin == event.time { NONE } else { event.begin as i64 };
        pending.thread[row] = event.thread as i32;
        pending.op[row] = event.op as i32;
        pending.size[row] = event.size as i64;
        pending.align[row] = event.align as i64;
        pending.created[row] = event.created as i64;
        pending.released[row] = event.released as i64;
        pending.frame[row] = event.frame as i32;
        pending.count = row + 1;
        if pending.count == PENDING_ROWS {
            self.flush_pending();
        }
    }

    /// Appends the pending rows to the columns.
    pub fn flush_pending(&mut self) {
        let pending = &mut *self.pending;
        let count = std::mem::take(&mut pending.count);
        let rows = ..count;
        self.time.extend_from_slice(&pending.time[rows]);
        self.begin.extend(&pending.begin[rows], NONE);
        self.thread.extend_from_slice(&pending.thread[rows]);
        self.op.extend_from_slice(&pending.op[rows]);
        self.size.extend_from_slice(&pending.size[rows]);
        self.align.extend(&pending.align[rows], 0);
        self.created.extend(&pending.created[rows], 0);
        self.released.extend(&pending.released[rows], 0);
        self.frame.extend_from_slice(&pending.frame[rows]);
        self.flush_origins(count);
        self.flush_hints(count);
    }

    fn flush_origins(&mut self, count: usize) {
        if self.pending_origins.is_empty() {
            self.module.extend_with_nulls(count);
            return self.stack.extend_with_nulls(count);
        }
        // u32::MAX is -1.
        let none = Origin::NONE as i32;
        let mut indices = [none; PENDING_ROWS];
        let origins = self.pending_origins.iter();
        origins.clone().zip(&mut indices).for_each(|(origin, index)| *index = origin.module as i32);
        self.module.extend(&indices[..count], none);
        origins.zip(&mut indices).for_each(|(origin, index)| *index = origin.stack as i32);
        self.stack.extend(&indices[..count], none);
        self.pending_origins.clear();
    }

    fn flush_hints(&mut self, count: usize) {
        if self.pending_hints.is_empty() {
            self.free_hint.extend_with_nulls(count);
            self.hint_size.extend_with_nulls(count);
            return self.hint_align.extend_with_nulls(count);
        }
        let hints = || self.pending_hints.iter();
        let codes: Vec<i32> = hints().map(|hint| i32::from(hint.code())).collect();
        // Sizes and alignments are never negative.
        let number = |value: Option<u64>| value.map_or(NONE, |number| number as i64);
        let sizes: Vec<i64> = hints().map(|hint| number(hint.wrong_size())).collect();
        let aligns: Vec<i64> = hints().map(|hint| number(hint.wrong_align())).collect();
        self.free_hint.extend(&codes, 0);
        self.hint_size.extend(&sizes, NONE);
        self.hint_align.extend(&aligns, NONE);
        self.pending_hints.clear();
    }

    pub fn clear(&mut self) {
        self.pending.count = 0;
        self.pending_origins.clear();
        self.pending_hints.clear();
        self.description = None;
        self.time.clear();
        self.begin.clear();
        self.thread.clear();
        self.op.clear();
        self.size.clear();
        self.align.clear();
        self.created.clear();
        self.released.clear();
        self.frame.clear();
        self.module.clear();
        self.stack.clear();
        self.free_hint.clear();
        self.hint_size.clear();
        self.hint_align.clear();
    }
}

/// Appends the value of a pending row. The rows before it that have no value get `missing`.
#[cold]
fn append_at<T: Clone>(values: &mut Vec<T>, row: usize, value: T, missing: T) {
    values.resize(row, missing);
    values.push(value);
}
