//! A figure over several runs: the median, the range, and the 95 % interval of the typical value.

use keel_results::Interval;
use serde::{Serialize, Serializer};

/// A figure over the runs of one allocator. Serialized as `[median, low, high]`, or, with a known
/// interval, as `[median, low, high, interval low, interval high]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Median over runs; for an even number of runs the mean of the middle two.
    pub median: f64,
    /// The lowest run.
    pub low: f64,
    /// The highest run.
    pub high: f64,
    /// 95 % confidence interval of the typical value; None for a single run.
    pub interval: Option<Interval>,
}

impl Spread {
    /// From one value per run; None without runs.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Spread { median, low, high, interval: None })
    }

    /// The same with its interval, which needs at least two runs.
    pub fn with(self, interval: Option<&Interval>, runs: usize) -> Spread {
        Spread { interval: interval.filter(|_| runs > 1).copied(), ..self }
    }
}

impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ends = self.interval.map(|interval| [interval.low, interval.high]);
        let values =
            [self.median, self.low, self.high].into_iter().chain(ends.into_iter().flatten());
        serializer.collect_seq(values.map(short))
    }
}

/// A value to five significant digits: enough for any measurement, and half the bytes in JSON.
pub fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = power_of_ten(4 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// A power of ten, exact up to the 22nd. `powi` and `powf` call functions of the C library; those
/// of mingw-w64 give 0.0010000000000000002 for 10⁻³.
pub fn power_of_ten(exponent: i32) -> f64 {
    let power = (0..exponent.unsigned_abs()).fold(1.0, |power, _| power * 10.0);
    if exponent < 0 { 1.0 / power } else { power }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn powers_of_ten_are_those_of_the_literals() {
        for exponent in -22..=22 {
            assert_eq!(power_of_ten(exponent), format!("1e{exponent}").parse::<f64>().unwrap());
        }
    }

    #[test]
    fn a_spread_is_the_median_and_the_range() {
        let spread = |low, median, high| Spread { median, low, high, interval: None };
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).unwrap(), spread(1.0, 2.0, 3.0));
        assert_eq!(Spread::of([4.0, 1.0]).unwrap(), spread(1.0, 2.5, 4.0));
        assert!(Spread::of([]).is_none());
    }

    #[test]
    fn an_interval_follows_the_range_and_needs_two_runs() {
        let interval = Interval { value: 2.0, low: 0.5, high: 4.25 };
        let spread = Spread::of([1.0, 2.0, 3.0]).unwrap();
        let written = |spread: Spread| serde_json::to_string(&spread).unwrap();
        assert_eq!(written(spread), "[2.0,1.0,3.0]");
        assert_eq!(written(spread.with(Some(&interval), 3)), "[2.0,1.0,3.0,0.5,4.25]");
        assert_eq!(written(spread.with(Some(&interval), 1)), "[2.0,1.0,3.0]");
    }

    #[test]
    fn short_keeps_five_digits() {
        assert_eq!(short(123456.0), 123460.0);
        assert_eq!(short(0.001234567), 0.0012346);
        assert_eq!([short(0.0), short(f64::NAN)], [0.0, 0.0]);
    }
}
