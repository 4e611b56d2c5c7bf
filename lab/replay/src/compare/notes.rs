//! The notes on a comparison that readers of the numbers must know.

use super::session::Session;
use crate::run::place;
use crate::{Keep, Options, Pace};
use keel_allocators::FLOOR;
use keel_results::text::counted;
use keel_results::{ALL_OPERATIONS, AllocatorResult, Comparison, FRAME, Imprecision, JournalFacts};

/// What was read between calls, and how much of what was wanted.
fn of_eviction(comparison: &Comparison) -> Option<String> {
    let wanted = comparison.settings.evict_bytes;
    let runs = comparison.allocators.iter().flat_map(|result| &result.runs);
    let most = runs.map(|run| run.evicted_bytes).max().filter(|_| wanted > 0)?;
    let calls: u64 = comparison.journal.operations.values().sum();
    if comparison.settings.evict_recorded {
        return Some(format!(
            "Between two calls, each thread read up to {} of other memory, to evict as much data \
             from the caches as the recorded program did in pauses of the same length. The thread \
             stopped reading when its next call was due. In the run that read most, the threads \
             read {} in total. This time is not part of the latencies.",
            keel_results::text::bytes(wanted as f64),
            keel_results::text::bytes(most as f64),
        ));
    }
    Some(format!(
        "Between two calls, each thread read up to {} of other memory, to evict data from the \
         caches. The thread stopped reading when its next call was due. In the run that read most, \
         the threads read {} in total. Without these stops, they would have read {}. This time is \
         not part of the latencies.",
        keel_results::text::bytes(wanted as f64),
        keel_results::text::bytes(most as f64),
        keel_results::text::bytes(wanted as f64 * calls as f64),
    ))
}

/// The notes that depend on the measurements only.
pub fn of_measurements(comparison: &Comparison) -> Vec<String> {
    let mut notes = note_on_frees(&comparison.journal, comparison);
    notes_on_instrument(comparison, &mut notes);
    notes_on_interference(comparison, &mut notes);
    notes_on_precision(comparison, &mut notes);
    notes
}

impl Session<'_> {
    /// The notes, in sentences.
    pub fn notes(&self, comparison: &Comparison, stopped: bool) -> Vec<String> {
        let Options { pace, verify, serial, keep, .. } = self.request.options;
        let header = self.compiled.plan.header();
        let mut notes = Vec::new();
        if stopped {
            let done: usize =
                comparison.allocators.iter().map(|allocator| allocator.runs.len()).sum();
            notes.push(format!(
                "The comparison was stopped early. It contains the {} that had finished, \
                 including those of the null allocator.",
                counted(done as u64, "run")
            ));
        }
        if header.alive > comparison.machine.cpus {
            notes.push(format!(
                "Up to {} threads shared {}. If the system ran another thread during a \
                 call, the call is marked as preempted.",
                header.alive,
                counted(comparison.machine.cpus.into(), "processor")
            ));
        }
        if pace == Pace::Max && header.threads > 1 && !serial {
            notes.push(format!(
                "At pace max, each thread runs as fast as it can, but at most {} ahead \
                 of the slowest thread. The order of operations of different threads can differ \
                 from the recording, and so can the memory over time.",
                counted(header.skew.into(), "operation")
            ));
        }
        notes.extend(of_eviction(comparison));
        let facts = &self.compiled.facts;
        if facts.prologue_blocks > 0 {
            notes.push(format!(
                "When the recording began, {} ({:.1} MiB in total) existed already. The replay \
                 allocates what existed before the measurement starts, and does not measure it.",
                counted(facts.prologue_blocks, "block"),
                facts.prologue_bytes as f64 / f64::from(1 << 20)
            ));
        }
        notes.extend(of_measurements(comparison));
        self.notes_on_repeats(&mut notes);
        self.notes_on_allocators(comparison, &mut notes);
        if verify {
            notes.push(
                "The contents of blocks were verified. For this, new blocks were written after \
                 the timed calls, not as a part of them."
                    .to_owned(),
            );
        }
        let foreign = self.compiled.facts.skipped.values().sum::<u64>();
        if foreign > 0 {
            notes.push(left_out(foreign));
        }
        if keep == Keep::Median && self.request.options.runs > 1 {
            notes.push(
                "Single calls were saved from one run of each allocator, its median run. (If its \
                 runs are sorted by the total time in calls, this is the one in the middle.)"
                    .to_owned(),
            );
        }
        notes
    }

    /// A repeat that fails although the first run succeeded is a fault, of the allocator or of the
    /// player.
    fn notes_on_repeats(&self, notes: &mut Vec<String>) {
        notes.extend(self.failed_sums.iter().cloned());
        if let Some(first) = self.failed_repeats.first() {
            notes.push(format!(
                "Disturbed runs were repeated, and {} of the repeats failed. In these cases the \
                 disturbed run counts. The first failure: {first}",
                self.failed_repeats.len()
            ));
        }
    }

    /// Refused calls, and system calls that cannot be detected.
    fn notes_on_allocators(&self, comparison: &Comparison, notes: &mut Vec<String>) {
        for (allocator, (calls, row)) in comparison.allocators.iter().zip(&self.refused) {
            if *calls > 0 {
                notes.push(format!(
                    "{} returned NULL from {} of a run. The first was {}. The results do not \
                     include the blocks that it did not allocate.",
                    allocator.name,
                    counted(*calls, "call"),
                    place(*row)
                ));
            }
        }
        for (allocator, places) in comparison.allocators.iter().zip(&self.inline_syscalls) {
            if *places > 0 && comparison.instrument.system_calls {
                notes.push(format!(
                    "The code of {} contains {}. System calls made there are not detected. Their \
                     time counts as the allocator's own work, unless the thread was blocked.",
                    allocator.name,
                    counted(*places, "system call instruction")
                ));
            }
        }
    }
}

fn left_out(foreign: u64) -> String {
    format!(
        "The replay left out {} of blocks that are older than the recording.",
        counted(foreign, "free")
    )
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
            "{} passed the size or the alignment of the block. The replay used these \
             functions: {}.",
            counted(hinted, "free"),
            by.collect::<Vec<_>>().join(", ")
        ));
    }
    if facts.wrong_frees > 0 {
        notes.push(format!(
            "{} passed a size or an alignment that differs from the requested one (`keel info` \
             shows the first). The replay used plain free.",
            counted(facts.wrong_frees, "free")
        ));
    }
    notes
}

fn notes_on_instrument(comparison: &Comparison, notes: &mut Vec<String>) {
    let (instrument, clock) = (&comparison.instrument, &comparison.clock);
    if let Some(fault) = &instrument.clock_fallback {
        notes.push(format!(
            "Calls were timed with CLOCK_MONOTONIC, not with the processor's counter ({fault}). A \
             pair of readings takes {:.0} ns here, so the times of short calls are not precise.",
            clock.empty_pair.0.value_at_quantile(0.5) as f64 / clock.ticks_per_ns
        ));
    }
    if !instrument.interruptions {
        notes.push("On this kernel and C library, preempted calls cannot be detected.".to_owned());
    }
    if !instrument.system_calls {
        notes.push(
            "The C library's functions could not be redirected. So a system call is detected only \
             if the thread was blocked in it."
                .to_owned(),
        );
    }
    if !instrument.locked {
        notes.push(
            "The arrays for the results could not be locked in memory (raise `ulimit -l`). If \
             memory is short, a page fault may happen between two calls."
                .to_owned(),
        );
    }
    let stolen = comparison.allocators.iter().flat_map(|result| &result.runs);
    let (stolen, elapsed) = stolen
        .fold((0, 0), |(stolen, elapsed), run| (stolen + run.stolen_ns, elapsed + run.elapsed_ns));
    if stolen * 100 > elapsed * u64::from(comparison.machine.cpus.max(1)) {
        notes.push(format!(
            "The hypervisor took {:.1} % of the processors' time during the runs. This time is \
             part of the slowest calls.",
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
            "Runs that the machine disturbed were repeated. Of a run and its repeats, only the \
             least disturbed one counts. Discarded runs: {discarded} ({}).",
            by_allocator(comparison, |result| result.discarded.len())
        ));
    }
    let words = |result: &AllocatorResult| -> Vec<Vec<String>> {
        let clocked = result.runs.iter().map(|run| run.interference.clone());
        clocked.chain(result.throughput.iter().map(|run| run.interference.clone())).collect()
    };
    let runs = || results().flat_map(words);
    let kept = runs().filter(|words| !words.is_empty()).count();
    if kept > 0 {
        let by = |(word, what, how): &(&str, &str, &str)| {
            let count = runs().filter(|words| words.iter().any(|one| one == word)).count();
            (count > 0).then(|| format!("{what} in {}{how}", counted(count as u64, "run")))
        };
        let found: Vec<String> = INTERFERENCE.iter().filter_map(by).collect();
        let disturbed = match runs().count() {
            all if all == kept => format!("all {}", counted(all as u64, "run")),
            all => format!("{kept} of the {}", counted(all as u64, "run")),
        };
        notes.push(format!(
            "The machine disturbed {disturbed}. The medians include the disturbed runs. The \
             intervals and the ratios leave out runs in which the processor was slower than usual, \
             if at least five others remain. Causes: {}. These numbers include the runs of the \
             null allocator, and the runs without timing of single calls. The command keel doctor \
             suggests how to avoid such disturbance.",
            found.join("; ")
        ));
    }
}

/// The words of [`Run::interference`](keel_results::Run::interference), what happened, and how it
/// was detected.
const INTERFERENCE: [(&str, &str, &str); 3] = [
    (
        keel_results::SLOW_PROCESSOR,
        "the processor was slower",
        " (compared with the fastest run, reading the clock took over 1.5 % longer, or a short \
         loop took over 6 % longer)",
    ),
    ("stolen time", "the hypervisor took more than 2 % of the processors' time", ""),
    ("other programs", "other programs took more than 10 % of the processors' time", ""),
];

fn by_allocator(comparison: &Comparison, count: impl Fn(&AllocatorResult) -> usize) -> String {
    let counts = comparison.allocators.iter().map(|result| (result.name.as_str(), count(result)));
    let words: Vec<String> = counts
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    words.join(", ")
}

/// Figures that another comparison may not reproduce.
fn notes_on_precision(comparison: &Comparison, notes: &mut Vec<String>) {
    let found = keel_results::imprecise(comparison, FLOOR);
    let imprecise: Vec<String> = found
        .into_iter()
        .zip(&comparison.allocators)
        .filter_map(|(found, result)| {
            let Imprecision { operation, figure, share, .. } = found?;
            let (name, share, runs) = (&result.name, share * 100.0, result.runs.len());
            let figure = match operation.as_str() {
                ALL_OPERATIONS => "time in all calls".to_owned(),
                FRAME => format!("time in calls per frame ({figure})"),
                operation => format!("{operation} {figure}"),
            };
            let runs = counted(runs as u64, "run");
            Some(format!("{figure} of {name} ({share:.1} %, {runs})"))
        })
        .collect();
    if !imprecise.is_empty() {
        notes.push(format!(
            "Some values are not precise, and may change if you repeat the comparison: {}. The \
             percentage shows how far the 95 % interval of the geometric mean of the runs extends \
             above this mean. (Before this is computed, each round is corrected for changes that \
             affected all allocators equally.) More runs (--runs 20) or a quieter machine make the \
             values more precise.",
            imprecise.join(", "),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_free_is_singular_and_many_have_separators() {
        for (count, text) in [(1, "1 free "), (1234, "1,234 frees ")] {
            assert!(left_out(count).contains(&format!("left out {text}of blocks")), "{text}");
            let frees = [("free_sized".to_owned(), count)].into();
            let facts = JournalFacts { frees, wrong_frees: count, ..JournalFacts::default() };
            let notes = note_on_frees(&facts, &Comparison::default());
            assert_eq!(notes.len(), 2);
            assert!(notes.iter().all(|note| note.starts_with(text)), "{notes:?}");
        }
    }
}
