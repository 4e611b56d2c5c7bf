//! `keel try` as a user runs it: one command from a program to a page.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{compile_text, prefix};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_keel")]);
    command.current_dir(folder).env("KEEL_PREFIX", prefix()).env_remove("LD_PRELOAD");
    command.arg("try").args(arguments).stdin(Stdio::null());
    command
}

fn keel_try(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The names of the files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const PROGRAM: &str = r#"
#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>
static void* make_item(void) { return malloc(77); }
int main(int n, char** a) {
    for (int i = 0; i < 20000; i++) free(make_item());
    puts("the program's output");
    fflush(stdout);
    if (n > 1) { FILE* f = fopen("ready", "w"); fclose(f); sleep(atoi(a[1])); }
    return 0;
}
"#;

#[test]
fn one_command_leads_from_a_program_to_a_page() {
    let folder = tempfile::tempdir().unwrap();
    compile_text(PROGRAM, &folder.path().join("items"), &[]);
    let arguments = ["--no-open", "-a", "glibc", "-r", "1", "--", "./items"];
    let output = keel_try(folder.path(), &arguments);
    assert!(output.status.success(), "{}", messages(&output));
    let made = folder.path().join("items.keel");
    assert_eq!(files(&made), ["program.journal.parquet", "report.html", "results"]);
    assert!(made.join("results/results.json").is_file());
    let page = std::fs::read_to_string(made.join("report.html")).unwrap();
    assert!(page.contains("tiles-0-malloc"), "the page contains the calls");
    assert!(page.contains("make_item"), "the page names the code");
    let out = String::from_utf8(output.stdout).unwrap();
    let at = |words: &str| out.find(words).unwrap_or_else(|| panic!("{words}: {out}"));
    assert!(at("the program's output") < at("called from"));
    assert!(at("called from") < at("call sites, sorted by"));
    assert!(at("make_item (items.c:5)") < at("The page: items.keel/report.html"));
    assert!(out.trim_end().ends_with("The page: items.keel/report.html"), "{out}");
}

#[test]
fn of_several_programs_the_one_that_requests_most_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    compile_text(PROGRAM, &folder.path().join("items"), &[]);
    // The last program allocates little.
    let last = "#include <stdlib.h>\nint main(void) { free(malloc(5)); }";
    compile_text(last, &folder.path().join("last"), &[]);
    let first = "#include <stdlib.h>\n#include <unistd.h>\n\
                 int main(void) { for (int i = 0; i < 20000; i++) free(malloc(77));\n\
                 execl(\"./last\", \"last\", NULL); }";
    compile_text(first, &folder.path().join("first"), &[]);
    let arguments = ["--no-open", "-a", "glibc", "-r", "1", "-o", "out", "--", "./first"];
    let output = keel_try(folder.path(), &arguments);
    let words = messages(&output);
    assert!(output.status.success(), "{words}");
    let note = "/first requested the most bytes, and its journal is replayed: \
                out/program.journal.parquet";
    assert!(words.contains("executed 2 programs") && words.contains(note), "{words}");
    let results = std::fs::read_to_string(folder.path().join("out/results/results.json")).unwrap();
    let journal = keel_journal::Reader::open(folder.path().join("out/program.journal.parquet"));
    assert!(journal.unwrap().rows() >= 40_000);
    assert!(results.contains("program.journal.parquet"), "{results}");
}

#[test]
fn wrong_use_is_explained_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, code, sentence) in [
        (vec!["--no-open", "--", "./no-such-program"], 1, "cannot find the program"),
        (vec!["--stakcs", "16", "--", "ls"], 2, "--stakcs"),
        (vec!["--stacks", "many", "--", "ls"], 2, "--stacks"),
        (vec!["-a", "jemaloc", "--", "ls"], 2, "did you mean `jemalloc`"),
        (vec!["-p", "fast", "--", "ls"], 2, "`fast` is not a pace"),
        (vec!["-r", "0", "--", "ls"], 2, "give 1 to 1000"),
        (vec![], 2, "PROGRAM"),
    ] {
        let output = keel_try(folder.path(), &arguments);
        let words = messages(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {words}");
        assert!(words.contains(sentence) && !words.contains("panicked"), "{arguments:?}: {words}");
        assert_eq!(files(folder.path()), [""; 0], "{arguments:?}");
    }
    std::fs::write(folder.path().join("mine"), "precious").unwrap();
    let here = folder.path().to_str().unwrap();
    let output = keel_try(folder.path(), &["--no-open", "-o", here, "--", "ls"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(messages(&output).contains("exists already: choose another"), "{}", messages(&output));
}

#[test]
fn an_option_of_try_is_not_a_word_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    compile_text(PROGRAM, &folder.path().join("items"), &[]);
    let arguments = ["--stacks", "4", "--no-open", "-a", "glibc", "-r", "1", "--", "./items"];
    let output = keel_try(folder.path(), &arguments);
    assert!(output.status.success(), "{}", messages(&output));
    let unknown = keel_try(folder.path(), &["-Z", "ls"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", messages(&unknown));
}

#[test]
fn an_interrupted_recording_is_kept_and_the_next_step_is_named() {
    let folder = tempfile::tempdir().unwrap();
    compile_text(PROGRAM, &folder.path().join("items"), &[]);
    let arguments = ["--no-open", "-a", "glibc", "-r", "1", "--", "./items", "600"];
    let mut child = command(folder.path(), &arguments);
    let child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while !folder.path().join("ready").exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the program makes no progress");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let words = messages(&output);
    assert_eq!(output.status.code(), Some(130), "{words}");
    assert!(
        words.contains("interrupted while it recorded. Kept: items.keel/program.journal"),
        "{words}"
    );
    assert!(!words.contains("the program failed"), "{words}");
    assert!(words.contains("compare -a 'glibc' -r 1 -p max items.keel/program."), "{words}");
    // The printed commands do the rest.
    let commands = words.split_once("To go on:\n").unwrap().1.trim().lines();
    for line in commands {
        let script = line.trim().replacen("keel", env!("CARGO_BIN_EXE_keel"), 1);
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(&folder).env("KEEL_PREFIX", prefix());
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{line}: {}", messages(&output));
    }
    assert!(folder.path().join("items.keel/report.html").is_file());
}
