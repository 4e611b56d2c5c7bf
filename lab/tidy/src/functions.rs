//! Lengths of functions, from the first line of the signature to the closing line.
//!
//! The sources are formatted, so that a function ends at the first line that closes it with the
//! indentation of its first line.

use crate::{Findings, tree};
use anyhow::{Context as _, Result};
use regex::Regex;
use std::path::{Path, PathBuf};

const MOST_LINES: usize = 70;

/// Checks every C, C++, Rust, JavaScript, Python and shell file.
pub fn check(root: &Path, files: &[PathBuf]) -> Result<Findings> {
    let languages = Language::all()?;
    let mut findings = Findings::new();
    for file in files {
        let Some(language) = languages.iter().find(|one| tree::has_extension(file, one.extensions))
        else {
            continue;
        };
        let text =
            std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())?;
        for function in language.functions(&text).filter(|function| function.lines > MOST_LINES) {
            let Function { line, name, lines } = function;
            findings.push(format!(
                "{}:{line}: {name} has {lines} lines, more than {MOST_LINES}",
                file.display()
            ));
        }
    }
    Ok(findings)
}

struct Language {
    extensions: &'static [&'static str],
    /// The first line of a function: its indentation and its name.
    first: Regex,
    /// Whether a closing brace ends it; else the next line that is not indented further.
    braces: bool,
}

struct Function {
    line: usize,
    name: String,
    lines: usize,
}

impl Language {
    fn all() -> Result<[Language; 5]> {
        let language = |extensions, first, braces| -> Result<Language> {
            Ok(Language { extensions, first: Regex::new(first)?, braces })
        };
        Ok([
            language(
                &["rs"],
                r#"^(\s*)(?:pub(?:\([a-z]+\))? )?(?:const |unsafe |extern "C" )*fn (\w+)"#,
                true,
            )?,
            language(
                &["c", "h", "cc", "cpp", "hpp"],
                r"^()(?:[A-Za-z_][\w ,*&:<>()]*[ *&])?(\w+)\(",
                true,
            )?,
            language(&["js"], r"^(\s*)(?:export )?(?:async )?function\*? ?(\w*)", true)?,
            language(&["py"], r"^(\s*)(?:async )?def (\w+)", false)?,
            language(&["sh", "bash"], r"^()(\w+)\(\) *\{", true)?,
        ])
    }

    fn functions<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Function> + 'a {
        let lines: Vec<&str> = text.lines().collect();
        (0..lines.len()).filter_map(move |at| {
            let found = self.first.captures(lines[at])?;
            let rest = &lines[at..];
            let count =
                if self.braces { closed(rest, &found[1])? } else { dedented(rest, found[1].len()) };
            Some(Function { line: at + 1, name: found[2].to_owned(), lines: count })
        })
    }
}

/// The number of lines up to the closing brace; none if it is only declared, or closed in its first
/// line.
fn closed(lines: &[&str], indentation: &str) -> Option<usize> {
    let ends = |line: &str, marks: &[char]| {
        let comment = line.find(" //").or_else(|| line.find(" #")).unwrap_or(line.len());
        line[..comment].trim_end().ends_with(marks)
    };
    let opened = lines.iter().position(|line| ends(line, &['{', ';', '}']))?;
    if !ends(lines[opened], &['{']) {
        return None;
    }
    let closes = |line: &&str| {
        line.strip_prefix(indentation)
            .is_some_and(|rest| rest.starts_with('}') && !rest.ends_with('{'))
    };
    lines.iter().skip(opened + 1).position(closes).map(|more| opened + more + 2)
}

fn dedented(lines: &[&str], indentation: usize) -> usize {
    let inside = |line: &&&str| {
        line.trim().is_empty()
            || line.len() - line.trim_start().len() > indentation
            || line.trim() == "):"
    };
    let mut count = 1 + lines.iter().skip(1).take_while(inside).count();
    while lines[count - 1].trim().is_empty() {
        count -= 1;
    }
    count
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    fn functions(extension: &str, text: &str) -> Vec<(String, usize)> {
        let languages = Language::all().unwrap();
        let language = languages.iter().find(|one| one.extensions.contains(&extension)).unwrap();
        language.functions(text).map(|function| (function.name, function.lines)).collect()
    }

    fn one(name: &str, lines: usize) -> Vec<(String, usize)> {
        vec![(name.to_owned(), lines)]
    }

    #[test]
    fn functions_are_measured_in_every_language() {
        assert_eq!(
            functions("rs", "    pub const fn a(\n        b: u8,\n    ) {\n        c\n    }\n"),
            one("a", 5)
        );
        assert_eq!(
            functions("c", "static int a(int b) {\n    return b;\n}\nint c(void);\n"),
            one("a", 3)
        );
        assert_eq!(functions("c", "struct a {\n    int b;\n};\n"), vec![]);
        assert_eq!(functions("js", "export function a(b) {\n  if (b) {\n  }\n}\n"), one("a", 4));
        assert_eq!(functions("py", "def a(b):\n\n    return b\n\n\nc = 1\n"), one("a", 3));
        assert_eq!(functions("sh", "a() { b; }\n"), vec![]);
        assert_eq!(functions("sh", "a() { # does it\n    b\n}\n"), one("a", 3));
    }
}
