//! Intervals from few values: Student's t on logarithms, of ratios trimmed.
//!
//! Latencies and times are positive and vary by factors, so their logarithms are nearly normal: the
//! mean of logs is the log of the geometric mean, and the difference of two logs is the log of a
//! ratio. Five runs are too few for resampling, and rank tests cannot reach 95 %. The t interval is
//! exact for normal logs and wide where runs disagree.
//!
//! A neighbour on the same core makes some runs up to 1.7 times as long. One such run among twelve
//! makes the t interval of a ratio so wide that no difference below 10 % is found. Therefore a
//! fifth of the ratios is trimmed at either end, as soon as there are enough of them (Tukey and
//! McLaughlin 1963). An allocator's own interval stays wide then, so that more rounds follow.

use crate::{Comparison, Interval};
use std::cell::RefCell;

/// The confidence of all intervals in results.
pub const CONFIDENCE: f64 = 0.95;
/// The confidence of the t interval if the number of rounds depends on its width. Rounds end when
/// the interval is narrow, and it is narrow more often when the runs happen to agree. With this
/// value, at least 95 % of the intervals that are reported contain the true value. Found by
/// simulation: `stopping_tests.rs`.
const CONFIDENCE_PER_LOOK: f64 = 0.9725;

/// The confidence with which t intervals of this comparison are computed, so that 95 % of them
/// contain the true value.
pub fn confidence(comparison: &Comparison) -> f64 {
    let settings = &comparison.settings;
    if settings.max_runs > settings.runs { CONFIDENCE_PER_LOOK } else { CONFIDENCE }
}

/// The interval of the typical value (the geometric mean). None without values, or if a value is
/// not positive. The interval of a single value is that value: its spread is unknown.
pub fn interval_of(values: &[f64], confidence: f64) -> Option<Interval> {
    let (mean, half) = log_interval(&logs(values)?, confidence)?;
    Some(Interval { value: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

/// The interval of `b / a` from paired values: of their geometric mean, trimmed from eight on.
pub fn paired_ratio(a: &[f64], b: &[f64], confidence: f64) -> Option<Interval> {
    let (a, b) = (logs(a)?, logs(b)?);
    let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b - a).collect();
    let (mean, half) = trimmed_interval(differences, confidence)?;
    Some(Interval { value: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

/// The interval of `b / a` from unpaired values (Welch). Each side needs at least two.
pub fn unpaired_ratio(a: &[f64], b: &[f64], confidence: f64) -> Option<Interval> {
    let (a, b) = (logs(a)?, logs(b)?);
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let ((mean_a, var_a), (mean_b, var_b)) = (mean_and_variance(&a), mean_and_variance(&b));
    let (part_a, part_b) = (var_a / a.len() as f64, var_b / b.len() as f64);
    let squared = (part_a + part_b).powi(2);
    let freedom =
        match part_a.powi(2) / (a.len() - 1) as f64 + part_b.powi(2) / (b.len() - 1) as f64 {
            below if below > 0.0 => squared / below,
            _ => (a.len() + b.len() - 2) as f64,
        };
    let half = student(confidence, freedom) * (part_a + part_b).sqrt();
    let mean = mean_b - mean_a;
    Some(Interval { value: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

fn logs(values: &[f64]) -> Option<Vec<f64>> {
    values.iter().map(|&value| (value > 0.0 && value.is_finite()).then(|| value.ln())).collect()
}

fn log_interval(logs: &[f64], confidence: f64) -> Option<(f64, f64)> {
    match logs {
        [] => None,
        [only] => Some((*only, 0.0)),
        _ => {
            let (mean, variance) = mean_and_variance(logs);
            let count = logs.len() as f64;
            Some((mean, student(confidence, count - 1.0) * (variance / count).sqrt()))
        }
    }
}

/// The interval of the mean of those that are not trimmed. The variance is that of all, after the
/// trimmed ones were replaced by the nearest one that stays.
fn trimmed_interval(mut logs: Vec<f64>, confidence: f64) -> Option<(f64, f64)> {
    let trimmed = trimmed_at_an_end(logs.len());
    if trimmed == 0 {
        return log_interval(&logs, confidence);
    }
    logs.sort_by(f64::total_cmp);
    let kept = &logs[trimmed..logs.len() - trimmed];
    let (least, most) = (*kept.first()?, *kept.last()?);
    let mean = kept.iter().sum::<f64>() / kept.len() as f64;
    let (kept, freedom) = (kept.len() as f64, (kept.len() - 1) as f64);
    let replaced: Vec<f64> = logs.iter().map(|log| log.clamp(least, most)).collect();
    let squares = mean_and_variance(&replaced).1 * (logs.len() - 1) as f64;
    Some((mean, student(confidence, freedom) * (squares / (kept * freedom)).sqrt()))
}

/// With fewer values than this, none is trimmed: too few degrees of freedom would remain.
const FEWEST_TRIMMED: usize = 8;

/// How many of these values are trimmed at each end: a fifth.
fn trimmed_at_an_end(values: usize) -> usize {
    if values < FEWEST_TRIMMED { 0 } else { values / 5 }
}

/// The mean and the sample variance of at least two values.
fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0))
}

/// The value that |T| does not exceed with this confidence; T has Student's t distribution with
/// `freedom` degrees of freedom.
pub fn student(confidence: f64, freedom: f64) -> f64 {
    // A comparison of ten allocators needs the same few values thousands of times: three
    // confidences with up to eleven degrees of freedom.
    thread_local! { static KNOWN: RefCell<Vec<[f64; 3]>> = const { RefCell::new(Vec::new()) } }
    KNOWN.with_borrow_mut(|known| {
        if let Some(found) = known.iter().find(|one| one[0] == confidence && one[1] == freedom) {
            return found[2];
        }
        let value = compute_student(confidence, freedom);
        if known.len() == CACHE_SIZE {
            known.remove(0);
        }
        known.push([confidence, freedom, value]);
        value
    })
}

/// Values of [`student`] that a thread caches.
const CACHE_SIZE: usize = 48;

fn compute_student(confidence: f64, freedom: f64) -> f64 {
    let outside = 1.0 - confidence;
    let (mut low, mut high) = (0.0, 1.0);
    while tail(high, freedom) > outside && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if tail(middle, freedom) > outside { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The probability that |T| exceeds `t`.
fn tail(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The regularised incomplete beta function, by its continued fraction (Lentz).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let not_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for coefficient in [even, odd] {
            d = 1.0 / not_zero(1.0 + coefficient * d);
            c = not_zero(1.0 + coefficient / c);
            result *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    result
}

/// Stirling's series, with the argument shifted upwards to where the series is exact to 1e-13.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < 12.0 {
        below += x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square)
        / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - below
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::statistics::test_data::normal;

    #[test]
    fn students_t_agrees_with_printed_tables() {
        for (confidence, freedom, expected) in [
            (0.95, 1.0, 12.706),
            (0.95, 4.0, 2.776),
            (0.99, 4.0, 4.604),
            (0.95, 9.0, 2.262),
            (0.999, 2.0, 31.599),
            (0.95, 1000.0, 1.962),
        ] {
            let t = student(confidence, freedom);
            assert!((t - expected).abs() < 0.001, "{confidence} {freedom}: {t}, not {expected}");
        }
    }

    #[test]
    fn nineteen_of_twenty_intervals_contain_the_true_value() {
        let mut state = 7;
        let (mut own, mut paired, mut unpaired) = (0, 0, 0);
        for _ in 0..4000 {
            let drift: Vec<f64> = (0..5).map(|_| normal(&mut state)).collect();
            let mut sample = |factor: f64, drift: &[f64]| -> Vec<f64> {
                drift
                    .iter()
                    .map(|drift| factor * (0.3 * drift + 0.05 * normal(&mut state)).exp())
                    .collect()
            };
            let (a, b) = (sample(100.0, &drift), sample(110.0, &drift));
            let apart = sample(110.0, &[0.0, 0.1, -0.1, 0.2, -0.2]);
            let contains = |interval: Interval, truth: f64| {
                i32::from((interval.low..interval.high).contains(&truth))
            };
            own += contains(interval_of(&a, 0.95).unwrap(), 100.0);
            paired += contains(paired_ratio(&a, &b, 0.95).unwrap(), 1.1);
            unpaired += contains(unpaired_ratio(&a, &apart, 0.95).unwrap(), 1.1);
        }
        for (name, count) in [("own", own), ("paired", paired), ("unpaired", unpaired)] {
            assert!((3740..=3920).contains(&count), "{name}: {count} of 4000");
        }
    }

    #[test]
    fn pairs_cancel_common_drift() {
        let (a, b) = ([10.0, 20.0, 40.0], [11.0, 22.0, 44.5]);
        let ratio = paired_ratio(&a, &b, 0.95).unwrap();
        assert!(ratio.low > 1.05 && ratio.high < 1.15, "{ratio:?}");
        let apart = unpaired_ratio(&a, &b, 0.95).unwrap();
        assert!(apart.low < 0.5 && apart.high > 2.0, "{apart:?}");
    }

    #[test]
    fn one_value_is_an_interval_and_zero_has_none() {
        assert_eq!(interval_of(&[1.0], 0.95), Some(Interval { value: 1.0, low: 1.0, high: 1.0 }));
        assert_eq!(interval_of(&[], 0.95), None);
        assert_eq!(interval_of(&[1.0, 0.0], 0.95), None);
        assert_eq!(unpaired_ratio(&[1.0], &[1.0, 2.0], 0.95), None);
    }
}
