//! `keel blame` on recorded programs: call sites, names, separate debug files, results.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::root;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn keel(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = common::keel();
    // No debug file of this machine's user.
    command.env("HOME", folder).env_remove("XDG_CACHE_HOME").env_remove("DEBUGINFOD_CACHE_PATH");
    command.current_dir(folder).args(arguments).output().unwrap()
}

fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = keel(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn run(folder: &Path, command: &[&str]) {
    let status = Command::new(command[0]).args(&command[1..]).current_dir(folder).status();
    assert!(status.unwrap().success(), "{command:?}");
}

/// A program with a leak, two paths to the same wrapper, and short-lived blocks.
const PROGRAM: &str = "#include <stdlib.h>\n#include <string.h>\n\
    static void* sink;\n\
    __attribute__((noinline)) void* take(size_t n) { void* p = malloc(n); sink = p; return p; }\n\
    static inline __attribute__((always_inline)) void* inlined(void) { return take(1003); }\n\
    __attribute__((noinline)) void leaks(void) \
    { for (int i = 0; i < 10; i++) take(1001); sink = 0; }\n\
    __attribute__((noinline)) void churns(void) \
    { for (int i = 0; i < 500; i++) free(inlined()); sink = 0; }\n\
    __attribute__((noinline)) void peaks(void) \
    { char* p = take(1 << 20); memset(p, 1, 9); free(p); sink = 0; }\n\
    int main(void) { leaks(); churns(); peaks(); return 0; }\n";

/// Compiles and records the program.
fn recorded(flags: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
    let compile = ["cc", "-O1", "-fno-builtin", "-Wl,--build-id", "-o", "program", "program.c"];
    run(folder.path(), &[&compile, flags].concat());
    succeed(folder.path(), &["record", "--quiet", "--stacks", "8", "--", "./program"]);
    folder
}

fn blame(folder: &Path, arguments: &[&str]) -> Value {
    // Times depend on the machine: every freed block is short-lived.
    let always = ["blame", "--json", "--short-lived", "3600000000", "program.journal.parquet"];
    let all = [&always, arguments].concat();
    serde_json::from_str(&succeed(folder, &all)).unwrap()
}

/// The functions of a site's stack.
fn functions(site: &Value) -> Vec<&str> {
    let frames = site["stack"].as_array().unwrap().iter();
    frames.map(|frame| frame["function"].as_str().unwrap()).collect()
}

#[test]
fn sites_have_the_sums_of_their_stacks_and_the_lines_of_their_calls() {
    let folder = recorded(&["-g"]);
    // All blocks come from one line of `take`.
    let all = blame(folder.path(), &["--sort", "kept"]);
    let values = &all["sites"][0]["values"];
    assert_eq!(functions(&all["sites"][0])[..2], ["take", "leaks"], "{all:#}");
    assert_eq!((&values["calls"], &values["kept-blocks"]), (&511.into(), &10.into()), "{all:#}");
    assert_eq!(values["churn"], 501, "{all:#}");
    assert_eq!(values["bytes"], 10 * 1001 + 500 * 1003 + (1 << 20), "{all:#}");
    assert_eq!(values["peak"], 10 * 1001 + (1 << 20), "{all:#}");
    // If it is a wrapper, its callers are the sites.
    let site = |sort: &str| {
        let found = blame(folder.path(), &["--sort", sort, "--wrapper", "take"]);
        (found["sites"][0].clone(), found)
    };
    let (leak, all) = site("kept");
    assert_eq!(functions(&leak)[..2], ["leaks", "main"], "{all:#}");
    assert_eq!((&leak["stack"][0]["line"], &leak["values"]["kept"]), (&6.into(), &10010.into()));
    let (churn, all) = site("churn");
    assert_eq!(functions(&churn)[..2], ["inlined", "churns"], "{all:#}");
    assert_eq!(
        (&churn["stack"][0]["inlined"], &churn["stack"][0]["line"]),
        (&true.into(), &5.into())
    );
    assert_eq!(churn["stack"][1]["line"], 7);
    let (peak, all) = site("peak");
    assert_eq!(
        (functions(&peak)[0], &peak["values"]["peak"]),
        ("peaks", &(1 << 20).into()),
        "{all:#}"
    );
    // Two calls distinguish the paths.
    let paths = blame(folder.path(), &["--depth", "2", "--sort", "kept"]);
    let first = &paths["sites"][0];
    assert_eq!(
        (&first["values"]["calls"], functions(first)[1]),
        (&10.into(), "leaks"),
        "{paths:#}"
    );
    let table = succeed(folder.path(), &["blame", "--wrapper", "take", "program.journal.parquet"]);
    let line = table.lines().find(|line| line.contains("leaks (program.c:6)")).unwrap();
    assert!(line.contains("9.78 KiB"), "{table}");
}

#[test]
fn names_come_from_separate_debug_files_with_the_build_id() {
    let folder = recorded(&["-g"]);
    let line = |folder: &Path| {
        let found = blame(folder, &["--sort", "kept", "--wrapper", "take"]);
        let site = &found["sites"][0];
        (functions(site)[0].to_owned(), site["stack"][0]["line"].clone(), found)
    };
    run(folder.path(), &["objcopy", "--only-keep-debug", "program", "program.debug"]);
    run(folder.path(), &["strip", "program"]);
    // The symbols are gone, too.
    let (name, place, all) = line(folder.path());
    assert!(name.starts_with("program+0x") && place.is_null(), "{all:#}");
    assert_eq!(all["modules"][0]["names"]["state"], "functions", "{all:#}");
    // In the cache of debuginfod.
    let id = all["modules"][0]["build_id"].as_str().unwrap().to_owned();
    let cache = folder.path().join(".cache/debuginfod_client").join(&id);
    std::fs::create_dir_all(&cache).unwrap();
    std::fs::copy(folder.path().join("program.debug"), cache.join("debuginfo")).unwrap();
    let (name, place, all) = line(folder.path());
    assert_eq!((name.as_str(), place), ("leaks", 6.into()), "{all:#}");
    // Beside the object file, which names it.
    std::fs::remove_dir_all(folder.path().join(".cache")).unwrap();
    run(folder.path(), &["objcopy", "--add-gnu-debuglink=program.debug", "program"]);
    let (name, place, all) = line(folder.path());
    assert_eq!((name.as_str(), place), ("leaks", 6.into()), "{all:#}");
    // A changed debug file does not match the checksum.
    let mut bytes = std::fs::read(folder.path().join("program.debug")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(folder.path().join("program.debug"), bytes).unwrap();
    assert!(line(folder.path()).0.starts_with("program+0x"));
}

#[test]
fn a_changed_or_missing_module_is_reported() {
    let folder = recorded(&["-g"]);
    let arguments = ["blame", "program.journal.parquet"];
    assert!(text(&keel(folder.path(), &arguments).stderr).is_empty());
    run(folder.path(), &["cc", "-O2", "-g", "-Wl,--build-id", "-o", "program", "program.c"]);
    let output = keel(folder.path(), &arguments);
    let (table, notes) = (text(&output.stdout), text(&output.stderr));
    assert!(notes.contains("program has changed since the recording"), "{notes}");
    assert!(table.contains("program+0x") && !table.contains("take"), "{table}");
    std::fs::remove_file(folder.path().join("program")).unwrap();
    let output = keel(folder.path(), &arguments);
    assert!(text(&output.stderr).contains("program does not exist here"), "{output:?}");
}

#[test]
fn a_journal_without_stacks_is_refused() {
    let folder = recorded(&[]);
    succeed(folder.path(), &["record", "-q", "-o", "x.journal.parquet", "--", "./program"]);
    for (arguments, message) in [
        (&["blame", "x.journal.parquet"][..], "no call stacks were recorded"),
        (
            &["blame", "program.journal.parquet", "--sort", "over"],
            "the values of a journal are calls, bytes",
        ),
        (&["blame", "program.journal.parquet", "-a", "keel"], "--allocator is for results"),
        (&["blame", "nowhere"], "nowhere"),
    ] {
        let output = keel(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}

#[test]
fn stacks_are_exported_with_the_chosen_weight() {
    let folder = recorded(&["-g"]);
    let export = |form: &str, weight: &str| {
        let arguments = ["export", "program.journal.parquet", "--to", form, "--weight", weight];
        succeed(folder.path(), &[&arguments[..], &["-o", "out"]].concat());
        std::fs::read(folder.path().join("out")).unwrap()
    };
    let lines = export("collapsed", "kept");
    let lines: Vec<&str> = text(&lines).lines().collect();
    // The start of the C library has blocks, too.
    assert_eq!(lines.iter().filter(|line| line.contains("main;")).count(), 1, "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("main;leaks;take 10010")), "{lines:?}");
    let all = export("collapsed", "bytes");
    assert!(text(&all).lines().any(|line| line.ends_with("main;churns;inlined;take 501500")));
    for form in ["speedscope", "firefox"] {
        let document: Value = serde_json::from_slice(&export(form, "kept")).unwrap();
        assert!(document.to_string().contains("never freed"), "{form}");
    }
    assert_eq!(export("pprof", "kept")[..2], [0x1f, 0x8b]);
}

/// The sums of a call site over the calls that were interrupted on no allocator, and the sentence
/// on them, which the table has, too.
fn the_same_calls_are_compared(folder: &Path, all: &Value, site: &Value) {
    let same = &site["same_calls"];
    let number = |value: &Value| value.as_u64().unwrap();
    assert!(number(&same["calls"]) <= number(&site["values"]["glibc"]["calls"]), "{same:#}");
    let sentence = same["sentence"].as_str().unwrap();
    // On a busy machine, each of these calls may be interrupted on one allocator.
    assert_eq!(sentence.is_empty(), number(&same["calls"]) == 0, "{same:#}");
    let all = all["sites"].as_array().unwrap().iter();
    let compared: Vec<&Value> =
        all.map(|site| &site["same_calls"]).filter(|same| number(&same["calls"]) > 50).collect();
    // Each has thousands of calls.
    assert!(compared.len() >= 3, "{compared:#?}");
    for same in &compared {
        let time = |name: &str| number(&same["time"][name]);
        assert!(time("glibc") > 0 && time("null") > 0, "{same:#}");
        assert!(same["sentence"].as_str().unwrap().contains("the null allocator"), "{same:#}");
    }
    let table = succeed(folder, &["blame", "--sort", "calls", "game.comparison"]);
    let sentence = compared[0]["sentence"].as_str().unwrap();
    assert!(table.lines().any(|line| line.ends_with(sentence)), "{sentence} {table}");
}

/// The walk-through of docs/guide/blame.md.
#[test]
fn the_hitch_of_a_game_is_found_in_the_results() {
    let folder = tempfile::tempdir().unwrap();
    let source: PathBuf = root().join("samples/hitch/game.cpp");
    run(folder.path(), &["c++", "-O2", "-g", "-o", "game", source.to_str().unwrap()]);
    let over = |arguments: &[&str]| {
        let record = ["record", "-q", "--stacks", "16", "--", "./game"];
        succeed(folder.path(), &[&record, arguments].concat());
        let _ = std::fs::remove_dir_all(folder.path().join("game.comparison"));
        let compare = ["compare", "-a", "glibc", "--runs", "2", "game.journal.parquet"];
        succeed(folder.path(), &[&compare[..], &["-o", "game.comparison"]].concat());
        let blame = ["blame", "--json", "--sort", "bytes", "--budget", "100", "game.comparison"];
        serde_json::from_str::<Value>(&succeed(folder.path(), &blame)).unwrap()
    };
    let found = over(&[]);
    let site = &found["sites"][0];
    the_same_calls_are_compared(folder.path(), &found, site);
    assert_eq!(functions(site)[..2], ["save_replay", "main"], "{found:#}");
    let code = std::fs::read_to_string(&source).unwrap();
    let line = code.lines().position(|line| line.contains("malloc(replay_bytes)")).unwrap() + 1;
    assert_eq!(site["stack"][0]["line"], line, "{found:#}");
    let values = &site["values"]["glibc"];
    assert_eq!(values["bytes"], 3 * (24 << 20), "{found:#}");
    assert!(values["over"].as_u64().unwrap() > 0, "{found:#}");
    assert!(values["faults"].as_u64().unwrap() > 0, "{found:#}");
    let fixed = over(&["fixed"]);
    let sites = fixed["sites"].as_array().unwrap().iter();
    let replay = sites.filter(|site| functions(site)[0] == "save_replay");
    assert!(replay.clone().all(|site| site["values"]["glibc"]["calls"] == 1), "{fixed:#}");
}
