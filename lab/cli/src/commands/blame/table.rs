//! The call sites as a table and as JSON.

use crate::format;
use keel_blame::{Column, Frame, Place, Profile, Site, Sites, Unit};
use serde_json::json;
use std::fmt::Write as _;

/// Number of characters of a name in the table. Names of C++ can have thousands.
const NAME_CHARACTERS: usize = 100;

/// What to show.
pub struct Shown<'a> {
    pub profile: &'a Profile,
    pub sites: &'a Sites,
    /// The column by which the sites are sorted.
    pub sort: usize,
    pub top: usize,
    pub callers: usize,
    pub place: Place,
    pub allocator: Option<&'a str>,
}

/// The table, with a line of totals before it.
pub fn text(shown: &Shown<'_>) -> String {
    let Shown { profile, sites, sort, .. } = *shown;
    let sorted = &profile.columns[sort];
    let mut text = format!(
        "{} call sites, sorted by {}{}\n\n",
        format::count(sites.sites.len() as u64),
        sorted.kind.title,
        if sorted.allocator.is_empty() {
            String::new()
        } else {
            format!(" on {}", sorted.allocator)
        }
    );
    if profile.sample_bytes > 0 {
        let _ = writeln!(
            text,
            "Estimated from samples, one per {} allocated bytes. ± is one standard error.\n",
            format::count(profile.sample_bytes)
        );
    }
    let columns = columns(shown);
    // With a standard error: ` ±12 %`.
    let least = if profile.sample_bytes > 0 { 17 } else { 10 };
    let widths: Vec<usize> =
        columns.iter().map(|column| title(shown, *column).chars().count().max(least) + 2).collect();
    for (column, width) in columns.iter().zip(&widths) {
        let _ = write!(text, "{:>width$}", title(shown, *column));
    }
    text.push_str("  call site\n");
    let indent = widths.iter().sum::<usize>();
    let values = |values: &[u64]| -> String {
        let cell = |(column, width): (&usize, &usize)| {
            let width = *width;
            let text = with_unit(values[*column], &profile.columns[*column]);
            format!("{:>width$}", text + &error(profile, *column, values))
        };
        columns.iter().zip(&widths).map(cell).collect()
    };
    for site in shown_sites(shown) {
        let mut frames = names(profile, site, shown.place).into_iter();
        let name = frames.next().unwrap_or_default();
        let _ = writeln!(text, "{}  {name}", values(&site.values));
        for name in frames.take(shown.callers) {
            let _ = writeln!(text, "{:indent$}  < {name}", "");
        }
    }
    let totals: Vec<u64> = (0..profile.columns.len()).map(|column| profile.total(column)).collect();
    let _ = writeln!(text, "{}  all call sites", values(&totals));
    if sites.unknown.iter().any(|value| *value > 0) {
        let _ = writeln!(text, "{}  of these, without a stack", values(&sites.unknown));
    }
    let sentences: Vec<String> =
        shown_sites(shown).filter_map(|site| sentence(shown, site)).collect();
    if !sentences.is_empty() {
        let _ = writeln!(text, "\nThe same calls with each allocator:");
        sentences.iter().for_each(|sentence| _ = writeln!(text, "  {sentence}"));
    }
    text
}

/// The call sites of the table.
fn shown_sites<'a>(shown: &Shown<'a>) -> impl Iterator<Item = &'a Site> {
    let sort = shown.sort;
    shown.sites.sites.iter().take(shown.top).filter(move |site| site.values[sort] > 0)
}

/// `save_replay (game.cpp:44): This call took the least time with ...`
fn sentence(shown: &Shown<'_>, site: &Site) -> Option<String> {
    let sentence = Some(keel_report::same_calls(shown.profile, site));
    let sentence = sentence.filter(|sentence| !sentence.is_empty())?;
    let name = names(shown.profile, site, shown.place).into_iter().next().unwrap_or_default();
    Some(format!("{name}: {sentence}"))
}

/// The columns of the table: those of one allocator, or the sorted value of each allocator.
fn columns(shown: &Shown<'_>) -> Vec<usize> {
    let columns = &shown.profile.columns;
    let sorted = &columns[shown.sort];
    let compares = !sorted.allocator.is_empty() && shown.allocator.is_none();
    let is_shown = |column: &Column| match compares {
        true => column.kind == sorted.kind || *column == columns[0],
        // The number of blocks and bytes of the same kind are in JSON.
        false => {
            column.allocator == sorted.allocator
                && (!column.kind.name.contains('-') || *column == *sorted)
        }
    };
    (0..columns.len()).filter(|index| is_shown(&columns[*index])).collect()
}

fn title<'a>(shown: &Shown<'a>, column: usize) -> &'a str {
    let column = &shown.profile.columns[column];
    let sorted = &shown.profile.columns[shown.sort];
    let compares = !sorted.allocator.is_empty() && shown.allocator.is_none();
    if compares && column.kind == sorted.kind { &column.allocator } else { column.kind.title }
}

fn with_unit(value: u64, column: &Column) -> String {
    match column.kind.unit {
        Unit::Count | Unit::Variance => format::count(value),
        Unit::Bytes => format::bytes(value),
        Unit::Nanoseconds => format::nanoseconds(value),
    }
}

/// ` ±3 %`: the standard error of an estimated value.
fn error(profile: &Profile, column: usize, values: &[u64]) -> String {
    match profile.standard_error(column, values) {
        Some(error) if values[column] > 0 => {
            format!(" ±{:.0} %", error * 100.0 / values[column] as f64)
        }
        _ => String::new(),
    }
}

/// The names of the calls, from the call site outwards.
fn names(profile: &Profile, site: &Site, place: Place) -> Vec<String> {
    let calls = profile.calls(&site.stack).into_iter();
    if place == Place::Module {
        return calls.take(1).map(|frame| file_name(frame.container())).collect();
    }
    calls.map(name).collect()
}

/// The name of a module or a source file without its folders.
fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

fn name(frame: &Frame) -> String {
    let mut function: String = frame.function.chars().take(NAME_CHARACTERS).collect();
    if function.len() < frame.function.len() {
        function.push_str("...");
    }
    match frame.place() {
        place if place.is_empty() => function,
        place => format!("{function} ({place})"),
    }
}

/// The call sites with all values and whole stacks.
pub fn json(shown: &Shown<'_>) -> Vec<serde_json::Value> {
    let profile = shown.profile;
    let site = |site: &Site| {
        let stack: Vec<&Frame> =
            site.stack.iter().map(|index| &profile.frames[*index as usize]).collect();
        let mut values = serde_json::Map::new();
        for (column, value) in profile.columns.iter().zip(&site.values) {
            let into = match column.allocator.as_str() {
                "" => &mut values,
                name => {
                    let entry = values.entry(name).or_insert_with(|| json!({}));
                    match entry.as_object_mut() {
                        Some(object) => object,
                        None => continue,
                    }
                }
            };
            into.insert(column.kind.name.to_owned(), json!(value));
        }
        json!({
            "stack": stack,
            "stacks": site.stacks,
            "values": values,
            "same_calls": same_calls(profile, site),
        })
    };
    shown.sites.sites.iter().take(shown.top).map(site).collect()
}

/// What the same calls took on each allocator; null for journals, and if it is not known.
fn same_calls(profile: &Profile, site: &Site) -> serde_json::Value {
    let [_, calls, times @ ..] = site.compared.as_slice() else { return serde_json::Value::Null };
    let times: serde_json::Map<String, serde_json::Value> =
        profile.compared.iter().cloned().zip(times.iter().map(|time| json!(time))).collect();
    json!({
        "calls": calls,
        "time": times,
        "sentence": keel_report::same_calls(profile, site),
    })
}
