//! `keel blame --pinned` on a recorded program: who keeps memory resident, and the kernel's sum.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Every 64th block survives and keeps the memory of its neighbours; `keeps` has full pages.
const PROGRAM: &str = "#include <stdlib.h>\n#include <string.h>\n\
    enum { BLOCKS = 128 * 1024 };\n\
    static void* blocks[BLOCKS];\n\
    static char* kept;\n\
    __attribute__((noinline)) void keeps(void) \
    { kept = malloc(2 << 20); memset(kept, 1, 2 << 20); }\n\
    __attribute__((noinline)) void scatter(void) \
    { for (int i = 0; i < BLOCKS; i++) blocks[i] = malloc(64); }\n\
    __attribute__((noinline)) void thin(void) \
    { for (int i = 0; i < BLOCKS; i++) if (i % 64) free(blocks[i]); }\n\
    int main(void) { keeps(); scatter(); thin(); return 0; }\n";

fn keel(folder: &Path, arguments: &[&str]) -> Output {
    common::keel().current_dir(folder).args(arguments).output().unwrap()
}

fn blame(folder: &Path, arguments: &[&str]) -> Value {
    let all = [&["blame", "--json", "program.journal.parquet"], arguments].concat();
    let output = keel(folder, &all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn recorded(folder: &Path) {
    std::fs::write(folder.join("program.c"), PROGRAM).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-g", "-fno-builtin", "-o", "program", "program.c"]);
    assert!(compile.current_dir(folder).status().unwrap().success());
    let record = ["record", "--quiet", "--stacks", "8", "--", "./program"];
    assert!(keel(folder, &record).status.success());
}

#[test]
fn survivors_are_charged_for_the_pages_that_they_keep() {
    const ALLOCATORS: [&str; 4] = ["keel", "glibc", "mimalloc", "jemalloc"];
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path());
    for moment in ["peak", "end"] {
        let names = ALLOCATORS.join(",");
        let all = blame(folder.path(), &["--pinned", moment, "-a", &names]);
        for (name, memory) in ALLOCATORS.iter().zip(all["memory"].as_array().unwrap()) {
            let bytes = |key: &str| memory[key].as_u64().unwrap();
            let parts = bytes("live_bytes") + bytes("pinned_bytes") + bytes("free_bytes");
            assert_eq!(
                (memory["allocator"].as_str(), parts),
                (Some(*name), bytes("resident_bytes"))
            );
            let (ours, kernel) = (bytes("resident_bytes"), bytes("kernel_bytes"));
            assert!(ours.abs_diff(kernel) * 50 <= kernel, "{name}: {ours} and {kernel} bytes");
            // Blocks on pages that were resident before the first call are not counted.
            let live = if moment == "peak" { (2 << 20) + 128 * 1024 * 64 } else { 2 << 20 };
            assert!(bytes("live_bytes") >= live / 100 * 99, "{name} at {moment}: {memory}");
        }
        if moment == "end" {
            // 2,048 blocks of 64 bytes keep 8 MiB.
            let first = &all["sites"][0];
            assert_eq!(first["stack"][0]["function"], "scatter", "{all:#}");
            for name in ALLOCATORS {
                let pinned = first["values"][name]["pinned"].as_u64().unwrap();
                assert!(pinned > 7 << 20 && pinned < 10 << 20, "{name}: {pinned}");
            }
        }
    }
}

#[test]
fn results_and_their_page_can_have_the_pinned_memory() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path());
    let run = |arguments: &[&str]| {
        let output = keel(folder.path(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {errors}");
        errors
    };
    let journal = "program.journal.parquet";
    run(&["compare", "-a", "glibc,null", "--runs", "1", journal, "-o", "results"]);
    let page = || {
        run(&["report", "results", "-o", "page.html"]);
        std::fs::read_to_string(folder.path().join("page.html")).unwrap()
    };
    assert!(page().contains("\"pinned\":null"));
    let saved = run(&["blame", "--pinned", "end", "--save", "results", journal]);
    assert!(saved.contains("saved in results"), "{saved}");
    let text = std::fs::read_to_string(folder.path().join("results/pinned.json")).unwrap();
    let memory = &serde_json::from_str::<Value>(&text).unwrap()["allocators"];
    assert_eq!((memory[0]["name"].as_str(), memory.as_array().unwrap().len()), (Some("glibc"), 1));
    let sum: u64 = memory[0]["stacks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stack| stack[1].as_u64().unwrap())
        .sum();
    assert_eq!(memory[0]["pinned"], sum);
    let page = page();
    let (_, pinned) = page.split_once("\"pinned\":{\"moment\":\"end\"").unwrap();
    assert!(pinned.split(']').next().unwrap().contains("[["), "{}", &pinned[..200]);
    let (_, rows) = pinned.split_once("\"rows\":").unwrap();
    assert!(rows[..200].contains("scatter (program.c:"), "{}", &rows[..200]);
    // Results of another journal are refused.
    let other = folder.path().join("results/stacks.json");
    std::fs::write(other, "{\"modules\":[],\"stacks\":{}}").unwrap();
    let arguments = ["blame", "--pinned", "end", "-a", "glibc", "--save", "results", journal];
    let output = keel(folder.path(), &arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("not the results of"), "{errors}");
}

#[test]
fn wrong_requests_have_clear_messages() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path());
    let failed = |arguments: &[&str]| {
        let output = keel(folder.path(), arguments);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let null = failed(&["blame", "--pinned", "end", "-a", "null", "program.journal.parquet"]);
    assert!(null.contains("never reuses memory"), "{null}");
    let results = failed(&["blame", "--pinned", "end", "."]);
    assert!(results.contains("needs the journal"), "{results}");
}
