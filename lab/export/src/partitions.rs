//! Results as folders of Parquet files, partitioned by journal, allocator and round, as query
//! engines (DuckDB, Spark, Dask, pyarrow) read them.
//!
//! ```text
//! FOLDER/latencies/journal=J/allocator=A/round=K/part-0.parquet   how many calls took how long
//! FOLDER/runs/journal=J/allocator=A/round=K/part-0.parquet        one row
//! ```
//!
//! The partitions' values are in the paths only. Each file belongs to one round, so that several
//! machines can write into one folder.

use crate::ExportError;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{Field, Schema};
use keel_results::{AllocatorResult, Comparison, Run};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::path::Path;
use std::sync::Arc;

/// Writes the partitions of a comparison. Files that exist are replaced, each as a whole. Returns
/// the number of files.
///
/// Columns of `latencies`: `operation`, `latency_ns`, `calls`, `interrupted` (how many of these
/// calls were only preempted). Latencies have three significant digits. Columns of `runs`:
/// `machine`, `processors`, `kernel`, `started`, `elapsed_ns`, `cpu_ns`, `background_cpu_ns`,
/// `inside_ns`, `calls`, `peak_rss_bytes`, `minor_faults`, `major_faults`, `throughput_ns` (an
/// operation without a clock; null if not measured), `disturbed`, `keel_version`.
///
/// # Errors
/// See [`ExportError`].
pub fn partitions(comparison: &Comparison, folder: &Path) -> Result<u64, ExportError> {
    let mut files = 0;
    for result in &comparison.allocators {
        for run in &result.runs {
            let tables = [
                ("latencies", latencies(run, comparison.clock.ticks_per_ns)?),
                ("runs", facts(comparison, result, run)?),
            ];
            for (table, rows) in tables {
                let place = folder
                    .join(table)
                    .join(format!("journal={}", encoded(&comparison.journal.name)))
                    .join(format!("allocator={}", encoded(&result.name)))
                    .join(format!("round={}", run.round));
                write(&place, &rows)?;
                files += 1;
            }
        }
    }
    Ok(files)
}

/// A value as a part of a path, in the way of Hive: other characters as `%` and two digits.
fn encoded(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    value.bytes().fold(String::new(), |text, byte| match is_plain(byte) {
        true => text + &char::from(byte).to_string(),
        false => text + &format!("%{byte:02X}"),
    })
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, ExportError> {
    let field = |(name, values): &(&str, ArrayRef)| {
        Field::new(*name, values.data_type().clone(), *name == "throughput_ns")
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let values = columns.into_iter().map(|(_, values)| values).collect();
    RecordBatch::try_new(Arc::new(schema), values).map_err(|error| encode(&error))
}

fn encode(error: &dyn std::fmt::Display) -> ExportError {
    ExportError::Encode(error.to_string())
}

fn latencies(run: &Run, ticks_per_ns: f64) -> Result<RecordBatch, ExportError> {
    let (mut operation, mut latency, mut calls, mut interrupted) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, counts) in &run.latency {
        let others = run.interrupted.get(name);
        for value in counts.0.iter_recorded() {
            let ticks = value.value_iterated_to();
            operation.push(name.as_str());
            latency.push(counts.0.median_equivalent(ticks) as f64 / ticks_per_ns);
            calls.push(value.count_at_value());
            interrupted.push(others.map_or(0, |others| others.0.count_at(ticks)));
        }
    }
    batch(vec![
        ("operation", Arc::new(StringArray::from(operation))),
        ("latency_ns", Arc::new(Float64Array::from(latency))),
        ("calls", Arc::new(UInt64Array::from(calls))),
        ("interrupted", Arc::new(UInt64Array::from(interrupted))),
    ])
}

fn facts(
    comparison: &Comparison,
    result: &AllocatorResult,
    run: &Run,
) -> Result<RecordBatch, ExportError> {
    let unclocked = result.throughput.iter().find(|other| other.round == run.round);
    let per_operation = unclocked.map(|one| one.elapsed_ns as f64 / one.operations.max(1) as f64);
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text.to_owned()])) };
    let whole = |number: u64| -> ArrayRef { Arc::new(UInt64Array::from(vec![number])) };
    let calls = run.latency.keys().map(|name| run.calls(name)).sum();
    let inside: f64 = run.inside_ns.values().sum();
    batch(vec![
        ("machine", text(&comparison.machine.cpu)),
        ("processors", Arc::new(UInt32Array::from(vec![comparison.machine.cpus]))),
        ("kernel", text(&comparison.machine.kernel)),
        ("started", text(&comparison.started)),
        ("elapsed_ns", whole(run.elapsed_ns)),
        ("cpu_ns", whole(run.cpu_ns)),
        ("background_cpu_ns", whole(run.background_cpu_ns)),
        ("inside_ns", Arc::new(Float64Array::from(vec![inside]))),
        ("calls", whole(calls)),
        ("peak_rss_bytes", whole(run.peak_rss_bytes)),
        ("minor_faults", whole(run.minor_faults)),
        ("major_faults", whole(run.major_faults)),
        ("throughput_ns", Arc::new(Float64Array::from(vec![per_operation]))),
        ("disturbed", Arc::new(BooleanArray::from(vec![!run.interference.is_empty()]))),
        ("keel_version", text(&comparison.keel_version)),
    ])
}

fn write(folder: &Path, rows: &RecordBatch) -> Result<(), ExportError> {
    std::fs::create_dir_all(folder)?;
    // Engines ignore files whose names begin with a dot.
    let partial = folder.join(format!(".part-0-{}.tmp", std::process::id()));
    let level = ZstdLevel::try_new(3).map_err(|error| encode(&error))?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let file = std::fs::File::create_new(&partial)?;
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties))
        .map_err(|error| encode(&error))?;
    writer.write(rows).map_err(|error| encode(&error))?;
    writer.close().map_err(|error| encode(&error))?;
    std::fs::rename(&partial, folder.join("part-0.parquet"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::UInt64Type;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    #[test]
    fn each_run_has_a_file_of_its_own_in_each_table() {
        let folder = crate::sample::folder();
        let mut comparison = Comparison::load(folder.path()).unwrap();
        comparison.allocators[0].name = "keel:A=1/2".to_owned();
        comparison.journal.name = "a journal".to_owned();
        let runs: usize = comparison.allocators.iter().map(|one| one.runs.len()).sum();
        let out = folder.path().join("tables");
        assert_eq!(partitions(&comparison, &out).unwrap(), 2 * runs as u64);
        // A second time replaces the files.
        partitions(&comparison, &out).unwrap();
        let place = out.join("latencies/journal=a%20journal/allocator=keel%3AA%3D1%2F2/round=0");
        let names: Vec<_> =
            std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["part-0.parquet"]);
        let file = std::fs::File::open(place.join("part-0.parquet")).unwrap();
        let mut reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let batch = reader.next().unwrap().unwrap();
        let calls = batch.column_by_name("calls").unwrap().as_primitive::<UInt64Type>();
        let run = &comparison.allocators[0].runs[0];
        let expected: u64 = run.latency.values().map(|counts| counts.0.len()).sum();
        assert_eq!(calls.values().iter().sum::<u64>(), expected);
    }
}
