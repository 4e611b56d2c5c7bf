//! All kept rows of a comparison as one Parquet table: a row for each call, with its allocator.

use crate::rows::{Call, OPERATIONS, all_kept, each_call};
use crate::{ExportError, Written};
use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int8Array, RecordBatch, StringArray, UInt8Array,
    UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use keel_results::Comparison;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

const BATCH_ROWS: usize = 1 << 16;

/// Writes the calls of every kept run, or of the kept run of one allocator. Columns: `allocator`,
/// `operation`, `size` (bytes), `thread`, `frame`, `start` (ns since the start of the run),
/// `duration` (ns), `cause` (the bits of the results).
///
/// # Errors
/// See [`ExportError`].
pub fn table(
    folder: &Path,
    allocator: Option<&str>,
    output: &mut (dyn Write + Send),
) -> Result<Written, ExportError> {
    let comparison = Comparison::load(folder)?;
    let kept = all_kept(&comparison, allocator)?;
    let schema = schema();
    let level = ZstdLevel::try_new(3).map_err(|error| encode(&error))?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let mut writer = ArrowWriter::try_new(output, Arc::clone(&schema), Some(properties))
        .map_err(|error| encode(&error))?;
    let mut lines = 0;
    for (result, raw) in &kept {
        let mut calls = Vec::with_capacity(BATCH_ROWS);
        let mut flush = |calls: &mut Vec<Call>| -> Result<(), ExportError> {
            let batch = batch(&schema, &result.name, comparison.clock.ticks_per_ns, calls)?;
            lines += calls.len() as u64;
            calls.clear();
            writer.write(&batch).map_err(|error| encode(&error))
        };
        each_call(folder, raw, &mut |call| {
            calls.push(call);
            if calls.len() == BATCH_ROWS { flush(&mut calls) } else { Ok(()) }
        })?;
        flush(&mut calls)?;
    }
    writer.close().map_err(|error| encode(&error))?;
    let names: Vec<&str> = kept.iter().map(|(result, _)| result.name.as_str()).collect();
    Ok(Written { allocator: names.join(", "), lines })
}

fn encode(error: &dyn std::fmt::Display) -> ExportError {
    ExportError::Encode(error.to_string())
}

fn schema() -> Arc<Schema> {
    let word = || DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let columns = [
        ("allocator", word()),
        ("operation", word()),
        ("size", DataType::UInt64),
        ("thread", DataType::UInt32),
        ("frame", DataType::UInt32),
        ("start", DataType::UInt64),
        ("duration", DataType::Float64),
        ("cause", DataType::UInt8),
    ];
    Arc::new(Schema::new(columns.map(|(name, kind)| Field::new(name, kind, false)).to_vec()))
}

fn batch(
    schema: &Arc<Schema>,
    allocator: &str,
    ticks_per_ns: f64,
    calls: &[Call],
) -> Result<RecordBatch, ExportError> {
    let operation = |call: &Call| (call.op as usize).min(OPERATIONS.len() - 1) as i8;
    let columns: Vec<ArrayRef> = vec![
        words(calls.iter().map(|_| 0).collect(), &[allocator])?,
        words(calls.iter().map(operation).collect(), &OPERATIONS)?,
        Arc::new(UInt64Array::from_iter_values(calls.iter().map(|call| call.size))),
        Arc::new(UInt32Array::from_iter_values(calls.iter().map(|call| call.thread))),
        Arc::new(UInt32Array::from_iter_values(calls.iter().map(|call| call.frame))),
        Arc::new(UInt64Array::from_iter_values(calls.iter().map(|call| call.start))),
        Arc::new(Float64Array::from_iter_values(
            calls.iter().map(|call| f64::from(call.ticks) / ticks_per_ns),
        )),
        Arc::new(UInt8Array::from_iter_values(calls.iter().map(|call| call.cause))),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| encode(&error))
}

fn words(keys: Vec<i8>, values: &[&str]) -> Result<ArrayRef, ExportError> {
    let values: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
    let array = DictionaryArray::<Int8Type>::try_new(Int8Array::from(keys), values);
    Ok(Arc::new(array.map_err(|error| encode(&error))?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;
    use crate::sample::folder;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float64Type, UInt64Type};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    #[test]
    fn every_call_is_a_row() {
        let folder = folder();
        let mut output = Vec::new();
        let written = table(folder.path(), None, &mut output).unwrap();
        assert_eq!(written, Written { allocator: "keel".to_owned(), lines: 6 });
        let bytes = bytes::Bytes::from(output);
        let batches: Vec<RecordBatch> = ParquetRecordBatchReaderBuilder::try_new(bytes)
            .unwrap()
            .build()
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(batches.len(), 1);
        let batch = &batches[0];
        assert_eq!(
            batch.column_by_name("size").unwrap().as_primitive::<UInt64Type>().values(),
            &[64, 32, 64, 128, 16, 128]
        );
        let duration = batch.column_by_name("duration").unwrap().as_primitive::<Float64Type>();
        assert!((duration.value(0) - 20.0).abs() < 1e-9);
        assert!(table(folder.path(), Some("system"), &mut Vec::new()).is_err());
    }
}
