//! `keel import`, `keel export` and `keel capture` as a user runs them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::prefix;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn keel(folder: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_keel"))
        .current_dir(folder)
        .env("KEEL_PREFIX", prefix())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn messages(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

const JUDY: &str = "start\na 1000 20 0\na 1020 40 1\nhalf way\nf 1000 20 0\na 1000 20 1\n";

#[test]
fn capture_copies_lines_that_are_not_traces() {
    let folder = tempfile::tempdir().unwrap();
    let output = keel(folder.path(), &["capture", "a.journal.parquet"], JUDY.as_bytes());
    assert!(output.status.success(), "{}", messages(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "start\nhalf way\n");
    assert!(
        messages(&output).contains("(judy): 4 operations, 2 markers, 0 overlapping"),
        "{}",
        messages(&output)
    );
    let output = keel(folder.path(), &["export", "a.journal.parquet", "--to", "judy"], b"");
    let lines: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    let letters: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(letters, ["start", "a", "a", "half", "f", "a"]);
    let verified = keel(folder.path(), &["info", "--verify", "a.journal.parquet"], b"");
    assert!(verified.status.success(), "{}", messages(&verified));
}

#[test]
fn sums_of_sizes_beyond_the_range_of_the_type_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let text: String = (1..5).map(|block| format!("a {} {block}0 0 5\n", i64::MAX)).collect();
    std::fs::write(folder.path().join("huge.txt"), text + "f 10 0 6\n").unwrap();
    let imported = keel(folder.path(), &["import", "huge.txt", "-o", "huge.journal.parquet"], b"");
    assert!(imported.status.success(), "{}", messages(&imported));
    for arguments in [&["info"][..], &["info", "--top", "3"], &["info", "--verify"]] {
        let output = keel(folder.path(), &[arguments, &["huge.journal.parquet"]].concat(), b"");
        assert!(output.status.success(), "{arguments:?}: {}", messages(&output));
    }
}

#[test]
fn capture_finds_overlaps_and_still_writes_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let text = "a 1000 20 0\na 1010 40 1\nf 1000 20 0\n";
    let output = keel(folder.path(), &["capture", "a.journal.parquet"], text.as_bytes());
    assert_eq!(output.status.code(), Some(1), "{}", messages(&output));
    let expected = "line 2: the 64 bytes at 1010 overlap the 32 bytes at 1000, allocated at line 1";
    assert!(messages(&output).contains(expected), "{}", messages(&output));
    assert!(keel(folder.path(), &["info", "--verify", "a.journal.parquet"], b"").status.success());
    let nothing = keel(folder.path(), &["capture", "b.journal.parquet"], b"hello\n");
    assert_eq!(nothing.status.code(), Some(1));
    assert!(
        messages(&nothing).contains("contains no operations")
            && !folder.path().join("b.journal.parquet").exists()
    );
}

#[test]
fn export_and_import_are_inverse_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("list"), "Allocate a 10\nAllocate b 20\nFree a\n").unwrap();
    let imported = keel(folder.path(), &["import", "list", "-o", "a.journal.parquet"], b"");
    assert!(messages(&imported).contains("(tags): 3 operations"), "{}", messages(&imported));
    let exported = keel(folder.path(), &["export", "a.journal.parquet", "--to", "tags"], b"");
    assert_eq!(String::from_utf8_lossy(&exported.stdout), "Allocate 0 10\nAllocate 1 20\nFree 0\n");
    let again = keel(folder.path(), &["import", "-", "-o", "b.journal.parquet"], &exported.stdout);
    assert!(again.status.success(), "{}", messages(&again));
    let wrong = keel(folder.path(), &["export", "a.journal.parquet", "--to", "csv"], b"");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(messages(&wrong).contains("a.journal.parquet is a file"), "{}", messages(&wrong));
}

#[test]
fn time_measures_at_each_marker() {
    let folder = tempfile::tempdir().unwrap();
    let captured = keel(folder.path(), &["capture", "a.journal.parquet"], JUDY.as_bytes());
    assert!(captured.status.success(), "{}", messages(&captured));
    let arguments =
        ["time", "a.journal.parquet", "-a", "glibc,null", "--runs", "2", "--json", "--touch"];
    let output = keel(folder.path(), &arguments, b"");
    assert!(output.status.success(), "{}", messages(&output));
    let measured: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for allocator in measured.as_array().unwrap() {
        let marks = allocator["marks"].as_array().unwrap();
        let facts: Vec<(&str, u64, u64, u64)> = marks
            .iter()
            .map(|mark| {
                let number = |key: &str| mark[key].as_u64().unwrap();
                (
                    mark["mark"].as_str().unwrap(),
                    number("operations"),
                    number("live_bytes"),
                    number("refused"),
                )
            })
            .collect();
        assert_eq!(facts, [("start", 0, 0, 0), ("half way", 2, 96, 0), ("", 2, 96, 0)]);
        assert!(marks[1]["median_ns"].as_u64().unwrap() > 0);
    }
    let unknown = keel(folder.path(), &["time", "a.journal.parquet", "-a", "nonesuch"], b"");
    assert_eq!(unknown.status.code(), Some(2), "{}", messages(&unknown));
}

#[test]
fn causes_of_errors_are_stated_once() {
    let folder = tempfile::tempdir().unwrap();
    let captured = keel(folder.path(), &["capture", "a.journal.parquet"], JUDY.as_bytes());
    assert!(captured.status.success(), "{}", messages(&captured));
    std::fs::write(folder.path().join("budget.toml"), "[run\n").unwrap();
    for (arguments, cause) in [
        (&["export", "a.journal.parquet", "-o", "/dev/full"][..], "os error 28"),
        (&["export", "a.journal.parquet", "--to", "chrome", "-o", "/dev/full"], "os error 28"),
        (
            &["export", "a.journal.parquet", "--to", "collapsed", "-o", "/dev/full"],
            "no call stacks",
        ),
        (&["compare", "a.journal.parquet", "-a", "glibc", "-o", "/proc/results"], "os error 2"),
        (&["check", "--budget", "budget.toml", "--", "true"], "TOML parse error"),
    ] {
        let output = keel(folder.path(), arguments, b"");
        assert!(!output.status.success());
        let words = messages(&output);
        assert_eq!(words.matches(cause).count(), 1, "{arguments:?}: {words}");
    }
}

#[test]
fn times_of_a_journal_have_the_same_origin() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("late.txt"), "a 10 20 0 500\nf 20 0 900\n").unwrap();
    let imported = keel(folder.path(), &["import", "late.txt", "-o", "a.journal.parquet"], b"");
    assert!(imported.status.success(), "{}", messages(&imported));
    let info = keel(folder.path(), &["info", "--json", "a.journal.parquet"], b"");
    let facts = &serde_json::from_slice::<serde_json::Value>(&info.stdout).unwrap()["facts"];
    let times = [&facts["live_peak"]["bytes_at_ns"], &facts["duration_ns"]];
    assert_eq!(times, [500, 900]);
}

#[test]
fn a_terminal_obeys_no_name_of_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let text = b"a 1000 20 0\n\x1b[31mred\n";
    let captured = keel(folder.path(), &["capture", "a.journal.parquet"], text);
    assert!(messages(&captured).contains("(judy): 1 operation, 1 marker, 0 overlapping"));
    let info = keel(folder.path(), &["info", "a.journal.parquet"], b"");
    let shown = String::from_utf8(info.stdout).unwrap();
    assert!(shown.contains(r"\u{1b}[31mred") && !shown.contains('\x1b'), "{shown}");
    std::fs::write(folder.path().join("in.txt"), "a 10 20 0 5\n").unwrap();
    for arguments in [
        &["info", "no\x1b[31m"][..],
        &["import", "in.txt", "-o", "b\x1b[31m.journal.parquet"],
        &["slice", "--to", "1", "a.journal.parquet", "-o", "c\x1b[31m.journal.parquet"],
        &["check", "--zone", "thread=\x1b[31m", "a.journal.parquet"],
        &["time", "a.journal.parquet", "-a", "no\x1b[31m"],
    ] {
        let shown = messages(&keel(folder.path(), arguments, b""));
        assert!(shown.contains(r"\u{1b}[31m") && !shown.contains('\x1b'), "{shown}");
    }
    let one = keel(folder.path(), &["import", "in.txt", "-o", "one.journal.parquet"], b"");
    assert!(one.status.success(), "{}", messages(&one));
    let info = keel(folder.path(), &["info", "one.journal.parquet"], b"");
    assert!(messages(&info).contains("in 1 object\n"), "{}", messages(&info));
}

#[test]
fn outputs_replace_neither_links_nor_devices_and_are_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name);
    let captured = keel(folder.path(), &["capture", "a.journal.parquet"], JUDY.as_bytes());
    assert!(captured.status.success(), "{}", messages(&captured));
    std::fs::write(name("broken"), &std::fs::read(name("a.journal.parquet")).unwrap()[..99])
        .unwrap();
    std::fs::write(name("old"), "old").unwrap();
    symlink("old", name("link")).unwrap();
    let broken = keel(folder.path(), &["export", "broken", "-o", "old"], b"");
    assert_eq!(broken.status.code(), Some(1), "{}", messages(&broken));
    assert_eq!(std::fs::read(name("old")).unwrap(), b"old");
    let export = ["export", "a.journal.parquet", "--to", "judy", "-o"];
    let linked = keel(folder.path(), &[&export[..], &["link"]].concat(), b"");
    assert!(linked.status.success() && name("link").is_symlink(), "{}", messages(&linked));
    let written = std::fs::read(name("old")).unwrap();
    assert!(written.starts_with(b"start\n"), "{}", String::from_utf8_lossy(&written));
    let folder_named = keel(folder.path(), &[&export[..], &["."]].concat(), b"");
    assert!(messages(&folder_named).contains("cannot write .: it is a folder"));

    let status = Command::new("mkfifo").arg(name("fifo")).status().unwrap();
    assert!(status.success());
    let reader = std::thread::spawn({
        let fifo = name("fifo");
        move || std::fs::read(fifo).unwrap()
    });
    let piped = keel(folder.path(), &[&export[..], &["fifo"]].concat(), b"");
    assert!(piped.status.success(), "{}", messages(&piped));
    assert!(std::fs::metadata(name("fifo")).unwrap().file_type().is_fifo());
    assert_eq!(reader.join().unwrap(), written);
    for import in [["import", "old", "-o", "fifo"], ["slice", "a.journal.parquet", "-o", "fifo"]] {
        let refused = keel(folder.path(), &import, b"");
        assert_eq!(refused.status.code(), Some(1));
        let words = messages(&refused);
        assert!(
            words.contains("cannot create fifo: it is a device, a FIFO or a socket"),
            "{words}"
        );
    }
    assert!(std::fs::metadata(name("fifo")).unwrap().file_type().is_fifo());
    let appended = "\"$0\" export a.journal.parquet --to judy -o /dev/stdout >>old";
    let shell = Command::new("sh")
        .args(["-c", appended, env!("CARGO_BIN_EXE_keel")])
        .current_dir(&folder)
        .status();
    assert!(shell.unwrap().success());
    assert_eq!(std::fs::read(name("old")).unwrap(), [&written[..], &written].concat());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 5, "no temporary file is left");
}
