//! The columns of a journal file and how each is encoded; `journal/FORMAT.md` says it for other programs.
//!
//! Which encoding each column gets was measured on seventeen real journals (docs/reference/journal-size.md):
//! - `time`, `created`, `released` grow together with the row: DELTA_BINARY_PACKED stores the small differences. Those
//!   of `released` repeat, so they get the bytes that zstd finds again;
//! - `size` repeats but has a long tail: BYTE_STREAM_SPLIT gathers its zero bytes, which zstd then removes, where a
//!   dictionary would cost more and overflow;
//! - `op`, `thread`, `align`, `told` have few values: dictionary.

use crate::chunk::{Column, Way};
use crate::{Error, Event, Origin, Result, Told};
use parquet::file::metadata::{RowGroupMetaData, SortingColumn};
use parquet::file::properties::WriterProperties;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;
use std::sync::Arc;

/// Key of the footer entry with the [`crate::Metadata`] as JSON.
pub(crate) const METADATA_KEY: &str = "keel.journal";
/// Key of the footer entry with the checksums as JSON.
pub(crate) const CHECKSUMS_KEY: &str = "keel.checksums";

/// Names in the order of the file.
pub(crate) const COLUMNS: [&str; 9] =
    ["time", "begin", "thread", "op", "size", "align", "created", "released", "frame"];

/// What frees told; older files lack them.
pub(crate) const TOLD_COLUMNS: [&str; 3] = ["told", "told_size", "told_align"];

/// Those that follow, and that older files lack.
pub(crate) const ORIGIN_COLUMNS: [&str; 2] = ["module", "stack"];

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
  OPTIONAL INT32 told (INTEGER(8,true));
  OPTIONAL INT64 told_size;
  OPTIONAL INT64 told_align;
}";

/// What proves that the bytes are those that were written; CRC-32 (IEEE) of stated ranges.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub(crate) struct Checksums {
    /// Of the UTF-8 text of the metadata entry.
    pub metadata: u32,
    /// Of what the footer says about the place and size of everything, see [`layout_crc32`].
    pub layout: u32,
    /// Of each row group, in order.
    pub row_groups: Vec<Checksum>,
}

#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Checksum {
    pub offset: u64,
    pub length: u64,
    pub crc32: u32,
}

/// CRC-32 of these numbers as 64-bit little-endian, for each row group: its rows, and for each of its columns
/// `num_values`, `total_compressed_size`, `data_page_offset`, `dictionary_page_offset` (0 if none).
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

/// A nullable column as Parquet wants it: for each row whether it has a value, and the values that there are.
#[derive(Default)]
pub(crate) struct Nullable<T> {
    rows: usize,
    /// For each row whether it has a value; nothing as long as none has one.
    present: Vec<bool>,
    values: Vec<T>,
}

impl<T: Copy + Default + PartialEq> Nullable<T> {
    /// Appends at most [`PENDING_ROWS`] rows, each with a value where it is not `none`. Which of them have one nobody
    /// can foresee, so nothing branches on it: every row writes one, and that of a row without is overwritten.
    fn extend(&mut self, values: &[T], none: T) {
        if values.iter().fold(true, |all, value| all & (*value == none)) {
            return self.extend_by_nothing(values.len());
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
    fn extend_by_nothing(&mut self, rows: usize) {
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

/// Stands for no value where 0 is one.
const NONE: i64 = -1;

/// Rows that are kept together before they are appended to the columns: few enough for the first-level cache.
const PENDING_ROWS: usize = 256;

/// The last rows, by column. Each number is stored once, where it will be copied from: to put a row together and copy
/// it then costs several times as much, as does appending to nine columns for each row.
struct Pending {
    count: usize,
    time: [i64; PENDING_ROWS],
    /// [`NONE`] where it is that of `time`.
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

/// Rows on their way into a row group, by column; [`Batch::settle`] brings the last ones there.
#[derive(Default)]
pub(crate) struct Batch {
    pending: Box<Pending>,
    /// Of the pending rows; empty while nothing is known of any.
    pending_origins: Vec<Origin>,
    /// What the pending rows told; empty while none told anything.
    pending_told: Vec<Told>,
    /// What is known beside the rows by now, for whoever must salvage the file.
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
    pub told: Nullable<i32>,
    pub told_size: Nullable<i64>,
    pub told_align: Nullable<i64>,
}

impl Batch {
    pub fn rows(&self) -> usize {
        self.time.len() + self.pending.count
    }

    /// Appends one row; the numbers were checked to fit by [`crate::Writer::push`].
    #[inline]
    pub fn push(&mut self, event: &Event, origin: Origin) {
        let pending = &mut *self.pending;
        let row = pending.count;
        if (origin != Origin::UNKNOWN) | !self.pending_origins.is_empty() {
            note(&mut self.pending_origins, row, origin, Origin::UNKNOWN);
        }
        if (event.told != Told::NOTHING) | !self.pending_told.is_empty() {
            note(&mut self.pending_told, row, event.told, Told::NOTHING);
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
            self.settle();
        }
    }

    /// Appends the pending rows to the columns.
    pub fn settle(&mut self) {
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
        self.settle_origins(count);
        self.settle_told(count);
    }

    fn settle_origins(&mut self, count: usize) {
        if self.pending_origins.is_empty() {
            self.module.extend_by_nothing(count);
            return self.stack.extend_by_nothing(count);
        }
        // Unknown is u32::MAX, which is -1.
        let none = Origin::NONE as i32;
        let mut indices = [none; PENDING_ROWS];
        let origins = self.pending_origins.iter();
        origins.clone().zip(&mut indices).for_each(|(origin, index)| *index = origin.module as i32);
        self.module.extend(&indices[..count], none);
        origins.zip(&mut indices).for_each(|(origin, index)| *index = origin.stack as i32);
        self.stack.extend(&indices[..count], none);
        self.pending_origins.clear();
    }

    fn settle_told(&mut self, count: usize) {
        if self.pending_told.is_empty() {
            self.told.extend_by_nothing(count);
            self.told_size.extend_by_nothing(count);
            return self.told_align.extend_by_nothing(count);
        }
        let codes: Vec<i32> = self.pending_told.iter().map(|told| i32::from(told.code())).collect();
        // Sizes and alignments are never negative.
        let number = |told: Option<u64>| told.map_or(NONE, |number| number as i64);
        let sizes: Vec<i64> = self.pending_told.iter().map(|told| number(told.wrong_size())).collect();
        let aligns: Vec<i64> = self.pending_told.iter().map(|told| number(told.wrong_align())).collect();
        self.told.extend(&codes, 0);
        self.told_size.extend(&sizes, NONE);
        self.told_align.extend(&aligns, NONE);
        self.pending_told.clear();
    }

    pub fn clear(&mut self) {
        self.pending.count = 0;
        self.pending_origins.clear();
        self.pending_told.clear();
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
        self.told.clear();
        self.told_size.clear();
        self.told_align.clear();
    }
}

/// Puts what is known of a pending row behind that of the rows before it, of which nothing may have been known.
#[cold]
fn note<T: Clone>(known: &mut Vec<T>, row: usize, news: T, nothing: T) {
    known.resize(row, nothing);
    known.push(news);
}
