//! Tables on the terminal.

use std::fmt::Write as _;

/// Columns under their titles: names to the left, numbers to the right.
pub fn aligned(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in table {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(line, "  {cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A duration in nanoseconds, to three digits: `5.21 ns`, `31 ns`, `1.06 us`, `2.4 s`.
pub fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "us"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_the_unit_that_fits() {
        let shown = [5.208, 31.04, 218.0, 999.4, 999.6, 1_064.0, 25_800.0, 842_000.0, 3.2e6, 12.34e9];
        let expected = [
            "5.21 ns", "31.0 ns", "218 ns", "999 ns", "1.00 us", "1.06 us", "25.8 us", "842 us", "3.20 ms",
            "12.3 s",
        ];
        assert_eq!(shown.map(duration), expected);
    }

    #[test]
    fn columns_stand_under_their_titles() {
        let table = [["malloc", "mean"], ["keel", "5 ns"], ["mimalloc", "11 ns"]];
        let table: Vec<Vec<String>> = table.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        assert_eq!(aligned(&table), "  malloc     mean\n  keel       5 ns\n  mimalloc  11 ns\n");
    }
}
