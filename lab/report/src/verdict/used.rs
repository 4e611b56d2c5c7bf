//! The allocator that the program used when it was recorded. All advice is relative to it.

use crate::figures::AllocatorFigures;
use crate::words::file_name;
use keel_results::{Comparison, JournalFacts};

/// The allocator that a program gets without a choice.
pub const C_LIBRARY: &str = "glibc";

/// The beginnings of the names of object files, and the allocators that they contain, by their
/// names on the command line. Of several that fit, the first counts.
const LIBRARIES: [(&str, &str); 17] = [
    ("libc.so", C_LIBRARY),
    ("libc-2", C_LIBRARY),
    ("libc_malloc_debug", C_LIBRARY),
    ("ld-musl", "musl"),
    ("libc.musl", "musl"),
    ("libkeel", "keel"),
    ("libmimalloc.so.2", "mimalloc2"),
    ("libmimalloc-2", "mimalloc2"),
    ("libmimalloc", "mimalloc"),
    ("libjemalloc", "jemalloc"),
    ("libtcmalloc", "tcmalloc"),
    ("libsnmalloc", "snmalloc"),
    ("librpmalloc", "rpmalloc"),
    ("libhoard", "hoard"),
    ("libtbbmalloc", "tbbmalloc"),
    ("libscudo", "scudo"),
    ("libclang_rt.scudo", "scudo"),
];

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

/// The allocator of the recorded program.
pub fn used<'a>(comparison: &'a Comparison, allocators: &[AllocatorFigures]) -> Used<'a> {
    let path = comparison.journal.allocator.as_str();
    if path.is_empty() {
        return Used::Unknown;
    }
    let name = name_of(&comparison.journal);
    let measured = |one: &AllocatorFigures| {
        !one.floor && !one.operations.is_empty() && (one.name == name || one.name == path)
    };
    match allocators.iter().position(measured) {
        Some(index) => Used::Measured(index),
        None => Used::Other(name, path),
    }
}

/// Its name: that of a known allocator, or of the object file.
fn name_of(journal: &JournalFacts) -> &str {
    let file = file_name(&journal.allocator);
    let known = LIBRARIES.iter().find(|(beginning, _)| file.starts_with(beginning));
    known.map_or(file, |(_, name)| *name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_files_are_allocators() {
        let name = |path: &str| {
            let journal = JournalFacts { allocator: path.into(), ..JournalFacts::default() };
            name_of(&journal).to_owned()
        };
        assert_eq!(name("/lib/x86_64-linux-gnu/libc.so.6"), "glibc");
        assert_eq!(name("/lib/libc-2.31.so"), "glibc");
        assert_eq!(name("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"), "jemalloc");
        assert_eq!(name("/usr/lib/libmimalloc.so.2.1"), "mimalloc2");
        assert_eq!(name("/usr/lib/libmimalloc.so.3"), "mimalloc");
        assert_eq!(name("/usr/lib/libtcmalloc_minimal.so.4"), "tcmalloc");
        assert_eq!(name("/opt/game/game"), "game");
    }
}
