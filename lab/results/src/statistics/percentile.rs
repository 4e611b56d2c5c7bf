//! Percentiles between the steps of the clock.
//!
//! A clock that moves in steps of 2 ticks shows 34 for every time near 34, and a third of all calls
//! may share that reading. A median of 34 then does not show where among these calls the middle is,
//! and two equal comparisons can show medians that differ by a whole step: 4 % of a call of 24 ns.
//! Therefore the calls that share a reading are assumed to be spread evenly over the step around it
//! (the median of grouped data). This holds because calls begin at any point of a step.

use hdrhistogram::Histogram;

/// Ticks up to which histograms count each value separately.
pub(super) const EXACT_TICKS: u64 = 2048;

/// The time in ticks that the share `quantile` of the calls does not exceed. `step` is the clock's
/// step in ticks, 0 if unknown. The result differs from the reading by at most half a step.
///
/// Where a step is longer than many calls, as on machines whose counter runs at 25 MHz, a reading
/// of 0 means a time between 0 and half a step.
pub fn percentile(counts: &Histogram<u64>, quantile: f64, step: u64) -> f64 {
    let reading = counts.value_at_quantile(quantile);
    if step == 0 || reading >= EXACT_TICKS {
        return reading as f64;
    }
    let below = reading.checked_sub(1).map_or(0, |last| counts.count_between(0, last));
    let wanted = quantile * counts.len() as f64 - below as f64;
    let share = (wanted / counts.count_at(reading).max(1) as f64).clamp(0.0, 1.0);
    match reading {
        0 => share * 0.5 * step as f64,
        _ => reading as f64 + (share - 0.5) * step as f64,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn counts(of: &[(u64, u64)]) -> Histogram<u64> {
        let mut counts = Histogram::new(3).unwrap();
        of.iter().for_each(|&(value, times)| counts.record_n(value, times).unwrap());
        counts
    }

    /// The readings of a clock with steps for calls that all take `ticks` and begin evenly over a
    /// step.
    fn readings(ticks: f64, step: u64) -> Histogram<u64> {
        let mut shown = Histogram::new(3).unwrap();
        for begin in 0..1000 {
            let begin = begin as f64 / 1000.0 * step as f64;
            let steps = |at: f64| (at / step as f64).floor() as u64 * step;
            shown.record(steps(begin + ticks) - steps(begin)).unwrap();
        }
        shown
    }

    #[test]
    fn half_of_the_calls_are_below_the_median() {
        // 100 of 400 are below 34; the middle is half way into the 200 at 34.
        assert_eq!(percentile(&counts(&[(32, 100), (34, 200), (36, 100)]), 0.5, 2), 34.0);
        assert_eq!(percentile(&counts(&[(32, 150), (34, 200), (36, 50)]), 0.5, 2), 33.5);
        assert_eq!(percentile(&counts(&[(34, 7)]), 1.0, 2), 35.0);
        assert_eq!(percentile(&counts(&[(34, 7)]), 0.5, 0), 34.0, "the step is unknown");
        assert_eq!(percentile(&counts(&[(0, 7)]), 0.5, 0), 0.0);
        assert_eq!(percentile(&counts(&[(0, 100), (40, 300)]), 0.0, 40), 0.0);
        assert_eq!(percentile(&counts(&[(0, 100), (40, 300)]), 0.25, 40), 20.0);
        assert_eq!(
            percentile(&counts(&[(5000, 7)]), 0.5, 2),
            counts(&[(5000, 7)]).value_at_quantile(0.5) as f64
        );
    }

    #[test]
    fn differences_of_a_part_of_a_step_are_visible() {
        let shown = |ticks| percentile(&readings(ticks, 26), 0.5, 26);
        assert_eq!(
            readings(53.0, 26).value_at_quantile(0.5),
            readings(58.0, 26).value_at_quantile(0.5)
        );
        assert!(shown(58.0) > shown(53.0) + 1.0, "{} and {}", shown(58.0), shown(53.0));
        assert!([53.0, 58.0, 65.0, 70.0].iter().all(|&ticks| (shown(ticks) - ticks).abs() < 8.0));
    }

    #[test]
    fn calls_shorter_than_a_step_are_distinguished() {
        let shown = |ticks| percentile(&readings(ticks, 26), 0.5, 26);
        assert_eq!(readings(5.0, 26).value_at_quantile(0.5), 0);
        assert_eq!(readings(12.0, 26).value_at_quantile(0.5), 0);
        let times = [2.0, 5.0, 12.0, 16.0, 22.0];
        assert!(
            times.windows(2).all(|two| shown(two[0]) + 0.5 < shown(two[1])),
            "{:?}",
            times.map(shown)
        );
        assert!(
            times.iter().all(|&ticks| (shown(ticks) - ticks).abs() < 8.0),
            "{:?}",
            times.map(shown)
        );
    }
}
