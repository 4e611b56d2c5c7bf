//! Tables as text.

use std::fmt::Write as _;

/// The rows with aligned columns: the first to the left, the others to the right.
pub fn aligned(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let width =
        |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_with_their_titles() {
        let table = [["malloc", "mean"], ["keel", "5 ns"], ["mimalloc", "11 ns"]];
        let table: Vec<Vec<String>> =
            table.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        assert_eq!(aligned(&table), "  malloc     mean\n  keel       5 ns\n  mimalloc  11 ns\n");
    }
}
