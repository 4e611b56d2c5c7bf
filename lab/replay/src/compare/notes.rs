//! The notes on a comparison that readers of the numbers must know.

use super::session::Session;
use crate::run::place;
use crate::{Keep, Options, Pace};
use keel_allocators::FLOOR;
use keel_results::{AllocatorResult, Comparison, JournalFacts};

impl Session<'_> {
    /// The notes, in sentences.
    pub fn notes(&self, comparison: &Comparison, stopped: bool) -> Vec<String> {
        let Options { pace, verify, serial, keep, .. } = self.request.options;
        let header = self.compiled.plan.header();
        let mut notes = Vec::new();
        if stopped {
            let done: usize =
                comparison.allocators.iter().map(|allocator| allocator.runs.len()).sum();
            notes.push(format!("Stopped early: only the {done} finished runs are counted."));
        }
        if header.alive > comparison.machine.cpus {
            notes.push(format!(
                "{} threads were alive at once, on {} processors: waiting threads sleep, and calls \
                 that were preempted are marked as interrupted.",
                header.alive, comparison.machine.cpus
            ));
        }
        if pace == Pace::Max && header.threads > 1 && !serial {
            notes.push(format!(
                "At pace max each thread runs as fast as it can, at most {} operations ahead of \
                 the slowest; memory over time follows this order, not the recorded one.",
                header.skew
            ));
        }
        let facts = &self.compiled.facts;
        if facts.prologue_blocks > 0 {
            notes.push(format!(
                "{} blocks ({:.1} MiB in total) were live when the recording began: they are \
                 allocated before the clock starts and counted in no figure.",
                facts.prologue_blocks,
                facts.prologue_bytes as f64 / f64::from(1 << 20)
            ));
        }
        notes_on_instrument(comparison, &mut notes);
        notes_on_interference(comparison, &mut notes);
        notes_on_medians(comparison, &mut notes);
        self.notes_on_allocators(comparison, &mut notes);
        if verify {
            notes.push(
                "Contents were verified; therefore fresh blocks were not touched inside the calls."
                    .to_owned(),
            );
        }
        notes.extend(note_on_frees(&self.compiled.facts, comparison));
        let foreign = self.compiled.facts.skipped.values().sum::<u64>();
        if foreign > 0 {
            notes
                .push(format!("{foreign} frees of blocks from before the recording were skipped."));
        }
        if keep == Keep::Median && self.request.options.runs > 1 {
            notes.push(
                "The rows kept of each allocator are those of its median run by total time inside \
                 calls."
                    .to_owned(),
            );
        }
        notes
    }

    /// Refused calls, and system calls that cannot be detected.
    fn notes_on_allocators(&self, comparison: &Comparison, notes: &mut Vec<String>) {
        for (allocator, (calls, row)) in comparison.allocators.iter().zip(&self.refused) {
            if *calls > 0 {
                notes.push(format!(
                    "{} returned NULL from {calls} calls of a run, first {}; its numbers do not \
                     include those blocks.",
                    allocator.name,
                    place(*row)
                ));
            }
        }
        for (allocator, places) in comparison.allocators.iter().zip(&self.inline_syscalls) {
            if *places > 0 && comparison.instrument.system_calls {
                notes.push(format!(
                    "{} makes system calls by instructions of its own (places in its code: \
                     {places}). They are not detected, and their time counts as own work unless \
                     the thread slept.",
                    allocator.name
                ));
            }
        }
    }
}

/// The functions that replayed the frees with hints.
fn note_on_frees(facts: &JournalFacts, comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    let hinted: u64 = facts.frees.values().sum();
    if hinted > 0 {
        let ran = comparison
            .allocators
            .iter()
            .filter(|one| one.name != FLOOR && !one.free_functions.is_empty());
        let by = ran.map(|one| {
            let mut names: Vec<&str> = one.free_functions.values().map(String::as_str).collect();
            names.dedup();
            format!("{} {}", one.name, names.join(" and "))
        });
        notes.push(format!(
            "{hinted} frees passed the size or the alignment of their blocks, and were replayed \
             by: {}.",
            by.collect::<Vec<_>>().join(", ")
        ));
    }
    if facts.wrong_frees > 0 {
        notes.push(format!(
            "{} frees passed another size or alignment than the requested one (`keel info` shows \
             the first); they were replayed by plain free.",
            facts.wrong_frees
        ));
    }
    notes
}

fn notes_on_instrument(comparison: &Comparison, notes: &mut Vec<String>) {
    let (instrument, clock) = (&comparison.instrument, &comparison.clock);
    if let Some(fault) = &instrument.clock_fallback {
        notes.push(format!(
            "Calls were timed with CLOCK_MONOTONIC, not with the processor's counter ({fault}): a \
             pair of readings costs {:.0} ns here, and short calls cannot be distinguished.",
            clock.empty_pair.0.value_at_quantile(0.5) as f64 / clock.ticks_per_ns
        ));
    }
    if !instrument.interruptions {
        notes
            .push("On this kernel and C library, interrupted calls cannot be detected.".to_owned());
    }
    if !instrument.system_calls {
        notes.push(
            "System calls cannot be detected here (the C library's functions could not be \
             redirected), except by calls that slept in one."
                .to_owned(),
        );
    }
    if !instrument.locked {
        notes.push(
            "The result arrays could not be locked in memory (raise `ulimit -l`): under memory \
             pressure, writing a record may fault between two calls."
                .to_owned(),
        );
    }
    let stolen = comparison.allocators.iter().flat_map(|result| &result.runs);
    let (stolen, elapsed) = stolen
        .fold((0, 0), |(stolen, elapsed), run| (stolen + run.stolen_ns, elapsed + run.elapsed_ns));
    if stolen * 100 > elapsed * u64::from(comparison.machine.cpus.max(1)) {
        notes.push(format!(
            "The hypervisor took {:.1} % of the processors' time during the runs: it is part of \
             the tails.",
            stolen as f64 * 100.0 / (elapsed * u64::from(comparison.machine.cpus.max(1))) as f64
        ));
    }
}

/// The repeated runs, and the runs with interference that count.
fn notes_on_interference(comparison: &Comparison, notes: &mut Vec<String>) {
    let results = || comparison.allocators.iter();
    let discarded = results().flat_map(|result| &result.discarded).count();
    if discarded > 0 {
        notes.push(format!(
            "Runs with interference were repeated, and of each run and its repeats the one with \
             the least interference counts: {discarded} runs were discarded ({}).",
            by_allocator(comparison, |result| result.discarded.len())
        ));
    }
    let runs = || results().flat_map(|result| &result.runs);
    let kept = runs().filter(|run| !run.interference.is_empty()).count();
    if kept > 0 {
        let by = |word: &str| {
            runs().filter(|run| run.interference.iter().any(|one| one == word)).count()
        };
        notes.push(format!(
            "{kept} of {} counted runs had interference: the processor was slower in {}, the \
             hypervisor took more than 2 % of the processors' time in {}, other programs more than \
             10 % in {}. It is part of medians and tails.",
            runs().count(),
            by("slow processor"),
            by("stolen time"),
            by("other programs")
        ));
    }
}

fn by_allocator(comparison: &Comparison, count: impl Fn(&AllocatorResult) -> usize) -> String {
    let counts = comparison.allocators.iter().map(|result| (result.name.as_str(), count(result)));
    let words: Vec<String> = counts
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    words.join(", ")
}

/// Medians that another comparison may not reproduce.
fn notes_on_medians(comparison: &Comparison, notes: &mut Vec<String>) {
    let imprecise: Vec<String> = keel_results::imprecise(comparison)
        .into_iter()
        .filter_map(|index| {
            let result = &comparison.allocators[index];
            let (operation, share) = keel_results::imprecision(comparison, result)?;
            Some(format!(
                "{} ({operation} {:.1} %, {} runs)",
                result.name,
                share * 100.0,
                result.runs.len()
            ))
        })
        .collect();
    if !imprecise.is_empty() {
        notes.push(format!(
            "The medians of another comparison may differ by more than {:.0} %: the 95 % interval \
             of a median extends more than {:.0} % to one side for {}. More runs (-r auto, -r \
             12..30) or a quieter machine (keel doctor) help.",
            keel_results::AGREEMENT * 100.0,
            keel_results::PRECISION * 100.0,
            imprecise.join(", ")
        ));
    }
}
