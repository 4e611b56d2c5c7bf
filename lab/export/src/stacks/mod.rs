//! Call stacks with their values ([`keel_blame::Profile`]) in the formats of flame graphs and
//! profilers.

mod collapsed;
mod firefox;
mod pprof;
mod speedscope;

pub use collapsed::collapsed;
pub use firefox::firefox;
pub use pprof::pprof;
pub use speedscope::speedscope;

use keel_blame::{Column, Profile};

/// The name of a column in the formats that can hold several.
fn label(column: &Column) -> String {
    match column.allocator.as_str() {
        "" => column.kind.title.to_owned(),
        allocator => format!("{} on {allocator}", column.kind.title),
    }
}

/// The stacks with a value in this column: frames from the outermost to the innermost, and the
/// value.
fn weighted(profile: &Profile, column: usize) -> impl Iterator<Item = (Vec<u32>, u64)> + '_ {
    profile
        .samples
        .iter()
        .filter(move |sample| sample.values[column] > 0)
        .map(move |sample| (sample.frames.iter().rev().copied().collect(), sample.values[column]))
}

#[cfg(test)]
mod tests;
