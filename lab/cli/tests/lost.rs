//! What a recording loses when its terminal, its disk, its folder or keel itself goes away.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stderr, reason = "a skipped test prints why")]

mod common;

use common::{compile_text, prefix_with_recorder};
use keel_journal::{Op, Reader, Rules};
use std::fs::File;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Allocates 77 bytes as often as the first argument says, pauses a millisecond after each, and
/// keeps the number of allocations in the file of the second argument.
const STEADY: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int n, char** a) {
    int f = open(a[2], O_RDWR | O_CREAT, 0600);
    if (n < 3 || ftruncate(f, 4096)) return 3;
    volatile long* count = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    for (long i = 0; i < atol(a[1]); i++) {
        free(malloc(77));
        *count = i + 1;
        usleep(1000);
    }
    return 0;
}
"#;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        compile_text(STEADY, &folder.path().join("steady"), &[]);
        Place { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `keel record` of this many allocations.
    fn record(&self, count: u32, journal: &Path, options: &[&str]) -> Command {
        let mut command = common::keel();
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null());
        command.arg("record").args(options).arg("-o").arg(journal).arg("--");
        command.arg(self.path("steady")).arg(count.to_string()).arg(self.path("count"));
        command
    }

    /// The program's own count.
    fn count(&self) -> u64 {
        let bytes = std::fs::read(self.path("count")).unwrap_or_default();
        bytes.get(..8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
    }

    fn wait_for(&self, count: u64) {
        let began = Instant::now();
        while self.count() < count {
            assert!(began.elapsed() < Duration::from_secs(60), "the program makes no progress");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The number of allocations of 77 bytes, after every rule was checked.
fn allocations(journal: &Path) -> u64 {
    let reader = Reader::open(journal).unwrap();
    let mut rules = Rules::new(reader.metadata()).unwrap();
    let mut count = 0;
    for event in reader.events() {
        let event = event.unwrap();
        rules.check(&event).unwrap();
        count += u64::from(event.op == Op::Malloc && event.size == 77);
    }
    count
}

/// A terminal: the side of the user and the side of the programs.
fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut user, mut programs) = (-1, -1);
    let null = std::ptr::null_mut();
    // SAFETY: two valid places for descriptors; the other arguments may be null.
    let opened = unsafe {
        libc::openpty(&raw mut user, &raw mut programs, null, std::ptr::null(), std::ptr::null())
    };
    assert_eq!(opened, 0);
    // SAFETY: a flag of a descriptor that we own. Programs must not inherit the user's side.
    unsafe { libc::fcntl(user, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: openpty has just given us these descriptors.
    unsafe { (OwnedFd::from_raw_fd(user), OwnedFd::from_raw_fd(programs)) }
}

#[test]
fn a_terminal_that_is_closed_ends_no_recording() {
    let place = Place::new();
    let journal = place.path("x.journal.parquet");
    let (user, programs) = terminal();
    let number = programs.as_raw_fd();
    let mut command = place.record(1500, &journal, &[]);
    command.stdout(programs.try_clone().unwrap()).stderr(programs.try_clone().unwrap());
    // SAFETY: system calls that are allowed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            // As nohup does.
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            libc::setsid();
            libc::ioctl(number, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    drop((programs, command));
    place.wait_for(200);
    drop(user);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(allocations(&journal), 1500);
}

#[test]
fn a_message_that_nobody_can_read_ends_no_recording() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    drop(reader);
    for (name, stderr) in [("pipe", Stdio::from(writer)), ("full", Stdio::from(full))] {
        let journal = place.path(&format!("{name}.journal.parquet"));
        let status = place.record(1500, &journal, &["--progress"]).stderr(stderr).status();
        assert_eq!(status.unwrap().code(), Some(0), "{name}");
        assert_eq!(allocations(&journal), 1500, "{name}");
    }
}

#[test]
fn a_journal_whose_folder_was_removed_is_whole() {
    for follow in [false, true] {
        let place = Place::new();
        let folder = place.path("results");
        std::fs::create_dir(&folder).unwrap();
        let journal = folder.join("x.journal.parquet");
        let options: &[&str] = if follow { &["-f"] } else { &[] };
        let mut child = place.record(1000, &journal, options).spawn().unwrap();
        place.wait_for(100);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "follow: {follow}");
        let mut found = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        assert_eq!(allocations(&found.next().unwrap()), 1000, "follow: {follow}");
        assert_eq!(found.next(), None);
    }
}

#[test]
fn a_journal_moves_from_a_full_disk() {
    let place = Place::new();
    std::fs::create_dir(place.path("disk")).unwrap();
    std::fs::create_dir(place.path("other")).unwrap();
    let script = "mount -t tmpfs -o size=24k tmpfs disk || exit 77; TMPDIR=$PWD/other $keel record \
                  -o disk/x.journal.parquet -- ./steady 3000 count; code=$?; ls disk; exit $code";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script]).current_dir(&place.folder);
    command.env("keel", env!("CARGO_BIN_EXE_keel")).env("KEEL_PREFIX", prefix_with_recorder());
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || words.starts_with("unshare:") {
        eprintln!("SKIPPED: file systems cannot be mounted here");
        return;
    }
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]), "{words}");
    assert!(words.contains("could not be written there; the whole journal is "), "{words}");
    assert_eq!(allocations(&place.path("other/x.journal.parquet")), 3000);
}

#[test]
fn a_killed_recorder_loses_at_most_the_last_second() {
    let place = Place::new();
    let journal = place.path("x.journal.parquet");
    let mut child = place.record(100_000, &journal, &["-q"]).spawn().unwrap();
    place.wait_for(500);
    let (before, at) = (place.count(), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert!(at.elapsed() < Duration::from_secs(60));
    let saved = place.path("saved.journal.parquet");
    let mut import = Command::new(env!("CARGO_BIN_EXE_keel"));
    import.arg("import").arg(place.path("x.journal.parquet.partial")).arg("-o").arg(&saved);
    let output = import.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kept = allocations(&saved);
    assert!(kept >= before, "{kept} allocations of {before} that were a second old");
}

#[test]
fn row_groups_of_a_slow_program_are_united() {
    let place = Place::new();
    let journal = place.path("x.journal.parquet");
    assert_eq!(place.record(10_000, &journal, &["-q"]).status().unwrap().code(), Some(0));
    assert_eq!(allocations(&journal), 10_000);
    // Each of some twenty parts alone would take 2 KB.
    let bytes = std::fs::metadata(&journal).unwrap().len();
    let each = bytes as f64 / 20_000.0;
    assert!(each < 6.0, "{bytes} bytes, {each} for each operation");
    let files = std::fs::read_dir(&place.folder).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.contains("parquet")).count(), 1);
}
