//! Numbers for people: thousands apart, sizes and times with units.

use std::io::Write as _;

/// Prints data. That nobody reads any further (`keel info ... | head`) is no error, and no panic as with `println!`.
pub fn output(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// `1234567` -> `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1536` -> `1.5 KiB`, with about three digits.
pub fn bytes(value: u64) -> String {
    if value < 1024 {
        return format!("{value} B");
    }
    scaled(value as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// `1500` -> `1.50 us`, with about three digits.
pub fn nanoseconds(value: u64) -> String {
    let value = value as f64;
    if value < 1e9 {
        return scaled(value, 1000.0, &["ns", "us", "ms", "s"]);
    }
    match value / 1e9 {
        seconds if seconds < 1000.0 => format!("{} s", three_digits(seconds)),
        seconds => format!("{seconds:.0} s"),
    }
}

/// Part of a whole in percent; `-` of nothing.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.2} %", part as f64 * 100.0 / whole as f64) }
}

fn scaled(mut value: f64, base: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= base - 0.5 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let number = if unit == 0 { format!("{value:.0}") } else { three_digits(value) };
    format!("{number} {}", units[unit])
}

fn three_digits(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([count(0), count(999), count(1000), count(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([bytes(1023), bytes(1024), bytes(165_000_000)], ["1023 B", "1.00 KiB", "157 MiB"]);
        assert_eq!(
            [nanoseconds(17), nanoseconds(1500), nanoseconds(180_600_000_000)],
            ["17 ns", "1.50 us", "181 s"]
        );
        assert_eq!([share(1, 3), share(0, 0)], ["33.33 %", "-"]);
    }
}
