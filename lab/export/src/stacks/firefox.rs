//! The processed profile of the Firefox Profiler (<https://profiler.firefox.com>), version 48: one
//! thread for each column. A sample is the value of one stack in one part of the recorded time. The
//! first thread has the frames of the program as markers, and the first one of each allocator its
//! slow calls.

use super::{label, weighted};
use crate::timeline::{SlowCall, Timeline};
use keel_blame::{Explained, Profile, Unit};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::io::{self, Write};

/// The version of the format. The viewer converts older versions.
const VERSION: u32 = 48;
/// Phase of a marker that has a start and an end.
const INTERVAL: u32 = 1;
const FRAME: &str = "frame";
const SLOW_CALL: &str = "slow call";

/// Writes all columns, that of `column` first, and returns the number of its stacks.
///
/// # Errors
/// The output cannot be written.
pub fn firefox(
    explained: &Explained,
    timeline: &Timeline,
    column: usize,
    name: &str,
    output: &mut dyn Write,
) -> io::Result<u64> {
    let profile = &explained.profile;
    let others = (0..profile.columns.len()).filter(|index| *index != column);
    let order: Vec<usize> = std::iter::once(column).chain(others).collect();
    let samples = Samples::new(explained, timeline.span_ns);
    let mut allocators: Vec<&str> = Vec::new();
    let mut threads = Vec::new();
    for index in order {
        let mut markers = Markers::default();
        if threads.is_empty() {
            timeline
                .frames
                .iter()
                .zip(1..)
                .for_each(|(frame, number)| markers.frame(*frame, number));
        }
        let allocator = profile.columns[index].allocator.as_str();
        if !allocators.contains(&allocator) {
            allocators.push(allocator);
            let slow = timeline.slow.iter().filter(|call| call.allocator == allocator);
            markers.slow.extend(slow);
        }
        threads.push(thread(&samples, index, markers, name));
    }
    let document = json!({
        "meta": meta(name, samples.interval_ms),
        "libs": [],
        "pages": [],
        "counters": [],
        "profilerOverhead": [],
        "threads": threads,
    });
    serde_json::to_writer(output, &document)?;
    Ok(weighted(profile, column).count() as u64)
}

fn meta(name: &str, interval_ms: f64) -> Value {
    let shown = ["marker-chart", "marker-table", "timeline-overview"];
    let field = |key: &str, label: &str, format: &str| {
        json!({
            "key": key, "label": label, "format": format, "searchable": true,
        })
    };
    let slow = [
        field("size", "Size", "bytes"),
        field("why", "Cause", "string"),
        field("thread", "Thread", "integer"),
    ];
    json!({
        "categories": [{ "name": "Other", "color": "grey", "subcategories": ["Other"] }],
        "debug": false,
        "extensions": { "baseURL": [], "id": [], "length": 0, "name": [] },
        // Otherwise the viewer selects a thread by its processor time, and no thread has any.
        "initialSelectedThreads": [0],
        "interval": interval_ms,
        "markerSchema": [
            {
                "name": FRAME, "display": shown, "tableLabel": "frame {marker.data.number}",
                "chartLabel": "{marker.data.number}",
                "data": [field("number", "Frame", "integer")],
            },
            {
                "name": SLOW_CALL, "display": shown,
                "tableLabel": "{marker.name}, {marker.data.size}, {marker.data.why}",
                "chartLabel": "{marker.name}", "data": slow,
            },
        ],
        "oscpu": "Linux",
        "platform": "Linux",
        "preprocessedProfileVersion": VERSION,
        "processType": 0,
        "product": name,
        "importedFrom": concat!("keel ", env!("CARGO_PKG_VERSION")),
        "sampleUnits": { "eventDelay": "ms", "threadCPUDelta": "µs", "time": "ms" },
        "stackwalk": 1,
        "startTime": 0,
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "doesNotUseFrameImplementation": true,
        "sourceCodeIsNotOnSearchfox": true,
        "version": 27,
    })
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// The values of all stacks in the order of time.
struct Samples<'a> {
    profile: &'a Profile,
    /// Time in ms, stack, values.
    rows: Vec<(f64, u32, &'a [u64])>,
    /// The frames of the stacks, innermost first.
    frames: FxHashMap<u32, &'a [u32]>,
    interval_ms: f64,
}

impl<'a> Samples<'a> {
    fn new(explained: &'a Explained, span_ns: u64) -> Samples<'a> {
        let mut rows: Vec<&(u32, u32, Vec<u64>)> = explained.over_time.iter().collect();
        rows.sort_unstable_by_key(|(stack, part, _)| (*part, *stack));
        let interval_ms = (milliseconds(span_ns) / f64::from(explained.parts.max(1))).max(1e-6);
        let time = |part: u32| f64::from(part) * interval_ms;
        let rows = rows.into_iter().map(|(stack, part, values)| (time(*part), *stack, &values[..]));
        let frames = explained.profile.samples.iter();
        let frames = frames.map(|sample| (sample.stack, &sample.frames[..]));
        Samples {
            profile: &explained.profile,
            rows: rows.collect(),
            frames: frames.collect(),
            interval_ms,
        }
    }
}

/// The markers of a thread.
#[derive(Default)]
struct Markers<'a> {
    frames: Vec<(u64, u64, u32)>,
    slow: Vec<&'a SlowCall>,
}

impl Markers<'_> {
    fn frame(&mut self, (begin, end): (u64, u64), number: u32) {
        self.frames.push((begin, end, number));
    }

    fn table(&self, samples: &Samples<'_>, tables: &mut Tables) -> Value {
        let (mut names, mut starts, mut ends, mut data) = (vec![], vec![], vec![], vec![]);
        for (begin, end, number) in &self.frames {
            names.push(tables.strings.index(FRAME));
            starts.push(milliseconds(*begin));
            ends.push(milliseconds(*end));
            data.push(json!({ "type": FRAME, "number": number }));
        }
        for call in &self.slow {
            names.push(tables.strings.index(call.operation));
            let start = milliseconds(call.start);
            starts.push(start);
            ends.push(start + call.length / 1e6);
            let mut described = json!({
                "type": SLOW_CALL, "size": call.size, "thread": call.thread, "why": call.cause,
            });
            let frames = samples.frames.get(&call.stack).copied().unwrap_or_default();
            if let Some(stack) = tables.stack(frames) {
                described["cause"] = json!({ "time": start, "stack": stack });
            }
            data.push(described);
        }
        json!({
            "length": names.len(),
            "category": vec![0; names.len()],
            "data": data,
            "name": names,
            "phase": vec![INTERVAL; names.len()],
            "startTime": starts,
            "endTime": ends,
        })
    }
}

/// The tables of a thread that grow with its samples and markers.
#[derive(Default)]
struct Tables {
    strings: Strings,
    stacks: Vec<(Option<usize>, u32)>,
    stack_indices: FxHashMap<(Option<usize>, u32), usize>,
}

impl Tables {
    /// The index of a stack, whose frames are given innermost first; None for no frames. A stack is
    /// a frame and the index of the stack around it.
    fn stack(&mut self, frames: &[u32]) -> Option<usize> {
        let mut stack = None;
        for frame in frames.iter().rev() {
            let stacks = &mut self.stacks;
            let index = *self.stack_indices.entry((stack, *frame)).or_insert_with(|| {
                stacks.push((stack, *frame));
                stacks.len() - 1
            });
            stack = Some(index);
        }
        stack
    }

    fn stack_table(&self) -> Value {
        let (prefixes, frames): (Vec<_>, Vec<_>) = self.stacks.iter().copied().unzip();
        json!({
            "length": self.stacks.len(),
            "prefix": prefixes,
            "frame": frames,
            "category": vec![0; self.stacks.len()],
            "subcategory": vec![0; self.stacks.len()],
        })
    }
}

fn thread(samples: &Samples<'_>, column: usize, markers: Markers<'_>, name: &str) -> Value {
    let profile = samples.profile;
    let mut tables = Tables::default();
    let table = sample_table(samples, column, &mut tables);
    let markers = markers.table(samples, &mut tables);
    let stacks = tables.stack_table();
    let described = &profile.columns[column];
    let mut strings = tables.strings;
    let functions = functions(profile, &mut strings);
    let modules = resources(profile, &mut strings);
    json!({
        "name": label(described),
        "processName": name,
        "processType": "default",
        "isMainThread": true,
        "pid": "1",
        "tid": column + 1,
        "processStartupTime": 0,
        "processShutdownTime": null,
        "registerTime": 0,
        "unregisterTime": null,
        "pausedRanges": [],
        "samples": table,
        "stackTable": stacks,
        "frameTable": frames(profile),
        "funcTable": functions,
        "resourceTable": modules,
        "nativeSymbols": {
            "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [],
        },
        "markers": markers,
        "stringArray": strings.texts,
    })
}

fn sample_table(samples: &Samples<'_>, column: usize, tables: &mut Tables) -> Value {
    let unit = samples.profile.columns[column].kind.unit;
    let (mut times, mut stacks, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for (time, stack, values) in &samples.rows {
        let value = values[column];
        if value == 0 {
            continue;
        }
        times.push(*time);
        stacks.push(tables.stack(samples.frames.get(stack).copied().unwrap_or_default()));
        weights.push(match unit {
            Unit::Nanoseconds => json!(value as f64 / 1e6),
            _ => json!(value),
        });
    }
    json!({
        "length": times.len(),
        "time": times,
        "stack": stacks,
        "weight": weights,
        "weightType": match unit {
            Unit::Count | Unit::Variance => "samples",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "tracing-ms",
        },
    })
}

/// The table of frames; each has a function of its own, with the same index.
fn frames(profile: &Profile) -> Value {
    let count = profile.frames.len();
    let lines = profile.frames.iter().map(|frame| (frame.line != 0).then_some(frame.line));
    let none = vec![Value::Null; count];
    json!({
        "length": count,
        "address": vec![-1; count],
        "inlineDepth": vec![0; count],
        "category": none,
        "subcategory": none,
        "func": (0..count).collect::<Vec<_>>(),
        "nativeSymbol": none,
        "innerWindowID": none,
        "implementation": none,
        "line": lines.collect::<Vec<_>>(),
        "column": none,
    })
}

fn functions(profile: &Profile, strings: &mut Strings) -> Value {
    let count = profile.frames.len();
    let (mut names, mut files, mut modules) = (Vec::new(), Vec::new(), Vec::new());
    for frame in &profile.frames {
        names.push(strings.index(&frame.function));
        files.push((!frame.file.is_empty()).then(|| strings.index(&frame.file)));
        modules.push(profile.module_index(&frame.module).map_or(-1, |index| index as i64));
    }
    json!({
        "length": count,
        "name": names,
        "isJS": vec![false; count],
        "relevantForJS": vec![false; count],
        "resource": modules,
        "fileName": files,
        "lineNumber": vec![Value::Null; count],
        "columnNumber": vec![Value::Null; count],
    })
}

/// The modules, as resources without a library: the names of functions are known already.
fn resources(profile: &Profile, strings: &mut Strings) -> Value {
    let paths = profile.modules.iter().map(|(module, _)| strings.index(&module.path));
    let names: Vec<usize> = paths.collect();
    json!({
        "length": names.len(),
        "lib": vec![Value::Null; names.len()],
        "host": vec![Value::Null; names.len()],
        "type": vec![0; names.len()],
        "name": names,
    })
}

#[derive(Default)]
struct Strings {
    texts: Vec<String>,
    indices: FxHashMap<String, usize>,
}

impl Strings {
    fn index(&mut self, text: &str) -> usize {
        if let Some(index) = self.indices.get(text) {
            return *index;
        }
        let index = self.texts.len();
        self.texts.push(text.to_owned());
        self.indices.insert(text.to_owned(), index);
        index
    }
}
