//! Checks of the repository that no compiler makes: layers, limits, links. `make check` runs them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is this program's job")]

mod crates;
mod graph;
mod includes;
mod layers;
mod limits;
mod links;
mod objects;
mod tree;

use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a check found: each string is one violation, with its place.
type Findings = Vec<String>;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(count) => {
            eprintln!("keel-tidy: {count} to mend");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("keel-tidy: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<usize> {
    let root = std::env::args_os().nth(1).map(PathBuf::from).unwrap_or_else(|| ".".into());
    let build = std::env::args_os().nth(2).map(PathBuf::from).unwrap_or_else(|| root.join("build/cmake"));
    let files = tree::tracked_files(&root)?;
    let layers = layers::Layers::read(&root.join("LAYERS"))?;
    let mut total = 0;
    total += report("layers: folders named", layers.unnamed(&files));
    total += report("layers: includes", includes::check(&root, &files, &layers)?);
    total += report("layers: objects", check_objects(&root, &build, &layers)?);
    total += report("layers: crates", crates::check(&root, &layers)?);
    total += report("limits", limits::check(&root, &files)?);
    total += report("links", links::check(&root, &files)?);
    Ok(total)
}

fn check_objects(root: &Path, build: &Path, layers: &layers::Layers) -> Result<Findings> {
    let objects = objects::read(root, build)
        .with_context(|| format!("no compiled objects under {}: run `make build` first", build.display()))?;
    Ok(objects::check(&objects, layers))
}

fn report(name: &str, findings: Findings) -> usize {
    println!("{:<24} {}", name, if findings.is_empty() { "ok" } else { "FAILED" });
    for finding in &findings {
        println!("    {finding}");
    }
    findings.len()
}
