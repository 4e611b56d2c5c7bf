//! Writes a column of a row group as pages, compressed with zstd.
//!
//! The Parquet library can also write columns. This module is specialised for journals: it takes a
//! third of the time, and chooses encodings that compress better (docs/reference/journal-size.md).

use crate::encodings::{Delta, Number, bits, delta, hybrid, index_width, one_run, plain, split};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::collections::HashMap;
use std::ops::Range;

/// The encoding of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// DELTA_BINARY_PACKED with this packing.
    Delta(Delta),
    /// DELTA_BINARY_PACKED. Each page has the packing that compresses it better.
    SmallerDelta,
    /// BYTE_STREAM_SPLIT.
    Split,
    /// A dictionary, or BYTE_STREAM_SPLIT if the values are nearly all different.
    Dictionary,
}

/// Rows per page. More rows compress better but need more memory in a reader.
const PAGE_ROWS: usize = 1 << 17;
/// Number of values of a page that are compressed to choose between packings.
const SAMPLE_VALUES: usize = 1 << 14;
/// The maximum number of values in a dictionary.
const DICTIONARY_VALUES: usize = 1 << 16;

/// A column to be written.
pub(crate) struct Column<'a, T> {
    pub values: &'a [T],
    /// For each row, true if it has a value. Empty if no row has one; `None` if all rows have one.
    pub present: Option<&'a [bool]>,
    pub rows: usize,
    pub way: Way,
}

/// A type with Parquet statistics.
pub(crate) trait WithStatistics: Number {
    fn statistics(least: Option<Self>, most: Option<Self>, nulls: u64) -> Statistics;
}

impl WithStatistics for i32 {
    fn statistics(least: Option<i32>, most: Option<i32>, nulls: u64) -> Statistics {
        Statistics::int32(least, most, None, Some(nulls), false)
    }
}

impl WithStatistics for i64 {
    fn statistics(least: Option<i64>, most: Option<i64>, nulls: u64) -> Statistics {
        Statistics::int64(least, most, None, Some(nulls), false)
    }
}

/// A column chunk for `SerializedRowGroupWriter::append_column`.
pub(crate) type Chunk = (Vec<u8>, ColumnCloseResult);

/// Makes column chunks and reuses its buffers.
pub(crate) struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    compression: Compression,
    raw: Vec<u8>,
}

/// The part of a chunk written so far.
struct Progress {
    sink: TrackedWrite<Vec<u8>>,
    encodings: Vec<Encoding>,
    raw_bytes: usize,
    dictionary: bool,
    data_offset: u64,
}

impl Packer {
    /// # Errors
    /// A level that zstd does not support.
    pub fn new(level: i32) -> Result<Packer> {
        Ok(Packer {
            compressor: zstd::bulk::Compressor::new(level)?,
            compression: Compression::ZSTD(ZstdLevel::try_new(level)?),
            raw: Vec::new(),
        })
    }

    /// Makes a column chunk of a row group, and its footer entry.
    pub fn chunk<T: WithStatistics>(
        &mut self,
        descriptor: &ColumnDescPtr,
        column: &Column<'_, T>,
    ) -> Result<Chunk> {
        let Column { values, present, rows, way } = *column;
        let mut progress = Progress {
            sink: TrackedWrite::new(Vec::new()),
            encodings: vec![Encoding::RLE],
            raw_bytes: 0,
            dictionary: false,
            data_offset: 0,
        };
        let wants_dictionary = way == Way::Dictionary && !values.is_empty();
        let dictionary = wants_dictionary.then(|| Dictionary::of(values)).flatten();
        if let Some(dictionary) = &dictionary {
            self.dictionary_page(&dictionary.values, &mut progress)?;
        }
        progress.data_offset = progress.sink.bytes_written() as u64;
        let mut from = 0;
        for first in (0..rows).step_by(PAGE_ROWS) {
            let page = first..rows.min(first + PAGE_ROWS);
            let levels = present.map(|present| present.get(page.clone()).unwrap_or_default());
            let count = levels.map_or(page.len(), count_true);
            let here = from..from + count;
            from += count;
            self.raw.clear();
            levels.into_iter().for_each(|levels| put_levels(levels, page.len(), &mut self.raw));
            let encoding = self.put_values(values, here, way, dictionary.as_ref())?;
            self.data_page(page.len(), encoding, &mut progress)?;
        }
        let nulls = (rows - values.len()) as u64;
        let (least, most) =
            extremes(dictionary.as_ref().map_or(values, |dictionary| &dictionary.values));
        self.finish(descriptor, rows, T::statistics(least, most, nulls), progress)
    }

    /// Appends some of the values, encoded, to `raw`.
    fn put_values<T: Number>(
        &mut self,
        values: &[T],
        range: Range<usize>,
        way: Way,
        dictionary: Option<&Dictionary<T>>,
    ) -> Result<Encoding> {
        let here = &values[range.clone()];
        if here.is_empty() {
            return Ok(Encoding::PLAIN);
        }
        if let Some(dictionary) = dictionary {
            let width = index_width(dictionary.values.len());
            self.raw.push(width as u8);
            hybrid(&dictionary.indices[range], width, &mut self.raw);
            return Ok(Encoding::RLE_DICTIONARY);
        }
        let way = match way {
            Way::SmallerDelta => Way::Delta(self.smaller_delta(here)?),
            way => way,
        };
        match way {
            Way::Delta(way) => {
                delta(here, way, &mut self.raw);
                Ok(Encoding::DELTA_BINARY_PACKED)
            }
            _ => {
                split(here, &mut self.raw);
                Ok(Encoding::BYTE_STREAM_SPLIT)
            }
        }
    }

    /// Compresses some of the values with both packings.
    fn smaller_delta<T: Number>(&mut self, values: &[T]) -> Result<Delta> {
        let sample = &values[..values.len().min(SAMPLE_VALUES)];
        let mut size = |way| {
            let mut raw = Vec::new();
            delta(sample, way, &mut raw);
            Ok::<usize, ParquetError>(self.compressor.compress(&raw)?.len())
        };
        Ok(if size(Delta::Bytes)? < size(Delta::Bits)? { Delta::Bytes } else { Delta::Bits })
    }

    fn dictionary_page<T: Number>(&mut self, values: &[T], progress: &mut Progress) -> Result<()> {
        self.raw.clear();
        plain(values, &mut self.raw);
        let page = |buf| Page::DictionaryPage {
            buf,
            num_values: values.len() as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        progress.dictionary = true;
        progress.encodings.push(Encoding::PLAIN);
        self.page(page, progress)
    }

    fn data_page(
        &mut self,
        rows: usize,
        encoding: Encoding,
        progress: &mut Progress,
    ) -> Result<()> {
        let page = |buf| Page::DataPage {
            buf,
            num_values: rows as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        if !progress.encodings.contains(&encoding) {
            progress.encodings.push(encoding);
        }
        self.page(page, progress)
    }

    /// Compresses `raw` and writes it as a page.
    fn page(&mut self, page: impl FnOnce(Bytes) -> Page, progress: &mut Progress) -> Result<()> {
        let compressed = self.compressor.compress(&self.raw)?;
        let page = CompressedPage::new(page(compressed.into()), self.raw.len());
        let written = SerializedPageWriter::new(&mut progress.sink).write_page(page)?;
        progress.raw_bytes += written.uncompressed_size;
        Ok(())
    }

    fn finish(
        &self,
        descriptor: &ColumnDescPtr,
        rows: usize,
        statistics: Statistics,
        progress: Progress,
    ) -> Result<Chunk> {
        let bytes = progress.sink.into_inner()?;
        let metadata = ColumnChunkMetaData::builder(ColumnDescPtr::clone(descriptor))
            .set_encodings(progress.encodings)
            .set_compression(self.compression)
            .set_num_values(rows as i64)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(progress.raw_bytes as i64)
            .set_data_page_offset(progress.data_offset as i64)
            .set_dictionary_page_offset(progress.dictionary.then_some(0))
            .set_statistics(statistics)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, close))
    }
}

/// Appends definition levels of one bit, preceded by their length. All levels are 0 if `present` is
/// empty.
fn put_levels(present: &[bool], rows: usize, output: &mut Vec<u8>) {
    let start = output.len();
    output.extend_from_slice(&[0; 4]);
    if present.is_empty() {
        one_run(rows as u64, 0, 1, output);
    } else {
        bits(present, output);
    }
    let length = (output.len() - start - 4) as u32;
    output[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// The number of rows that have a value.
fn count_true(present: &[bool]) -> usize {
    // A byte can count up to 128.
    let counts = present
        .chunks(128)
        .map(|some| some.iter().fold(0_u8, |sum, one| sum.wrapping_add(u8::from(*one))));
    counts.map(usize::from).sum()
}

/// The least and the greatest value.
fn extremes<T: Number>(values: &[T]) -> (Option<T>, Option<T>) {
    if values.is_sorted() {
        return (values.first().copied(), values.last().copied());
    }
    (values.iter().copied().min(), values.iter().copied().max())
}

/// The distinct values in the order of their first appearance, and for each value its index among
/// them.
struct Dictionary<T> {
    values: Vec<T>,
    indices: Vec<u32>,
}

/// Number of entries of the table of recent values. It is a prime, so that small numbers and powers
/// of two have different entries.
const RECENT: u64 = 251;

impl<T: Number> Dictionary<T> {
    /// `None` if there are too many distinct values for a useful dictionary.
    fn of(values: &[T]) -> Option<Dictionary<T>> {
        let mut dictionary = Dictionary { values: Vec::new(), indices: vec![0; values.len()] };
        let mut known = HashMap::new();
        // All entries contain the first value at the start, so no entry needs an "is empty" flag.
        let mut recent = [(*values.first()?, 0); RECENT as usize];
        let most = DICTIONARY_VALUES.min(values.len() / 2 + 1);
        for (value, its) in values.iter().zip(&mut dictionary.indices) {
            let bits = value.bits();
            let place = &mut recent[if bits < RECENT { bits } else { bits % RECENT } as usize];
            if place.0 != *value || dictionary.values.is_empty() {
                let next = dictionary.values.len();
                let index = *known.entry(*value).or_insert(next as u32);
                if index as usize == next {
                    if next == most {
                        return None;
                    }
                    dictionary.values.push(*value);
                }
                *place = (*value, index);
            }
            *its = place.1;
        }
        Some(dictionary)
    }
}

#[cfg(test)]
#[path = "chunk_tests.rs"]
mod tests;
