//! Programs that run already: the recorder enters them, records, and leaves.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Bench, Journal};
use keel_journal::Op;
use keel_record::{Error, Last, Options, Sample, Wait, When, attach_with};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// One recording at a time in a process.
static ONE: Mutex<()> = Mutex::new(());

/// Starts a program, and waits until it prints a line.
fn start(command: &mut Command) -> Child {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_ne!(line, "");
    child
}

fn start_served(bench: &Bench, threads: &str) -> Child {
    start(Command::new(bench.compile("served.c", &[])).arg(threads))
}

/// Ends a program that runs until its input ends.
#[track_caller]
fn end(mut child: Child) {
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

fn options(bench: &Bench, seconds: f64) -> Options {
    let length = Some(Duration::from_secs_f64(seconds));
    Options { length, ..bench.options(Path::new(""), &[]) }
}

/// Records this many operations. Returns the journal, with all rules checked.
fn attach(bench: &Bench, child: &Child, operations: u64) -> Journal {
    let options = Options { max_operations: Some(operations), ..options(bench, 60.0) };
    let recorded = attach_with(child.id(), &options, &mut |_| {}).unwrap();
    assert_eq!(recorded.problems, Vec::<String>::new());
    assert!(recorded.still_runs);
    // One visit to enter and one to leave, or more if a thread is in the recorder meanwhile.
    assert!(recorded.visits.len() >= 2, "{:?}", recorded.visits);
    // Of a visit: at the beginning, before and after each of two system calls, and at the end.
    assert!(recorded.visits.iter().all(|visit| visit.stops == 6), "{:?}", recorded.visits);
    Journal::read(&options.output)
}

/// What the recorder leaves in a process: addresses in other objects' tables, and shared memory.
fn left_behind(child: &Child) -> String {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    let is_left = |line: &&str| line.contains("keel-record-") && line.contains("rw-s");
    maps.lines().filter(is_left).filter(|line| !line.contains("/control")).collect()
}

#[test]
fn a_running_program_is_recorded_and_left_again_and_again() {
    let _one = ONE.lock();
    let bench = Bench::new();
    let child = start_served(&bench, "4");
    for round in 0..rounds(5) {
        let journal = attach(&bench, &child, 4000);
        let made: usize = (1001..1220).map(|size| journal.count(Op::Malloc, size)).sum();
        assert!(made > 100, "round {round}: {made}");
        // Blocks from before the recording are freed in it.
        assert!(journal.metadata.foreign > 0, "{:?}", journal.metadata);
        assert_eq!(journal.metadata.repairs.get("unseen_free"), None);
        assert_eq!(left_behind(&child), "", "round {round}");
    }
    end(child);
}

/// What walks the stacks has to be loaded into a program that runs already.
#[test]
fn call_stacks_of_a_running_program_are_recorded() {
    let _one = ONE.lock();
    let bench = Bench::new();
    let child = start_served(&bench, "2");
    for sample in [None, Some(Sample { bytes: 4096, seed: 1 })] {
        let options = Options { stacks: 8, sample, ..options(&bench, 0.5) };
        let recorded = attach_with(child.id(), &options, &mut |_| {}).unwrap();
        assert_eq!(recorded.problems, Vec::<String>::new());
        let journal = Journal::read_any(&options.output);
        let stacks = &journal.metadata.stacks;
        let calls = journal.origins.iter().map(|origin| stacks.walk(origin.stack).count());
        // The thread's function and the one that calls it.
        assert!(calls.clone().count() > 100 && calls.min() >= Some(2), "{sample:?}: {stacks:?}");
    }
    end(child);
}

/// `KEEL_ATTACH_ROUNDS`, or `usual`.
fn rounds(usual: u32) -> u32 {
    std::env::var("KEEL_ATTACH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn what_cannot_be_entered_is_refused_with_the_reason() {
    let _one = ONE.lock();
    let bench = Bench::new();
    let refused = |pid: u32| {
        let result = attach_with(pid, &options(&bench, 0.1), &mut |_| {});
        let Err(Error::Attach { reason, .. }) = result else { panic!("{result:?}") };
        reason
    };
    assert_eq!(refused(std::process::id()), "it is keel itself");
    assert_eq!(refused(0x3fff_ffff), "there is no such process");
    let fixed = bench.compile("served.c", &["-static"]);
    let mut child = start(Command::new(fixed).arg("1"));
    assert!(refused(child.id()).contains("statically linked"));
    let stopped = Command::new("kill").args(["-STOP", &child.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    std::thread::sleep(Duration::from_millis(100));
    assert!(refused(child.id()).contains("it is stopped"));
    child.kill().unwrap();
    // Not waited for: it has ended.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(refused(child.id()), "it has ended");
    child.wait().unwrap();
}

/// In a program that is not position-independent, and takes the addresses of functions, the
/// program's own stubs are found by their names.
#[test]
fn functions_whose_addresses_a_program_takes_are_recorded() {
    let _one = ONE.lock();
    let bench = Bench::new();
    for flags in [&["-no-pie", "-fno-pie"][..], &["-no-pie", "-fno-pie", "-Wl,-z,now"]] {
        let program = bench.compile("taken.c", flags);
        let child = start(&mut Command::new(&program));
        for round in 0..2 {
            let journal = attach(&bench, &child, 300);
            for size in [1001, 1005] {
                let made = journal.count(Op::Malloc, size);
                assert!(made > 10, "{flags:?}, round {round}: {made} blocks of {size}");
                let changed = journal.count(Op::Realloc, size + 2);
                assert!(changed + 2 >= made && changed <= made + 2, "{made} {changed}");
            }
            assert_eq!(journal.metadata.repairs.get("unseen_free"), None);
            assert_eq!(left_behind(&child), "");
        }
        end(child);
    }
}

/// The process that attaches in the next test: this file again, with a process id in a variable.
#[test]
fn the_process_that_is_killed() {
    let Ok(pid) = std::env::var("KEEL_TEST_ATTACH") else { return };
    let bench = Bench::new();
    drop(attach_with(pid.parse().unwrap(), &options(&bench, 0.02), &mut |_| {}));
}

/// Attaches in a process that is killed. Returns whether it ended before.
fn attach_killed(bench: &Bench, child: &Child, killer: &Path, at: &[(&str, u32)]) -> bool {
    let mut keel = Command::new(std::env::current_exe().unwrap());
    keel.args(["--exact", "the_process_that_is_killed"]);
    keel.env("KEEL_TEST_ATTACH", child.id().to_string()).env("LD_PRELOAD", killer);
    keel.envs(at.iter().map(|(name, number)| (name, number.to_string())));
    // What it leaves behind is removed with this folder.
    let status = keel.env("TMPDIR", bench.folder.path()).stdout(Stdio::null()).status();
    status.unwrap().code().is_some()
}

#[track_caller]
fn assert_runs(child: &Child, when: &str) {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    // The last number is the status with which it ended.
    assert!(!stat.contains(") Z "), "{when}: it has ended: {stat}");
}

/// keel may be killed before and after each of its requests to the system, and while the thread
/// makes its calls. The program continues with the same registers, signal mask and errno.
#[test]
fn a_killed_keel_does_not_kill_the_program() {
    const REQUESTS: u32 = 200;
    let _one = ONE.lock();
    let bench = Bench::new();
    let child = start(&mut Command::new(bench.compile("visited.c", &[])));
    let killer = bench.compile_library("killed.c");
    let killed_at = |request: u32, after_us: u32| {
        let at = [("KILLED_AT", request), ("KILLED_AFTER_US", after_us)];
        let is_unharmed = attach_killed(&bench, &child, &killer, &at);
        // The thread may wait for the keel that was killed.
        std::thread::sleep(Duration::from_millis(100));
        assert_runs(&child, &format!("killed {after_us} µs after request {request}"));
        is_unharmed
    };
    let first_unharmed = (1..REQUESTS).find(|request| killed_at(*request, 0)).unwrap();
    assert!(first_unharmed > 20, "{first_unharmed}");
    // The request after that which starts the calls is made after their end.
    for round in 0..rounds(30) {
        killed_at(1 + round % first_unharmed, 100 + round * 97 % 2000);
    }
    let journal = attach(&bench, &child, 20);
    assert!(!journal.events.is_empty());
    assert_eq!(left_behind(&child), "");
    end(child);
}

/// The visited thread continues when the thread of keel has ended that visits it. The other threads
/// of keel may need long to end, and must not be waited for. The program looks at its policy.
#[test]
fn the_priority_of_a_visit_ends_with_the_thread_that_gave_it() {
    let _one = ONE.lock();
    let bench = Bench::new();
    let child = start(&mut Command::new(bench.compile("visited.c", &[])));
    let killer = bench.compile_library("killed.c");
    for request in [3, 6] {
        let at = [("KILLED_AT", request), ("KILLED_SLOWLY", 1)];
        assert!(!attach_killed(&bench, &child, &killer, &at));
        // It gives its policy a second to return.
        std::thread::sleep(Duration::from_millis(1500));
        assert_runs(&child, &format!("killed at request {request}"));
    }
    // The thread runs for long before it is stopped, and creates processes.
    let at = [("KILLED_AT", 1), ("KILLED_AFTER_US", 50_000)];
    assert!(!attach_killed(&bench, &child, &killer, &at));
    assert_runs(&child, "killed before the stop");
    end(child);
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: a system call without pointers.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

/// The process may be stopped and continued at any moment of a visit.
#[test]
fn stops_of_the_process_during_a_visit_do_no_harm() {
    let _one = ONE.lock();
    let bench = Bench::new();
    let program = bench.compile("served.c", &[]);
    // It ignores a signal that keel cannot block.
    let ignore = "trap '' FPE; exec \"$0\" 1";
    let mut child = start(Command::new("sh").args(["-c", ignore]).arg(&program));
    let (pid, ends) = (child.id(), AtomicBool::new(false));
    let (mut recordings, mut stops) = (0, 0);
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| {
            let mut stops = 0;
            let path = format!("/proc/{pid}/status");
            while !ends.load(SeqCst) {
                let status = std::fs::read_to_string(&path).unwrap();
                if status.contains("TracerPid:\t0\n") {
                    std::thread::sleep(Duration::from_micros(100));
                    continue;
                }
                signal(pid, libc::SIGSTOP);
                std::thread::sleep(Duration::from_micros(stops % 5 * 100));
                signal(pid, libc::SIGFPE);
                signal(pid, libc::SIGCONT);
                stops += 1;
            }
            stops
        });
        for _ in 0..rounds(20) {
            recordings += u32::from(attach_with(pid, &options(&bench, 0.1), &mut |_| {}).is_ok());
        }
        ends.store(true, SeqCst);
        stops = stopping.join().unwrap();
    });
    assert!(recordings > 0 && stops > 0, "{recordings} recordings, {stops} stops");
    assert_eq!(child.try_wait().unwrap(), None, "it has ended");
    let journal = attach(&bench, &child, 300);
    assert!(journal.events.len() > 100);
    end(child);
}

/// A program without system calls cannot be left, and must not wait while keel looks for a thread.
#[test]
fn a_busy_program_runs_on_while_it_is_left() {
    /// More than the slots of the program's ring.
    const RING: u64 = 1 << 20;
    let _one = ONE.lock();
    let bench = Bench::new();
    let (program, counted) = (bench.compile("spins.c", &[]), bench.path("counted"));
    let mut child = start(Command::new(&program).arg(&counted));
    let mut input = child.stdin.take();
    let options = options(&bench, 1.5);
    // Its first report comes after the recorder was entered.
    let recorded = attach_with(child.id(), &options, &mut |_| {
        if let Some(mut input) = input.take() {
            input.write_all(b"x").unwrap();
        }
    });
    let recorded = recorded.unwrap();
    let made = std::fs::read(&counted).unwrap();
    let made = u64::from_le_bytes(made[..8].try_into().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(recorded.problems[0].contains("stay in process"), "{:?}", recorded.problems);
    let journal = Journal::read(&options.output);
    let seen = journal.count(Op::Malloc, 1001) as u64;
    assert!(seen > 0 && made > seen + RING, "{made} blocks, of which {seen} were recorded");
    // The time that the journal states is that of the recording, not that of the search.
    let seconds = recorded.journals[0].seconds;
    assert!((seconds - 1.5).abs() < 0.01, "{seconds}");
}

/// How a process ended is unknown, as it is no child.
#[test]
fn crashes_are_refused_and_ends_are_not() {
    let _one = ONE.lock();
    let bench = Bench::new();
    let mut child = start_served(&bench, "1");
    let last = |when: When| {
        let length = Duration::from_secs(60);
        Last { length, buffer_bytes: 1 << 20, when: vec![when], journals: 10 }
    };
    let options = |when| {
        let wait = Some(Wait::Last(last(when)));
        Options { wait, length: None, ..options(&bench, 0.0) }
    };
    let refused = attach_with(child.id(), &options(When::Crash), &mut |_| {});
    assert!(refused.is_err_and(|error| error.to_string().contains("a crash")));
    let mut input = child.stdin.take();
    let recorded = attach_with(child.id(), &options(When::Exit), &mut |_| drop(input.take()));
    let recorded = recorded.unwrap();
    assert_eq!((&recorded.problems[..], recorded.journals.len()), (&[][..], 1));
    let journal = Journal::read(recorded.journals[0].path.as_ref().unwrap());
    assert_eq!(journal.metadata.cause, "the program ended");
    end(child);
}

/// The program has loaded a recorder whose file was replaced since.
#[test]
fn another_version_of_the_recorder_is_refused() {
    let _one = ONE.lock();
    let bench = Bench::new();
    let child = start_served(&bench, "1");
    let library = bench.path("libkeel_recorder.so");
    let before = options(&bench, 0.1);
    let mut bytes = std::fs::read(&before.recorder_library).unwrap();
    let options = Options { recorder_library: library.clone(), ..before };
    std::fs::write(&library, &bytes).unwrap();
    assert!(attach_with(child.id(), &options, &mut |_| {}).is_ok());
    std::fs::remove_file(&library).unwrap();
    // In the room after the program headers, or in the build id.
    bytes[4000] ^= 1;
    std::fs::write(&library, &bytes).unwrap();
    let refused = attach_with(child.id(), &options, &mut |_| {});
    assert!(refused.is_err_and(|error| error.to_string().contains("another version")));
    end(child);
}
