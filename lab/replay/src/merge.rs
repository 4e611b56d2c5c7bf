//! Merges comparisons of one round each, possibly from several machines, to one comparison.
//!
//! Each round is complete: it has a run of each allocator, from one machine. Allocators are
//! compared within rounds, so it does not matter on which machine a round was measured.

use crate::compare::{mark_slow_processors, notes_of_measurements};
use keel_allocators::FLOOR;
use keel_results::{AllocatorResult, Comparison, Histogram, Machine, Settings};

/// A clock whose frequency differs by more than this share is another clock: its ticks are
/// converted.
const SAME_FREQUENCY: f64 = 2e-4;

/// A measured round.
#[derive(Clone, Debug)]
pub struct Round {
    /// Its index in the plan.
    pub number: u32,
    /// Its results.
    pub comparison: Comparison,
}

/// Merges rounds of the same plan. The clock is that of the first round. Rows of individual calls
/// are in ticks, so those of rounds with another clock are left out. Files are not copied: the
/// names in [`keel_results::Run::raw`] are those of the rounds.
///
/// # Errors
/// A sentence, if there is no round, or if rounds differ in their journal, settings or allocators.
pub fn merge(mut rounds: Vec<Round>) -> Result<Comparison, String> {
    rounds.sort_by_key(|round| round.number);
    let count = rounds.len() as u32;
    let mut rounds = rounds.into_iter();
    let Some(Round { number: first, comparison: mut merged }) = rounds.next() else {
        return Err("there is no complete round: run one first".to_owned());
    };
    let mut machines = vec![merged.machine.clone()];
    let own_notes = notes_of_measurements(&merged);
    merged.notes.retain(|note| !own_notes.contains(note));
    let mut step = merged.clock.step_ticks;
    for (allocator, number) in merged.allocators.iter_mut().zip(std::iter::repeat(first)) {
        renumber(allocator, number, 0);
    }
    for (index, Round { number, mut comparison }) in rounds.enumerate() {
        check_same_plan(&merged, &comparison, first, number)?;
        let factor = merged.clock.ticks_per_ns / comparison.clock.ticks_per_ns;
        if (factor - 1.0).abs() > SAME_FREQUENCY {
            convert(&mut comparison, factor);
        }
        step = step.max(comparison.clock.step_ticks);
        if !machines.contains(&comparison.machine) {
            machines.push(comparison.machine.clone());
        }
        add_instrument(&mut merged, &comparison);
        let position = (index as u32 + 1) * comparison.allocators.len() as u32;
        for (result, mut other) in merged.allocators.iter_mut().zip(comparison.allocators) {
            renumber(&mut other, number, position);
            add_result(result, other);
        }
    }
    merged.clock.step_ticks = step;
    merged.settings.runs = count;
    merged.settings.max_runs = count;
    mark_slow_processors(&mut merged, machines.len() == 1);
    keel_results::conclude(&mut merged, FLOOR);
    let mut notes = note_on_machines(&machines, count);
    notes.append(&mut merged.notes);
    notes.extend(notes_of_measurements(&merged));
    merged.notes = notes;
    Ok(merged)
}

fn check_same_plan(
    one: &Comparison,
    other: &Comparison,
    first: u32,
    number: u32,
) -> Result<(), String> {
    let names = |comparison: &Comparison| -> Vec<(String, String)> {
        let of = |one: &AllocatorResult| (one.name.clone(), one.version.clone());
        comparison.allocators.iter().map(of).collect()
    };
    let how = |comparison: &Comparison| {
        let settings = &comparison.settings;
        let Settings { pace, evict_bytes, evict_recorded, touch, touch_timed, serial, .. } =
            settings.clone();
        (pace, evict_bytes, evict_recorded, touch, touch_timed, serial)
    };
    let differs = if one.journal != other.journal {
        "their journals"
    } else if how(one) != how(other) {
        "their settings"
    } else if names(one) != names(other) {
        "their allocators or the versions of these"
    } else {
        return Ok(());
    };
    Err(format!("rounds {first} and {number} cannot be merged: {differs} differ"))
}

fn renumber(result: &mut AllocatorResult, round: u32, position: u32) {
    for run in &mut result.runs {
        run.round = round;
        run.position += position;
    }
    result.throughput.iter_mut().for_each(|run| run.round = round);
    result.discarded.iter_mut().for_each(|run| run.round = round);
}

fn add_result(result: &mut AllocatorResult, other: AllocatorResult) {
    result.runs.extend(other.runs);
    result.throughput.extend(other.throughput);
    result.discarded.extend(other.discarded);
    result.usable_excess = result.usable_excess.take().or(other.usable_excess);
    result.failure = result.failure.take().or(other.failure);
    if result.free_functions.is_empty() {
        result.free_functions = other.free_functions;
    }
}

fn add_instrument(merged: &mut Comparison, other: &Comparison) {
    let (to, from) = (&mut merged.instrument, &other.instrument);
    to.interruptions &= from.interruptions;
    to.system_calls &= from.system_calls;
    to.interrupts &= from.interrupts;
    to.locked &= from.locked;
    if to.clock_fallback.is_none() {
        to.clock_fallback.clone_from(&from.clock_fallback);
    }
    for (test, more) in to.self_test.iter_mut().zip(&from.self_test) {
        test.tried += more.tried;
        test.detected += more.detected;
    }
    let (to, from) = (&mut merged.clock, &other.clock);
    to.deviation_ppm = to.deviation_ppm.max(from.deviation_ppm);
    to.empty_pair = sum(&to.empty_pair, &from.empty_pair, 1.0);
}

/// Converts ticks to those of another clock, which are `factor` times as many.
fn convert(comparison: &mut Comparison, factor: f64) {
    let converted = |histogram: &Histogram| sum(&Histogram::default(), histogram, factor);
    for run in comparison.allocators.iter_mut().flat_map(|result| &mut result.runs) {
        for histogram in run.latency.values_mut().chain(run.interrupted.values_mut()) {
            *histogram = converted(histogram);
        }
        for outlier in &mut run.outliers {
            outlier.ticks = (f64::from(outlier.ticks) * factor) as u32;
        }
        run.raw = None;
    }
    let clock = &mut comparison.clock;
    clock.empty_pair = converted(&clock.empty_pair);
    clock.step_ticks = (clock.step_ticks as f64 * factor).ceil() as u64;
    clock.ticks_per_ns *= factor;
}

/// The counts of two histograms, with the values of the second multiplied.
fn sum(one: &Histogram, other: &Histogram, factor: f64) -> Histogram {
    // A new histogram grows as needed; one that was read from a file does not.
    let mut all = crate::digest::growing();
    let counts = one.0.iter_recorded().map(|value| (value.value_iterated_to(), value));
    for (at, value) in counts {
        crate::digest::count(&mut all, at, value.count_at_value());
    }
    for value in other.0.iter_recorded() {
        let at = (value.value_iterated_to() as f64 * factor).round() as u64;
        crate::digest::count(&mut all, at, value.count_at_value());
    }
    all
}

fn note_on_machines(machines: &[Machine], rounds: u32) -> Vec<String> {
    if machines.len() < 2 {
        return Vec::new();
    }
    let names: Vec<String> = machines
        .iter()
        .map(|machine| format!("{} ({}, {})", machine.cpu, machine.kernel, machine.libc))
        .collect();
    vec![format!(
        "The {rounds} rounds were measured on {} kinds of machines: {}. Ratios of allocators are \
         computed within rounds, so each compares runs of one machine. The times of one allocator \
         vary with the machine.",
        machines.len(),
        names.join("; ")
    )]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;
    use keel_results::Run;

    /// A round in which malloc took these ticks on two allocators.
    fn round(number: u32, ticks: [u64; 2], ticks_per_ns: f64) -> Round {
        let result = |name: &str, ticks: u64| {
            let mut malloc = crate::digest::growing();
            crate::digest::count(&mut malloc, ticks, 1000);
            let run = Run {
                latency: [("malloc".to_owned(), malloc)].into(),
                inside_ns: [("malloc".to_owned(), (1000 * ticks) as f64 / ticks_per_ns)].into(),
                raw: Some(format!("run-{name}-0.parquet")),
                ..Run::default()
            };
            AllocatorResult { name: name.to_owned(), runs: vec![run], ..AllocatorResult::default() }
        };
        let mut comparison = Comparison {
            allocators: vec![result("one", ticks[0]), result("two", ticks[1])],
            ..Comparison::default()
        };
        comparison.clock.ticks_per_ns = ticks_per_ns;
        comparison.journal.operations.insert("malloc".to_owned(), 1000);
        Round { number, comparison }
    }

    #[test]
    fn pairs_stay_pairs_on_machines_of_different_speed() {
        // The second machine is three times as slow, and its clock has another frequency.
        let rounds = [(2.0, 1.0), (3.0, 3.0), (2.0, 1.0), (3.0, 3.0), (2.0, 1.0)];
        let rounds = rounds.into_iter().enumerate().map(|(number, (rate, slow))| {
            let ticks = [100.0, 120.0].map(|ns: f64| (ns * slow * rate).round() as u64);
            round(number as u32, ticks, rate)
        });
        // The order in which rounds are found does not matter.
        let merged = merge(rounds.rev().collect()).unwrap();
        let numbers: Vec<u32> = merged.allocators[0].runs.iter().map(|run| run.round).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        let pair = merged
            .paired
            .iter()
            .find(|pair| (pair.operation.as_str(), pair.figure.as_str()) == ("malloc", "mean"));
        let ratio = pair.unwrap().ratio;
        assert!((ratio.value - 1.2).abs() < 0.01 || (ratio.value - 1.0 / 1.2).abs() < 0.01);
        assert!(ratio.high / ratio.low < 1.05, "the machines' speeds are not in it: {ratio:?}");
        let kept = merged.allocators[0].runs.iter().map(|run| run.raw.is_some());
        assert_eq!(kept.collect::<Vec<_>>(), [true, false, true, false, true]);
    }

    #[test]
    fn rounds_of_different_plans_are_refused() {
        let mut other = round(1, [1, 2], 2.0);
        other.comparison.settings.pace = "1x".to_owned();
        let refused = merge(vec![round(0, [1, 2], 2.0), other]).unwrap_err();
        assert!(refused.contains("rounds 0 and 1") && refused.contains("settings"), "{refused}");
        let mut other = round(1, [1, 2], 2.0);
        other.comparison.allocators[1].version = "2.0".to_owned();
        assert!(merge(vec![round(0, [1, 2], 2.0), other]).unwrap_err().contains("versions"));
        assert!(merge(Vec::new()).unwrap_err().contains("no complete round"));
    }
}
