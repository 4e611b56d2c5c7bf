//! Checks of the repository that no compiler makes: layers, cycles, limits, drawings, words, links.
//! `make check` runs them.
//!
//! ```text
//! keel-tidy                      every check; findings of unenforced checks are only counted
//! keel-tidy words drawings       these checks, with all their findings
//! keel-tidy words lab/cli        the same, in these files and folders
//! ```
//!
//! It runs in the repository's root. `--build FOLDER` names the C build (default: `build/cmake`).
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is this program's job")]

mod crates;
mod drawings;
mod functions;
mod graph;
mod includes;
mod layers;
mod limits;
mod links;
mod modules;
mod objects;
mod tree;
mod words;

use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Violations, one string each, which begins with its place.
type Findings = Vec<String>;

/// The repository under check.
struct Repository {
    root: PathBuf,
    build: PathBuf,
    files: Vec<PathBuf>,
    layers: layers::Layers,
}

struct Check {
    name: &'static str,
    /// Whether its findings fail `make check`.
    enforced: bool,
    run: fn(&Repository) -> Result<Findings>,
}

const CHECKS: [Check; 12] = [
    Check { name: "layers", enforced: true, run: |it| Ok(it.layers.unnamed(&it.files)) },
    Check {
        name: "includes",
        enforced: true,
        run: |it| includes::check(&it.root, &it.files, &it.layers),
    },
    Check { name: "objects", enforced: true, run: check_objects },
    Check { name: "crates", enforced: true, run: |it| crates::check(&it.root, &it.layers) },
    Check { name: "modules", enforced: true, run: |it| modules::check(&it.root, &it.files) },
    Check { name: "lengths", enforced: true, run: |it| limits::lengths(&it.root, &it.files) },
    Check { name: "sizes", enforced: true, run: |it| limits::sizes(&it.root, &it.files) },
    Check { name: "functions", enforced: true, run: |it| functions::check(&it.root, &it.files) },
    Check { name: "columns", enforced: true, run: |it| limits::columns(&it.root, &it.files) },
    Check { name: "drawings", enforced: true, run: |it| drawings::check(&it.root, &it.files) },
    Check { name: "words", enforced: true, run: |it| words::check(&it.root, &it.files) },
    Check { name: "links", enforced: true, run: |it| links::check(&it.root, &it.files) },
];

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(count) => {
            eprintln!("keel-tidy: {count} to fix");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("keel-tidy: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the checks that the command line names; returns the number of findings that fail it.
fn run() -> Result<usize> {
    let (mut build, mut chosen, mut places) =
        (PathBuf::from("build/cmake"), Vec::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--build" {
            build = arguments.next().context("--build needs a folder")?.into();
        } else if let Some(check) = CHECKS.iter().find(|check| check.name == argument) {
            chosen.push(check);
        } else if Path::new(&argument).exists() {
            places.push(PathBuf::from(argument));
        } else {
            let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
            bail!("{argument} is neither a check nor a path; the checks are {}", names.join(", "));
        }
    }
    let root = PathBuf::from(".");
    let files = tree::tracked_files(&root)?;
    let layers = layers::Layers::read(&root.join("LAYERS"))?;
    let repository = Repository { root, build, files, layers };
    let every = chosen.is_empty();
    let checks = if every { CHECKS.iter().collect() } else { chosen };
    let mut total = 0;
    for check in checks {
        let mut findings = (check.run)(&repository)?;
        findings.retain(|finding| {
            places.is_empty() || places.iter().any(|place| lies_in(finding, place))
        });
        total += report(check, findings, every);
    }
    Ok(total)
}

/// Whether the finding's place is the path or is below it.
fn lies_in(finding: &str, place: &Path) -> bool {
    let place = place.strip_prefix(".").unwrap_or(place);
    finding.split([':', ' ']).next().is_some_and(|path| Path::new(path).starts_with(place))
}

fn report(check: &Check, findings: Findings, every: bool) -> usize {
    let count = findings.len();
    if every && !check.enforced && count > 0 {
        println!("{:<24} {count} findings, not enforced yet: keel-tidy {0} lists them", check.name);
        return 0;
    }
    println!("{:<24} {}", check.name, if count == 0 { "ok" } else { "FAILED" });
    for finding in &findings {
        println!("    {finding}");
    }
    count
}

fn check_objects(repository: &Repository) -> Result<Findings> {
    let build = &repository.build;
    let objects = objects::read(&repository.root, build).with_context(|| {
        format!("no compiled objects under {}: run `make build` first", build.display())
    })?;
    Ok(objects::check(&objects, &repository.layers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_limited_to_the_named_places() {
        assert!(lies_in("lab/cli/src/main.rs:3: wide", Path::new("lab/cli")));
        assert!(!lies_in("lab/cli/src/main.rs:3: wide", Path::new("lab/cl")));
        assert!(lies_in("a/b.c may not use api", Path::new("a/b.c")));
        assert!(lies_in("lab/cli/src/main.rs:3: wide", Path::new(".")));
        assert!(lies_in("lab/cli/src/main.rs:3: wide", Path::new("./lab")));
    }
}
