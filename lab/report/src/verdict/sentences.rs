//! The conclusion of one criterion, in words.

use super::criteria::{Criterion, FEW_RUNS, Figure};
use crate::figures::AllocatorFigures;
use crate::words;
use keel_results::{Comparison, Interval};

/// More names than this are not listed.
pub const NAMES: usize = 5;
/// The calls that a figure leaves out; follows its meaning.
pub const WITHOUT_PREEMPTED: &str =
    "; not counted: calls that were only preempted (no page fault, system call or wait)";
/// The answer where the runs vary too much for a conclusion.
pub const TOO_NOISY: &str = "undecided";

/// Ranks the allocators in a figure and words the conclusion. `runs`: the fewest of any allocator.
pub fn weigh(
    criterion: Criterion,
    comparison: &Comparison,
    allocators: &[AllocatorFigures],
    figure: &Figure<'_>,
    runs: usize,
) -> Criterion {
    let mut criterion = criterion.rank(comparison, allocators, figure);
    criterion.sentence = sentence(&criterion, allocators, runs, figure.step);
    criterion.answer = answer(&criterion, allocators, runs);
    criterion
}

fn name(allocators: &[AllocatorFigures], index: usize) -> &str {
    &allocators[index].name
}

fn noisy_names<'a>(criterion: &Criterion, allocators: &'a [AllocatorFigures]) -> Vec<&'a str> {
    criterion.noisy.iter().map(|index| name(allocators, *index)).collect()
}

pub fn sentence(
    criterion: &Criterion,
    allocators: &[AllocatorFigures],
    runs: usize,
    step: f64,
) -> String {
    let Some(first) = criterion.rows.first().filter(|_| criterion.rows.len() > 1) else {
        return "This metric was measured for only one allocator.".into();
    };
    let first = name(allocators, first.0);
    if runs < 2 {
        return format!(
            "{first} has the lowest value. But one run does not show how much runs vary."
        );
    }
    if criterion.best.is_empty() && !criterion.noisy.is_empty() {
        let mut noisy = noisy_names(criterion, allocators);
        // A ratio of paired rounds can be high although the median is the lowest.
        noisy.retain(|name| *name != first);
        let unknown = match noisy[..] {
            [] => "It is not known which one is lowest: the differences vary too much between the \
                   rounds."
                .to_owned(),
            _ => undecided(&noisy, "higher"),
        };
        return format!("{first} has the lowest median. {unknown}");
    }
    if criterion.best.len() == 1 {
        return single(criterion, allocators, runs);
    }
    let mut text = several(criterion, allocators, step);
    if !criterion.noisy.is_empty() {
        let names = noisy_names(criterion, allocators);
        text.push_str(&format!(" {}", undecided(&names, "higher")));
    }
    text
}

/// The allocators whose values are far above the lowest one, without a significant difference. Any
/// of the two allocators can be the one whose runs vary.
pub fn undecided(names: &[&str], comparative: &str) -> String {
    let names_in_words = words::list(names);
    match names {
        [_] => format!(
            "It is not known whether {names_in_words} is {comparative}: the difference varies too \
             much between the rounds."
        ),
        _ => format!(
            "It is not known whether {names_in_words} are {comparative}: the differences vary too \
             much between the rounds."
        ),
    }
}

/// One allocator is significantly lowest.
fn single(criterion: &Criterion, allocators: &[AllocatorFigures], runs: usize) -> String {
    let verb = if runs < FEW_RUNS { "seems to be" } else { "is" };
    let lead = criterion.next().map_or(String::new(), |(index, ratio)| {
        let (value, interval) = how_much_lower(&ratio.interval);
        let (next, rounds) = (name(allocators, index), ratio.rounds);
        let spread = format!("95 % interval: {interval}; {rounds} runs of each");
        format!(": {value} lower than {next}, which is second ({spread})")
    });
    format!("{} {verb} lowest{lead}.", name(allocators, criterion.best[0]))
}

/// Several allocators may be lowest.
fn several(criterion: &Criterion, allocators: &[AllocatorFigures], step: f64) -> String {
    let (names, above) = criterion.parted(allocators);
    let medians = || {
        criterion.rows.iter().filter(|row| criterion.best.contains(&row.0)).map(|row| row.1.median)
    };
    let apart = medians().fold(0.0, f64::max) - medians().fold(f64::INFINITY, f64::min);
    let (not, why) = if criterion.slight() {
        ("not relevant", "less than half a percent")
    } else if step > 0.0 && (0.0..=step).contains(&apart) {
        ("not significant", "smaller than one step of the clock")
    } else {
        ("not significant", "within the variation between runs")
    };
    let between = match names.as_slice() {
        _ if above.is_empty() && criterion.noisy.is_empty() => String::new(),
        [first, rest @ ..] if !above.is_empty() && rest.len() > 2 => {
            format!(" between {first} and {} other allocators", rest.len())
        }
        _ => format!(" between {}", words::list(&names)),
    };
    let mut text = match names.len() {
        2 => format!("The difference{between} is {not}: it is {why}."),
        _ => format!("The differences{between} are {not}: they are {why}."),
    };
    if !above.is_empty() {
        let verb = if above.len() == 1 { "is" } else { "are" };
        text.push_str(&format!(" {} {verb} significantly higher.", words::list(&above)));
    }
    text
}

/// The conclusion for a list of all criteria, which has no room for intervals.
fn answer(criterion: &Criterion, allocators: &[AllocatorFigures], runs: usize) -> [String; 2] {
    let (names, above) = criterion.parted(allocators);
    if criterion.rows.len() < 2 || runs < 2 {
        return [String::new(), String::new()];
    }
    if criterion.best.is_empty() {
        let known = !criterion.noisy.is_empty();
        let first = name(allocators, criterion.rows[0].0);
        let how = if known { format!("{first} has the lowest median") } else { String::new() };
        return [if known { TOO_NOISY.to_owned() } else { String::new() }, how];
    }
    if criterion.best.len() == 1 {
        let hedge = if runs < FEW_RUNS { format!(" (only {runs} runs)") } else { String::new() };
        let lead = criterion.next().map_or(String::new(), |(index, ratio)| {
            let next = name(allocators, index);
            format!("{} lower than {next}{hedge}", how_much_lower(&ratio.interval).0)
        });
        return [name(allocators, criterion.best[0]).to_owned(), lead];
    }
    let why = if criterion.slight() {
        "they differ by less than half a percent"
    } else {
        "no significant difference between them"
    };
    let who = match above.as_slice() {
        [] if criterion.noisy.is_empty() => "all".into(),
        few if !few.is_empty() && few.len() < names.len() && names.len() > NAMES => {
            format!("all except {}", words::list(few))
        }
        _ => words::list(&names),
    };
    [who, why.to_owned()]
}

/// How much lower 1 is than a ratio, and the same for its interval: `12 %`, `8 % to 15 %`.
fn how_much_lower(ratio: &Interval) -> (String, String) {
    let percent = |ratio: f64| words::lower_by(1.0 - 1.0 / ratio);
    (percent(ratio.value), format!("{} to {}", percent(ratio.low), percent(ratio.high)))
}

/// The frames that a figure of frames describes.
pub fn in_frame(figure: &str) -> &'static str {
    match figure {
        "mean" => "in an average frame",
        "worst" => "in the worst frame",
        _ => "in a slow frame (p99)",
    }
}
