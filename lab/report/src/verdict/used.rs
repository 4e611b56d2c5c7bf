//! The allocator that the program used when it was recorded. All advice is relative to it.

use crate::figures::AllocatorFigures;
use crate::words::file_name;
use keel_allocators::used_name;
use keel_results::{Comparison, JournalFacts};

/// What is known about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Used<'a> {
    /// The journal does not say.
    Unknown,
    /// It was measured: its index.
    Measured(usize),
    /// It was not measured: its name, and the path of its object file.
    Other(&'a str, &'a str),
}

/// Whether an allocator of a comparison is the one with this object file, or the file itself.
pub fn is_of_file(allocator: &str, path: &str) -> bool {
    allocator == used_name(path) || allocator == path
}

/// The allocator of the recorded program.
pub fn used<'a>(comparison: &'a Comparison, allocators: &[AllocatorFigures]) -> Used<'a> {
    let path = comparison.journal.allocator.as_str();
    if path.is_empty() {
        return Used::Unknown;
    }
    let measured = |one: &AllocatorFigures| {
        !one.floor && !one.operations.is_empty() && is_of_file(&one.name, path)
    };
    match allocators.iter().position(measured) {
        Some(index) => Used::Measured(index),
        None => Used::Other(used_name(path), path),
    }
}

/// What must be said before an advice that compares with another allocator than the program's.
pub fn not_measured(journal: &JournalFacts, used: Used<'_>) -> Option<String> {
    let Used::Other(name, path) = used else { return None };
    let program = journal.program.split(' ').next().unwrap_or_default();
    let own = !program.is_empty() && file_name(program) == file_name(path);
    Some(match own {
        true => format!(
            "The program used its own malloc ({name}), which was not measured: replace it only if \
             a run of the program itself gets better."
        ),
        false => format!(
            "The program used {name}, which was not measured: add it to the comparison with -a \
             {path}."
        ),
    })
}
