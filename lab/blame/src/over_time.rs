//! Values by call stack and by part of the recorded time.

use rustc_hash::FxHashMap;

/// More rows than this are merged into longer parts of time.
const MOST_ROWS: usize = 200_000;

/// The recorded time, divided into parts of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Number of parts, a power of two.
    pub count: u32,
    /// The recorded time, ns. Later times belong to the last part.
    pub span_ns: u64,
}

impl Parts {
    /// The whole time is one part.
    pub const WHOLE: Parts = Parts { count: 1, span_ns: 1 };

    fn at(self, time: u64) -> u32 {
        let part = u128::from(time) * u128::from(self.count) / u128::from(self.span_ns.max(1));
        u32::try_from(part).unwrap_or(u32::MAX).min(self.count - 1)
    }
}

/// A number that can be summed up.
pub(crate) trait Sum: Copy + Default {
    /// The sum; the largest number if it exceeds the range.
    fn plus(self, other: Self) -> Self;
}

impl Sum for u64 {
    fn plus(self, other: u64) -> u64 {
        self.saturating_add(other)
    }
}

impl Sum for f64 {
    fn plus(self, other: f64) -> f64 {
        self + other
    }
}

/// A row of values for each stack and each part of the time in which it occurs.
pub(crate) struct OverTime<T> {
    parts: Parts,
    columns: usize,
    rows: FxHashMap<(u32, u32), Vec<T>>,
}

impl<T: Sum> OverTime<T> {
    pub fn new(parts: Parts, columns: usize) -> OverTime<T> {
        OverTime { parts, columns, rows: FxHashMap::default() }
    }

    pub fn parts(&self) -> u32 {
        self.parts.count
    }

    /// The values of a stack at a time. If there are too many rows, parts are merged, so a
    /// reference to a row must not outlive the call that needs it.
    pub fn row(&mut self, stack: u32, time: u64) -> &mut [T] {
        if self.rows.len() >= MOST_ROWS && self.parts.count > 1 {
            self.halve();
        }
        let columns = self.columns;
        let key = (stack, self.parts.at(time));
        self.rows.entry(key).or_insert_with(|| vec![T::default(); columns])
    }

    /// All rows.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut Vec<T>> {
        self.rows.values_mut()
    }

    /// Merges each two neighbouring parts.
    pub fn halve(&mut self) {
        self.parts.count = (self.parts.count / 2).max(1);
        let rows = std::mem::take(&mut self.rows);
        for ((stack, part), values) in rows {
            let key = (stack, (part / 2).min(self.parts.count - 1));
            match self.rows.get_mut(&key) {
                Some(into) => {
                    into.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.plus(value));
                }
                None => {
                    self.rows.insert(key, values);
                }
            }
        }
    }

    /// The rows: stack, part, values.
    pub fn into_rows(self) -> impl Iterator<Item = (u32, u32, Vec<T>)> {
        self.rows.into_iter().map(|((stack, part), values)| (stack, part, values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_merged_without_loss() {
        let mut table = OverTime::<u64>::new(Parts { count: 8, span_ns: 80 }, 1);
        for time in [0, 9, 10, 75, 80, 1000] {
            table.row(3, time)[0] += 1;
        }
        table.row(4, 79)[0] += 5;
        let rows = |table: OverTime<u64>| {
            let mut rows: Vec<_> = table.into_rows().collect();
            rows.sort();
            rows
        };
        table.halve();
        assert_eq!(table.parts(), 4);
        table.row(3, 10)[0] += 1;
        assert_eq!(rows(table), [(3, 0, vec![4]), (3, 3, vec![3]), (4, 3, vec![5])]);
    }

    #[test]
    fn the_number_of_rows_is_limited() {
        let mut table = OverTime::<u64>::new(Parts { count: 1 << 20, span_ns: 1 << 20 }, 1);
        (0..400_000).for_each(|time| table.row(0, time)[0] += 1);
        assert!(table.parts() < 1 << 20 && table.rows.len() <= MOST_ROWS);
        assert_eq!(table.into_rows().map(|row| row.2[0]).sum::<u64>(), 400_000);
    }
}
