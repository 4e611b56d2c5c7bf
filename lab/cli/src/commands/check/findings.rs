//! The sentences of a check, which all forms of the result share.

use crate::format::{bytes, count, nanoseconds};
use keel_blame::Frame;
use keel_check::{
    CallKind, Checked, Cost, Deed, GateResult, Group, LimitResult, Metric, Outcome, Scope, Share,
    ZoneResult,
};
use keel_journal::Metadata;
use std::path::Path;

/// Call sites that are shown of one limit or zone.
const SITES: usize = 4;
/// Calls that are shown of one stack.
const CALLS: usize = 6;

/// The result with its sentences.
pub struct Findings {
    pub checked: Checked,
    /// Why the program failed.
    pub failure: Option<String>,
    pub threads: Vec<String>,
    pub all: Vec<Finding>,
}

/// A limit or a zone.
pub struct Finding {
    /// A short name, unique in the budget.
    pub name: String,
    pub outcome: Outcome,
    /// One sentence.
    pub message: String,
    /// The call sites that are to blame.
    pub parts: Vec<Part>,
    /// Further call sites.
    pub left_out: usize,
}

/// A call site.
pub struct Part {
    /// What it did, without its place.
    pub message: String,
    /// Its calls as text, the call site first.
    pub calls: Vec<String>,
    /// Source file and line of the call site.
    pub place: Option<(String, u32)>,
    /// What its slowest call takes on each allocator, if that was measured.
    pub cost: Option<String>,
    /// Likewise.
    pub costs: Vec<Cost>,
    /// Whether it is in a zone.
    pub in_zone: bool,
}

impl Findings {
    pub fn new(checked: Checked, metadata: &Metadata, failure: Option<String>) -> Findings {
        let thread = |thread: &keel_journal::Thread| match thread.name.as_str() {
            "" => format!("thread {}", thread.id),
            name => name.to_owned(),
        };
        let threads: Vec<String> = metadata.threads.iter().map(thread).collect();
        let limits = checked.limits.iter().map(limit);
        let zones = checked.zones.iter().map(|one| zone(one, &threads));
        let all = limits.chain(zones).chain(checked.gates.iter().map(gate)).collect();
        Findings { checked, failure, threads, all }
    }

    /// Numbers of kept, broken and unknown findings.
    pub fn counts(&self) -> [usize; 3] {
        let number = |wanted: fn(&Outcome) -> bool| {
            self.all.iter().filter(|finding| wanted(&finding.outcome)).count()
        };
        [
            number(|outcome| *outcome == Outcome::Kept),
            number(|outcome| *outcome == Outcome::Broken),
            number(|outcome| matches!(outcome, Outcome::Unknown(_))),
        ]
    }

    /// The result in one line.
    pub fn summary(&self) -> String {
        let [kept, broken, unknown] = self.counts();
        let mut text = format!("{broken} broken, {kept} kept");
        if unknown > 0 {
            text += &format!(", {unknown} cannot be checked");
        }
        if let Some(failure) = &self.failure {
            text += &format!("; the program failed: {failure}");
        }
        text
    }
}

/// A count with its unit.
pub fn amount(metric: Metric, value: u64) -> String {
    if metric.is_bytes() && value >= 1024 {
        return format!("{} ({} B)", bytes(value), count(value));
    }
    if metric.is_bytes() { format!("{value} B") } else { count(value) }
}

fn number(value: u64, what: &str) -> String {
    format!("{} {what}{}", count(value), if value == 1 { "" } else { "s" })
}

fn limit(result: &LimitResult) -> Finding {
    let LimitResult { scope, metric, limit, value, .. } = result;
    let name = format!("{scope}: {}", metric.title());
    let place = match (scope, result.pass) {
        (Scope::Frame { .. }, Some(frame)) => format!(" in frame {frame}"),
        (_, Some(pass)) => format!(" in pass {pass}"),
        _ => String::new(),
    };
    let mut message = match &result.outcome {
        Outcome::Unknown(reason) => reason.clone(),
        Outcome::Kept => format!("{} of {}", amount(*metric, *value), amount(*metric, *limit)),
        Outcome::Broken => format!(
            "{}{place}, the limit is {}: {} too many",
            amount(*metric, *value),
            amount(*metric, *limit),
            amount(*metric, value - limit)
        ),
    };
    if let Some(before) = result.before {
        message += &format!("; in the baseline {}", amount(*metric, before));
    }
    // With a baseline, only what has grown is of interest.
    let grown = |share: &&Share| share.before.is_none_or(|before| share.value > before);
    let shares: Vec<&Share> = result.shares.iter().filter(grown).collect();
    let part = |share: &&Share| {
        let since = match share.before {
            Some(0) => " (new)".to_owned(),
            Some(before) => format!(" (before: {})", amount(*metric, before)),
            None => String::new(),
        };
        part(&share.stack, format!("{}{since}", amount(*metric, share.value)), false)
    };
    Finding {
        name,
        outcome: result.outcome.clone(),
        message,
        parts: shares.iter().take(SITES).map(part).collect(),
        left_out: shares.len().saturating_sub(SITES),
    }
}

fn gate(result: &GateResult) -> Finding {
    let GateResult { gate, ratio, low, high, .. } = result;
    let mut message =
        format!("{ratio:.2} times ({low:.2} to {high:.2}), the limit is {}", gate.at_most);
    if let Outcome::Unknown(reason) = &result.outcome {
        message.clone_from(reason);
    } else if result.is_unclear {
        message += "; the rounds do not decide it, which is no failure";
    }
    Finding {
        name: format!("latency: {gate}"),
        outcome: result.outcome.clone(),
        message,
        parts: Vec::new(),
        left_out: 0,
    }
}

fn zone(result: &ZoneResult, threads: &[String]) -> Finding {
    let message = match &result.outcome {
        Outcome::Unknown(reason) => reason.clone(),
        Outcome::Kept if result.zone.also.is_empty() => "no call of malloc or free".to_owned(),
        Outcome::Kept => "no such call".to_owned(),
        Outcome::Broken => {
            let sum = |of: &dyn Fn(&Group) -> u64| result.groups.iter().map(of).sum::<u64>();
            let mut message = format!(
                "{} from {}: {}, {}",
                number(sum(&Group::calls), "call"),
                number(result.groups.len() as u64, "call site"),
                number(sum(&|group| group.allocations), "allocation"),
                number(sum(&|group| group.frees), "free")
            );
            for kind in &result.zone.also {
                let calls = sum(&|group| group.waits[*kind as usize]);
                message += &format!(", {}", number(calls, called(*kind)));
            }
            message
        }
    };
    Finding {
        name: format!("zone {}", result.zone.place),
        outcome: result.outcome.clone(),
        message,
        parts: result.groups.iter().map(|group| in_zone(group, threads)).collect(),
        left_out: 0,
    }
}

fn in_zone(group: &Group, threads: &[String]) -> Part {
    let mut text = Vec::new();
    if group.allocations > 0 {
        text.push(format!("{} ({})", number(group.allocations, "allocation"), bytes(group.bytes)));
    }
    if group.frees > 0 {
        text.push(number(group.frees, "free"));
    }
    let waits = CallKind::ALL.into_iter().filter(|kind| group.waits[*kind as usize] > 0);
    text.extend(waits.map(|kind| number(group.waits[kind as usize], called(kind))));
    let mut text = text.join(", ");
    if let Some(first) = group.violations.first() {
        let thread = threads.get(first.thread as usize).map_or("unknown", String::as_str);
        let what = deed(&first.deed);
        text += &format!("; the first: {what} on {thread} at {}", nanoseconds(first.time));
    }
    let stack = group.violations.first().and_then(|first| group.stacks.get(first.stack));
    let costs = group.costs.clone();
    Part { cost: cost(group), costs, ..part(stack.map_or(&[], Vec::as_slice), text, true) }
}

/// The name of a call of this kind.
fn called(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Lock => "lock wait",
        CallKind::File => "file call",
        CallKind::Sleep => "sleep",
    }
}

fn deed(deed: &Deed) -> String {
    match deed {
        Deed::Operation { op, size, .. } => {
            let size = size.map(|size| format!(" of {}", bytes(size))).unwrap_or_default();
            format!("{}{size}", op.name())
        }
        Deed::Call { function, took_ns, .. } => {
            let took = took_ns.map(|ns| format!(" of {}", nanoseconds(ns))).unwrap_or_default();
            format!("{function}{took}")
        }
    }
}

/// What the slowest call takes on each allocator.
fn cost(group: &Group) -> Option<String> {
    let own_work = keel_results::cause_word(0);
    let one = |cost: &Cost| {
        let cause = match cost.cause {
            cause if cause == own_work => String::new(),
            cause => format!(" ({cause})"),
        };
        format!("{} {}{cause}", cost.allocator, nanoseconds(cost.worst_ns.round() as u64))
    };
    let all: Vec<String> = group.costs.iter().map(one).collect();
    (!all.is_empty()).then(|| format!("at worst: {}", all.join(", ")))
}

fn part(stack: &[Frame], message: String, in_zone: bool) -> Part {
    let call = |frame: &Frame| match frame.place().as_str() {
        "" => format!("{} [{}]", frame.function, frame.module),
        place => format!("{} ({place})", frame.function),
    };
    // The calls around main are the same in every program.
    let is_start = |frame: &&Frame| frame.wrapper || frame.function == "_start";
    let start = stack.iter().rev().take_while(is_start).count();
    let shown = &stack[..(stack.len() - start).max(1).min(stack.len())];
    let mut calls: Vec<String> = shown.iter().take(CALLS).map(call).collect();
    if shown.len() > CALLS {
        calls.push(format!("... {} more", shown.len() - CALLS));
    }
    if calls.is_empty() {
        calls.push("(no call stack)".to_owned());
    }
    let source = shown.first().filter(|frame| !frame.file.is_empty() && frame.line > 0);
    let place = source.map(|frame| (relative(&frame.file), frame.line));
    Part { message, calls, place, cost: None, costs: Vec::new(), in_zone }
}

/// The path as CI systems need it: relative to the working folder if the file is in it.
fn relative(file: &str) -> String {
    let folder = std::env::current_dir().unwrap_or_default();
    let path = Path::new(file).strip_prefix(folder).unwrap_or(Path::new(file));
    path.display().to_string()
}
