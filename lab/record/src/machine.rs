//! The metadata's facts about the machine and the time.

use keel_journal::Metadata;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Metadata with the fields about this machine filled in.
pub fn describe() -> Metadata {
    static MACHINE: OnceLock<Metadata> = OnceLock::new();
    MACHINE.get_or_init(read).clone()
}

fn read() -> Metadata {
    let line = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let processors = line("/proc/cpuinfo");
    let model =
        processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Metadata {
        host: line("/proc/sys/kernel/hostname"),
        kernel: format!(
            "{} {}",
            line("/proc/sys/kernel/ostype"),
            line("/proc/sys/kernel/osrelease")
        ),
        cpu: model.map(|(_, name)| name.trim().to_owned()).unwrap_or_default(),
        ..Metadata::default()
    }
}

/// The time of day as RFC 3339 in UTC.
pub fn now() -> String {
    at(SystemTime::now())
}

/// A time of day, likewise.
pub fn at(time: SystemTime) -> String {
    rfc3339(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

fn rfc3339(seconds: u64) -> String {
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (hours, minutes) = (time / 3600, time / 60 % 60);
    format!("{year:04}-{:02}-{:02}T{hours:02}:{minutes:02}:{:02}Z", month + 1, day + 1, time % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(rfc3339(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
