//! Collapsed stacks, which flame graph tools read: a line `outer;inner VALUE` for each stack.

use super::weighted;
use keel_blame::Profile;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the stacks of one column and returns the number of lines. Stacks that differ only in
/// lines are one.
///
/// # Errors
/// The output cannot be written.
pub fn collapsed(profile: &Profile, column: usize, output: &mut dyn Write) -> io::Result<u64> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (frames, value) in weighted(profile, column) {
        let names = frames.iter().map(|index| {
            // The format separates calls by semicolons.
            profile.frames[*index as usize].function.replace([';', '\n'], ":")
        });
        let line: Vec<String> = names.collect();
        let line = if line.is_empty() { "(no stack)".to_owned() } else { line.join(";") };
        let sum = lines.entry(line).or_default();
        *sum = sum.saturating_add(value);
    }
    for (line, value) in &lines {
        writeln!(output, "{line} {value}")?;
    }
    Ok(lines.len() as u64)
}
