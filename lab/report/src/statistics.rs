//! Several runs become a median with its range; two ranges that meet are no difference.

use serde::{Serialize, Serializer};

/// A figure over the runs of one allocator. Written as `[median, low, high]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Median over runs; of an even number the mean of the middle two.
    pub median: f64,
    /// The lowest run.
    pub low: f64,
    /// The highest run.
    pub high: f64,
}

impl Spread {
    /// Of one value a run; None without runs.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Spread { median, low, high })
    }

    /// Whether some run of one may be equal to some run of the other, given an instrument that cannot tell values
    /// closer than `resolution` apart.
    pub fn meets(&self, other: &Spread, resolution: f64) -> bool {
        self.low <= other.high + resolution && other.low <= self.high + resolution
    }
}

impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [self.median, self.low, self.high].map(short).serialize(serializer)
    }
}

/// A value to five significant digits: more than a measurement holds, and half the bytes in JSON.
pub fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powf(4.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

/// Those of `contenders` that may be lowest: the one with the lowest median first, then all whose runs meet its runs.
/// One index alone means: every run of it lies below every run of all others.
pub fn lowest(contenders: &[(usize, Spread)], resolution: f64) -> Vec<usize> {
    let Some(best) = contenders.iter().min_by(|a, b| a.1.median.total_cmp(&b.1.median)) else {
        return Vec::new();
    };
    let mut tied: Vec<&(usize, Spread)> =
        contenders.iter().filter(|other| other.1.meets(&best.1, resolution)).collect();
    tied.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    tied.into_iter().map(|(index, _)| *index).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn spread(low: f64, median: f64, high: f64) -> Spread {
        Spread { median, low, high }
    }

    #[test]
    fn a_spread_is_the_median_and_the_range() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).unwrap(), spread(1.0, 2.0, 3.0));
        assert_eq!(Spread::of([4.0, 1.0]).unwrap(), spread(1.0, 2.5, 4.0));
        assert!(Spread::of([]).is_none());
    }

    #[test]
    fn only_ranges_apart_make_a_winner() {
        let field = [(0, spread(9.0, 10.0, 11.0)), (1, spread(5.0, 6.0, 7.0)), (2, spread(7.5, 8.0, 9.5))];
        assert_eq!(lowest(&field, 0.0), [1]);
        assert_eq!(lowest(&field, 0.5), [1, 2], "the instrument cannot tell 7 from 7.5");
        let field = [(0, spread(5.0, 6.0, 9.0)), (1, spread(8.0, 9.5, 10.0)), (2, spread(9.5, 9.6, 9.7))];
        assert_eq!(lowest(&field, 0.0), [0, 1], "2 meets 1, but not the best");
        assert!(lowest(&[], 1.0).is_empty());
    }

    #[test]
    fn short_keeps_five_digits() {
        assert_eq!(short(123456.0), 123460.0);
        assert_eq!(short(0.001234567), 0.0012346);
        assert_eq!([short(0.0), short(f64::NAN)], [0.0, 0.0]);
    }
}
