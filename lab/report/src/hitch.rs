//! The worst single calls, why they were slow and whose doing that was, in words for the terminal and Markdown: what
//! `page/hitch.js` says of the same calls on the page.

use crate::ReportError;
use crate::build::drawn_run;
use crate::operations::OPERATION_NAMES;
use crate::verdict::FLOOR;
use crate::words::{bytes, duration, list};
use keel_results::raw::{OPERATIONS_FILE, Operation, operation_at};
use keel_results::{
    CAUSE_FAULT, CAUSE_INTERRUPT, CAUSE_INTERRUPTED, CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT, CAUSE_SYSCALL,
    CAUSE_SYSCALL_UNKNOWN, Comparison, Outlier, system_calls,
};
use std::path::Path;

/// As many faults of a call, or more, are told as this many.
const MOST_FAULTS: u32 = 255;

/// Whose doing a slow call was, as far as that can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Allocator,
    System,
    Unknown,
}

/// A slow call of the run that is drawn of an allocator.
#[derive(Clone, Copy)]
struct Call<'a> {
    allocator: &'a str,
    outlier: &'a Outlier,
    ns: f64,
}

/// The worst hitch that was an allocator's doing, a sentence or two; behind it the longest call of all if that was
/// not. Empty where no raw rows were kept. Reads at most two rows of the folder's operations.
pub fn hitches(comparison: &Comparison, folder: &Path) -> Result<Vec<String>, ReportError> {
    let path = folder.join(OPERATIONS_FILE);
    let (floor, mut calls): (Vec<_>, Vec<_>) =
        slow_calls(comparison).partition(|call| call.allocator == FLOOR);
    calls.sort_by(|one, other| other.ns.total_cmp(&one.ns));
    let own_work = |call: &&Call<'_>| call.outlier.cause & !CAUSE_SYSCALL_UNKNOWN == 0;
    let floor_ns = floor.iter().filter(own_work).map(|call| call.ns).fold(0.0, f64::max);
    let doing = |call: &Call<'_>| doing(call, comparison.version, floor_ns);
    let Some(worst) = calls.first().filter(|_| path.exists()) else { return Ok(Vec::new()) };
    let mut told = Vec::new();
    let mut tell = |title: &str, call: &Call<'_>| -> Result<(), ReportError> {
        // A row that the operations do not hold is none of these runs; the page leaves it out as well.
        if let Some(operation) = operation_at(&path, call.outlier.row)? {
            told.push(sentence(title, call, &operation, comparison, doing(call)));
        }
        Ok(())
    };
    match calls.iter().find(|call| doing(call).0 == Doing::Allocator) {
        Some(own) if doing(worst).0 != Doing::Allocator => {
            tell("The worst hitch that nothing interrupted", own)?;
            tell(longer(worst.outlier.cause), worst)?;
        }
        _ => tell("The worst hitch", worst)?,
    }
    Ok(told)
}

fn slow_calls(comparison: &Comparison) -> impl Iterator<Item = Call<'_>> {
    let ticks_per_ns = comparison.clock.ticks_per_ns;
    comparison.allocators.iter().flat_map(move |result| {
        let drawn = drawn_run(result).map(|run| &result.runs[run].outliers);
        drawn.into_iter().flatten().map(move |outlier| Call {
            allocator: &result.name,
            outlier,
            ns: f64::from(outlier.ticks) / ticks_per_ns,
        })
    })
}

/// `floor_ns`: the longest call of own work that was seen with no allocator at all, which was the machine's.
fn doing(call: &Call<'_>, format: u32, floor_ns: f64) -> (Doing, String) {
    let has = |bits: u8| call.outlier.cause & bits != 0;
    let kernel = has(CAUSE_FAULT | CAUSE_SYSCALL);
    let of = |doing, why: &str| (doing, why.to_owned());
    if has(CAUSE_INTERRUPTED) {
        // A fault of a huge page may take milliseconds as well, so few of them are no excuse.
        return match () {
            () if kernel => of(
                Doing::Unknown,
                "the operating system took the processor away and the kernel worked for the call; what each took \
                 is not known",
            ),
            () if format < 2 || has(CAUSE_SLEPT) => of(
                Doing::Unknown,
                "the operating system took the processor away, or the call waited for a lock",
            ),
            () => of(Doing::System, ""),
        };
    }
    match () {
        () if has(CAUSE_SLEPT) => {
            of(Doing::Unknown, "the call waited for a lock or a page, and for how long is not known")
        }
        () if has(CAUSE_INTERRUPTED_UNKNOWN) => {
            of(Doing::Unknown, "this system does not say whether it took the processor away")
        }
        () if has(CAUSE_SYSCALL) => of(Doing::Allocator, "it asked the kernel"),
        () if has(CAUSE_FAULT) => {
            of(Doing::Allocator, "it handed out memory that the kernel had yet to make")
        }
        () if has(CAUSE_INTERRUPT) => {
            of(Doing::Unknown, "a hardware interrupt came, and how long it took is not known")
        }
        () if floor_ns * 2.0 >= call.ns => {
            let seen = duration(floor_ns);
            let why =
                format!("with no allocator at all a call of {seen} was seen too, so it may be the machine");
            (Doing::Unknown, why)
        }
        () => of(Doing::Allocator, ""),
    }
}

/// What a call that is no one's, or the system's, is called where a shorter one leads.
fn longer(cause: u8) -> &'static str {
    match () {
        () if cause & CAUSE_INTERRUPTED != 0 => "Longer, but interrupted",
        () if cause & CAUSE_SLEPT != 0 => "Longer, but asleep meanwhile",
        () => "Longer, but not known whose",
    }
}

fn sentence(
    title: &str,
    call: &Call<'_>,
    operation: &Operation,
    comparison: &Comparison,
    (doing, why): (Doing, String),
) -> String {
    let name = OPERATION_NAMES.get(usize::from(operation.op)).copied().unwrap_or("call");
    let size =
        if operation.size > 0 { format!(" of {}", bytes(operation.size as f64)) } else { String::new() };
    let frame = match comparison.journal.frames.partition_point(|mark| *mark <= operation.time) {
        0 => String::new(),
        frame => format!(" in frame {frame}"),
    };
    let at = format!("{:.4} s", operation.time as f64 / 1e9);
    let (took, cause) = (duration(call.ns), cause_words(call.outlier, comparison.version));
    let doing = match doing {
        Doing::Allocator => "The allocator's doing",
        Doing::System => "The operating system took the processor away: not the allocator's doing",
        Doing::Unknown => "Cannot be told",
    };
    let colon = if why.is_empty() { "" } else { ": " };
    format!(
        "{title}: {took} in one {name}{size} with {}, at {at}{frame}. Why: {cause}. {doing}{colon}{why}.",
        call.allocator
    )
}

/// What is known of why a call was slow. Format 1 did not tell sleeping from being preempted.
fn cause_words(outlier: &Outlier, format: u32) -> String {
    let has = |bits: u8| outlier.cause & bits != 0;
    let mut words: Vec<String> = Vec::new();
    if has(CAUSE_INTERRUPTED) {
        words.push(
            if format < 2 { "interrupted (preempted, or asleep at a lock)" } else { "preempted" }.into(),
        );
    }
    if has(CAUSE_SLEPT) {
        words.push("asleep at a lock or for a page".into());
    }
    if has(CAUSE_INTERRUPT) {
        words.push("hardware interrupt".into());
    }
    match outlier.faults {
        0 if has(CAUSE_FAULT) => words.push("page fault".into()),
        0 => {}
        1 => words.push("1 page fault".into()),
        MOST_FAULTS.. => words.push(format!("{MOST_FAULTS} or more page faults")),
        faults => words.push(format!("{faults} page faults")),
    }
    let made: Vec<&str> = system_calls(outlier.calls).collect();
    if made.iter().any(|name| *name != "other") {
        let names: Vec<&str> =
            made.iter().map(|name| if *name == "other" { "others" } else { *name }).collect();
        words.push(format!("system call{} {}", if made.len() == 1 { "" } else { "s" }, list(&names)));
    } else if has(CAUSE_SYSCALL) || !made.is_empty() {
        words.push("system call".into());
    }
    match words.is_empty() {
        false => words.join(", "),
        true if has(CAUSE_INTERRUPTED_UNKNOWN | CAUSE_SYSCALL_UNKNOWN) => "not known".into(),
        true => "the allocator's own work".into(),
    }
}
