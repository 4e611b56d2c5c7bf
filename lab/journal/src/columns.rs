//! The columns of a journal file and how each is encoded; `journal/FORMAT.md` says it for other programs.
//!
//! The encodings were chosen by measuring all of them on seventeen real journals (docs/reference/journal-size.md):
//! - `time`, `created`, `released` grow together with the row: DELTA_BINARY_PACKED stores the small differences;
//! - `size` repeats but has a long tail: BYTE_STREAM_SPLIT gathers its zero bytes, which zstd then removes, where a
//!   dictionary would cost more and overflow;
//! - `op`, `thread`, `align` have few values: dictionary and run lengths.

use crate::{Error, Event, Origin, Result};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{RowGroupMetaData, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};
use std::sync::Arc;

/// Key of the footer entry with the [`crate::Metadata`] as JSON.
pub(crate) const METADATA_KEY: &str = "keel.journal";
/// Key of the footer entry with the checksums as JSON.
pub(crate) const CHECKSUMS_KEY: &str = "keel.checksums";

/// Names in the order of the file.
pub(crate) const COLUMNS: [&str; 9] =
    ["time", "begin", "thread", "op", "size", "align", "created", "released", "frame"];

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

pub(crate) fn properties(zstd_level: i32, rows_per_group: usize) -> Result<WriterProperties> {
    let level = ZstdLevel::try_new(zstd_level).map_err(|error| Error::Encode(error.to_string()))?;
    let mut builder = WriterProperties::builder()
        .set_created_by(format!("keel {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(level))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(rows_per_group))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_data_page_size_limit(PAGE_ROWS * 8)
        .set_sorting_columns(Some(vec![SortingColumn {
            column_idx: 0,
            descending: false,
            nulls_first: false,
        }]));
    for (name, encoding) in [
        ("time", Encoding::DELTA_BINARY_PACKED),
        ("begin", Encoding::DELTA_BINARY_PACKED),
        ("size", Encoding::BYTE_STREAM_SPLIT),
        ("created", Encoding::DELTA_BINARY_PACKED),
        ("released", Encoding::DELTA_BINARY_PACKED),
        ("frame", Encoding::DELTA_BINARY_PACKED),
    ] {
        builder = builder.set_column_encoding(ColumnPath::from(name), encoding);
    }
    for name in ["op", "thread", "align", "module", "stack"] {
        builder = builder.set_column_dictionary_enabled(ColumnPath::from(name), true);
    }
    Ok(builder.build())
}

/// Rows a page: large enough for zstd, small enough for a reader's memory.
const PAGE_ROWS: usize = 1 << 17;

/// A nullable column as Parquet wants it: a level for each row (1 = present), and the values that are present.
#[derive(Default)]
pub(crate) struct Nullable<T> {
    pub levels: Vec<i16>,
    pub values: Vec<T>,
}

impl<T> Nullable<T> {
    fn extend<R>(&mut self, rows: &[R], value: impl Fn(&R) -> Option<T>) {
        self.levels.extend(rows.iter().map(|row| i16::from(value(row).is_some())));
        self.values.extend(rows.iter().filter_map(value));
    }

    fn clear(&mut self) {
        self.levels.clear();
        self.values.clear();
    }
}

/// Rows that are kept together before they are taken apart into columns: few enough for the first-level cache.
const PENDING_ROWS: usize = 256;

/// Rows on their way into a row group, by column; [`Batch::settle`] brings the last ones there.
///
/// Rows wait in `pending` and then go column by column, each in one loop, which costs much less than nine pushes a
/// row do.
#[derive(Default)]
pub(crate) struct Batch {
    pending: Vec<Event>,
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
}

impl Batch {
    pub fn rows(&self) -> usize {
        self.time.len() + self.pending.len()
    }

    /// Appends one row; the numbers were checked to fit by [`crate::Writer::push`].
    #[inline]
    pub fn push(&mut self, event: &Event, origin: Origin) {
        if origin != Origin::UNKNOWN || !self.pending_origins.is_empty() {
            self.pending_origins.resize(self.pending.len(), Origin::UNKNOWN);
            self.pending_origins.push(origin);
        }
        self.pending.push(*event);
        if self.pending.len() == PENDING_ROWS {
            self.settle();
        }
    }

    /// Takes the pending rows apart.
    pub fn settle(&mut self) {
        let rows = self.pending.as_slice();
        let nonzero = |number: u64| (number != 0).then_some(number as i64);
        self.time.extend(rows.iter().map(|row| row.time as i64));
        self.begin.extend(rows, |row| (row.begin != row.time).then_some(row.begin as i64));
        self.thread.extend(rows.iter().map(|row| row.thread as i32));
        self.op.extend(rows.iter().map(|row| row.op as i32));
        self.size.extend(rows.iter().map(|row| row.size as i64));
        self.align.extend(rows, |row| nonzero(row.align));
        self.created.extend(rows, |row| nonzero(row.created));
        self.released.extend(rows, |row| nonzero(row.released));
        self.frame.extend(rows.iter().map(|row| row.frame as i32));
        let known = |index: u32| (index != Origin::NONE).then_some(index as i32);
        if self.pending_origins.is_empty() {
            self.module.extend(rows, |_| None);
            self.stack.extend(rows, |_| None);
        } else {
            self.module.extend(&self.pending_origins, |origin| known(origin.module));
            self.stack.extend(&self.pending_origins, |origin| known(origin.stack));
        }
        self.pending.clear();
        self.pending_origins.clear();
    }

    pub fn clear(&mut self) {
        self.pending.clear();
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
    }
}
