//! Counts values: small ones exactly, large ones with three significant digits.

use super::facts::Distribution;
use hdrhistogram::Histogram;

/// Values below this are counted one by one.
const EXACT: u64 = 1 << 16;

/// A growing distribution of at most about a megabyte.
pub(crate) struct Counter {
    small: Vec<u64>,
    large: Option<Histogram<u64>>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Counter {
    pub fn new() -> Counter {
        Counter {
            small: Vec::new(),
            large: Histogram::new(3).ok(),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    #[inline]
    pub fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if value < EXACT {
            let index = value as usize;
            if index >= self.small.len() {
                self.small.resize((index + 1).next_power_of_two(), 0);
            }
            self.small[index] += 1;
        } else if let Some(large) = &mut self.large {
            // The histogram grows as needed. It rejects only values of 2^63 and above, which are
            // not valid sizes or times.
            let _ = large.record(value);
        }
    }

    pub fn finish(&self) -> Distribution {
        if self.count == 0 {
            return Distribution::default();
        }
        Distribution {
            count: self.count,
            mean: self.sum as f64 / self.count as f64,
            min: self.min,
            p50: self.percentile(0.5),
            p90: self.percentile(0.9),
            p99: self.percentile(0.99),
            p999: self.percentile(0.999),
            max: self.max,
        }
    }

    /// Returns the smallest of the values that at least this share of all values do not exceed.
    fn percentile(&self, share: f64) -> u64 {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (value, count) in self.small.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return value as u64;
            }
        }
        let Some(large) = &self.large else { return self.max };
        for bucket in large.iter_recorded() {
            seen += bucket.count_at_value();
            if seen >= rank {
                return bucket.value_iterated_to().min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_for_small_values_and_close_for_large() {
        let mut counter = Counter::new();
        for value in 1..=1000 {
            counter.add(value);
        }
        let small = counter.finish();
        assert_eq!((small.p50, small.p90, small.p99, small.p999), (500, 900, 990, 999));
        assert_eq!((small.min, small.max, small.count), (1, 1000, 1000));
        assert!((small.mean - 500.5).abs() < 1e-9);
        for _ in 0..9000 {
            counter.add(10_000_000);
        }
        let large = counter.finish();
        assert!(large.p50 >= 10_000_000 && large.p50 <= 10_010_000, "{}", large.p50);
        assert_eq!((large.p999, large.max), (10_000_000, 10_000_000));
    }

    #[test]
    fn extremes_are_kept() {
        let mut counter = Counter::new();
        assert_eq!(counter.finish(), Distribution::default());
        counter.add(0);
        counter.add(i64::MAX as u64);
        let both = counter.finish();
        assert_eq!((both.min, both.p50, both.max), (0, 0, i64::MAX as u64));
    }
}
