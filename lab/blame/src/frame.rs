//! A named call.

use serde::Serialize;
use std::borrow::Cow;

/// A call of a stack: a function, and a place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Frame {
    /// The demangled name, or `module+offset` if the name is unknown.
    pub function: String,
    /// Path of the source file; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// Line in the source file; 0 if unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub line: u32,
    /// File name of the module; empty for code that is in no file.
    pub module: String,
    /// Whether the compiler inlined the function into its caller, the next frame.
    #[serde(skip_serializing_if = "is_false")]
    pub inlined: bool,
    /// Whether the function allocates for its caller, like those of a standard library.
    #[serde(skip_serializing_if = "is_false")]
    pub wrapper: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Frame {
    /// What contains the function: its module, or its source file if it is interpreted.
    pub fn container(&self) -> &str {
        if self.module.is_empty() { &self.file } else { &self.module }
    }

    /// Whether only the place in the module is known.
    pub fn is_unnamed(&self) -> bool {
        let offset = self.function.strip_prefix(self.module.as_str());
        offset.is_some_and(|offset| offset.starts_with("+0x"))
    }

    /// The function's name for a sentence: of a long one, without the arguments.
    pub fn short_function(&self) -> Cow<'_, str> {
        const LONG: usize = 60;
        let name = self.function.as_str();
        if name.len() <= LONG {
            return name.into();
        }
        let mut depth = 0_i32;
        for (at, character) in name.char_indices() {
            let before = &name[..at];
            match character {
                '<' => depth += 1,
                '>' => depth -= 1,
                '(' if depth == 0 && begins_arguments(before) => {
                    return format!("{before}(...)").into();
                }
                _ => {}
            }
        }
        name.into()
    }

    /// File and line, with the file's name only; empty if unknown.
    pub fn place(&self) -> String {
        let name = self.file.rsplit('/').next().unwrap_or_default();
        match (name, self.line) {
            ("", _) => String::new(),
            (name, 0) => name.to_owned(),
            (name, line) => format!("{name}:{line}"),
        }
    }
}

/// Not the parentheses of `(anonymous namespace)::`, `operator()` or a pointer to a function.
fn begins_arguments(before: &str) -> bool {
    before.ends_with(|last: char| last.is_alphanumeric() || "_>)~".contains(last))
        && !before.ends_with("operator")
        && !before.ends_with("decltype")
}

/// The file name of a module, as frames have it.
pub(crate) fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_arguments() {
        let short = |name: &str| {
            let function = name.to_owned();
            Frame { function, ..Frame::default() }.short_function().into_owned()
        };
        let arguments = "(std::vector<int, std::allocator<int> > const&, void (*)(tree**, int*))";
        for name in [
            "walk",
            "engine::Level::load",
            "std::vector<std::pair<int, void (*)(int)> > parse<int>",
            "(anonymous namespace)::Loader::operator()",
            "Pool<16>::~Pool",
        ] {
            assert_eq!(short(&format!("{name}{arguments}")), format!("{name}(...)"));
        }
        assert_eq!(short("load(int)"), "load(int)");
        let rust = "<game::world::terrain::Generator as core::iter::Iterator>::next";
        assert_eq!(short(rust), rust);
    }
}
