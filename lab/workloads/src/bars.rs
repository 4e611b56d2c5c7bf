//! The targets of Keel ("bars"), and whether the samples reach them.
//!
//! The bars are data (`bars.json`): a workload, an event if it has several, a metric, a limit, and
//! the source of the bar. A bar with `relative_to` is a ratio to the best of those contestants in
//! the same run (an empty list means all that are not Keel).

use crate::Sample;
use crate::summary::{self, Metric};
use serde::{Deserialize, Serialize};

/// A bar.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// Workload.
    pub workload: String,
    /// Event, if the metric belongs to one.
    #[serde(default)]
    pub event: Option<String>,
    /// A name of [`Metric::by_name`].
    pub metric: String,
    /// In the metric's unit, or a ratio.
    pub at_most: f64,
    /// See the module documentation.
    #[serde(default)]
    pub relative_to: Option<Vec<String>>,
    /// The source of the limit.
    pub source: String,
}

/// A contestant's result for a bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The bar.
    pub bar: Bar,
    /// The median over the rounds, in the metric's unit.
    pub value: f64,
    /// The limit, in the same unit.
    pub allowed: f64,
    /// For relative bars: the contestant it is compared with.
    pub rival: Option<String>,
    /// The machine's noise in µs, if both the noise and the slowest call exceed the bar: then there
    /// is no verdict on the allocator, even if the difference is small.
    pub masked_by_us: Option<f64>,
}

impl Standing {
    /// Whether the bar is reached.
    pub fn reached(&self) -> bool {
        self.value <= self.allowed && self.masked_by_us.is_none()
    }

    /// In words: `reached`, `missed by 12.3 µs (3.5 x)` or `too noisy to decide: ..`.
    pub fn verdict(&self) -> String {
        if let Some(noise) = self.masked_by_us {
            return format!(
                "too noisy to decide: the machine's own noise was {} µs",
                three_digits(noise)
            );
        }
        if self.reached() {
            return "reached".to_owned();
        }
        let unit = Metric::by_name(&self.bar.metric).map_or("", Metric::unit);
        let times = if self.allowed > 0.0 {
            format!(" ({:.2} x)", self.value / self.allowed)
        } else {
            String::new()
        };
        format!("missed by {} {unit}{times}", three_digits(self.value - self.allowed))
    }
}

/// A number with about three digits.
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        above if above >= 99.95 => format!("{value:.0}"),
        above if above >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[derive(Deserialize)]
struct File {
    bars: Vec<Bar>,
}

/// All bars.
///
/// # Errors
/// A sentence, if the data is malformed.
pub fn all() -> Result<Vec<Bar>, String> {
    let file: File = serde_json::from_str(include_str!("../bars.json"))
        .map_err(|error| format!("the file with the benchmark's limits is not valid: {error}"))?;
    Ok(file.bars)
}

/// The results of `contestant` for the bars that the samples cover.
pub fn standings(
    bars: &[Bar],
    samples: &[Sample],
    allocators: &[String],
    contestant: &str,
) -> Vec<Standing> {
    bars.iter().filter_map(|bar| standing(bar, samples, allocators, contestant)).collect()
}

fn standing(
    bar: &Bar,
    samples: &[Sample],
    allocators: &[String],
    contestant: &str,
) -> Option<Standing> {
    let metric = Metric::by_name(&bar.metric)?;
    let event = bar.event.as_deref();
    let value = summary::over(samples, &bar.workload, event, contestant, metric)?.median;
    let (allowed, rival) = match &bar.relative_to {
        None => (bar.at_most, None),
        Some(names) => {
            let named = |name: &&String| {
                names.is_empty() || names.iter().any(|one| is_version_of(name, one))
            };
            let rivals: Vec<String> = allocators.iter().filter(named).cloned().collect();
            let (rival, best) = summary::best_peer(samples, &bar.workload, event, metric, &rivals)?;
            (bar.at_most * best, Some(rival.to_owned()))
        }
    };
    let masked_by_us = if metric == Metric::WorstExcess && value <= allowed {
        let median = |metric| {
            summary::over(samples, &bar.workload, event, contestant, metric)
                .map_or(0.0, |over| over.median)
        };
        Some(median(Metric::Noise))
            .filter(|&noise| noise > allowed && median(Metric::Worst) > allowed)
    } else {
        None
    };
    Some(Standing { bar: bar.clone(), value, allowed, rival, masked_by_us })
}

/// `mimalloc3.so` and `mimalloc3-2` are versions of `mimalloc3`.
fn is_version_of(contestant: &str, name: &str) -> bool {
    let rest = contestant.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use crate::{Event, Measured, Outcome, Pass};

    fn sample(allocator: &str, ns_a_pair: f64, worst_ns: f64) -> Sample {
        let event = Event { event: "malloc".to_owned(), worst_ns, ..Event::default() };
        let measured = Measured { pairs: 1, ns_a_pair, events: vec![event], ..Measured::default() };
        Sample {
            allocator: allocator.to_owned(),
            workload: "w".to_owned(),
            pass: Pass::Timed,
            round: 0,
            outcome: Outcome::Measured(measured),
        }
    }

    fn bar(metric: &str, at_most: f64, relative_to: Option<&[&str]>) -> Bar {
        Bar {
            workload: "w".to_owned(),
            event: Some("malloc".to_owned()),
            metric: metric.to_owned(),
            at_most,
            relative_to: relative_to
                .map(|names| names.iter().map(|&name| name.to_owned()).collect()),
            source: String::new(),
        }
    }

    #[test]
    fn every_bar_has_a_known_metric() {
        let bars = all().unwrap();
        assert!(bars.len() > 20);
        for bar in &bars {
            assert!(Metric::by_name(&bar.metric).is_some(), "{bar:?}");
        }
    }

    #[test]
    fn bars_are_reached_or_missed_by_a_difference() {
        let samples = [
            sample("keel", 6.0, 3000.0),
            sample("mimalloc3.so", 5.0, 0.0),
            sample("jemalloc", 4.0, 0.0),
        ];
        let names: Vec<String> = samples.iter().map(|one| one.allocator.clone()).collect();
        let bars = [
            bar("worst-excess-us", 5.0, None),
            bar("worst-excess-us", 2.0, None),
            bar("ns-a-pair", 1.0, Some(&["mimalloc3"])),
            bar("ns-a-pair", 1.0, Some(&[])),
            bar("ns-a-pair", 1.0, Some(&["tcmalloc"])),
        ];
        let found = standings(&bars, &samples, &names, "keel");
        let verdicts: Vec<String> = found.iter().map(Standing::verdict).collect();
        let expected = [
            "reached",
            "missed by 1.00 µs (1.50 x)",
            "missed by 1.00 ns (1.20 x)",
            "missed by 2.00 ns (1.50 x)",
        ];
        assert_eq!(verdicts, expected);
        assert_eq!(found[2].rival.as_deref(), Some("mimalloc3.so"));
        assert_eq!(found[3].rival.as_deref(), Some("jemalloc"));
    }

    #[test]
    fn noise_above_the_bar_leaves_no_verdict() {
        let with_noise = |worst_ns, noise_ns| {
            let mut sample = sample("keel", 6.0, worst_ns);
            if let Outcome::Measured(measured) = &mut sample.outcome {
                measured.events[0].noise_ns = noise_ns;
            }
            sample
        };
        let verdict = |worst_ns, noise_ns| {
            let bars = [bar("worst-excess-us", 5.0, None)];
            standings(&bars, &[with_noise(worst_ns, noise_ns)], &["keel".to_owned()], "keel")[0]
                .verdict()
        };
        assert_eq!(
            verdict(15_000.0, 42_000.0),
            "too noisy to decide: the machine's own noise was 42.0 µs"
        );
        assert_eq!(verdict(4_000.0, 42_000.0), "reached");
        assert_eq!(verdict(6_000.0, 2_000.0), "reached");
        assert_eq!(verdict(60_000.0, 42_000.0), "missed by 13.0 µs (3.60 x)");
    }

    #[test]
    fn mimalloc2_is_not_a_version_of_mimalloc() {
        assert!(
            is_version_of("mimalloc", "mimalloc") && is_version_of("mimalloc3.so", "mimalloc3")
        );
        assert!(!is_version_of("mimalloc2", "mimalloc"));
    }
}
