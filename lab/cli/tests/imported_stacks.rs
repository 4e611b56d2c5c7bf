//! The call stacks of an imported trace are shown wherever those of a recording are.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{prefix, root};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn keel(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keel"));
    command.env("KEEL_PREFIX", prefix()).env_remove("LD_PRELOAD").env("HOME", folder);
    let output = command.current_dir(folder).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn stacks_of_python_are_in_tables_exports_and_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let keel = |arguments: &[&str]| keel(folder.path(), arguments);
    let sample = root().join("lab/import/samples/memray.bin");
    keel(&["import", sample.to_str().unwrap(), "-o", "level.journal.parquet"]);
    let blamed = |input: &str, more: &[&str]| -> Value {
        let all = [&["blame", "--json", input][..], more].concat();
        serde_json::from_str(&keel(&all)).unwrap()
    };
    let found = blamed("level.journal.parquet", &["--sort", "bytes", "--depth", "2"]);
    let site = |found: &Value, function: &str| {
        let sites = found["sites"].as_array().unwrap().clone();
        sites.into_iter().find(|site| site["stack"][0]["function"] == function).unwrap()
    };
    let load = site(&found, "load");
    assert_eq!((&load["stack"][0]["line"], &load["values"]["calls"]), (&5.into(), &20.into()));
    assert_eq!(load["stack"][2]["function"], "load_level");
    // An interpreted function is in no module: its file distinguishes it from others.
    let by_module = blamed("level.journal.parquet", &["--by", "module"]);
    assert_eq!(by_module["sites"].as_array().unwrap().len(), 2, "{by_module:#}");
    let table = keel(&["blame", "--by", "module", "level.journal.parquet"]);
    assert!(table.contains("level.py") && table.contains("threading.py"), "{table}");
    let info = keel(&["info", "--top", "3", "level.journal.parquet"]);
    assert!(info.contains("load (level.py:5)"), "{info}");

    keel(&["compare", "-a", "glibc", "--runs", "1", "level.journal.parquet", "-o", "results"]);
    let measured = blamed("results", &["--sort", "calls"]);
    assert_eq!(site(&measured, "load")["stack"][2]["function"], "load_level");
    for input in ["level.journal.parquet", "results"] {
        for form in ["collapsed", "speedscope", "firefox"] {
            let text = keel(&["export", input, "--to", form, "--weight", "calls"]);
            assert!(text.contains("load_level"), "{form} of {input}");
        }
    }
    keel(&["report", "results", "-o", "page.html"]);
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("load (level.py:5)"), "the table of call sites");
}
