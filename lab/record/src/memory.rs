//! Samples of a process's resident memory.

use keel_journal::MemorySample;
use std::time::{Duration, Instant};

/// The first distance of two samples; it doubles each time that there are `SAMPLES_MAX`.
const FIRST_EVERY: Duration = Duration::from_millis(20);
const LONGEST_EVERY: Duration = Duration::from_secs(3600);
const SAMPLES_MAX: usize = 256;

/// The samples of one process.
pub struct Sampler {
    samples: Vec<MemorySample>,
    every: Duration,
    next: Option<Instant>,
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler { samples: Vec::new(), every: FIRST_EVERY, next: None }
    }
}

impl Sampler {
    /// Looks at the process if it is time. `time`: ns since its start.
    pub fn look(&mut self, pid: u32, time: u64) {
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        self.next = Some(now + self.every);
        let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(0) as u64;
        if let Some((anonymous, resident)) = parse(&statm, page) {
            self.add(MemorySample { time, anonymous, resident });
        }
    }

    fn add(&mut self, sample: MemorySample) {
        self.samples.push(sample);
        if self.samples.len() < SAMPLES_MAX {
            return;
        }
        // Of two neighbours, the larger one stays.
        let larger = |pair: &[MemorySample]| pair.iter().copied().max_by_key(|one| one.anonymous);
        self.samples = self.samples.chunks(2).filter_map(larger).collect();
        self.every = (self.every * 2).min(LONGEST_EVERY);
    }

    /// The samples so far.
    pub fn samples(&self) -> Vec<MemorySample> {
        self.samples.clone()
    }
}

/// Anonymous and all resident bytes. None for a process that has ended.
fn parse(statm: &str, page: u64) -> Option<(u64, u64)> {
    let mut numbers = statm.split(' ').skip(1).map(|word| word.trim().parse::<u64>().ok());
    let (resident, shared) = (numbers.next()??, numbers.next()??);
    (resident > 0).then(|| (resident.saturating_sub(shared) * page, resident * page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_is_what_no_file_has() {
        assert_eq!(parse("5000 300 100 1 0 200 0\n", 4096), Some((200 * 4096, 300 * 4096)));
        assert_eq!(parse("0 0 0 0 0 0 0\n", 4096), None);
        assert_eq!(parse("", 4096), None);
    }

    #[test]
    fn a_long_recording_keeps_its_peak_and_few_samples() {
        let mut sampler = Sampler::default();
        for time in 0..100_000 {
            let anonymous = if time == 54_321 { 1 << 30 } else { time };
            sampler.add(MemorySample { time, anonymous, resident: anonymous });
        }
        let samples = sampler.samples();
        assert!((SAMPLES_MAX / 2 - 1..SAMPLES_MAX).contains(&samples.len()), "{}", samples.len());
        assert!(samples.is_sorted_by_key(|sample| sample.time));
        assert!(samples.iter().any(|sample| sample.anonymous == 1 << 30));
    }
}
