//! The slowest individual calls, described: the slowest one that is attributed to an allocator, and
//! the slowest of all if that is another one. They are calls of the median runs, because only these
//! are drawn. If another run had a slower one, the description states this.

use super::cause::{Attribution, OWN_WORK, SlowCalls};
use super::same_calls::{costs_floor, floor_of_probes};
use crate::counts::Counted;
use crate::error::ReportError;
use crate::figures::{FLOOR, median_run};
use crate::words::{bytes, duration, list};
use keel_results::raw::{OPERATIONS_FILE, operation_at};
use keel_results::{CAUSE_INTERRUPTED, Comparison, OPERATIONS, Outlier};
use serde::Serialize;
use std::path::Path;

/// A slow call in sentences.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hitch {
    /// Index of the allocator.
    pub allocator: usize,
    /// Index of the call in the block of the allocator's slow calls; 0 without counted rows.
    pub at: usize,
    /// To what its duration is attributed.
    pub attribution: Option<Attribution>,
    /// `Slowest call caused by an allocator: 12 ms`.
    pub title: String,
    /// Continues the title: the operation, the allocator, the time, the thread.
    pub sentence: String,
    /// What was recorded about it: `Cause: 2 page faults.`
    pub cause: String,
    /// The attribution with its reason, a sentence.
    pub verdict: String,
    /// The same call under the other allocators, a sentence; empty if it was not looked up.
    pub others: String,
    /// The slowest such call of the other runs, a sentence; empty if none is slower.
    pub other_runs: String,
}

impl Hitch {
    /// The whole text.
    pub fn text(&self) -> String {
        let Hitch { title, sentence, cause, verdict, other_runs, .. } = self;
        let text = format!("{title} {sentence} {cause} {verdict} {other_runs}");
        text.trim_end().to_owned()
    }
}

/// A slow call of a run of an allocator.
#[derive(Clone, Copy)]
struct Call<'a> {
    allocator: usize,
    name: &'a str,
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
    let describe_one = |Chosen { title, call, slower }: Chosen<'_>| {
        let detail = operations.detail(call.outlier.row)?;
        let (kind, size, time) = (detail.kind, detail.size, detail.time);
        let operation = Operation { kind, size, time, thread: Some(detail.thread) };
        let by_time = counted.slow_calls(call.allocator);
        let at = by_time.iter().position(|(_, outlier)| outlier.row == call.outlier.row)?;
        let others = other_allocators(counted, &call);
        let hitch = describe(&title, &call, &operation, comparison, &words);
        Some(Hitch { at, others, other_runs: slower, ..hitch })
    };
    choose(comparison, &words).into_iter().filter_map(describe_one).collect()
}

/// The hitches of the comparison in `folder`, without counting its rows: reads at most two rows of
/// the operations. Empty if no raw rows were kept.
pub fn read_hitches(comparison: &Comparison, folder: &Path) -> Result<Vec<Hitch>, ReportError> {
    let path = folder.join(OPERATIONS_FILE);
    let words = SlowCalls::of(comparison);
    let mut found = Vec::new();
    for Chosen { title, call, slower } in choose(comparison, &words) {
        // A row beyond the operations does not belong to these runs.
        let row = if path.exists() { operation_at(&path, call.outlier.row)? } else { None };
        if let Some(row) = row {
            let operation =
                Operation { kind: row.op, size: row.size, time: row.time, thread: None };
            let hitch = describe(&title, &call, &operation, comparison, &words);
            found.push(Hitch { other_runs: slower, ..hitch });
        }
    }
    Ok(found)
}

/// The title of the first call, unless no call is attributed to an allocator.
const SLOWEST: &str = "Slowest call caused by an allocator";

/// A call to describe.
struct Chosen<'a> {
    title: String,
    call: Call<'a>,
    /// See [`Hitch::other_runs`].
    slower: String,
}

/// The calls to describe.
fn choose<'a>(comparison: &'a Comparison, words: &SlowCalls) -> Vec<Chosen<'a>> {
    let slowest = |drawn: bool, wanted: &dyn Fn(&Call<'a>) -> bool| {
        slow_calls(comparison, drawn).filter(wanted).max_by(|a, b| a.ns.total_cmp(&b.ns))
    };
    let chosen = |title: &str, caused: bool, call: Call<'a>, wanted: &dyn Fn(&Call<'a>) -> bool| {
        match slowest(false, wanted).filter(|other| other.ns > call.ns) {
            None => Chosen { title: title.to_owned(), call, slower: String::new() },
            Some(Call { ns, name, .. }) => {
                let took = duration(ns);
                let other = match caused {
                    true => format!("{name} caused a call of {took}"),
                    false => format!("a call with {name} took {took}"),
                };
                let only = "The page shows only calls of the median runs.";
                let slower = format!("{only} In another run, {other}.");
                Chosen { title: title.to_owned(), call, slower }
            }
        }
    };
    let beside = |call: &Call<'_>| match words.verdict(call.outlier).attribution {
        Attribution::System => "A longer call, not caused by an allocator",
        _ => "A longer call, of uncertain cause",
    };
    let own = |call: &Call<'_>| words.verdict(call.outlier).attribution == Attribution::Allocator;
    let Some(worst) = slowest(true, &|_| true) else { return Vec::new() };
    match slowest(true, &own) {
        Some(found) if !own(&worst) => vec![
            chosen(SLOWEST, true, found, &own),
            chosen(beside(&worst), false, worst, &|_| true),
        ],
        Some(_) => vec![chosen(SLOWEST, true, worst, &own)],
        None => vec![chosen("Slowest call", false, worst, &|_| true)],
    }
}

/// The slow calls of the median runs, or those of all other runs.
fn slow_calls(comparison: &Comparison, drawn: bool) -> impl Iterator<Item = Call<'_>> {
    let ticks_per_ns = comparison.clock.ticks_per_ns;
    let results =
        comparison.allocators.iter().enumerate().filter(|(_, result)| result.name != FLOOR);
    results.flat_map(move |(allocator, result)| {
        let median = median_run(result);
        let runs = result.runs.iter().enumerate();
        let runs = runs.filter(move |(run, _)| (Some(*run) == median) == drawn);
        runs.flat_map(|(_, run)| &run.outliers).map(move |outlier| Call {
            allocator,
            name: &result.name,
            outlier,
            ns: f64::from(outlier.ticks) / ticks_per_ns,
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
        at: 0,
        attribution: Some(verdict.attribution),
        title: format!("{title}: {}", duration(call.ns)),
        sentence: format!("in {name}{size} with {}, at {at}{frame}{thread}.", call.name),
        cause: cause_sentence(words.cause(call.outlier), verdict.attribution),
        verdict: verdict.sentence.clone(),
        others: String::new(),
        other_runs: String::new(),
    }
}

/// `Cause: 2 page faults.`
fn cause_sentence(cause: &str, attribution: Attribution) -> String {
    match (cause == OWN_WORK, attribution) {
        (false, _) | (true, Attribution::Allocator) => format!("Cause: {cause}."),
        (true, _) => "Cause: none was recorded.".to_owned(),
    }
}

/// The same call under the other allocators: whether it is slow in itself, or with this one only.
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
        format!("{took} ({name}{})", if *interrupted { ", interrupted" } else { "" })
    };
    let sentence = match found.as_slice() {
        [] => return String::new(),
        [first, .., last] if duration_of(first) == duration_of(last) => {
            format!("The other allocators took {} for the same call.", duration_of(first))
        }
        [only] => format!("The other allocator took {} for the same call.", words(only)),
        [first, .., last] => format!(
            "The other allocators took {} to {} for the same call.",
            words(first),
            words(last)
        ),
    };
    let floor = floor_of_probes(counted)[probe];
    format!("{sentence}{}", floor_sentence(&found, floor, ticks_per_ns))
}

/// The allocators with which the call would have cost the floor. `found`: ticks, name, and whether
/// it was interrupted.
fn floor_sentence(found: &[(u32, &str, bool)], floor: Option<u32>, ticks_per_ns: f64) -> String {
    let Some(floor) = floor.map(f64::from) else { return String::new() };
    let is_near = |(ticks, _, _): &&(u32, &str, bool)| costs_floor(f64::from(*ticks), floor);
    let names: Vec<&str> = found.iter().filter(is_near).map(|(_, name, _)| *name).collect();
    let floor = duration(floor / ticks_per_ns);
    match names.as_slice() {
        [] => format!(" The floor is {floor} (null allocator)."),
        names => {
            format!(" It would have cost the floor with {} (null allocator: {floor}).", list(names))
        }
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

    fn titles(comparison: &Comparison) -> Vec<[String; 2]> {
        let chosen = choose(comparison, &SlowCalls::of(comparison));
        chosen.into_iter().map(|one| [one.title, one.slower]).collect()
    }

    #[test]
    fn allocators_that_would_have_cost_the_floor_are_named() {
        let found = [(50, "glibc", false), (61, "tlsf", false), (900, "keel", true)];
        assert_eq!(
            floor_sentence(&found, Some(31), 2.0),
            " It would have cost the floor with glibc and tlsf (null allocator: 15.5 ns)."
        );
        assert_eq!(floor_sentence(&found, Some(20), 2.0), " The floor is 10 ns (null allocator).");
        assert_eq!(floor_sentence(&found, None, 2.0), "");
    }

    #[test]
    fn a_slower_call_of_another_run_is_stated() {
        let found = titles(&comparison([[50, 70], [40, 60], [30, 90]]));
        assert_eq!(
            found,
            [
                [
                    SLOWEST,
                    "The page shows only calls of the median runs. In another run, keel caused a \
                     call of 50 ns."
                ],
                [
                    "A longer call, not caused by an allocator",
                    "The page shows only calls of the median runs. In another run, a call with \
                     keel took 90 ns."
                ]
            ]
        );
        let found = titles(&comparison([[30, 50], [40, 60], [10, 20]]));
        assert_eq!(found[0], [SLOWEST, ""]);
        assert_eq!(found[1], ["A longer call, not caused by an allocator", ""]);
    }
}
