//! Layers and cycles of the object files, from the symbols that they define and use.

use crate::Findings;
use crate::graph::{self, Graph};
use crate::layers::Layers;
use anyhow::{Context as _, Result, ensure};
use object::{Object as _, ObjectSymbol as _};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// One compiled file of the product.
pub struct Compiled {
    source: PathBuf,
    defined: BTreeSet<String>,
    needed: BTreeSet<String>,
}

#[derive(serde::Deserialize)]
struct Command {
    directory: PathBuf,
    file: PathBuf,
    command: String,
}

impl Command {
    /// The object file that the command writes, after `-o`.
    fn object(&self) -> Option<PathBuf> {
        let mut words = self.command.split_whitespace();
        words.find(|word| *word == "-o")?;
        Some(self.directory.join(words.next()?))
    }
}

/// Reads the objects that the build's `compile_commands.json` lists, one for each source under
/// `in_process/`.
pub fn read(root: &Path, build: &Path) -> Result<Vec<Compiled>> {
    let text = std::fs::read_to_string(build.join("compile_commands.json"))?;
    let commands: Vec<Command> = serde_json::from_str(&text).context("compile_commands.json")?;
    let root = root.canonicalize()?;
    let mut compiled = HashMap::new();
    for command in commands {
        let Ok(source) = command.file.strip_prefix(&root).map(Path::to_path_buf) else { continue };
        let Some(path) = command.object().filter(|path| path.is_file()) else { continue };
        // The libraries come first. The tests compile some sources again; those objects may be old.
        if !source.starts_with("in_process") || compiled.contains_key(&source) {
            continue;
        }
        compiled.insert(source.clone(), read_object(source, &path)?);
    }
    ensure!(!compiled.is_empty(), "no object file exists");
    let mut compiled: Vec<Compiled> = compiled.into_values().collect();
    compiled.sort_by(|a, b| a.source.cmp(&b.source));
    Ok(compiled)
}

fn read_object(source: PathBuf, path: &Path) -> Result<Compiled> {
    let bytes = std::fs::read(path)?;
    let file = object::File::parse(&*bytes).with_context(|| path.display().to_string())?;
    let globals = || file.symbols().filter(|symbol| symbol.is_global());
    let names = |undefined: bool| {
        let chosen = globals().filter(move |symbol| symbol.is_undefined() == undefined);
        chosen.filter_map(|symbol| Some(symbol.name().ok()?.to_owned())).collect()
    };
    Ok(Compiled { source, defined: names(false), needed: names(true) })
}

/// Whether a file defines functions of other libraries: code that needs them means those.
fn is_interposer(source: &Path) -> bool {
    source.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"interpose_"))
}

/// Upward edges, and cycles between object files.
pub fn check(objects: &[Compiled], layers: &Layers) -> Findings {
    let mut definers: HashMap<&str, Vec<&Compiled>> = HashMap::new();
    for object in objects.iter().filter(|object| !is_interposer(&object.source)) {
        for symbol in &object.defined {
            definers.entry(symbol).or_default().push(object);
        }
    }
    let mut findings = Findings::new();
    let mut graph = Graph::new();
    for object in objects {
        for symbol in &object.needed {
            // Two products may define a symbol (malloc: the allocator and the recorder). The one
            // that the layers allow is the one that is linked.
            let Some(candidates) = definers.get(symbol.as_str()) else { continue };
            let objections: Vec<_> =
                candidates.iter().map(|c| layers.objection(&object.source, &c.source)).collect();
            let Some(chosen) = objections.iter().position(Option::is_none) else {
                findings.extend(
                    objections.into_iter().flatten().map(|o| format!("{o} (symbol {symbol})")),
                );
                continue;
            };
            let target = candidates[chosen].source.display().to_string();
            graph.entry(object.source.display().to_string()).or_default().insert(target);
        }
    }
    findings.extend(
        graph::cycles(&graph).into_iter().map(|c| format!("object cycle: {}", c.join(" -> "))),
    );
    findings
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;

    fn compiled(source: &str, defined: &[&str], needed: &[&str]) -> Compiled {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Compiled { source: source.into(), defined: set(defined), needed: set(needed) }
    }

    #[test]
    fn upward_symbols_and_object_cycles_are_found() {
        let layers = Layers::parse("base\napi\n").unwrap();
        let clean =
            [compiled("base/a.c", &["a"], &[]), compiled("api/b.c", &["malloc"], &["a", "memcpy"])];
        assert_eq!(check(&clean, &layers), Findings::new());
        let upward =
            [compiled("base/a.c", &["a"], &["malloc"]), compiled("api/b.c", &["malloc"], &[])];
        assert_eq!(
            check(&upward, &layers),
            vec!["base/a.c may not use api: it is above base (symbol malloc)"]
        );
        let interposed = [
            compiled("base/a.c", &["a"], &["mmap"]),
            compiled("api/interpose_b.c", &["mmap"], &["a"]),
        ];
        assert_eq!(check(&interposed, &layers), Findings::new());
        let knot = [compiled("base/a.c", &["a"], &["b"]), compiled("base/b.c", &["b"], &["a"])];
        assert_eq!(check(&knot, &layers), vec!["object cycle: base/a.c -> base/b.c -> base/a.c"]);
    }
}
