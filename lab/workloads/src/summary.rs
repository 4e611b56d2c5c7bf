//! From samples to the numbers of tables: median and range over the rounds.

use crate::{Counted, Event, Measured, Outcome, Pass, Sample};
use keel_results::PERCENTILES;

/// A number over the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Over {
    /// The median round (the mean of the two in the middle if their number is even).
    pub median: f64,
    /// The best round.
    pub least: f64,
    /// The worst round.
    pub most: f64,
}

impl Over {
    /// None without values.
    pub fn of(mut values: Vec<f64>) -> Option<Over> {
        values.sort_by(f64::total_cmp);
        let (&least, &most) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Over { median, least, most })
    }
}

/// The metrics of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The slowest call less the machine's own noise, µs.
    WorstExcess,
    /// The slowest call, µs.
    Worst,
    /// The excess of the longest empty window, µs.
    Noise,
    /// Mean call less the floor, ns.
    Mean,
    /// One of [`PERCENTILES`] less the floor, ns.
    Percentile(usize),
    /// ns a pair.
    Pair,
    /// Processor seconds.
    Cpu,
    /// Resident MB (10^6 bytes).
    Resident,
    /// Peak resident MB.
    Peak,
    /// Calls with a page fault.
    FaultingCalls,
    /// Calls with a system call.
    SystemCalls,
}

impl Metric {
    /// By its name in the bars: `worst-excess-us`, `p99.9-ns`, ...
    pub fn by_name(name: &str) -> Option<Metric> {
        let label = name.strip_suffix("-ns");
        if let Some(index) = PERCENTILES.iter().position(|one| Some(one.label) == label) {
            return Some(Metric::Percentile(index));
        }
        Some(match name {
            "worst-excess-us" => Metric::WorstExcess,
            "worst-us" => Metric::Worst,
            "noise-us" => Metric::Noise,
            "mean-ns" => Metric::Mean,
            "ns-a-pair" => Metric::Pair,
            "cpu-s" => Metric::Cpu,
            "resident-mb" => Metric::Resident,
            "peak-mb" => Metric::Peak,
            "faulting-calls" => Metric::FaultingCalls,
            "system-calls" => Metric::SystemCalls,
            _ => return None,
        })
    }

    /// Its unit in tables.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::WorstExcess | Metric::Worst | Metric::Noise => "µs",
            Metric::Mean | Metric::Percentile(_) | Metric::Pair => "ns",
            Metric::Cpu => "s",
            Metric::Resident | Metric::Peak => "MB",
            Metric::FaultingCalls | Metric::SystemCalls => "calls",
        }
    }

    /// The value in one run; None if the run does not have it.
    pub fn of(self, measured: &Measured, event: Option<&str>) -> Option<f64> {
        let found = || measured.events.iter().find(|one| Some(one.event.as_str()) == event);
        let counted = || measured.counted.iter().find(|one| Some(one.event.as_str()) == event);
        // A call is shorter than the instrument's floor only by chance.
        let above = |event: &Event, ns: f64| (ns - event.floor_ns).max(0.0);
        match self {
            Metric::WorstExcess => found().map(|event| event.worst_excess_ns() / 1e3),
            Metric::Worst => found().map(|event| above(event, event.worst_ns) / 1e3),
            Metric::Noise => found().map(|event| event.noise_ns / 1e3),
            Metric::Mean => found().map(|event| above(event, event.mean_ns)),
            Metric::Percentile(index) => {
                found().map(|event| above(event, event.percentiles_ns[index]))
            }
            Metric::Pair => (measured.pairs > 0).then_some(measured.ns_a_pair),
            Metric::Cpu => (measured.pairs > 0).then_some(measured.cpu_seconds),
            Metric::Resident => measured.resident.map(|bytes| bytes as f64 / 1e6),
            Metric::Peak => Some(measured.peak_rss as f64 / 1e6),
            Metric::FaultingCalls => counted().map(|counted| counted.faulting_calls as f64),
            Metric::SystemCalls => counted()?.system_calls.map(|calls| calls as f64),
        }
    }

    fn pass(self) -> Pass {
        match self {
            Metric::FaultingCalls | Metric::SystemCalls => Pass::Counted,
            _ => Pass::Timed,
        }
    }
}

/// The samples of one workload on one contestant, in either pass.
pub fn samples_of<'a>(
    samples: &'a [Sample],
    workload: &'a str,
    allocator: &'a str,
) -> impl Iterator<Item = &'a Sample> {
    samples
        .iter()
        .filter(move |sample| sample.workload == workload && sample.allocator == allocator)
}

/// A metric over the rounds; None if no run has it.
pub fn over(
    samples: &[Sample],
    workload: &str,
    event: Option<&str>,
    allocator: &str,
    metric: Metric,
) -> Option<Over> {
    let runs = measured(samples, workload, allocator, metric.pass());
    Over::of(runs.filter_map(|measured| metric.of(measured, event)).collect())
}

fn measured<'a>(
    samples: &'a [Sample],
    workload: &'a str,
    allocator: &'a str,
    pass: Pass,
) -> impl Iterator<Item = &'a Measured> {
    let right = samples_of(samples, workload, allocator).filter(move |sample| sample.pass == pass);
    right.filter_map(|sample| match &sample.outcome {
        Outcome::Measured(measured) => Some(measured),
        Outcome::Failed(_) => None,
    })
}

/// The events of a workload, in the order in which its runs report them.
pub fn events_of(samples: &[Sample], workload: &str) -> Vec<String> {
    let mut events: Vec<String> = Vec::new();
    for sample in samples.iter().filter(|sample| sample.workload == workload) {
        let Outcome::Measured(measured) = &sample.outcome else { continue };
        for event in &measured.events {
            if !events.contains(&event.event) {
                events.push(event.event.clone());
            }
        }
    }
    events
}

/// The calls of all rounds: (complete, interrupted).
pub fn calls(samples: &[Sample], workload: &str, event: &str, allocator: &str) -> (u64, u64) {
    let runs = measured(samples, workload, allocator, Pass::Timed);
    let events = runs.flat_map(|measured| measured.events.iter().filter(|one| one.event == event));
    events.fold((0, 0), |(calls, out), event| (calls + event.calls, out + event.interrupted))
}

/// The result of the counted run.
pub fn counted<'a>(
    samples: &'a [Sample],
    workload: &'a str,
    event: &str,
    allocator: &'a str,
) -> Option<&'a Counted> {
    let mut runs = measured(samples, workload, allocator, Pass::Counted);
    runs.find_map(|measured| measured.counted.iter().find(|one| one.event == event))
}

/// The reason of a failed run.
pub fn failure<'a>(
    samples: &'a [Sample],
    workload: &'a str,
    allocator: &'a str,
) -> Option<&'a str> {
    samples_of(samples, workload, allocator).find_map(|sample| match &sample.outcome {
        Outcome::Failed(reason) => Some(reason.as_str()),
        Outcome::Measured(_) => None,
    })
}

/// Whether a contestant is Keel or a variant of it: `keel`, `keel+...`.
pub fn is_keel(allocator: &str) -> bool {
    allocator == "keel" || allocator.starts_with("keel+")
}

/// The lowest median of the contestants that are not Keel, with its name.
pub fn best_peer<'a>(
    samples: &[Sample],
    workload: &str,
    event: Option<&str>,
    metric: Metric,
    allocators: &'a [String],
) -> Option<(&'a str, f64)> {
    let peers = allocators.iter().filter(|name| !is_keel(name));
    let medians = peers.filter_map(|name| {
        Some((name.as_str(), over(samples, workload, event, name, metric)?.median))
    });
    medians.min_by(|one, other| one.1.total_cmp(&other.1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_a_mean() {
        assert_eq!(
            Over::of(vec![4.0, 1.0, 2.0, 9.0]),
            Some(Over { median: 3.0, least: 1.0, most: 9.0 })
        );
        assert_eq!(Over::of(vec![3.0, 1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Over::of(Vec::new()), None);
    }

    #[test]
    fn noise_and_floor_are_subtracted_down_to_zero() {
        let event = |worst_ns| Event {
            event: "malloc".to_owned(),
            percentiles_ns: [30.0, 35.0, 40.0, 50.0, 60.0, 70.0],
            worst_ns,
            floor_ns: 35.0,
            noise_ns: 2000.0,
            ..Event::default()
        };
        let measured = |worst| Measured { events: vec![event(worst)], ..Measured::default() };
        let metric = |metric: Metric, worst| metric.of(&measured(worst), Some("malloc")).unwrap();
        assert_eq!(metric(Metric::WorstExcess, 7035.0), 5.0);
        assert_eq!(metric(Metric::WorstExcess, 1000.0), 0.0);
        assert_eq!(metric(Metric::Percentile(0), 0.0), 0.0);
        assert_eq!(metric(Metric::Percentile(3), 0.0), 15.0);
        assert_eq!(Metric::Pair.of(&measured(1.0), None), None);
        assert_eq!(Metric::WorstExcess.of(&measured(1.0), Some("free")), None);
    }
}
