//! `keel watch`: exact sums of a program that makes the same calls in each run, and the terminal.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{compile_text, prefix_with_recorder};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Allocates 1000 blocks of 3000 bytes and 500 of 70000, frees the large ones, prints a line, and
/// waits for a key; then allocates one block more.
const PROGRAM: &str = r#"
#include <stdlib.h>
#include <unistd.h>
static void* kept[1000];
static void* large[500];
static __attribute__((noinline)) void* make_small(void) { return malloc(3000); }
static __attribute__((noinline)) void keep(int i) { kept[i] = make_small(); }
static __attribute__((noinline)) void* make_large(void) { return calloc(7, 10000); }
int main(void) {
    char key;
    for (int i = 0; i < 1000; i++) keep(i);
    for (int i = 0; i < 500; i++) large[i] = make_large();
    for (int i = 0; i < 500; i++) free(large[i]);
    if (write(1, "ready\n", 6) != 6) return 2;
    if (read(0, &key, 1) != 1) return 3;
    keep(0);
    return kept[0] != NULL ? 5 : 4;
}
"#;

fn program(folder: &Path) -> PathBuf {
    let program = folder.join("program");
    compile_text(PROGRAM, &program, &[]);
    program
}

fn keel(arguments: &[&str]) -> Command {
    let mut command = common::keel();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs keel, lets the program end when this many lines after its own contain `what`, and returns
/// all lines.
fn lines(mut watch: Command, what: &str, count: usize) -> Vec<String> {
    let mut child = watch.spawn().unwrap();
    let mut keys = child.stdin.take().unwrap();
    let (mut is_ready, mut found) = (false, 0);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| {
        let line = line.unwrap();
        is_ready |= line == "ready";
        found += usize::from(is_ready && line.contains(what));
        if found == count {
            drop(keys.write_all(b"x"));
        }
        line
    });
    let lines = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(5), "{lines:?}");
    lines
}

fn site<'a>(sums: &'a Value, function: &str) -> &'a Value {
    let mut sites = sums["call_sites"].as_array().unwrap().iter();
    sites.find(|one| one["call_site"].as_str().unwrap().starts_with(function)).unwrap()
}

/// Allocates for about three seconds.
const STEADY: &str = r#"
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 300; i++) {
        void* volatile block = malloc(5000);
        free(block);
        usleep(10000);
    }
    return 0;
}
"#;

#[test]
fn nothing_is_shown_of_the_time_after_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("steady");
    compile_text(STEADY, &program, &[]);
    let arguments = ["watch", "--json", "--for", "1", "--", program.to_str().unwrap()];
    let output = keel(&arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() > 0);
    for line in text.lines() {
        let sums: Value = serde_json::from_str(line).unwrap();
        let seconds = sums["interval_seconds"].as_f64().unwrap();
        let is_empty = sums["interval"]["allocations"] == 0.0;
        assert!(seconds >= 0.1 || !is_empty, "{text}");
    }
}

#[test]
fn the_sums_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let (program, page) = (program(folder.path()), folder.path().join("page.html"));
    let page_name = page.to_str().unwrap();
    let program = program.to_str().unwrap();
    let watch = keel(&["watch", "--json", "--page", page_name, "--", program]);
    let text = lines(watch, "make_small", 2);
    let values: Vec<Value> =
        text.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(values.len() >= 3, "two lines, and the sums: {text:?}");
    let small = |sums: &Value| site(sums, "make_small")["total"]["allocations"].as_f64().unwrap();
    let ready = values.iter().rev().find(|one| small(one) == 1000.0).unwrap();
    let last = values.last().unwrap();
    // The small blocks are 1000, and then 1001.
    for (sums, small) in [(ready, 1000.0), (last, 1001.0)] {
        assert_eq!(site(sums, "make_small")["total"]["allocations"], small);
        assert_eq!(site(sums, "make_small")["live_bytes"], small * 3000.0);
        assert_eq!(site(sums, "make_large")["total"]["bytes"], 35_000_000.0);
        assert_eq!(site(sums, "make_large")["total"]["frees"], 500.0);
        assert_eq!(site(sums, "make_large")["live_bytes"], 0.0);
    }
    let worst = values.iter().map(|one| one["worst_ns"].as_f64().unwrap()).fold(0.0, f64::max);
    assert!(worst > 0.0, "callocs of 70000 bytes fault: {text:?}");
    let allocated: f64 = values.iter().map(|one| one["interval"]["bytes"].as_f64().unwrap()).sum();
    assert_eq!(allocated, last["total"]["bytes"].as_f64().unwrap(), "no interval is lost");
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("http-equiv=\"refresh\"") && html.contains("make_small"), "{html}");
}

#[test]
fn output_that_is_no_terminal_gets_lines() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let watch = keel(&["watch", "--sample", "16K", "--", program.to_str().unwrap()]);
    let text = lines(watch, " per second, ", 2).join("\n");
    assert!(text.contains("ready\n"), "{text}");
    assert!(text.contains("in all: ") && text.contains("estimated from samples"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

/// On a terminal, which `script` makes: q ends the view, the terminal is as before, and the program
/// continues.
#[test]
fn q_ends_the_view_of_a_program_that_continues() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let mut target = Command::new(&program);
    let mut target = target.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(target.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let watch = format!(
        "stty -a > before; {} watch {}; echo code $?; stty -a > after",
        env!("CARGO_BIN_EXE_keel"),
        target.id()
    );
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &watch, "/dev/null"]).current_dir(folder.path());
    terminal.env("KEEL_PREFIX", prefix_with_recorder()).env("SHELL", "/bin/sh");
    let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Until the view was drawn twice.
    let mut text = Vec::new();
    let mut shown = BufReader::new(child.stdout.take().unwrap());
    while text.windows(10).filter(|part| *part == b"keel watch").count() < 2 {
        assert_ne!(shown.read_until(b'\n', &mut text).unwrap(), 0, "keel has ended");
    }
    let mut keys = child.stdin.take().unwrap();
    keys.write_all(b"q").unwrap();
    shown.read_to_end(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("\x1b[?1049h") && text.contains("\x1b[?1049l"), "{text}");
    assert!(text.contains("keel watch  program"), "{text}");
    assert!(text.contains("code 0") && text.contains("the program still runs"), "{text}");
    let state = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(state("before"), state("after"));
    target.stdin.take().unwrap().write_all(b"x").unwrap();
    assert_eq!(target.wait().unwrap().code(), Some(5));
}
