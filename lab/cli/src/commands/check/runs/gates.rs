//! Limits on latency. A gate compares a figure of an allocator with that of a baseline, on the same
//! machine at the same time: in each round both replay, in random order, and the ratio of the round
//! counts. What both share, the speed of the machine and the time of measuring, is no part of it.

use super::replay::{replay_once, require, single};
use anyhow::{Context as _, Result, bail};
use keel_check::{Gate, GateResult, Outcome};
use keel_results::{AllocatorResult, Comparison, Interval, figures, paired_ratio};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use std::path::Path;

/// The probability that any gate of a budget fails although each keeps its limit.
const ERROR: f64 = 0.01;

/// A replay that a gate compares: a journal and an allocator.
type Side<'a> = (&'a Path, &'a str);

/// The results of the gates. `baseline` is the journal of gates that name no allocator as theirs.
pub fn measure(
    gates: &[Gate],
    journal: &Path,
    baseline: Option<&Path>,
    folder: &Path,
) -> Result<Vec<GateResult>> {
    let mut measured = Vec::new();
    for gate in gates {
        let own = &gate.allocator.0;
        let other = gate.baseline.as_ref().map_or(own, |name| &name.0);
        let before = match (&gate.baseline, baseline) {
            (Some(_), _) => journal,
            (None, Some(before)) => before,
            (None, None) => bail!(
                "the latency of {own} has no baseline: add `baseline = \"ALLOCATOR\"`, or give a \
                 journal with --baseline"
            ),
        };
        let sides = [(before, other.as_str()), (journal, own.as_str())];
        // Before the first round.
        sides.iter().try_for_each(|(_, allocator)| require(allocator))?;
        measured.push(rounds(gate, &sides, &folder.join("gate"))?);
    }
    Ok(results(gates, &measured))
}

/// The figure in each round, without the time of measuring: of the baseline, and of the allocator.
fn rounds(gate: &Gate, sides: &[Side<'_>; 2], folder: &Path) -> Result<[Vec<f64>; 2]> {
    let mut values = [Vec::new(), Vec::new()];
    let mut random = rand::rngs::SmallRng::from_os_rng();
    for _ in 0..gate.rounds {
        let mut order = [0, 1];
        order.shuffle(&mut random);
        for index in order {
            values[index].push(replayed(gate, sides[index], folder)?);
        }
    }
    Ok(values)
}

fn replayed(gate: &Gate, (journal, allocator): Side<'_>, results: &Path) -> Result<f64> {
    let outcome = replay_once(journal, allocator, results)?;
    std::fs::remove_dir_all(results)?;
    figure(gate, single(&outcome.comparison, allocator)?, &outcome.comparison)
}

fn figure(gate: &Gate, own: &AllocatorResult, comparison: &Comparison) -> Result<f64> {
    let (operation, name) = (&gate.operation.0, &gate.figure.0);
    let all = figures(comparison, own);
    let found = all.iter().find(|one| one.operation == *operation && one.name == *name);
    let value = found.and_then(|one| one.plain().first().copied()).with_context(|| {
        format!(
            "the replay has no {name} of {operation}: the figures are mean, p50, p90, p99, p99.9 \
             and worst, as far as there are enough calls"
        )
    })?;
    let floor = own.runs.first().map_or(0.0, |run| run.empty_pair_ns);
    Ok((value - floor).max(1.0))
}

/// Holm's method: the gate with the least probability is judged most strictly, and the others only
/// if it fails. So the probability of any false alarm is [`ERROR`] at most.
fn results(gates: &[Gate], measured: &[[Vec<f64>; 2]]) -> Vec<GateResult> {
    let mut order: Vec<(f64, usize)> = (0..gates.len())
        .map(|index| (probability(&measured[index], gates[index].at_most), index))
        .collect();
    order.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut exceeds = vec![false; gates.len()];
    for (rank, (probability, index)) in order.iter().enumerate() {
        if *probability > ERROR / (gates.len() - rank) as f64 {
            break;
        }
        exceeds[*index] = true;
    }
    let all = gates.iter().zip(measured).zip(exceeds);
    all.map(|((gate, values), exceeds)| result(gate, values, exceeds)).collect()
}

fn result(gate: &Gate, [before, now]: &[Vec<f64>; 2], exceeds: bool) -> GateResult {
    let unknown = Interval { value: f64::NAN, low: 0.0, high: f64::INFINITY };
    let ratio = paired_ratio(before, now, 1.0 - 2.0 * ERROR).unwrap_or(unknown);
    let is_unclear = !exceeds && ratio.high > gate.at_most;
    let outcome = match (exceeds, is_unclear && gate.strict) {
        (true, _) => Outcome::Broken,
        (false, true) => Outcome::Unknown(format!(
            "{} rounds do not decide it: {:.2} to {:.2} times the baseline, the limit is {}",
            gate.rounds, ratio.low, ratio.high, gate.at_most
        )),
        (false, false) => Outcome::Kept,
    };
    let (value, low, high) = (ratio.value, ratio.low, ratio.high);
    GateResult { gate: gate.clone(), outcome, ratio: value, low, high, is_unclear }
}

/// The probability of rounds like these if the true ratio is the limit.
fn probability([before, now]: &[Vec<f64>; 2], limit: f64) -> f64 {
    let is_above = |outside: f64| {
        paired_ratio(before, now, 1.0 - outside).is_some_and(|ratio| ratio.low > limit)
    };
    if before.len() < 2 || !is_above(1.0 - 1e-9) {
        return 1.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if is_above(middle) { high = middle } else { low = middle }
    }
    high / 2.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;
    use keel_check::Budget;
    use rand::{Rng as _, rngs::StdRng};

    fn gates(count: usize, strict: bool) -> Vec<Gate> {
        let text = format!(
            "[[latency]]\nallocator = \"keel\"\nbaseline = \"glibc\"\nat_most = 1.1\nstrict = \
             {strict}\n"
        );
        Budget::parse(&text.repeat(count)).unwrap().gates
    }

    /// Rounds of a noisy machine, which slows both sides, and each side alone, by up to a half; one
    /// run in ten takes five times as long.
    fn noisy(random: &mut StdRng, ratio: f64) -> [Vec<f64>; 2] {
        let mut values = [Vec::new(), Vec::new()];
        for _ in 0..12 {
            let shared = 100.0 * random.random_range(1.0..1.5);
            for (side, factor) in [(0, 1.0), (1, ratio)] {
                let hit = if random.random_bool(0.1) { 5.0 } else { 1.0 };
                values[side].push(shared * factor * hit * random.random_range(1.0..1.5));
            }
        }
        values
    }

    #[test]
    fn equal_sides_raise_no_alarm_and_a_slower_one_is_caught() {
        let mut random = StdRng::seed_from_u64(7);
        let gates = gates(5, false);
        let (mut alarms, mut caught) = (0, 0);
        for _ in 0..1000 {
            let equal: Vec<_> = (0..5).map(|_| noisy(&mut random, 1.0)).collect();
            let broken = |results: &[GateResult]| {
                results.iter().filter(|one| one.outcome == Outcome::Broken).count()
            };
            alarms += usize::from(broken(&results(&gates, &equal)) > 0);
            let mut one_slow = equal;
            one_slow[3] = noisy(&mut random, 3.0);
            let found = results(&gates, &one_slow);
            caught += usize::from(found[3].outcome == Outcome::Broken);
        }
        assert!(alarms <= 10, "{alarms} of 1000 checks of equal sides failed");
        assert!(caught >= 800, "{caught} of 1000 were caught");
    }

    #[test]
    fn what_is_undecided_fails_only_on_request() {
        let unclear = [vec![100.0, 100.0, 100.0], vec![80.0, 100.0, 180.0]];
        let clear = [vec![100.0, 101.0, 99.0], vec![100.0, 101.0, 99.5]];
        let lax = results(&gates(2, false), &[unclear.clone(), clear.clone()]);
        assert!(lax.iter().all(|one| one.outcome == Outcome::Kept));
        assert!(lax[0].is_unclear && !lax[1].is_unclear);
        let strict = results(&gates(2, true), &[unclear, clear]);
        assert!(matches!(strict[0].outcome, Outcome::Unknown(_)), "{strict:?}");
        assert_eq!(strict[1].outcome, Outcome::Kept);
    }
}
