//! What a journal of samples says about all operations.
//!
//! The recorder records an allocation of `size` bytes with the probability `p = 1 - exp(-(size + 1)
//! / sample_bytes)`, independently of all others, and the release of each block whose allocation it
//! recorded. So each row that creates a block stands for `1 / p` allocations, and the sum of these
//! weights is an unbiased estimate (Horvitz and Thompson, JASA 1952). The variance of the sum is
//! estimated, without bias as well, by the sum of `(1 - p) / p^2` over the samples.

use crate::{Event, Metadata, Reader, Result};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// The samples of a journal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    sample_bytes: f64,
}

impl Sampling {
    /// None if the journal has all operations.
    pub fn of(metadata: &Metadata) -> Option<Sampling> {
        let sample_bytes = metadata.sample_bytes as f64;
        (metadata.sample_bytes > 0).then_some(Sampling { sample_bytes })
    }

    /// The number of allocations that a sample of this size stands for.
    pub fn weight(self, size: u64) -> f64 {
        1.0 / -(-(size as f64 + 1.0) / self.sample_bytes).exp_m1()
    }

    /// What a sample of this size adds to the variance of the number of allocations.
    pub fn variance(self, size: u64) -> f64 {
        let weight = self.weight(size);
        weight * weight - weight
    }
}

/// An estimated number and the variance of the estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// The standard error.
    #[serde(serialize_with = "serialize_root", rename = "standard_error")]
    pub variance: f64,
}

fn serialize_root<S: serde::Serializer>(
    variance: &f64,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_f64(variance.max(0.0).sqrt())
}

impl Estimate {
    /// The square root of the variance.
    pub fn standard_error(self) -> f64 {
        self.variance.max(0.0).sqrt()
    }

    fn add(&mut self, value: f64, variance: f64) {
        self.value += value;
        self.variance += variance;
    }
}

/// Allocations and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimates {
    /// Number of blocks.
    pub blocks: Estimate,
    /// Requested bytes.
    pub bytes: Estimate,
}

impl Estimates {
    fn add(&mut self, sampling: Sampling, size: u64, sign: f64) {
        let (weight, variance, size) =
            (sampling.weight(size) * sign, sampling.variance(size) * sign, size as f64);
        self.blocks.add(weight, variance);
        self.bytes.add(weight * size, variance * size * size);
    }
}

/// The totals of a program, estimated from samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Number of samples.
    pub samples: u64,
    /// The time of the last row, ns.
    pub duration_ns: u64,
    /// All allocations.
    pub allocated: Estimates,
    /// Blocks that were live at the end.
    pub live: Estimates,
}

/// Estimates the totals; None if the journal has all operations. Memory for the live samples.
///
/// # Errors
/// Those of reading the journal.
pub fn totals(reader: &Reader, progress: &mut dyn FnMut(u64)) -> Result<Option<Totals>> {
    let Some(sampling) = Sampling::of(reader.metadata()) else { return Ok(None) };
    let (mut totals, mut live, mut rows) = (Totals::default(), FxHashMap::default(), 0);
    for batch in reader.batches() {
        let batch = batch?;
        rows += batch.len() as u64;
        for event in &batch {
            totals.take(sampling, event, &mut live);
        }
        progress(rows);
    }
    // Sums of numbers of which the last may be subtracted again.
    if live.is_empty() {
        totals.live = Estimates::default();
    }
    Ok(Some(totals))
}

impl Totals {
    fn take(&mut self, sampling: Sampling, event: &Event, live: &mut FxHashMap<u64, u64>) {
        self.duration_ns = event.time;
        if let Some(size) = live.remove(&event.released) {
            self.live.add(sampling, size, -1.0);
        }
        if event.created != 0 {
            self.samples += 1;
            self.allocated.add(sampling, event.size, 1.0);
            self.live.add(sampling, event.size, 1.0);
            live.insert(event.created, event.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_the_reciprocal_of_its_probability() {
        let metadata = Metadata { sample_bytes: 1000, ..Metadata::default() };
        assert!(Sampling::of(&Metadata::default()).is_none());
        let sampling = Sampling::of(&metadata).unwrap_or_else(|| unreachable!());
        assert!((sampling.weight(0) - 1000.5).abs() < 0.01);
        assert!((sampling.weight(999) - 1.0 / (1.0 - (-1.0_f64).exp())).abs() < 1e-12);
        assert_eq!(sampling.weight(u64::MAX), 1.0);
        assert_eq!(sampling.variance(u64::MAX), 0.0);
    }
}
