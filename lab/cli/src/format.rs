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

pub use keel_results::text::count;

/// Bytes with about three digits: `1.50 KiB`.
pub fn bytes(value: u64) -> String {
    keel_results::text::bytes(value as f64)
}

/// Nanoseconds with about three digits: `1.50 µs`.
pub fn nanoseconds(value: u64) -> String {
    keel_results::text::duration(value as f64)
}

/// Part of a whole in percent; `-` of nothing.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.2} %", part as f64 * 100.0 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([count(0), count(999), count(1000), count(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([bytes(1023), bytes(1024), bytes(165_000_000)], ["1023 B", "1 KiB", "157 MiB"]);
        assert_eq!(
            [nanoseconds(17), nanoseconds(1500), nanoseconds(180_600_000_000)],
            ["17 ns", "1.50 µs", "181 s"]
        );
        assert_eq!([share(1, 3), share(0, 0)], ["33.33 %", "-"]);
    }
}
