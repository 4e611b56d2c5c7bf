//! The columns of a journal file and how each is encoded; `journal/FORMAT.md` says it for other programs.
//!
//! Which encoding each column gets was measured on seventeen real journals (docs/reference/journal-size.md):
//! - `time`, `created`, `released` grow together with the row: DELTA_BINARY_PACKED stores the small differences. Those
//!   of `released` repeat, so they get the bytes that zstd finds again;
//! - `size` repeats but has a long tail: BYTE_STREAM_SPLIT gathers its zero bytes, which zstd then removes, where a
//!   dictionary would cost more and overflow;
//! - `op`, `thread`, `align`, `told` have few values: dictionary.

use crate::chunk::{Column, Way};
use crate::{Error, Event, Origin, Result};
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
    present: Vec<bool>,
    values: Vec<T>,
}

impl<T: Copy + Default> Nullable<T> {
    /// Appends rows. Which of them have a value nobody can foresee, so nothing branches on it: every row writes one,
    /// and that of a row without is overwritten.
    fn extend(&mut self, values: &[T], is_present: impl Fn(usize, &T) -> bool) {
        let first = self.present.len();
        self.present.extend(values.iter().enumerate().map(|(row, value)| is_present(row, value)));
        let present = &self.present[first..];
        if !present.contains(&true) {
            return;
        }
        let mut end = self.values.len();
        self.values.resize(end + values.len(), T::default());
        for (value, present) in values.iter().zip(present) {
            self.values[end] = *value;
            end += usize::from(*present);
        }
        self.values.truncate(end);
    }

    fn clear(&mut self) {
        self.present.clear();
        self.values.clear();
    }

    pub fn column(&self, way: Way) -> Column<'_, T> {
        Column { values: &self.values, present: Some(&self.present), way }
    }
}

/// Rows that are kept together before they are appended to the columns: few enough for the first-level cache.
const PENDING_ROWS: usize = 256;

/// The last rows, by column. Each number is stored once, where it will be copied from: to put a row together and copy
/// it then costs several times as much, as does appending to nine columns for each row.
struct Pending {
    count: usize,
    time: [i64; PENDING_ROWS],
    begin: [i64; PENDING_ROWS],
    thread: [i32; PENDING_ROWS],
    op: [i32; PENDING_ROWS],
    size: [i64; PENDING_ROWS],
    align: [i64; PENDING_ROWS],
    created: [i64; PENDING_ROWS],
    released: [i64; PENDING_ROWS],
    frame: [i32; PENDING_ROWS],
    told: [i32; PENDING_ROWS],
    told_size: [i64; PENDING_ROWS],
    told_align: [i64; PENDING_ROWS],
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
            told: narrow,
            told_size: wide,
            told_align: wide,
        }
    }
}

/// Rows on their way into a row group, by column; [`Batch::settle`] brings the last ones there.
#[derive(Default)]
pub(crate) struct Batch {
    pending: Box<Pending>,
    /// Of the pending rows; empty while nothing is known of any.
    pending_origins: Vec<Origin>,
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
        if origin != Origin::UNKNOWN || !self.pending_origins.is_empty() {
            self.pending_origins.resize(row, Origin::UNKNOWN);
            self.pending_origins.push(origin);
        }
        pending.time[row] = event.time as i64;
        pending.begin[row] = event.begin as i64;
        pending.thread[row] = event.thread as i32;
        pending.op[row] = event.op as i32;
        pending.size[row] = event.size as i64;
        pending.align[row] = event.align as i64;
        pending.created[row] = event.created as i64;
        pending.released[row] = event.released as i64;
        pending.frame[row] = event.frame as i32;
        pending.told[row] = i32::from(event.told.code());
        let number = |told: Option<u64>| told.map_or(-1, |number| number as i64);
        pending.told_size[row] = number(event.told.wrong_size());
        pending.told_align[row] = number(event.told.wrong_align());
        pending.count = row + 1;
        if pending.count == PENDING_ROWS {
            self.settle();
        }
    }

    /// Appends the pending rows to the columns.
    pub fn settle(&mut self) {
        let pending = &mut *self.pending;
        let rows = ..std::mem::take(&mut pending.count);
        let (time, not_zero) = (&pending.time, |_, number: &i64| *number != 0);
        self.time.extend_from_slice(&time[rows]);
        self.begin.extend(&pending.begin[rows], |row, begin| *begin != time[row]);
        self.thread.extend_from_slice(&pending.thread[rows]);
        self.op.extend_from_slice(&pending.op[rows]);
        self.size.extend_from_slice(&pending.size[rows]);
        self.align.extend(&pending.align[rows], not_zero);
        self.created.extend(&pending.created[rows], not_zero);
        self.released.extend(&pending.released[rows], not_zero);
        self.frame.extend_from_slice(&pending.frame[rows]);
        // Unknown is u32::MAX, which is -1.
        let known = |_, index: &i32| *index >= 0;
        let mut indices = [Origin::NONE as i32; PENDING_ROWS];
        self.pending_origins
            .iter()
            .zip(&mut indices)
            .for_each(|(origin, module)| *module = origin.module as i32);
        self.module.extend(&indices[rows], known);
        self.pending_origins
            .iter()
            .zip(&mut indices)
            .for_each(|(origin, stack)| *stack = origin.stack as i32);
        self.stack.extend(&indices[rows], known);
        self.told.extend(&pending.told[rows], |_, code| *code != 0);
        // Sizes and alignments are never negative; -1 stands for none.
        self.told_size.extend(&pending.told_size[rows], |_, size| *size >= 0);
        self.told_align.extend(&pending.told_align[rows], |_, align| *align >= 0);
        self.pending_origins.clear();
    }

    pub fn clear(&mut self) {
        self.pending.count = 0;
        self.pending_origins.clear();
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
