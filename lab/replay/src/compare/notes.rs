//! What a reader of the numbers must know.

use super::session::Session;
use crate::{Keep, Options, Pace};
use keel_results::Comparison;

impl Session<'_> {
    /// What a reader of the numbers must know.
    pub fn notes(&self, comparison: &Comparison, stopped: bool) -> Vec<String> {
        let Options { pace, verify, serial, keep, .. } = self.request.options;
        let header = self.compiled.plan.header();
        let mut notes = Vec::new();
        if stopped {
            let done: usize = comparison.allocators.iter().map(|allocator| allocator.runs.len()).sum();
            notes.push(format!("Stopped early: {done} runs were finished, and only they are counted."));
        }
        if header.alive > comparison.machine.cpus {
            notes.push(format!(
                "{} threads were alive at once, on {} processors: waiting threads sleep, and calls that were preempted \
                 are marked as interrupted.",
                header.alive, comparison.machine.cpus
            ));
        }
        if pace == Pace::Max && header.threads > 1 && !serial {
            notes.push(format!(
                "At pace max threads run free, but none more than {} operations ahead of the slowest; memory over time \
                 is that of this order, not of the recorded one.",
                header.skew
            ));
        }
        notes_on_instrument(comparison, &mut notes);
        for (allocator, (calls, row)) in comparison.allocators.iter().zip(&self.refused) {
            if *calls > 0 {
                notes.push(format!(
                    "{} returned NULL from {calls} calls of a run, first at row {row}; its numbers are of a \
                     program that does without those blocks.",
                    allocator.name
                ));
            }
        }
        for (allocator, places) in comparison.allocators.iter().zip(&self.own_calls) {
            if *places > 0 && comparison.instrument.system_calls {
                notes.push(format!(
                    "{} makes system calls by instructions of its own (places in its code: {places}): those are not \
                     noted, and what they take counts as its own work unless the thread slept.",
                    allocator.name
                ));
            }
        }
        if verify {
            notes.push(
                "Contents were verified, so fresh blocks were not touched inside the calls.".to_owned(),
            );
        }
        let foreign = self.compiled.facts.skipped.values().sum::<u64>();
        if foreign > 0 {
            notes.push(format!("{foreign} frees of blocks from before the recording were left out."));
        }
        if keep == Keep::Median && self.request.options.runs > 1 {
            notes.push(
                "The rows kept of each allocator are those of its middle run by total time inside calls."
                    .to_owned(),
            );
        }
        notes
    }
}

fn notes_on_instrument(comparison: &Comparison, notes: &mut Vec<String>) {
    let (instrument, clock) = (&comparison.instrument, &comparison.clock);
    if let Some(fault) = &instrument.clock_fallback {
        notes.push(format!(
            "Calls were timed with CLOCK_MONOTONIC, not with the processor's counter ({fault}): a pair of readings \
             costs {:.0} ns here, and short calls cannot be told apart.",
            clock.empty_pair.0.value_at_quantile(0.5) as f64 / clock.ticks_per_ns
        ));
    }
    if !instrument.interruptions {
        notes.push("This kernel or C library does not tell whether a call was interrupted.".to_owned());
    }
    if !instrument.system_calls {
        notes.push(
            "System calls cannot be noted here (the C library's functions could not be redirected): only calls \
             that slept in one are told."
                .to_owned(),
        );
    }
    if !instrument.locked {
        notes.push(
            "The result arrays could not be locked in memory (raise `ulimit -l`): under memory pressure, writing a \
             record may fault between two calls."
                .to_owned(),
        );
    }
    let stolen = comparison.allocators.iter().flat_map(|result| &result.runs);
    let (stolen, elapsed) =
        stolen.fold((0, 0), |(stolen, elapsed), run| (stolen + run.stolen_ns, elapsed + run.elapsed_ns));
    if stolen * 100 > elapsed * u64::from(comparison.machine.cpus.max(1)) {
        notes.push(format!(
            "The hypervisor took {:.1} % of the processors' time during the runs: tails are partly its own.",
            stolen as f64 * 100.0 / (elapsed * u64::from(comparison.machine.cpus.max(1))) as f64
        ));
    }
}
