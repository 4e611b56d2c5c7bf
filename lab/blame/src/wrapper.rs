//! Functions that allocate for their callers: those of standard libraries, and those with a name
//! such as `xmalloc`. A call site is the innermost call that is in none of them.

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

/// The ends of words in names of functions that allocate or free for their callers: `xmalloc`,
/// `sqlite3DbMallocRaw`, `ggc_internal_cleared_alloc`, `PyObject_Free`.
const WORDS: [&str; 6] = ["alloc", "allocate", "free", "strdup", "strndup", "memdup"];
/// Not the destructors of objects, which interpreters call so.
const DESTRUCTOR: &str = "dealloc";
/// Words that may follow them, besides numbers: variants of the same function.
const VARIANTS: [&str; 10] =
    ["n", "nn", "raw", "zero", "usable", "array", "internal", "impl", "slow", "fast"];

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
            || allocates(name)
    }
}

/// Whether a function allocates or frees for its callers, by the last words of its name.
fn allocates(qualified: &str) -> bool {
    let words = words(last_part(qualified));
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let is_variant = |word: &&String| is_number(word) || VARIANTS.contains(&word.as_str());
    let main = words.iter().rev().find(|word| !is_variant(word));
    main.is_some_and(|word| {
        WORDS.iter().any(|end| word.ends_with(end)) && !word.ends_with(DESTRUCTOR)
    })
}

/// `grow` of `alloc::Pool<int>::grow(long)`.
fn last_part(qualified: &str) -> &str {
    let (mut depth, mut start) = (0_i32, 0);
    for (at, character) in qualified.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            ':' if depth == 0 => start = at + 1,
            '(' if depth == 0 && at > start => return before_template(&qualified[start..at]),
            _ => {}
        }
    }
    before_template(&qualified[start..])
}

fn before_template(name: &str) -> &str {
    name.split('<').next().unwrap_or(name)
}

/// The words of a name in lower case: `sqlite3`, `db`, `malloc`, `raw` of `sqlite3DbMallocRaw`.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before = '_';
    for character in name.chars().chain(['_']) {
        let begins = !character.is_alphanumeric()
            || (character.is_uppercase() && !before.is_uppercase())
            || (character.is_ascii_digit() && before.is_alphabetic());
        if begins && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    words
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
    fn names_end_in_a_word_for_allocating() {
        for name in [
            "malloc",
            "strndup",
            "xmemdup",
            "g_malloc0",
            "g_malloc_n",
            "zmalloc_usable",
            "sqlite3DbMallocRawNN",
            "sqlite3_free",
            "_PyObject_Malloc",
            "PyMem_RawFree",
            "Perl_safesysmalloc",
            "AllocSetAlloc",
            "palloc0",
            "ggc_internal_cleared_alloc(unsigned long, void (*)(void*), unsigned long)",
            "game::Pool<Enemy>::allocate(unsigned long)",
        ] {
            assert!(is_wrapper(name, None, "game", false), "{name}");
        }
        for name in [
            "list_dealloc",
            "alloc_statistics",
            "free_entry",
            "carefree_walk",
            "allocator::walk(int)",
            "loader<xmalloc>::read()",
        ] {
            assert!(!is_wrapper(name, None, "game", false), "{name}");
        }
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
