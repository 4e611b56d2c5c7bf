//! The file format of speedscope (<https://www.speedscope.app>): one profile for each column.

use super::{label, weighted};
use keel_blame::{Profile, Unit};
use serde_json::json;
use std::io::{self, Write};

/// Writes all columns, and returns the number of stacks of the one that is shown first, `column`.
///
/// # Errors
/// The output cannot be written.
pub fn speedscope(
    profile: &Profile,
    column: usize,
    name: &str,
    output: &mut dyn Write,
) -> io::Result<u64> {
    let frames = profile.frames.iter().map(|frame| {
        let mut value = json!({ "name": frame.function });
        if !frame.file.is_empty() {
            value["file"] = json!(frame.file);
        }
        if frame.line != 0 {
            value["line"] = json!(frame.line);
        }
        value
    });
    let mut stacks = 0;
    let mut profiles = Vec::new();
    for (index, described) in profile.columns.iter().enumerate() {
        let (samples, weights): (Vec<_>, Vec<_>) = weighted(profile, index).unzip();
        if index == column {
            stacks = samples.len() as u64;
        }
        profiles.push(json!({
            "type": "sampled",
            "name": label(described),
            "unit": match described.kind.unit {
                Unit::Count | Unit::Variance => "none",
                Unit::Bytes => "bytes",
                Unit::Nanoseconds => "nanoseconds",
            },
            "startValue": 0,
            "endValue": profile.total(index),
            "samples": samples,
            "weights": weights,
        }));
    }
    let document = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name,
        "exporter": concat!("keel ", env!("CARGO_PKG_VERSION")),
        "activeProfileIndex": column,
        "shared": { "frames": frames.collect::<Vec<_>>() },
        "profiles": profiles,
    });
    serde_json::to_writer(output, &document)?;
    Ok(stacks)
}
