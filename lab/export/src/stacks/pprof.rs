//! The format of pprof: a compressed protocol buffer with all columns. The field numbers are those
//! of pprof's `proto/profile.proto`, which are stable.

use super::label;
use crate::message::Message;
use flate2::Compression;
use flate2::write::GzEncoder;
use keel_blame::{Column, ModuleState, Profile, Unit};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// Writes all columns, and returns the number of stacks. pprof shows `column` first.
///
/// # Errors
/// The output cannot be written.
pub fn pprof(profile: &Profile, column: usize, output: &mut dyn Write) -> io::Result<u64> {
    let mut strings = Strings::default();
    let mut whole = Message::default();
    for described in &profile.columns {
        let unit = match described.kind.unit {
            Unit::Count | Unit::Variance => "count",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "nanoseconds",
        };
        let name = name(described);
        let mut kind = Message::default();
        kind.number(1, strings.index(&name)).number(2, strings.index(unit));
        whole.message(1, &kind);
    }
    for sample in &profile.samples {
        let (mut locations, mut values) = (Message::default(), Message::default());
        sample.frames.iter().for_each(|frame| locations.varint(u64::from(*frame) + 1));
        sample.values.iter().for_each(|value| values.varint(*value));
        let mut message = Message::default();
        message.message(1, &locations).message(2, &values);
        whole.message(2, &message);
    }
    mappings(profile, &mut strings, &mut whole);
    functions(profile, &mut strings, &mut whole);
    if profile.sample_bytes > 0 {
        let mut kind = Message::default();
        kind.number(1, strings.index("space")).number(2, strings.index("bytes"));
        whole.message(11, &kind).number(12, profile.sample_bytes);
    }
    let default = strings.index(&name(&profile.columns[column]));
    for text in &strings.texts {
        whole.text(6, text);
    }
    whole.number(14, default);
    let mut compressed = GzEncoder::new(output, Compression::default());
    compressed.write_all(whole.as_bytes())?;
    compressed.finish()?;
    Ok(profile.samples.len() as u64)
}

/// A name that can be an option of `pprof -sample_index`; that which heap profiles usually have, if
/// there is one.
fn name(column: &Column) -> String {
    match (column.allocator.as_str(), column.kind.name) {
        ("", "calls") => "alloc_objects".to_owned(),
        ("", "bytes") => "alloc_space".to_owned(),
        ("", "kept-blocks") => "inuse_objects".to_owned(),
        ("", "kept") => "inuse_space".to_owned(),
        _ => label(column).replace(' ', "_"),
    }
}

/// The modules. They say that all names are known, so that pprof does not look for them.
fn mappings(profile: &Profile, strings: &mut Strings, whole: &mut Message) {
    let mut modules: Vec<_> = profile.modules.iter().zip(1..).collect();
    // pprof takes the first one for the program.
    modules.sort_by_key(|((module, _), _)| module.path.contains(".so"));
    for ((module, state), number) in modules {
        let has_lines = u64::from(matches!(state, ModuleState::Lines { .. }));
        let mut mapping = Message::default();
        mapping.number(1, number).number(5, strings.index(&module.path));
        mapping.number(6, strings.index(&module.build_id)).number(7, 1);
        mapping.number(8, has_lines).number(9, has_lines).number(10, has_lines);
        whole.message(3, &mapping);
    }
}

/// A location and a function for each frame.
fn functions(profile: &Profile, strings: &mut Strings, whole: &mut Message) {
    for (frame, number) in profile.frames.iter().zip(1..) {
        let mut line = Message::default();
        line.number(1, number).number(2, u64::from(frame.line));
        let mut location = Message::default();
        location.number(1, number);
        if let Some(index) = profile.module_index(&frame.module) {
            location.number(2, index as u64 + 1);
        }
        location.message(4, &line);
        whole.message(4, &location);
        let name = strings.index(&frame.function);
        let mut function = Message::default();
        function.number(1, number).number(2, name).number(3, name);
        function.number(4, strings.index(&frame.file));
        whole.message(5, &function);
    }
}

/// The table of strings; the first one is empty.
struct Strings {
    texts: Vec<String>,
    indices: FxHashMap<String, u64>,
}

impl Default for Strings {
    fn default() -> Strings {
        let indices = FxHashMap::from_iter([(String::new(), 0)]);
        Strings { texts: vec![String::new()], indices }
    }
}

impl Strings {
    fn index(&mut self, text: &str) -> u64 {
        if let Some(index) = self.indices.get(text) {
            return *index;
        }
        let index = self.texts.len() as u64;
        self.texts.push(text.to_owned());
        self.indices.insert(text.to_owned(), index);
        index
    }
}
