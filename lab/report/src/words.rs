//! Figures and lists as a person would write them.

/// A duration to three significant digits: `21.4 ns`, `1.23 µs`, `45 ms`.
pub fn duration(ns: f64) -> String {
    scaled(ns, 1000.0, &["ns", "µs", "ms", "s"])
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // 999.5 would be printed as 1000 of the smaller unit.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let decimals = if value >= 99.95 || value.fract() == 0.0 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {}", units[unit])
}

/// Bytes to three significant digits: `96.5 MiB`.
pub fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

/// `a`, `a or b`, `a, b or c`.
pub fn either(names: &[&str]) -> String {
    match names {
        [init @ .., last] if !init.is_empty() => format!("{} or {last}", init.join(", ")),
        _ => list(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        assert_eq!(duration(21.44), "21.4 ns");
        assert_eq!(duration(1234.0), "1.23 µs");
        assert_eq!(duration(999.6), "1.00 µs");
        assert_eq!(duration(45e6), "45 ms");
        assert_eq!(duration(4330.5e9), "4330 s");
        assert_eq!([bytes(512.0), bytes(1536.0), bytes(1e9)], ["512 B", "1.50 KiB", "954 MiB"]);
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(list(&["keel"]), "keel");
        assert_eq!(list(&["keel", "system"]), "keel and system");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(list(&[]), "");
        assert_eq!([either(&["a", "b", "c"]), either(&["a"])], ["a, b or c", "a"]);
    }
}
