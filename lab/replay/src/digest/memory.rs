//! Resident and live memory over the time of a run.

use super::{Measured, Row};
use keel_plan::{Kind, Op};
use keel_results::{Fragmentation, MemorySample};
use std::sync::atomic::Ordering::Relaxed;

/// Live bytes at the times at which resident memory was read.
pub struct Memory {
    samples: Vec<MemorySample>,
    /// Change of live bytes between each sample and the one before.
    changes: Vec<i64>,
    sizes: Vec<u64>,
    near: usize,
}

impl Memory {
    pub fn new(measured: &Measured<'_>, slots: usize) -> Memory {
        let control = measured.results.control();
        let (start, baseline) =
            (control.start_ns.load(Relaxed), control.baseline_bytes.load(Relaxed));
        let samples: Vec<MemorySample> = measured
            .sampler
            .readings()
            .iter()
            .map(|&(ns, bytes)| MemorySample {
                time: ns.saturating_sub(start),
                resident: bytes.saturating_sub(baseline),
                live: 0,
            })
            .collect();
        let mut memory =
            Memory { changes: vec![0; samples.len() + 1], samples, sizes: vec![0; slots], near: 0 };
        measured
            .plan
            .threads()
            .iter()
            .for_each(|thread| memory.begin(measured.plan.prologue(thread)));
        memory
    }

    /// Adds the blocks that exist from the start.
    fn begin(&mut self, prologue: &[Op]) {
        for (step, size) in keel_plan::calls(prologue) {
            self.sizes[step.slot as usize] = size;
            self.change(0, size as i64);
        }
    }

    pub fn add(&mut self, row: &Row<'_>, start: u64) {
        let held = &mut self.sizes[row.step.slot as usize];
        let released = if row.step.is_fresh() { 0 } else { *held };
        let change = match row.step.kind().class() {
            Kind::Free => -(released as i64),
            Kind::Realloc => row.size as i64 - released as i64,
            _ => row.size as i64,
        };
        *held = row.size;
        // Finds the first sample at or after the call. Calls are nearly in order of time, so it is
        // near the last one.
        while self.samples.get(self.near).is_some_and(|sample| sample.time < start) {
            self.near += 1;
        }
        while self.near > 0 && self.samples[self.near - 1].time >= start {
            self.near -= 1;
        }
        self.change(self.near, change);
    }

    /// Saturates, because the journal's sizes can have any sum.
    fn change(&mut self, sample: usize, by: i64) {
        self.changes[sample] = self.changes[sample].saturating_add(by);
    }

    pub fn finish(mut self) -> Vec<MemorySample> {
        let mut live = 0i64;
        for (sample, change) in self.samples.iter_mut().zip(&self.changes) {
            live = live.saturating_add(*change);
            sample.live = live.max(0) as u64;
        }
        self.samples
    }
}

/// Peak resident bytes: by the kernel's high-water mark, or the largest reading.
pub fn peak(measured: &Measured<'_>, samples: &[MemorySample]) -> u64 {
    let control = measured.results.control();
    let baseline = control.baseline_bytes.load(Relaxed);
    let mark = control.peak_bytes.load(Relaxed).saturating_sub(baseline);
    samples.iter().map(|sample| sample.resident).max().unwrap_or(0).max(mark)
}

/// The ratios of fragmentation; None without readings or live memory.
pub fn fragmentation(samples: &[MemorySample], peak_live: u64) -> Option<Fragmentation> {
    let peak = samples.iter().max_by_key(|sample| sample.resident)?;
    let last = samples.last()?;
    let ratio = |resident: f64, live: f64| if live > 0.0 { resident / live } else { 0.0 };
    let (mut resident, mut live) = (0.0, 0.0);
    for pair in samples.windows(2) {
        let time = pair[1].time.saturating_sub(pair[0].time) as f64;
        resident += time * f64::midpoint(pair[0].resident as f64, pair[1].resident as f64);
        live += time * f64::midpoint(pair[0].live as f64, pair[1].live as f64);
    }
    (peak_live > 0).then(|| Fragmentation {
        peaks: ratio(peak.resident as f64, peak_live as f64),
        at_peak: ratio(peak.resident as f64, peak.live as f64),
        over_time: ratio(resident, live),
        at_end: ratio(last.resident as f64, last.live as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ratio_of_fragmentation_is_computed_as_documented() {
        let sample = |(time, resident, live)| MemorySample { time, resident, live };
        let samples = [(0, 0, 0), (10, 300, 100), (30, 200, 200), (40, 200, 50)].map(sample);
        let expected = Fragmentation {
            peaks: 1.0,
            at_peak: 3.0,
            // Areas: 1500 + 5000 + 2000 over 500 + 3000 + 1250.
            over_time: 8500.0 / 4750.0,
            at_end: 4.0,
        };
        assert_eq!(fragmentation(&samples, 300), Some(expected));
        assert_eq!(fragmentation(&[], 300), None);
        assert_eq!(fragmentation(&samples, 0), None);
    }
}
