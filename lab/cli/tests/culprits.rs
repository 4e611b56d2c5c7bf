//! The planted culprits of tests/blame: `keel blame` has to name the guilty function first.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::root;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of programs, and of those whose culprit must be found.
const PROGRAMS: usize = 20;
const FOUND: usize = 19;

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn keel(folder: &Path, arguments: &[&str]) -> String {
    output(common::keel().current_dir(folder).args(arguments))
}

/// The guilty function and the value by which it is found, from the first line of the source.
fn culprit(source: &Path) -> (String, String) {
    let text = std::fs::read_to_string(source).unwrap();
    let (_, rest) = text.lines().next().unwrap().split_once("culprit: ").unwrap();
    let (function, value) = rest.rsplit_once(" by ").unwrap();
    (function.to_owned(), value.to_owned())
}

fn compile(source: &Path, program: &Path) {
    let (compiler, flags) = match source.extension().unwrap().to_str().unwrap() {
        "rs" => ("rustc", &["-O", "-g", "--edition=2024"][..]),
        "cpp" => ("c++", &["-O2", "-g", "-fomit-frame-pointer", "-std=c++17"][..]),
        _ => ("cc", &["-O2", "-g", "-fomit-frame-pointer", "-fno-builtin-malloc", "-pthread"][..]),
    };
    output(Command::new(compiler).args(flags).arg("-o").arg(program).arg(source));
}

/// The function that is named first.
fn blamed(folder: &Path, source: &Path, value: &str) -> String {
    let name = source.file_stem().unwrap().to_str().unwrap();
    let program = folder.join(name);
    compile(source, &program);
    let journal = format!("{name}.journal.parquet");
    let record = ["record", "-q", "--stacks", "16", "--", program.to_str().unwrap()];
    keel(folder, &record);
    let input = match value {
        "over" | "slow" => {
            let results = format!("{name}.comparison");
            keel(folder, &["compare", "-a", "glibc", "--runs", "2", &journal, "-o", &results]);
            results
        }
        _ => journal,
    };
    let limits = ["--budget", "500", "--slow", "50", "--short-lived", "3600000000"];
    let arguments = ["blame", "--json", "--top", "1", "--sort", value, "--by", "function", &input];
    let found: Value =
        serde_json::from_str(&keel(folder, &[&arguments[..], &limits].concat())).unwrap();
    let function = found["sites"][0]["stack"][0]["function"].as_str().unwrap_or_default();
    // Without the parameters of C++ and the modules of Rust.
    let function = function.split(['(', '[']).next().unwrap_or_default();
    function.rsplit("::").next().unwrap_or_default().to_owned()
}

#[test]
fn guilty_functions_are_named_first() {
    let folder = tempfile::tempdir().unwrap();
    let entries = std::fs::read_dir(root().join("tests/blame")).unwrap();
    let is_source = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| ["c", "cpp", "rs"].map(Some).contains(&extension.to_str()))
    };
    let mut sources: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(is_source).collect();
    sources.sort();
    assert_eq!(sources.len(), PROGRAMS);
    let mut missed = Vec::new();
    for source in &sources {
        let (function, value) = culprit(source);
        let found = blamed(folder.path(), source, &value);
        if found != function {
            missed.push(format!("{}: {found} instead of {function}", source.display()));
        }
    }
    assert!(missed.len() <= PROGRAMS - FOUND, "{missed:#?}");
}
