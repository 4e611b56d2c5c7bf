//! The allocator that a program used, by the object file that defines its `malloc`.

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

/// The name of a program's allocator: that of a known allocator, or of the object file. Where the
/// object file is unknown (`""`), it is the C library's.
pub fn used_name(object_file: &str) -> &str {
    let file = object_file.rsplit('/').next().unwrap_or(object_file);
    if file.is_empty() {
        return C_LIBRARY;
    }
    let known = LIBRARIES.iter().find(|(beginning, _)| file.starts_with(beginning));
    known.map_or(file, |(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_files_are_allocators() {
        assert_eq!(used_name("/lib/x86_64-linux-gnu/libc.so.6"), "glibc");
        assert_eq!(used_name("/lib/libc-2.31.so"), "glibc");
        assert_eq!(used_name("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"), "jemalloc");
        assert_eq!(used_name("/usr/lib/libmimalloc.so.2.1"), "mimalloc2");
        assert_eq!(used_name("/usr/lib/libmimalloc.so.3"), "mimalloc");
        assert_eq!(used_name("/usr/lib/libtcmalloc_minimal.so.4"), "tcmalloc");
        assert_eq!(used_name("/opt/game/game"), "game");
        assert_eq!(used_name(""), "glibc");
    }
}
