//! The processed profile of the Firefox Profiler (<https://profiler.firefox.com>), version 48: one
//! thread for each column. A sample is one stack with its value as weight, one each millisecond.

use super::{label, weighted};
use keel_blame::{Profile, Unit};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::io::{self, Write};

/// The version of the format. The viewer converts older versions.
const VERSION: u32 = 48;

/// Writes all columns, that of `column` first, and returns the number of its stacks.
///
/// # Errors
/// The output cannot be written.
pub fn firefox(
    profile: &Profile,
    column: usize,
    name: &str,
    output: &mut dyn Write,
) -> io::Result<u64> {
    let others = (0..profile.columns.len()).filter(|index| *index != column);
    let order = std::iter::once(column).chain(others);
    let threads: Vec<Value> = order.map(|index| thread(profile, index, name)).collect();
    let document = json!({
        "meta": {
            "categories": [{ "name": "Other", "color": "grey", "subcategories": ["Other"] }],
            "debug": false,
            "extensions": { "baseURL": [], "id": [], "length": 0, "name": [] },
            "interval": 1,
            "markerSchema": [],
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
        },
        "libs": [],
        "pages": [],
        "counters": [],
        "profilerOverhead": [],
        "threads": threads,
    });
    serde_json::to_writer(output, &document)?;
    Ok(weighted(profile, column).count() as u64)
}

fn thread(profile: &Profile, column: usize, name: &str) -> Value {
    let (samples, stacks) = samples(profile, column);
    let described = &profile.columns[column];
    let mut strings = Strings::default();
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
        "samples": samples,
        "stackTable": stacks,
        "frameTable": frames(profile),
        "funcTable": functions,
        "resourceTable": modules,
        "nativeSymbols": {
            "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [],
        },
        "markers": {
            "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [],
            "startTime": [],
        },
        "stringArray": strings.texts,
    })
}

/// The tables of samples and of stacks. A stack is a frame and the index of the stack around it.
fn samples(profile: &Profile, column: usize) -> (Value, Value) {
    let mut indices: FxHashMap<(Option<usize>, u32), usize> = FxHashMap::default();
    let mut table: Vec<(Option<usize>, u32)> = Vec::new();
    let (mut of_samples, mut weights) = (Vec::new(), Vec::new());
    let unit = profile.columns[column].kind.unit;
    for (frames, value) in weighted(profile, column) {
        let mut stack = None;
        for frame in frames {
            let index = *indices.entry((stack, frame)).or_insert_with(|| {
                table.push((stack, frame));
                table.len() - 1
            });
            stack = Some(index);
        }
        of_samples.push(stack);
        weights.push(match unit {
            Unit::Nanoseconds => json!(value as f64 / 1e6),
            _ => json!(value),
        });
    }
    let (prefixes, frames): (Vec<_>, Vec<_>) = table.iter().copied().unzip();
    let stacks = json!({
        "length": table.len(),
        "prefix": prefixes,
        "frame": frames,
        "category": vec![0; table.len()],
        "subcategory": vec![0; table.len()],
    });
    let samples = json!({
        "length": of_samples.len(),
        "time": (0..of_samples.len()).collect::<Vec<_>>(),
        "stack": of_samples,
        "weight": weights,
        "weightType": match unit {
            Unit::Count => "samples",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "tracing-ms",
        },
    });
    (samples, stacks)
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
