//! The runs of a benchmark suite as a Parquet table: a row for each run.

use crate::ExportError;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use keel_results::{Suite, SuiteMeasured, SuiteOutcome};
use parquet::arrow::ArrowWriter;
use std::io::Write;
use std::sync::Arc;

/// Writes the runs. Columns: `workload`, `allocator`, `round`, `others`, the fields of
/// [`SuiteMeasured`] (null for a failed run or if not measured), `interference` (words),
/// `discarded` (the number of disturbed runs that this one replaces), and `failed` (the
/// reason, or null).
///
/// # Errors
/// See [`ExportError`].
pub fn suite_table(suite: &Suite, output: &mut (dyn Write + Send)) -> Result<(), ExportError> {
    let encode = |error: &dyn std::fmt::Display| ExportError::Encode(error.to_string());
    let runs = || suite.runs.iter();
    let some_reals = |of: fn(&SuiteMeasured) -> Option<f64>| -> ArrayRef {
        Arc::new(runs().map(|run| run.measured().and_then(of)).collect::<Float64Array>())
    };
    let reals = |of: fn(&SuiteMeasured) -> f64| -> ArrayRef {
        Arc::new(runs().map(|run| run.measured().map(of)).collect::<Float64Array>())
    };
    let words = runs().map(|run| Some(run.interference.join(", ")));
    let discarded = runs().map(|run| Some(run.discarded.len() as u32));
    let whole = |of: fn(&SuiteMeasured) -> Option<u64>| -> ArrayRef {
        Arc::new(runs().map(|run| run.measured().and_then(of)).collect::<UInt64Array>())
    };
    let reasons = runs().map(|run| match &run.outcome {
        SuiteOutcome::Failed(reason) => Some(reason.as_str()),
        SuiteOutcome::Measured(_) => None,
    });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("workload", Arc::new(StringArray::from_iter_values(runs().map(|run| &run.workload)))),
        ("allocator", Arc::new(StringArray::from_iter_values(runs().map(|run| &run.allocator)))),
        ("round", Arc::new(UInt32Array::from_iter_values(runs().map(|run| run.round)))),
        ("others", Arc::new(Float64Array::from_iter_values(runs().map(|run| run.others)))),
        ("elapsed_s", reals(|one| one.elapsed_s)),
        ("cpu_s", reals(|one| one.cpu_s)),
        ("process_elapsed_s", reals(|one| one.process_elapsed_s)),
        ("user_s", reals(|one| one.user_s)),
        ("system_s", reals(|one| one.system_s)),
        ("peak_bytes", whole(|one| Some(one.peak_bytes))),
        ("average_bytes", whole(|one| one.average_bytes)),
        ("minor_faults", whole(|one| Some(one.minor_faults))),
        ("major_faults", whole(|one| Some(one.major_faults))),
        ("voluntary_switches", whole(|one| Some(one.voluntary_switches))),
        ("involuntary_switches", whole(|one| Some(one.involuntary_switches))),
        ("after_bytes", whole(|one| one.after_bytes)),
        ("system_calls", whole(|one| one.system_calls)),
        ("p50_ns", some_reals(|one| one.p50_ns)),
        ("p999_ns", some_reals(|one| one.p999_ns)),
        ("worst_ns", whole(|one| one.worst_ns)),
        ("interference", Arc::new(words.collect::<StringArray>())),
        ("discarded", Arc::new(discarded.collect::<UInt32Array>())),
        ("failed", Arc::new(reasons.collect::<StringArray>())),
    ];
    let batch = RecordBatch::try_from_iter(columns).map_err(|error| encode(&error))?;
    let mut writer =
        ArrowWriter::try_new(output, batch.schema(), None).map_err(|error| encode(&error))?;
    writer.write(&batch).map_err(|error| encode(&error))?;
    writer.close().map_err(|error| encode(&error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;
    use keel_results::SuiteRun;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    #[test]
    fn a_failed_run_has_a_reason_and_no_figures() {
        let run = |outcome| SuiteRun {
            workload: "synthetic/larson".into(),
            allocator: "keel".into(),
            round: 0,
            outcome,
            ..SuiteRun::default()
        };
        let measured = SuiteMeasured { elapsed_s: 1.5, ..SuiteMeasured::default() };
        let runs = vec![
            run(SuiteOutcome::Measured(measured)),
            run(SuiteOutcome::Failed("it was ended by signal 11".into())),
        ];
        let mut output = Vec::new();
        suite_table(&Suite { runs, ..Suite::default() }, &mut output).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(output)).unwrap();
        let batch = reader.build().unwrap().next().unwrap().unwrap();
        assert_eq!(batch.num_rows(), 2);
        let nulls = |name: &str| batch.column_by_name(name).unwrap().null_count();
        assert_eq!([nulls("elapsed_s"), nulls("failed"), nulls("worst_ns")], [1, 1, 2]);
    }
}
