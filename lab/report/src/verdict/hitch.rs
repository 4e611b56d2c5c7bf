//! The slowest individual calls of all runs with the program's allocator, described: the slowest
//! one that is attributed to the allocator, and the slowest of all if that is another one. If it is
//! not known which allocator that is, or it has no slow calls, those of all allocators. Charts show
//! the median runs and these calls; the description states if a call is of another run.

use super::cause::{Attribution, OWN_WORK, SlowCalls};
use super::same_calls::{floor_of_probes, is_near_floor};
use super::used::is_of_file;
use crate::counts::{Counted, Described};
use crate::error::ReportError;
use crate::figures::{FLOOR, median_run};
use crate::words::{bytes, duration, list};
use keel_allocators::C_LIBRARY;
use keel_results::raw::{OPERATIONS_FILE, operation_at};
use keel_results::{AllocatorResult, CAUSE_INTERRUPTED, Comparison, OPERATIONS, Outlier};
use serde::Serialize;
use std::path::Path;

/// A slow call in sentences.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hitch {
    /// Index of the allocator.
    pub allocator: usize,
    /// Index of the call in the block of the allocator's slow calls; None without counted rows.
    pub at: Option<usize>,
    /// To what its duration is attributed.
    pub attribution: Option<Attribution>,
    /// `Slowest call attributed to an allocator: 12 ms`.
    pub title: String,
    /// Continues the title: the operation, the allocator, the time, the thread.
    pub sentence: String,
    /// What was recorded about it: `Cause: 2 page faults.`
    pub cause: String,
    /// The attribution with its reason, a sentence.
    pub verdict: String,
    /// The same call under the other allocators, a sentence; empty if it was not looked up.
    pub others: String,
    /// Which run it is of, a sentence; empty if it is the one that the charts show.
    pub run: String,
}

impl Hitch {
    /// The whole text.
    pub fn text(&self) -> String {
        let Hitch { title, sentence, cause, verdict, run, .. } = self;
        let text = format!("{title} {sentence} {cause} {verdict} {run}");
        text.trim_end().to_owned()
    }
}

/// A slow call of a run of an allocator.
#[derive(Clone, Copy)]
struct Call<'a> {
    allocator: usize,
    name: &'a str,
    /// Number of its run from 1, and of all runs of the allocator.
    run: (usize, usize),
    /// Whether this is the median run.
    is_drawn: bool,
    outlier: &'a Outlier,
    ns: f64,
}

/// The operation of a slow call.
struct Operation {
    kind: u8,
    size: u64,
    time: u64,
    thread: Option<u32>,
}

/// The hitches of a counted comparison. Empty without raw rows.
pub fn hitches(counted: &Counted<'_>) -> Vec<Hitch> {
    let comparison = counted.comparison;
    let words = SlowCalls::of(comparison);
    let Some(operations) = &counted.operations else { return Vec::new() };
    let describe_one = |Chosen { title, call }: Chosen<'_>| {
        let detail = operations.detail(call.outlier.row)?;
        let (kind, size, time) = (detail.kind, detail.size, detail.time);
        let operation = Operation { kind, size, time, thread: Some(detail.thread) };
        let by_time = counted.slow_calls(call.allocator);
        let at = by_time.iter().position(|(_, outlier)| std::ptr::eq(*outlier, call.outlier));
        let others = other_allocators(counted, &call);
        Some(Hitch { at, others, ..describe(title, &call, &operation, comparison, &words) })
    };
    choose(comparison, &words).into_iter().filter_map(describe_one).collect()
}

/// The hitches of the comparison in `folder`, without counting its rows: reads at most two rows of
/// the operations. Empty if no raw rows were kept.
pub fn read_hitches(comparison: &Comparison, folder: &Path) -> Result<Vec<Hitch>, ReportError> {
    let path = folder.join(OPERATIONS_FILE);
    let words = SlowCalls::of(comparison);
    let mut found = Vec::new();
    for Chosen { title, call } in choose(comparison, &words) {
        // A row beyond the operations does not belong to these runs.
        let row = if path.exists() { operation_at(&path, call.outlier.row)? } else { None };
        if let Some(row) = row {
            let operation =
                Operation { kind: row.op, size: row.size, time: row.time, thread: None };
            found.push(describe(title, &call, &operation, comparison, &words));
        }
    }
    Ok(found)
}

/// The calls that [`hitches`] describes.
pub fn hitch_calls(comparison: &Comparison) -> Vec<Described> {
    let chosen = choose(comparison, &SlowCalls::of(comparison));
    let of = |one: &Chosen<'_>| Described {
        allocator: one.call.allocator,
        run: one.call.run.0 - 1,
        row: one.call.outlier.row,
    };
    chosen.iter().map(of).collect()
}

/// The title of the first call, unless no call is attributed to an allocator.
const SLOWEST: &str = "Slowest call attributed to an allocator";
/// The same if only the calls of the program's allocator are considered.
const SLOWEST_OWN: &str = "Slowest call attributed to the program's allocator";

/// A call to describe.
struct Chosen<'a> {
    title: &'static str,
    call: Call<'a>,
}

/// The calls to describe.
fn choose<'a>(comparison: &'a Comparison, words: &SlowCalls) -> Vec<Chosen<'a>> {
    let slowest = |wanted: &dyn Fn(&Call<'a>) -> bool| {
        let longer =
            |a: &Call<'a>, b: &Call<'a>| a.ns.total_cmp(&b.ns).then(a.is_drawn.cmp(&b.is_drawn));
        slow_calls(comparison).filter(wanted).max_by(longer)
    };
    let own = |call: &Call<'_>| words.verdict(call.outlier).attribution == Attribution::Allocator;
    let Some(worst) = slowest(&|_| true) else { return Vec::new() };
    let title = if own_allocator(comparison).is_some() { SLOWEST_OWN } else { SLOWEST };
    match slowest(&own) {
        Some(found) if !own(&worst) => {
            let beside = match words.verdict(worst.outlier).attribution {
                Attribution::System => "A longer call, attributed to the operating system",
                _ => "A longer call, which cannot be attributed",
            };
            vec![Chosen { title, call: found }, Chosen { title: beside, call: worst }]
        }
        Some(_) => vec![Chosen { title, call: worst }],
        None => vec![Chosen { title: "Slowest call", call: worst }],
    }
}

/// The allocator of the program, if it has slow calls.
fn own_allocator(comparison: &Comparison) -> Option<usize> {
    let path = comparison.journal.allocator.as_str();
    let is_own = |name: &str| match path.is_empty() {
        true => name == C_LIBRARY,
        false => is_of_file(name, path),
    };
    let own = |result: &AllocatorResult| {
        is_own(&result.name) && result.runs.iter().any(|run| !run.outliers.is_empty())
    };
    comparison.allocators.iter().position(own)
}

/// The slow calls of all runs of the program's allocator, or of all allocators.
fn slow_calls(comparison: &Comparison) -> impl Iterator<Item = Call<'_>> {
    let ticks_per_ns = comparison.clock.ticks_per_ns;
    let own = own_allocator(comparison);
    let is_shown = move |(index, result): &(usize, &AllocatorResult)| {
        own.map_or(result.name != FLOOR, |own| own == *index)
    };
    let results = comparison.allocators.iter().enumerate().filter(is_shown);
    results.flat_map(move |(allocator, result)| {
        let (median, count) = (median_run(result), result.runs.len());
        let runs = result.runs.iter().enumerate();
        runs.flat_map(move |(run, one)| {
            one.outliers.iter().map(move |outlier| Call {
                allocator,
                name: &result.name,
                run: (run + 1, count),
                is_drawn: Some(run) == median,
                outlier,
                ns: f64::from(outlier.ticks) / ticks_per_ns,
            })
        })
    })
}

fn describe(
    title: &str,
    call: &Call<'_>,
    operation: &Operation,
    comparison: &Comparison,
    words: &SlowCalls,
) -> Hitch {
    let name = match OPERATIONS.get(usize::from(operation.kind)).copied().unwrap_or("call") {
        "aligned" => "an aligned allocation".to_owned(),
        name => format!("a {name}"),
    };
    let size = if operation.size > 0 {
        format!(" of {}", bytes(operation.size as f64))
    } else {
        String::new()
    };
    let frame = match comparison.journal.frames.partition_point(|mark| *mark <= operation.time) {
        0 => String::new(),
        frame => format!(" in frame {frame}"),
    };
    let thread = operation.thread.map_or(String::new(), |thread| format!(", on thread {thread}"));
    let at = format!("{:.4} s", operation.time as f64 / 1e9);
    let verdict = words.verdict(call.outlier);
    Hitch {
        allocator: call.allocator,
        at: None,
        attribution: Some(verdict.attribution),
        title: format!("{title}: {}", duration(call.ns)),
        sentence: format!("in {name}{size} with {}, at {at}{frame}{thread}.", call.name),
        cause: cause_sentence(&SlowCalls::cause(call.outlier), verdict.attribution),
        verdict: verdict.sentence.clone(),
        others: String::new(),
        run: match (call.is_drawn, call.run) {
            (true, _) => String::new(),
            (false, (run, runs)) => {
                let of = format!("run {run} of {runs} of {}", call.name);
                format!("The call is from {of}; the other calls in the charts are of another run.")
            }
        },
    }
}

/// `Cause: 2 page faults.`
fn cause_sentence(cause: &str, attribution: Attribution) -> String {
    match (cause == OWN_WORK, attribution) {
        (false, _) | (true, Attribution::Allocator) => format!("Cause: {cause}."),
        (true, _) => "Cause: none was recorded.".to_owned(),
    }
}

/// The same call with the other allocators and settings: whether it is slow in itself, or with this
/// one only.
fn other_allocators(counted: &Counted<'_>, call: &Call<'_>) -> String {
    let comparison = counted.comparison;
    let ticks_per_ns = comparison.clock.ticks_per_ns;
    let Some(probe) = counted.probe(call.outlier.row) else { return String::new() };
    let took = |index: usize| {
        let result = &comparison.allocators[index];
        let ticks = counted.runs[index].as_ref()?.probes.get(probe)?;
        let outliers = &counted.run(index)?.outliers;
        let same = outliers.iter().find(|outlier| outlier.row == call.outlier.row);
        let interrupted = same.is_some_and(|outlier| outlier.cause & CAUSE_INTERRUPTED != 0);
        let contends = index != call.allocator && result.name != FLOOR;
        contends.then_some((*ticks, result.name.as_str(), interrupted))
    };
    let mut found: Vec<_> = (0..comparison.allocators.len()).filter_map(took).collect();
    found.sort_unstable();
    let duration_of =
        |(ticks, _, _): &(u32, &str, bool)| duration(f64::from(*ticks) / ticks_per_ns);
    let words = |call: &(u32, &str, bool)| {
        let (took, (_, name, interrupted)) = (duration_of(call), call);
        format!("{took} ({name}{})", if *interrupted { ", preempted" } else { "" })
    };
    let sentence = match found.as_slice() {
        [] => return String::new(),
        [first, .., last] if duration_of(first) == duration_of(last) => {
            format!("The others took {} for the same call.", duration_of(first))
        }
        [only] => format!("The other one took {} for the same call.", words(only)),
        [first, .., last] => {
            format!("The others took {} to {} for the same call.", words(first), words(last))
        }
    };
    let floor = floor_of_probes(counted)[probe];
    format!("{sentence}{}", floor_sentence(&found, floor, ticks_per_ns))
}

/// The allocators with which the call is near the floor. `found`: ticks, name, and whether it was
/// preempted.
fn floor_sentence(found: &[(u32, &str, bool)], floor: Option<u32>, ticks_per_ns: f64) -> String {
    let ns = |ticks: u32| f64::from(ticks) / ticks_per_ns;
    let Some(floor) = floor.map(ns) else { return String::new() };
    // A slow call of the null allocator says nothing about faster ones.
    let is_near = |(ticks, _, _): &&(u32, &str, bool)| {
        is_near_floor(ns(*ticks), floor) && ns(*ticks) >= floor / 2.0
    };
    let names: Vec<&str> = found.iter().filter(is_near).map(|(_, name, _)| *name).collect();
    let floor = duration(floor);
    match names.as_slice() {
        [] => format!(" With the null allocator, which does nothing, it took {floor}."),
        names => format!(
            " With {}, at least half of the time was the cost of measuring: the null allocator, \
             which does nothing, took {floor}.",
            list(names)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_results::{AllocatorResult, CAUSE_FAULT, Run};

    /// Three runs, of which the second is the median run. Each has one slow call with a page fault
    /// and one that was preempted, of these ticks.
    fn comparison(slow: [[u32; 2]; 3]) -> Comparison {
        let run = |([fault, preempted], total): ([u32; 2], f64)| Run {
            raw: Some(String::new()),
            inside_ns: [("malloc".to_owned(), total)].into(),
            outliers: vec![
                Outlier { ticks: fault, cause: CAUSE_FAULT, ..Outlier::default() },
                Outlier { ticks: preempted, cause: CAUSE_INTERRUPTED, ..Outlier::default() },
            ],
            ..Run::default()
        };
        let runs = slow.into_iter().zip([1.0, 2.0, 3.0]).map(run).collect();
        let result = AllocatorResult { name: "keel".into(), runs, ..AllocatorResult::default() };
        let mut comparison = Comparison { allocators: vec![result], ..Comparison::default() };
        comparison.clock.ticks_per_ns = 1.0;
        comparison
    }

    fn chosen(slow: [[u32; 2]; 3]) -> Vec<(&'static str, u32, usize, bool)> {
        let comparison = comparison(slow);
        let found = choose(&comparison, &SlowCalls::of(&comparison));
        let of = |one: Chosen<'_>| {
            (one.title, one.call.outlier.ticks, one.call.run.0, one.call.is_drawn)
        };
        found.into_iter().map(of).collect()
    }

    #[test]
    fn allocators_near_the_floor_are_named() {
        let found = [(50, "glibc", false), (61, "tlsf", false), (900, "keel", true)];
        assert_eq!(
            floor_sentence(&found, Some(31), 2.0),
            " With glibc and tlsf, at least half of the time was the cost of measuring: the null \
             allocator, which does nothing, took 15.5 ns."
        );
        assert_eq!(
            floor_sentence(&found, Some(20), 2.0),
            " With the null allocator, which does nothing, it took 10 ns."
        );
        assert_eq!(
            floor_sentence(&found, Some(3000), 2.0),
            " With the null allocator, which does nothing, it took 1.50 µs."
        );
        assert_eq!(floor_sentence(&found, None, 2.0), "");
    }

    #[test]
    fn the_worst_calls_are_those_of_all_runs() {
        const BESIDE: &str = "A longer call, attributed to the operating system";
        assert_eq!(
            chosen([[50, 70], [40, 60], [30, 90]]),
            [(SLOWEST, 50, 1, false), (BESIDE, 90, 3, false)]
        );
        assert_eq!(
            chosen([[30, 50], [40, 60], [10, 20]]),
            [(SLOWEST, 40, 2, true), (BESIDE, 60, 2, true)]
        );
        assert_eq!(chosen([[30, 50], [40, 60], [90, 20]]), [(SLOWEST, 90, 3, false)]);
        // Of equal calls, the one that the charts show.
        assert_eq!(chosen([[90, 20], [90, 20], [90, 20]]), [(SLOWEST, 90, 2, true)]);
    }

    /// Two readers of a page with the slowest call of any allocator asked what it had to do with
    /// their program.
    #[test]
    fn the_worst_calls_are_those_of_the_programs_allocator() {
        let mut both = comparison([[50, 70], [40, 60], [30, 90]]);
        let mut own = comparison([[5, 7], [4, 6], [3, 9]]).allocators.remove(0);
        own.name = "jemalloc".to_owned();
        both.allocators.push(own);
        both.journal.allocator = "/usr/lib/libjemalloc.so.2".to_owned();
        let ticks = |comparison: &Comparison| {
            let found = choose(comparison, &SlowCalls::of(comparison));
            found.iter().map(|one| (one.title, one.call.outlier.ticks)).collect::<Vec<_>>()
        };
        let beside = "A longer call, attributed to the operating system";
        assert_eq!(ticks(&both), [(SLOWEST_OWN, 5), (beside, 9)]);
        both.journal.allocator = "/usr/lib/libhoard.so".to_owned();
        assert_eq!(ticks(&both), [(SLOWEST, 50), (beside, 90)]);
    }

    #[test]
    fn a_call_of_a_run_that_is_not_drawn_states_its_run() {
        let mut comparison = comparison([[50, 20], [40, 20], [30, 20]]);
        // No call of the median run has this cause.
        comparison.allocators[0].runs[0].outliers[0].faults = 3;
        let words = SlowCalls::of(&comparison);
        let found = choose(&comparison, &words);
        let operation = Operation { kind: 0, size: 64, time: 0, thread: None };
        let hitch = describe(found[0].title, &found[0].call, &operation, &comparison, &words);
        assert_eq!(
            hitch.run,
            "The call is from run 1 of 3 of keel; the other calls in the charts are of another run."
        );
        assert_eq!(hitch.cause, "Cause: 3 page faults.");
        assert!(hitch.text().ends_with(&hitch.run), "{}", hitch.text());
    }
}
