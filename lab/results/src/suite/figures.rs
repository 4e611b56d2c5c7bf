//! From the runs of a suite to the numbers of tables and charts.

use super::{Suite, SuiteMeasured, SuiteRun};

/// A figure of a run; lower is better in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuiteMetric {
    /// Elapsed time, s.
    Elapsed,
    /// Processor time of all threads, s.
    Cpu,
    /// Peak resident memory, bytes.
    Peak,
    /// Resident memory averaged over the time, bytes.
    Average,
    /// The 99.9th percentile of the times of all calls, ns.
    P999,
    /// The slowest call, ns.
    Worst,
    /// Resident memory a second after the end of a pattern, bytes.
    After,
    /// Page faults.
    Faults,
    /// System calls.
    SystemCalls,
}

/// A pattern that retains less than this, in bytes, has no meaningful ratio: it counts as this.
const LEAST_AFTER: u64 = 1 << 20;

impl SuiteMetric {
    /// All, in the order of tables.
    pub const ALL: [SuiteMetric; 9] = [
        SuiteMetric::Elapsed,
        SuiteMetric::Cpu,
        SuiteMetric::Peak,
        SuiteMetric::Average,
        SuiteMetric::P999,
        SuiteMetric::Worst,
        SuiteMetric::After,
        SuiteMetric::Faults,
        SuiteMetric::SystemCalls,
    ];

    /// Those of every run; the others are measured in some rounds or for some workloads.
    pub const MAIN: [SuiteMetric; 3] = [SuiteMetric::Elapsed, SuiteMetric::Cpu, SuiteMetric::Peak];

    /// The title of a table.
    pub fn title(self) -> &'static str {
        match self {
            SuiteMetric::Elapsed => "elapsed time",
            SuiteMetric::Cpu => "processor time of all threads",
            SuiteMetric::Peak => "peak resident memory",
            SuiteMetric::Average => "average resident memory",
            SuiteMetric::P999 => "p99.9 of all calls",
            SuiteMetric::Worst => "slowest call",
            SuiteMetric::After => "memory 1 s after the end",
            SuiteMetric::Faults => "page faults",
            SuiteMetric::SystemCalls => "system calls",
        }
    }

    /// The value in one run, if it was measured.
    pub fn of(self, measured: &SuiteMeasured) -> Option<f64> {
        let whole = |value: Option<u64>| value.map(|value| value as f64);
        match self {
            SuiteMetric::Elapsed => Some(measured.elapsed_s),
            SuiteMetric::Cpu => Some(measured.cpu_s),
            SuiteMetric::Peak => Some(measured.peak_bytes as f64),
            SuiteMetric::Average => whole(measured.average_bytes),
            SuiteMetric::P999 => measured.p999_ns,
            SuiteMetric::Worst => whole(measured.worst_ns),
            SuiteMetric::After => whole(measured.after_bytes.map(|bytes| bytes.max(LEAST_AFTER))),
            SuiteMetric::Faults => Some((measured.minor_faults + measured.major_faults) as f64),
            SuiteMetric::SystemCalls => whole(measured.system_calls),
        }
    }
}

/// A metric of one workload on one allocator, over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuiteSpread {
    /// The median round (the mean of the two in the middle if their number is even).
    pub median: f64,
    /// The lowest round.
    pub least: f64,
    /// The highest round.
    pub most: f64,
}

impl SuiteSpread {
    /// None without values.
    pub fn of(mut values: Vec<f64>) -> Option<SuiteSpread> {
        values.sort_by(f64::total_cmp);
        let (&least, &most) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Some(SuiteSpread { median, least, most })
    }
}

/// How the machine disturbed the runs of a suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuiteNoise {
    /// The share of the runs that count in which anything was found, from 0 to 1.
    pub disturbed: f64,
    /// Each kind of disturbance with the number of runs that count, the most frequent first.
    pub kinds: Vec<(String, usize)>,
    /// Runs that were repeated and do not count.
    pub repeats: usize,
    /// The median and the highest share of the processors that others used during a run.
    pub others: Option<SuiteSpread>,
}

impl Suite {
    /// The noise that was found during the runs.
    pub fn noise(&self) -> SuiteNoise {
        let mut kinds: Vec<(String, usize)> = Vec::new();
        for kind in self.runs.iter().flat_map(|run| &run.interference) {
            match kinds.iter_mut().find(|(name, _)| name == kind) {
                Some((_, count)) => *count += 1,
                None => kinds.push((kind.clone(), 1)),
            }
        }
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let disturbed = self.runs.iter().filter(|run| !run.interference.is_empty()).count();
        SuiteNoise {
            disturbed: disturbed as f64 / self.runs.len().max(1) as f64,
            kinds,
            repeats: self.runs.iter().map(|run| run.discarded.len()).sum(),
            others: SuiteSpread::of(self.runs.iter().map(|run| run.others).collect()),
        }
    }

    /// The metric in one round; None if the run failed or was not made.
    pub fn value(
        &self,
        workload: &str,
        allocator: &str,
        round: u32,
        metric: SuiteMetric,
    ) -> Option<f64> {
        let mut runs = self.runs.iter().filter(|run| run.round == round);
        let run = runs.find(|run| run.workload == workload && run.allocator == allocator)?;
        run.measured().and_then(|measured| metric.of(measured))
    }

    /// The metric over the rounds; None if a run failed or there is none: a workload that an
    /// allocator completes only sometimes has no figure.
    pub fn spread(
        &self,
        workload: &str,
        allocator: &str,
        metric: SuiteMetric,
    ) -> Option<SuiteSpread> {
        let runs =
            self.runs.iter().filter(|run| run.workload == workload && run.allocator == allocator);
        let values: Option<Vec<Option<f64>>> =
            runs.map(|run| run.measured().map(|measured| metric.of(measured))).collect();
        SuiteSpread::of(values?.into_iter().flatten().collect())
    }

    /// The medians of a workload divided by the lowest one, in the order of the allocators. All are
    /// None if the metric could not be measured on an allocator that completed the workload, so
    /// that means of several allocators are over the same workloads.
    pub fn ratios(&self, workload: &str, metric: SuiteMetric) -> Vec<Option<f64>> {
        let median =
            |allocator: &str| self.spread(workload, allocator, metric).map(|spread| spread.median);
        let medians: Vec<Option<f64>> =
            self.head.allocators.iter().map(|one| median(&one.name)).collect();
        let completed = |name: &str| self.spread(workload, name, SuiteMetric::Elapsed).is_some();
        let mut both = medians.iter().zip(&self.head.allocators);
        if both.any(|(median, one)| median.is_none() && completed(&one.name)) {
            return vec![None; medians.len()];
        }
        let least = medians.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        medians.iter().map(|one| one.filter(|_| least > 0.0).map(|one| one / least)).collect()
    }

    /// For each allocator the geometric mean of its [ratios](Suite::ratios) over the workloads of
    /// a suite (of all suites if it is empty), and the number of workloads that have one.
    pub fn means(&self, suite: &str, metric: SuiteMetric) -> Vec<(Option<f64>, usize)> {
        let workloads =
            self.head.workloads.iter().filter(|one| suite.is_empty() || one.suite == suite);
        let rows: Vec<Vec<Option<f64>>> =
            workloads.map(|one| self.ratios(&one.key(), metric)).collect();
        let column = |index: usize| rows.iter().filter_map(move |row| row[index]);
        (0..self.head.allocators.len())
            .map(|index| (geometric_mean(column(index)), column(index).count()))
            .collect()
    }

    /// The number of workloads of a suite (of all suites if it is empty) for which the metric was
    /// measured with any allocator.
    pub fn measured_workloads(&self, suite: &str, metric: SuiteMetric) -> usize {
        let workloads = self.head.workloads.iter();
        let workloads = workloads.filter(|one| suite.is_empty() || one.suite == suite);
        workloads.filter(|one| self.ratios(&one.key(), metric).iter().any(Option::is_some)).count()
    }

    /// Whether any run has a value of the metric.
    pub fn has(&self, metric: SuiteMetric) -> bool {
        let mut measured = self.runs.iter().filter_map(SuiteRun::measured);
        measured.any(|measured| metric.of(measured).is_some())
    }

    /// The suites of the workloads, in order.
    pub fn suites(&self) -> Vec<&str> {
        let mut suites: Vec<&str> = Vec::new();
        for workload in &self.head.workloads {
            if !suites.contains(&workload.suite.as_str()) {
                suites.push(&workload.suite);
            }
        }
        suites
    }
}

/// The geometric mean of positive numbers; None without numbers.
pub fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value.ln();
        count += 1.0;
    }
    (count > 0.0).then(|| (sum / count).exp())
}

/// Whether each point is on the Pareto front: no other point is at most as high in both coordinates
/// and lower in one.
pub fn pareto_front(points: &[(f64, f64)]) -> Vec<bool> {
    let dominates = |one: &(f64, f64), other: &(f64, f64)| {
        one.0 <= other.0 && one.1 <= other.1 && (one.0 < other.0 || one.1 < other.1)
    };
    points.iter().map(|point| !points.iter().any(|other| dominates(other, point))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::{SuiteAllocator, SuiteHead, SuiteOutcome, SuiteRun, SuiteWorkload};

    fn suite() -> Suite {
        let allocator = |name: &str| SuiteAllocator { name: name.into(), ..Default::default() };
        let workload = |name: &str| SuiteWorkload {
            suite: "synthetic".into(),
            name: name.into(),
            ..Default::default()
        };
        let mut runs = Vec::new();
        for (name, allocator, seconds) in [
            ("a", "keel", [1.0, 3.0]),
            ("a", "glibc", [4.0, 4.0]),
            ("b", "keel", [8.0, 8.0]),
            ("b", "glibc", [1.0, 1.0]),
        ] {
            runs.extend(seconds.iter().zip(0..).map(|(&elapsed_s, round)| SuiteRun {
                workload: format!("synthetic/{name}"),
                allocator: allocator.into(),
                round,
                outcome: SuiteOutcome::Measured(SuiteMeasured { elapsed_s, ..Default::default() }),
                ..SuiteRun::default()
            }));
        }
        let head = SuiteHead {
            workloads: vec![workload("a"), workload("b")],
            allocators: vec![allocator("keel"), allocator("glibc")],
            ..SuiteHead::default()
        };
        Suite { head, runs }
    }

    #[test]
    fn the_noise_is_counted_over_the_runs() {
        let mut suite = suite();
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        suite.runs.truncate(4);
        suite.runs[0].interference = words(&["stolen time"]);
        suite.runs[1].interference = words(&["other programs", "stolen time"]);
        suite.runs[1].discarded = vec![Default::default(); 3];
        suite.runs[2].others = 0.5;
        let noise = suite.noise();
        assert_eq!((noise.disturbed, noise.repeats), (0.5, 3));
        assert_eq!(noise.kinds, [("stolen time".to_owned(), 2), ("other programs".to_owned(), 1)]);
        let others = noise.others.unwrap();
        assert_eq!((others.median, others.most), (0.0, 0.5));
    }

    #[test]
    fn means_are_geometric_over_ratios_of_medians() {
        let suite = suite();
        let spread = suite.spread("synthetic/a", "keel", SuiteMetric::Elapsed).unwrap();
        assert_eq!(spread, SuiteSpread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(suite.ratios("synthetic/a", SuiteMetric::Elapsed), [Some(1.0), Some(2.0)]);
        let means = suite.means("", SuiteMetric::Elapsed);
        assert!((means[0].0.unwrap() - 8f64.sqrt()).abs() < 1e-12 && means[0].1 == 2);
        assert!((means[1].0.unwrap() - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(geometric_mean(std::iter::empty()), None);
        assert_eq!(suite.means("programs", SuiteMetric::Elapsed)[0], (None, 0));
        assert_eq!(suite.measured_workloads("", SuiteMetric::Elapsed), 2);
        assert_eq!(suite.measured_workloads("", SuiteMetric::P999), 0);
    }

    #[test]
    fn a_workload_with_a_failed_run_has_no_figure() {
        let mut suite = suite();
        suite.runs[1].outcome = SuiteOutcome::Failed("it took longer than 60 s".into());
        assert_eq!(suite.ratios("synthetic/a", SuiteMetric::Elapsed), [None, Some(1.0)]);
        assert_eq!(suite.means("", SuiteMetric::Elapsed)[0].1, 1);
        // keel completed b, but its average could not be measured: nobody has a ratio.
        for run in suite.runs.iter_mut().filter(|run| run.allocator == "glibc") {
            if let SuiteOutcome::Measured(measured) = &mut run.outcome {
                measured.average_bytes = Some(5);
            }
        }
        assert_eq!(suite.ratios("synthetic/b", SuiteMetric::Average), [None, None]);
        assert_eq!(suite.ratios("synthetic/a", SuiteMetric::Average), [None, Some(1.0)]);
    }

    #[test]
    fn the_front_has_the_points_that_no_other_point_beats() {
        let points = [(1.0, 3.0), (2.0, 2.0), (2.0, 2.5), (3.0, 1.0), (3.0, 3.0), (2.0, 2.0)];
        assert_eq!(pareto_front(&points), [true, true, false, true, false, true]);
    }
}
