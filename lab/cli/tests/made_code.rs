//! Call stacks through code that a program makes while it runs, as a just-in-time compiler does,
//! and that it describes in a map for `perf`.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::prefix_with_recorder;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Calls `take` through made code: push rbp; mov rbp, rsp; call rdi; pop rbp; ret.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
static void* volatile kept;
__attribute__((noinline)) static void take(void) { kept = malloc(1000); }
__attribute__((noinline)) static void load_level(void (*made)(void (*)(void))) {
    for (int i = 0; i < 10; i++) made(take);
    kept = NULL;
}
int main(void) {
    char* page = mmap(NULL, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), path[64];
    memcpy(page, code, sizeof code);
    sprintf(path, "/tmp/perf-%d.map", (int)getpid());
    FILE* map = fopen(path, "w");
    fprintf(map, "%lx %zx JS:*spawn file:///game/level.js:12:3\n", (long)page, sizeof code);
    fclose(map);
    load_level((void (*)(void (*)(void)))page);
    printf("%s", path);
    return 0;
}
"#;

fn run(command: &mut Command, folder: &Path) -> String {
    command.env("KEEL_PREFIX", prefix_with_recorder()).env_remove("LD_PRELOAD");
    let output = command.env("HOME", folder).current_dir(folder).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn code_that_a_program_made_is_named_by_its_map() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("game.c"), PROGRAM).unwrap();
    let flags = ["-g", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    run(Command::new("cc").args(flags).args(["-o", "game", "game.c"]), folder.path());
    let keel = |arguments: &[&str]| {
        run(Command::new(env!("CARGO_BIN_EXE_keel")).args(arguments), folder.path())
    };
    let map = keel(&["record", "-q", "--stacks", "16", "-o", "game.parquet", "--", "./game"]);
    std::fs::remove_file(map).unwrap();
    let found: Value = serde_json::from_str(&keel(&["blame", "--json", "game.parquet"])).unwrap();
    let sites = found["sites"].as_array().unwrap();
    let site = sites.iter().find(|site| site["stack"][0]["function"] == "take").unwrap();
    let functions: Vec<&str> = site["stack"]
        .as_array()
        .unwrap()
        .iter()
        .map(|frame| frame["function"].as_str().unwrap())
        .collect();
    assert_eq!(functions[..4], ["take", "spawn", "load_level", "main"]);
    assert_eq!(site["values"]["calls"], 10);
    let spawn = &site["stack"][1];
    assert_eq!((&spawn["file"], &spawn["line"]), (&"/game/level.js".into(), &12.into()));
    // A module is a wrapper, too: then the code without a module is the call site.
    let table = keel(&["blame", "--wrapper", "game", "game.parquet"]);
    assert!(table.contains("spawn (level.js:12)"), "{table}");
}
