//! Numbers as text: thousands separated, sizes and times with units.

pub use keel_results::text::{count, counted};
use std::path::Path;

/// Bytes with about three digits: `1.50 KiB`.
pub fn bytes(value: u64) -> String {
    keel_results::text::bytes(value as f64)
}

/// Nanoseconds with about three digits: `1.50 µs`.
pub fn nanoseconds(value: u64) -> String {
    keel_results::text::duration(value as f64)
}

/// A part of a whole in percent; `-` if the whole is 0.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.2} %", part as f64 * 100.0 / whole as f64) }
}

/// A size on the command line: bytes, or with K, M or G for powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: Option<u64> = digits.parse().ok().filter(|number| *number > 0);
    let bytes = number.and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "give a size such as 500000, 200K, 64M or 2G".to_owned())
}

/// A path as a word of a shell.
pub fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A text of which a terminal obeys no part; lines stay.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => shown.push(letter),
            _ if letter.is_control() => shown.extend(letter.escape_default()),
            _ => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators_units_and_three_digits() {
        assert_eq!(
            [count(0), count(999), count(1000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([bytes(1023), bytes(1024), bytes(165_000_000)], ["1023 B", "1 KiB", "157 MiB"]);
        assert_eq!(
            [nanoseconds(17), nanoseconds(1500), nanoseconds(180_600_000_000)],
            ["17 ns", "1.50 µs", "181 s"]
        );
        assert_eq!([share(1, 3), share(0, 0)], ["33.33 %", "-"]);
    }

    #[test]
    fn words_of_a_shell_are_quoted_if_necessary() {
        let words = ["a/b-1.keel", "a b", "q'd", ""].map(|path| shell_word(Path::new(path)));
        assert_eq!(words, ["a/b-1.keel", "'a b'", r"'q'\''d'", "''"]);
    }
}
