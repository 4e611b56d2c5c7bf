//! `keel record --on` and `--last`, with signals to keel.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::compile_text;
use keel_journal::{Event, Op, Reader, Rules};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// For each line of its input, allocates ten blocks of as many bytes, frees five, and replies.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void* volatile kept[10];
int main(void) {
    char line[16];
    for (;;) {
        size_t at = 0;
        while (at < sizeof line - 1 && read(0, line + at, 1) == 1 && line[at] != '\n') at++;
        line[at] = 0;
        if (at == 0) return 4;
        for (int i = 0; i < 10; i++) kept[i] = malloc(atoi(line));
        for (int i = 0; i < 5; i++) free(kept[i]);
        if (write(1, ".\n", 2) != 2) return 5;
    }
}
"#;

struct Recording {
    keel: Child,
    input: ChildStdin,
    replies: BufReader<std::process::ChildStdout>,
    said: BufReader<std::process::ChildStderr>,
}

impl Recording {
    fn start(folder: &Path, options: &[&str]) -> Recording {
        let program = folder.join("program");
        compile_text(PROGRAM, &program, &[]);
        let mut command = common::keel();
        command.args(["record", "-o", "out.journal.parquet"]).args(options).arg("--").arg(program);
        command.current_dir(folder).stdin(Stdio::piped());
        let mut keel = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let input = keel.stdin.take().unwrap();
        let replies = BufReader::new(keel.stdout.take().unwrap());
        let said = BufReader::new(keel.stderr.take().unwrap());
        Recording { keel, input, replies, said }
    }

    /// The program allocates ten blocks of this size and frees five of them.
    fn allocate(&mut self, size: u32) {
        writeln!(self.input, "{size}").unwrap();
        let mut reply = String::new();
        self.replies.read_line(&mut reply).unwrap();
        assert_eq!(reply, ".\n");
    }

    /// Allocates, sends a signal to keel, and waits until keel says that it was received. That line
    /// must contain `what`.
    fn allocate_and_signal(&mut self, size: u32, what: &str) {
        self.allocate(size);
        let pid = self.keel.id().to_string();
        assert!(Command::new("kill").args(["-USR1", &pid]).status().unwrap().success());
        loop {
            let mut line = String::new();
            assert_ne!(self.said.read_line(&mut line).unwrap(), 0, "keel has ended");
            if line.contains("received SIGUSR1") {
                assert!(line.contains(what), "{line}");
                return;
            }
        }
    }

    /// Ends the program. Returns what keel said at the end.
    fn end(mut self) -> String {
        writeln!(self.input).unwrap();
        let mut text = String::new();
        while self.said.read_line(&mut text).unwrap() > 0 {}
        assert_eq!(self.keel.wait().unwrap().code(), Some(4), "{text}");
        text
    }
}

/// Sizes, and the numbers of their blocks.
type Sizes = Vec<(u64, usize)>;

/// Sizes and numbers of the blocks of 1001 to 1009 bytes: in the prologue, and allocated later.
fn blocks(path: &Path) -> (Sizes, Sizes) {
    let reader = Reader::open(path).unwrap();
    let prologue = reader.metadata().prologue as usize;
    assert_eq!(reader.metadata().foreign, 0);
    let mut rules = Rules::new(reader.metadata()).unwrap();
    let events: Vec<Event> = reader.events().map(Result::unwrap).collect();
    events.iter().for_each(|event| rules.check(event).unwrap());
    let count = |events: &[Event]| {
        let of = |size: u64| {
            let is_it = |event: &&Event| event.op == Op::Malloc && event.size == size;
            (size, events.iter().filter(is_it).count())
        };
        (1001..1009).map(of).filter(|(_, count)| *count > 0).collect()
    };
    (count(&events[..prologue]), count(&events[prologue..]))
}

#[test]
fn signals_begin_and_end_journals() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::start(folder.path(), &["--on", "USR1"]);
    recording.allocate_and_signal(1001, "out.journal.parquet begins");
    recording.allocate_and_signal(1002, "the journal ends");
    recording.allocate_and_signal(1003, "out.2.journal.parquet begins");
    recording.allocate(1004);
    recording.end();
    let path = |name: &str| folder.path().join(name);
    let first = blocks(&path("out.journal.parquet"));
    assert_eq!(first, (vec![(1001, 5)], vec![(1002, 10)]));
    let second = blocks(&path("out.2.journal.parquet"));
    assert_eq!(second, (vec![(1001, 5), (1002, 5), (1003, 5)], vec![(1004, 10)]));
}

#[test]
fn a_signal_writes_the_last_seconds_as_often_as_it_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--last", "3600", "--when", "signal=USR1", "--journals", "2"];
    let mut recording = Recording::start(folder.path(), &options);
    recording.allocate_and_signal(1001, "writing out.journal.parquet");
    recording.allocate_and_signal(1002, "writing out.2.journal.parquet");
    recording.allocate(1003);
    recording.end();
    let path = |name: &str| folder.path().join(name);
    assert_eq!(blocks(&path("out.journal.parquet")), (vec![], vec![(1001, 10)]));
    assert_eq!(blocks(&path("out.2.journal.parquet")), (vec![], vec![(1001, 10), (1002, 10)]));
}

#[test]
fn without_a_signal_nothing_is_written_and_a_note_states_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::start(folder.path(), &["--on", "USR1"]);
    recording.allocate(1001);
    assert!(recording.end().contains("keel received no SIGUSR1"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "the program and its source");
}

#[test]
fn wrong_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (options, wanted) in [
        (["--on", "TERM", "--", "true"], "give USR1 or USR2"),
        (["--when", "crash", "--", "true"], "--last"),
        (["--last", "x", "--", "true"], "--last"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keel"));
        let output = command.arg("record").args(options).current_dir(&folder).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(wanted), "{text}");
    }
}
