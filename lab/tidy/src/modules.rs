//! Cycles between the modules of one crate, read from the paths in its sources.
//!
//! A module uses another if a path in its code (`use` or inline) leads there; re-exports are
//! followed to the module that defines the name. Declarations (`mod a;`), re-exports (`pub use`)
//! and tests do not count. What a folder's module and the modules inside the folder share does not
//! count either: the folder's module is their common ground.

use crate::graph::{self, Graph};
use crate::{Findings, tree};
use anyhow::{Context as _, Result};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A module's path inside of its crate; the crate's root is empty.
type Name = Vec<String>;

/// Checks every crate of the repository.
pub fn check(root: &Path, files: &[PathBuf]) -> Result<Findings> {
    let mut crates: BTreeMap<PathBuf, Vec<&PathBuf>> = BTreeMap::new();
    for file in files.iter().filter(|file| tree::has_extension(file, &["rs"])) {
        let source = file.ancestors().find(|folder| folder.ends_with("src"));
        if let Some(source) = source.filter(|_| !file.ends_with("build.rs")) {
            crates.entry(source.to_path_buf()).or_default().push(file);
        }
    }
    let mut findings = Findings::new();
    for (source, files) in crates {
        let mut modules = Modules::default();
        for file in files {
            let text = std::fs::read_to_string(root.join(file))
                .with_context(|| file.display().to_string())?;
            modules.add(name_of(file.strip_prefix(&source)?), &text)?;
        }
        let cycles = graph::cycles(&modules.graph());
        findings.extend(cycles.into_iter().map(|cycle| {
            format!(
                "{}: the modules use each other in a circle: {}",
                source.display(),
                cycle.join(" -> ")
            )
        }));
    }
    Ok(findings)
}

/// `a/b.rs` and `a/b/mod.rs` are `a::b`; `lib.rs` and `main.rs` are the root.
fn name_of(file: &Path) -> Name {
    let mut name: Name =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let last = name.last().map(String::as_str);
    if last == Some("mod") || (name.len() == 1 && matches!(last, Some("lib" | "main"))) {
        name.pop();
    }
    name
}

/// The modules of one crate.
#[derive(Default)]
struct Modules {
    paths: BTreeMap<Name, BTreeSet<Name>>,
    /// By module and name: the path that it is re-exported from.
    reexports: BTreeMap<(Name, String), Name>,
}

impl Modules {
    fn add(&mut self, module: Name, text: &str) -> Result<()> {
        let code = code_of(text);
        let statement = Regex::new(r"(?m)^\s*(pub(?:\([a-z]+\))? )?use ([^;]+);")?;
        let inline = Regex::new(r"\b[a-z_][a-z0-9_]*(?:::\w+)+")?;
        let mut paths = BTreeSet::new();
        for found in statement.captures_iter(&code) {
            for (path, alias) in expanded(&found[2]) {
                if found.get(1).is_some() {
                    self.reexports.insert((module.clone(), alias), path);
                } else {
                    paths.insert(path);
                }
            }
        }
        let rest = statement.replace_all(&code, "");
        let split = |path: &str| path.split("::").map(str::to_owned).collect::<Name>();
        paths.extend(inline.find_iter(&rest).map(|found| split(found.as_str())));
        self.paths.entry(module).or_default().extend(paths);
        Ok(())
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for (module, paths) in &self.paths {
            let targets = paths.iter().filter_map(|path| self.resolve(module, path, 0));
            let others =
                targets.filter(|other| !other.starts_with(module) && !module.starts_with(other));
            let others: BTreeSet<String> = others.map(|other| other.join("::")).collect();
            graph.insert(module.join("::"), others);
        }
        graph
    }

    /// The module that the path leads to from this one; none if it leads out of the crate.
    fn resolve(&self, module: &Name, path: &[String], depth: usize) -> Option<Name> {
        let mut at = module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (at, rest) = (Name::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                let mut child = at.clone();
                child.push(first.to_owned());
                if !self.paths.contains_key(&child) {
                    return None;
                }
            }
        }
        while let Some(part) = rest.first() {
            let mut inner = at.clone();
            inner.push(part.clone());
            if self.paths.contains_key(&inner) {
                (at, rest) = (inner, &rest[1..]);
                continue;
            }
            let exported = self.reexports.get(&(at.clone(), part.clone()));
            let followed =
                exported.filter(|_| depth < 8).and_then(|path| self.resolve(&at, path, depth + 1));
            return Some(followed.unwrap_or(at));
        }
        Some(at)
    }
}

/// The text without comments and without test modules.
fn code_of(text: &str) -> String {
    let (mut code, mut lines) = (String::new(), text.lines());
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let indentation = &line[..line.len() - line.trim_start().len()];
            let end = format!("{indentation}}}");
            let item = lines.by_ref().find(|line| !line.trim_start().starts_with("#["));
            if item.is_some_and(|line| !line.ends_with([';', '}'])) {
                let _ = lines.by_ref().find(|line| *line == end);
            }
            continue;
        }
        let comment = line.find("//").unwrap_or(line.len());
        code.push_str(&line[..comment]);
        code.push('\n');
    }
    code
}

/// Every path of a `use` with the name it gets: `a::{b, c::{self, d as e}}` is `a::b` b, `a::c` c
/// and `a::c::d` e.
fn expanded(tree: &str) -> Vec<(Name, String)> {
    let tree = tree.trim();
    if let Some(open) = tree.find('{') {
        let prefix: Name = tree[..open]
            .split("::")
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .map(str::to_owned)
            .collect();
        let inside = &tree[open + 1..];
        let parts = inside.strip_suffix('}').unwrap_or(inside);
        let inner = split_outside_braces(parts).into_iter().flat_map(expanded);
        return inner
            .map(|(path, name)| {
                let mut whole = prefix.clone();
                let is_self = path.first().is_some_and(|part| part == "self");
                whole.extend(path.into_iter().skip(usize::from(is_self)));
                let name =
                    if name == "self" { prefix.last().cloned().unwrap_or_default() } else { name };
                (whole, name)
            })
            .collect();
    }
    let (path, alias) =
        tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias)));
    let path: Name = path.split("::").map(|part| part.trim().to_owned()).collect();
    let name = alias.map(|alias| alias.trim().to_owned()).or_else(|| path.last().cloned());
    vec![(path, name.unwrap_or_default())]
}

fn split_outside_braces(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (index, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    fn cycles(modules: &[(&str, &str)]) -> Vec<String> {
        let mut all = Modules::default();
        for (file, text) in modules {
            all.add(name_of(Path::new(file)), text).unwrap();
        }
        graph::cycles(&all.graph()).into_iter().map(|cycle| cycle.join(" -> ")).collect()
    }

    #[test]
    fn a_cycle_is_found_through_every_kind_of_path() {
        for path in [
            "use crate::a::X;",
            "use super::{a::{self, Y}};",
            "fn f() { super::a::g() }",
            "use crate::X;",
        ] {
            let modules = [
                ("lib.rs", "mod a;\nmod b;\npub use a::X;"),
                ("a.rs", "use crate::b::Z;"),
                ("b.rs", path),
            ];
            assert_eq!(cycles(&modules), ["a -> b -> a"], "{path}");
        }
    }

    #[test]
    fn tests_comments_re_exports_and_parents_do_not_count() {
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::a::X;\n}\n";
        for text in [
            tests,
            "// crate::a::X",
            "pub use crate::a::X;",
            "use super::Item;",
            "use crate::c::d;",
        ] {
            let modules = [
                ("lib.rs", "mod a;\nmod b;\nfn f() { b::g() }"),
                ("a.rs", "use crate::b::Z;"),
                ("b.rs", text),
            ];
            assert!(cycles(&modules).is_empty(), "{text}");
        }
    }

    #[test]
    fn groups_are_expanded() {
        let paths: Vec<(String, String)> = expanded("a::{b, c::{self, d as e}}")
            .into_iter()
            .map(|(path, name)| (path.join("::"), name))
            .collect();
        let expected = [("a::b", "b"), ("a::c", "c"), ("a::c::d", "e")];
        assert_eq!(paths, expected.map(|(path, name)| (path.to_owned(), name.to_owned())));
    }
}
