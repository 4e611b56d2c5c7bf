//! The clock's frequency, and dates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The frequency of the players' clock, from its readings paired with CLOCK_MONOTONIC.
///
/// The counter keeps running between players. Therefore the base line reaches from the first
/// reading of the first player to the last reading of the latest, and the precision improves with
/// each run: about 1e-5 at 10 ms, 1e-8 at 10 s.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frequency {
    first: Option<(u64, u64)>,
    ticks_per_ns: f64,
    /// The lowest and highest frequency of a single run.
    range: Option<(f64, f64)>,
}

impl Frequency {
    /// Adds a run's first and last reading, each (ticks, ns).
    pub fn add(&mut self, first: (u64, u64), last: (u64, u64)) {
        let (ticks, ns) = *self.first.get_or_insert(first);
        if last.0 > ticks && last.1 > ns {
            self.ticks_per_ns = (last.0 - ticks) as f64 / (last.1 - ns) as f64;
        }
        if last.0 > first.0 && last.1 > first.1 {
            let own = (last.0 - first.0) as f64 / (last.1 - first.1) as f64;
            let (least, most) = self.range.unwrap_or((own, own));
            self.range = Some((least.min(own), most.max(own)));
        }
    }

    /// The largest deviation of a single run from the frequency, parts per million.
    pub fn deviation_ppm(&self) -> f64 {
        let Some((least, most)) = self.range else { return 0.0 };
        let deviation = |own: f64| (own / self.ticks_per_ns() - 1.0).abs() * 1e6;
        deviation(least).max(deviation(most))
    }

    /// Ticks per nanosecond; 1 before the first run.
    pub fn ticks_per_ns(&self) -> f64 {
        if self.ticks_per_ns > 0.0 { self.ticks_per_ns } else { 1.0 }
    }
}

/// A point in time in UTC to the second, as `2026-11-21T21:30:00Z`.
pub fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01: in years that begin in March the leap day is last, so months have
    // fixed lengths.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_agree_with_the_calendar() {
        let at = |seconds| rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_795_296_599), "2026-11-21T21:29:59Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn the_base_line_begins_with_the_first_run() {
        let mut frequency = Frequency::default();
        assert_eq!(frequency.ticks_per_ns(), 1.0);
        frequency.add((1000, 500), (3010, 1500));
        frequency.add((90_000, 45_000), (201_000, 100_500));
        assert_eq!(frequency.ticks_per_ns(), 2.0);
        // The runs themselves: 2010 ticks in 1000 ns, and 111,000 in 55,500.
        assert!((frequency.deviation_ppm() - 5000.0).abs() < 1.0, "{}", frequency.deviation_ppm());
    }
}
