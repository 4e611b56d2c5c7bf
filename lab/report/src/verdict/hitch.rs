//! The slowest individual calls, described: the slowest one that is attributed to an allocator, and
//! the slowest of all if that is another one.

use super::cause::{Attribution, SlowCalls};
use crate::counts::Counted;
use crate::error::ReportError;
use crate::figures::{FLOOR, median_run};
use crate::words::{bytes, duration};
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
    /// `Slowest call: 12 ms`.
    pub title: String,
    /// Continues the title: the operation, the allocator, the time, the thread.
    pub sentence: String,
    /// What was recorded about it: `preempted, 2 page faults`.
    pub cause: String,
    /// The attribution with its reason, a sentence.
    pub verdict: String,
    /// The same call under the other allocators, a sentence; empty if it was not looked up.
    pub others: String,
}

impl Hitch {
    /// The whole text.
    pub fn text(&self) -> String {
        let Hitch { title, sentence, cause, verdict, .. } = self;
        format!("{title} {sentence} Cause: {cause}. {verdict}")
    }
}

/// A slow call of the median run of an allocator.
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
    let describe_one = |(title, call): (&str, Call<'_>)| {
        let detail = operations.detail(call.outlier.row)?;
        let (kind, size, time) = (detail.kind, detail.size, detail.time);
        let operation = Operation { kind, size, time, thread: Some(detail.thread) };
        let by_time = counted.slow_calls(call.allocator);
        let at = by_time.iter().position(|(_, outlier)| outlier.row == call.outlier.row)?;
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
    for (title, call) in choose(comparison, &words) {
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

/// The calls to describe, with their titles.
fn choose<'a>(comparison: &'a Comparison, words: &SlowCalls) -> Vec<(&'static str, Call<'a>)> {
    let mut calls: Vec<Call<'_>> = slow_calls(comparison).collect();
    calls.sort_by(|one, other| other.ns.total_cmp(&one.ns));
    let own = |call: &&Call<'_>| words.verdict(call.outlier).attribution == Attribution::Allocator;
    let Some(worst) = calls.first() else { return Vec::new() };
    match calls.iter().find(own) {
        Some(found) if !own(&worst) => vec![
            ("Slowest call attributed to an allocator", *found),
            ("Slowest call of all", *worst),
        ],
        _ => vec![("Slowest call", *worst)],
    }
}

fn slow_calls(comparison: &Comparison) -> impl Iterator<Item = Call<'_>> {
    let ticks_per_ns = comparison.clock.ticks_per_ns;
    let results =
        comparison.allocators.iter().enumerate().filter(|(_, result)| result.name != FLOOR);
    results.flat_map(move |(allocator, result)| {
        let drawn = median_run(result).map(|run| &result.runs[run].outliers);
        drawn.into_iter().flatten().map(move |outlier| Call {
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
    let name = OPERATIONS.get(usize::from(operation.kind)).copied().unwrap_or("call");
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
        sentence: format!("in a {name}{size} with {}, at {at}{frame}{thread}.", call.name),
        cause: words.cause(call.outlier).to_owned(),
        verdict: verdict.sentence.clone(),
        others: String::new(),
    }
}

/// The same call under the other allocators: whether it is slow in itself, or with this one only.
fn other_allocators(counted: &Counted<'_>, call: &Call<'_>) -> String {
    let comparison = counted.comparison;
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
    let words = |(ticks, name, interrupted): &(u32, &str, bool)| {
        let took = duration(f64::from(*ticks) / comparison.clock.ticks_per_ns);
        format!("{took} ({name}{})", if *interrupted { ", interrupted" } else { "" })
    };
    match found.as_slice() {
        [] => String::new(),
        [only] => format!("The other allocator took {} for the same call.", words(only)),
        [first, .., last] => format!(
            "The other allocators took {} to {} for the same call.",
            words(first),
            words(last)
        ),
    }
}
