//! Numbers for people: the one definition for terminal, Markdown and page.

/// A duration in nanoseconds, to three significant digits: `21.4 ns`, `1.23 µs`, `45 ms`.
pub fn duration(ns: f64) -> String {
    scaled(ns, 1000.0, &["ns", "µs", "ms", "s"])
}

/// Bytes to three significant digits: `96.5 MiB`.
pub fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// A number with separators: `1,234,567`.
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

/// A count with its noun, which takes an s unless the count is 1.
pub fn counted(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
}

/// Three significant digits, as many as there are of a whole number.
pub fn three_digits(value: f64) -> String {
    let decimals = if value >= 99.95 || value.fract() == 0.0 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // 999.5 would be printed as 1000 of the smaller unit.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    format!("{} {}", three_digits(value), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_counted_as_one() {
        assert_eq!([1, 1000].map(|one| counted(one, "free")), ["1 free", "1,000 frees"]);
    }

    #[test]
    fn durations_have_three_digits_and_the_unit_that_fits() {
        let shown =
            [0.0, 5.208, 21.44, 31.04, 218.0, 999.4, 999.6, 1234.0, 25_800.0, 3.2e6, 45e6, 12.34e9];
        let expected = [
            "0 ns", "5.21 ns", "21.4 ns", "31.0 ns", "218 ns", "999 ns", "1.00 µs", "1.23 µs",
            "25.8 µs", "3.20 ms", "45 ms", "12.3 s",
        ];
        assert_eq!(shown.map(duration), expected);
        assert_eq!(duration(4330.5e9), "4330 s");
    }

    #[test]
    fn bytes_and_counts() {
        assert_eq!([bytes(512.0), bytes(1536.0), bytes(1e9)], ["512 B", "1.50 KiB", "954 MiB"]);
        assert_eq!([bytes(1023.0), bytes(1024.0), bytes(165e6)], ["1023 B", "1 KiB", "157 MiB"]);
        assert_eq!(
            [count(0), count(999), count(1000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
