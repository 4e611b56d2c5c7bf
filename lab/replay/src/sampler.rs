//! Resident memory over time, read by another process so that the run is not affected.

use std::time::Duration;

/// The most readings kept. Beyond it, readings are merged in pairs and taken half as often.
const MAX_READINGS: usize = 4096;
const FIRST_INTERVAL: Duration = Duration::from_millis(2);

/// Readings of (CLOCK_MONOTONIC ns, anonymous resident bytes).
#[derive(Debug)]
pub struct Sampler {
    status: String,
    interval: Duration,
    readings: Vec<(u64, u64)>,
}

impl Sampler {
    /// For the process with this id.
    pub fn new(process: u32) -> Sampler {
        Sampler {
            status: format!("/proc/{process}/status"),
            interval: FIRST_INTERVAL,
            readings: Vec::new(),
        }
    }

    /// The time until the next reading.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Takes a reading, unless the process has ended.
    pub fn read(&mut self) {
        let Ok(text) = std::fs::read_to_string(&self.status) else { return };
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let Some(kib) = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        else {
            return;
        };
        self.add(monotonic_ns(), kib * 1024);
    }

    /// Adds a reading.
    pub fn add(&mut self, ns: u64, bytes: u64) {
        if self.readings.len() == MAX_READINGS {
            // Keeps the larger of each pair, so that no peak is lost.
            let merged = self
                .readings
                .chunks(2)
                .filter_map(|pair| pair.iter().copied().max_by_key(|one| one.1));
            self.readings = merged.collect();
            self.interval *= 2;
        }
        self.readings.push((ns, bytes));
    }

    /// The readings, in order of time.
    pub fn readings(&self) -> &[(u64, u64)] {
        &self.readings
    }
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec, which is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_bounded_and_no_peak_is_lost() {
        let mut sampler = Sampler::new(0);
        for at in 0..20_000u64 {
            sampler.add(at, if at == 4_321 { 999_999 } else { at });
        }
        assert!(sampler.readings().len() <= MAX_READINGS);
        assert!(sampler.readings().iter().any(|&(_, bytes)| bytes == 999_999));
        assert!(sampler.readings().is_sorted_by_key(|&(at, _)| at));
        assert!(sampler.interval() > FIRST_INTERVAL);
    }

    #[test]
    fn the_memory_of_this_process_can_be_read() {
        let mut sampler = Sampler::new(std::process::id());
        sampler.read();
        assert!(sampler.readings().len() == 1 && sampler.readings()[0].1 > 0);
    }
}
