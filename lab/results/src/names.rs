//! The names under which results, tables and pages show operations and percentiles.

/// The operations of a replay. The index is the code in the `op` column of `operations.parquet` and
/// of journals.
pub const OPERATIONS: [&str; 5] = ["malloc", "free", "calloc", "realloc", "aligned"];

/// All operations together.
pub const ALL_OPERATIONS: &str = "all";

/// Stands in the place of an operation for the figures of whole runs.
pub const RUN: &str = "run";

/// Stands in the place of an operation for the time inside the calls of one frame of the program.
pub const FRAME: &str = "frame";
/// Of [`crate::Run::interference`]: the processor was slower than in another run.
pub const SLOW_PROCESSOR: &str = "slow processor";
/// Of [`crate::Run::interference`]: other programs used the processors.
pub const OTHER_PROGRAMS: &str = "other programs";

/// A percentile as tables show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// For people and as the figure's name in `results.json`: `p99.9`.
    pub label: &'static str,
    /// The name of a column, of a JSON key and in JavaScript: `p999`.
    pub column: &'static str,
    /// The share of the calls that take no longer.
    pub fraction: f64,
}

/// The percentiles that are compared, in rising order.
pub const PERCENTILES: [Percentile; 6] = [
    Percentile { label: "p50", column: "p50", fraction: 0.5 },
    Percentile { label: "p90", column: "p90", fraction: 0.9 },
    Percentile { label: "p99", column: "p99", fraction: 0.99 },
    Percentile { label: "p99.9", column: "p999", fraction: 0.999 },
    Percentile { label: "p99.99", column: "p9999", fraction: 0.9999 },
    Percentile { label: "p99.999", column: "p99999", fraction: 0.99999 },
];

/// The column of a figure: `p999` for `p99.9`. Figures that are no percentiles (`mean`, `worst`)
/// keep their names.
pub fn figure_column(label: &str) -> &str {
    PERCENTILES
        .iter()
        .find(|percentile| percentile.label == label)
        .map_or(label, |percentile| percentile.column)
}

/// The label of a figure: `p99.9` for `p999`. The reverse of [`figure_column`].
pub fn figure_label(column: &str) -> &str {
    PERCENTILES
        .iter()
        .find(|percentile| percentile.column == column)
        .map_or(column, |percentile| percentile.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_columns_name_the_fraction() {
        for Percentile { label, column, fraction } in PERCENTILES {
            assert_eq!(column, label.replace('.', ""));
            let percent: f64 = label[1..].parse().expect("a number follows the p");
            assert!((percent / 100.0 - fraction).abs() < 1e-9, "{label}");
            assert_eq!((figure_column(label), figure_label(column)), (column, label));
        }
        assert_eq!((figure_column("mean"), figure_label("worst")), ("mean", "worst"));
    }
}
