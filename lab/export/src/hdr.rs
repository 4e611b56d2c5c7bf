//! HdrHistogram interval logs, version 1.3 of the format: a line for each operation of each run,
//! values in nanoseconds.
//!
//! They hold single readings of the clock. `keel compare` interpolates between the steps of the
//! clock, so its percentiles differ from those of the log by up to half a step. A comment in the
//! log gives the length of a step.

use crate::{ExportError, Written};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use keel_results::{AllocatorResult, Comparison, Run};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Writes the latencies of all runs, or of the runs of one allocator. Tags are
/// `ALLOCATOR.OPERATION`. An interval is a run; intervals have the order and the lengths of the
/// runs.
///
/// # Errors
/// See [`ExportError`].
pub fn hdr(
    folder: &Path,
    allocator: Option<&str>,
    mut output: &mut dyn Write,
) -> Result<Written, ExportError> {
    let comparison = Comparison::load(folder)?;
    let encode = |error: &dyn std::fmt::Debug| ExportError::Encode(format!("{error:?}"));
    let step = keel_results::known_step(&comparison);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(&format!("Latencies in ns by keel {}", env!("CARGO_PKG_VERSION")))
        .add_comment(&format!(
            "Single readings of a clock with steps of {:.2} ns: percentiles differ by up to half a \
             step from those of keel compare",
            step as f64 / comparison.clock.ticks_per_ns
        ))
        // The maxima of intervals have the unit of the values.
        .with_max_value_divisor(1.0)
        .begin_log_with(&mut output, &mut serializer)?;
    let (mut start, mut lines) = (Duration::ZERO, 0);
    for (result, run) in schedule(&comparison, allocator)? {
        let length = Duration::from_nanos(run.elapsed_ns);
        for (operation, ticks) in &run.latency {
            if ticks.0.is_empty() {
                continue;
            }
            let name = format!("{}.{operation}", result.name).replace([',', ' ', '\r', '\n'], "_");
            let nanoseconds =
                in_nanoseconds(&ticks.0, comparison.clock.ticks_per_ns).map_err(|e| encode(&e))?;
            log.write_histogram(&nanoseconds, start, length, Tag::new(&name))
                .map_err(|e| encode(&e))?;
            lines += 1;
        }
        start += length;
    }
    Ok(Written { allocator: allocator.unwrap_or("all allocators").to_owned(), lines })
}

/// The runs in the order in which they were executed.
fn schedule<'a>(
    comparison: &'a Comparison,
    allocator: Option<&str>,
) -> Result<Vec<(&'a AllocatorResult, &'a Run)>, ExportError> {
    if let Some(name) = allocator
        && !comparison.allocators.iter().any(|result| result.name == name)
    {
        let known: Vec<&str> =
            comparison.allocators.iter().map(|result| result.name.as_str()).collect();
        return Err(ExportError::Unknown { name: name.to_owned(), known: known.join(", ") });
    }
    let wanted = comparison
        .allocators
        .iter()
        .filter(|result| allocator.is_none_or(|name| result.name == name));
    let mut runs: Vec<_> =
        wanted.flat_map(|result| result.runs.iter().map(move |run| (result, run))).collect();
    runs.sort_by_key(|(_, run)| run.position);
    Ok(runs)
}

/// The same counts in nanoseconds instead of ticks, with three significant digits as in the
/// results.
fn in_nanoseconds(
    ticks: &Histogram<u64>,
    ticks_per_ns: f64,
) -> Result<Histogram<u64>, Box<dyn std::error::Error>> {
    let mut nanoseconds = Histogram::new(3)?;
    for value in ticks.iter_recorded() {
        let ns = (value.value_iterated_to() as f64 / ticks_per_ns).round() as u64;
        nanoseconds.record_n(ns, value.count_at_value())?;
    }
    Ok(nanoseconds)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]
    use super::*;
    use crate::sample::{folder, three_runs};
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    /// Tag, start in ms, and counts of each line.
    fn lines(log: &[u8]) -> Vec<(String, u128, Histogram<u64>)> {
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(log) {
            let LogEntry::Interval(interval) = entry.unwrap() else { continue };
            let tag = interval.tag().unwrap().as_str().to_owned();
            let bytes = base64_decode(interval.encoded_histogram());
            let counts = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            found.push((tag, interval.start_timestamp().as_millis(), counts));
        }
        found
    }

    #[test]
    fn percentiles_of_the_log_are_within_half_a_step_of_the_tables() {
        for step_ticks in [26, 0] {
            let folder = three_runs(step_ticks);
            let mut log = Vec::new();
            hdr(folder.path(), None, &mut log).unwrap();
            assert!(String::from_utf8_lossy(&log).contains("with steps of 10.00 ns"));
            let comparison = Comparison::load(folder.path()).unwrap();
            let lines = lines(&log);
            assert_eq!(lines.len(), 3);
            for ((_, _, counts), run) in lines.iter().zip(&comparison.allocators[0].runs) {
                for quantile in [0.5, 0.9, 0.99] {
                    let table =
                        keel_results::percentile(&run.latency["malloc"].0, quantile, 26) / 2.6;
                    let difference = (counts.value_at_quantile(quantile) as f64 - table).abs();
                    // Half a step, plus the rounding to whole ns.
                    assert!(
                        difference <= 5.5,
                        "p{}: {difference} ns from {table}",
                        quantile * 100.0
                    );
                }
            }
        }
    }

    #[test]
    fn the_log_is_read_by_its_own_library() {
        let folder = folder();
        let mut output = Vec::new();
        let written = hdr(folder.path(), None, &mut output).unwrap();
        assert_eq!(written.lines, 3);
        let lines = lines(&output).into_iter();
        let found: Vec<_> =
            lines.map(|(tag, start, counts)| (tag, start, counts.len(), counts.max())).collect();
        let expected = [
            ("system.malloc".to_owned(), 0, 2, 100),
            ("keel.free".to_owned(), 2, 2, 40),
            ("keel.malloc".to_owned(), 2, 3, 20),
        ];
        assert_eq!(found, expected);
        let one = hdr(folder.path(), Some("keel"), &mut Vec::new()).unwrap();
        assert_eq!(one, Written { allocator: "keel".to_owned(), lines: 2 });
        assert!(hdr(folder.path(), Some("x"), &mut Vec::new()).is_err());
    }

    fn base64_decode(text: &str) -> Vec<u8> {
        let value = |byte: u8| match byte {
            b'A'..=b'Z' => u32::from(byte - b'A'),
            b'a'..=b'z' => u32::from(byte - b'a') + 26,
            b'0'..=b'9' => u32::from(byte - b'0') + 52,
            b'+' => 62,
            _ => 63,
        };
        let digits: Vec<u32> = text.bytes().filter(|byte| *byte != b'=').map(value).collect();
        digits
            .chunks(4)
            .flat_map(|four| {
                let bits =
                    (0..4).fold(0, |bits, index| bits << 6 | four.get(index).copied().unwrap_or(0));
                bits.to_be_bytes()[1..four.len()].to_vec()
            })
            .collect()
    }
}
