//! Functions that allocate for their callers: those of standard libraries, and functions such as
//! `xmalloc`. A call site is the innermost call that is in none of them.

/// Object files whose functions allocate for their callers: the beginnings of their names.
const MODULES: [&str; 7] = [
    "libc.so",
    "libc-2.",
    "libstdc++.so",
    "libc++.so",
    "libgcc_s",
    "ld-linux",
    "libkeel_calls.so", // between the program and the C library
];

/// Folders of the sources of standard libraries.
const SOURCES: [&str; 3] = ["/include/c++/", "/rustc/", "/library/alloc/"];

/// Beginnings of the names of functions of standard libraries.
const NAMESPACES: [&str; 6] =
    ["std::", "__gnu_cxx::", "operator new", "operator delete", "__rust_", "__rdl_"];

/// The same in programs in Rust. In C++, they may be namespaces of the program.
const CRATES: [&str; 3] = ["alloc::", "core::", "hashbrown::"];

/// Whole names of functions that only allocate.
const NAMES: [&str; 21] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "strdup",
    "strndup",
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "xstrdup",
    "xmemdup",
    "g_malloc",
    "g_malloc0",
    "g_malloc_n",
    "g_realloc",
    "g_free",
    "g_strdup",
    "g_try_malloc",
    "xzalloc",
    "xfree",
    "cfree",
];

/// What is known about a function when it is judged.
pub(crate) struct Function<'a> {
    pub name: &'a str,
    pub file: Option<&'a str>,
    pub module: &'a str,
    pub is_rust: bool,
}

impl Function<'_> {
    pub fn is_wrapper(&self) -> bool {
        let name = qualified_name(self.name);
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        MODULES.iter().any(|prefix| self.module.starts_with(prefix))
            || self.file.is_some_and(|file| SOURCES.iter().any(|part| file.contains(part)))
            || begins(&NAMESPACES)
            || (self.is_rust && begins(&CRATES))
            || NAMES.contains(&name)
    }
}

/// The name of a demangled function without the return type, which names of templates begin with,
/// and without the `<` of Rust's qualified names.
fn qualified_name(name: &str) -> &str {
    let (mut depth, mut start) = (0_i32, 0);
    for (at, character) in name.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 && at > start => break,
            ' ' if depth == 0 && !name[start..at].ends_with("operator") => start = at + 1,
            _ => {}
        }
    }
    name[start..].trim_start_matches(['<', '&', '*', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_wrapper(name: &str, file: Option<&str>, module: &str, is_rust: bool) -> bool {
        Function { name, file, module, is_rust }.is_wrapper()
    }

    #[test]
    fn standard_libraries_allocate_for_their_callers() {
        for name in [
            "std::vector<Row, std::allocator<Row> >::push_back(Row const&)",
            "void std::vector<int>::_M_realloc_insert<int>(int*, int&&)",
            "int* std::__copy_move<true>(int*)",
            "operator new(unsigned long)",
            "xmalloc",
        ] {
            assert!(is_wrapper(name, None, "game", false), "{name}");
        }
        for name in ["alloc::raw_vec::finish_grow", "<alloc::vec::Vec<T> as Clone>::clone"] {
            assert!(is_wrapper(name, None, "game", true), "{name}");
        }
        assert!(is_wrapper("getdelim", None, "libc.so.6", false));
        assert!(is_wrapper("fopen", None, "libkeel_calls.so", false));
        assert!(is_wrapper("take", Some("/rustc/1234/library/core/src/option.rs"), "game", true));
    }

    #[test]
    fn functions_of_the_program_do_not() {
        for name in [
            "core::Engine::load(std::string const&)",
            "alloc::Pool::grow()",
            "load(std::vector<int> const&)",
            "std::vector<int> parse<int>(char const*)",
            "xmalloc_statistics",
        ] {
            let wanted = name.starts_with("std::vector<int>::");
            assert_eq!(is_wrapper(name, None, "game", false), wanted, "{name}");
        }
        assert!(!is_wrapper("<game::World as Default>::default", None, "game", true));
    }
}
