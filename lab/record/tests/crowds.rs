//! Many threads that start together, libraries that are closed at once, and long paths.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::Bench;
use keel_journal::Op;
use keel_record::Options;
use std::process::Command;

/// Threads that wait for a ring sleep until there is one. A thread that looks every two
/// milliseconds would be counted hundreds of times, because on a busy machine it takes seconds to
/// start so many threads. A thread with few events touches one page of its ring.
#[test]
fn threads_that_start_together_wait_without_waking_and_touch_a_page() {
    const THREADS: i64 = 1500;
    let bench = Bench::new();
    let program = bench.compile("together.c", &[]);
    let printed = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        counts(&String::from_utf8(output.stdout).unwrap())
    };
    let alone = printed(Command::new(&program).arg(THREADS.to_string()));
    // A program's output goes to that of this test, so a shell writes it to a file.
    let file = bench.path("counts");
    let script = format!("exec {} {THREADS} >{}", program.display(), file.display());
    let options = bench.options("sh".as_ref(), &["-c", &script]);
    let recorded = keel_record::record(&options).unwrap();
    assert_eq!((recorded.status.code(), recorded.problems.len()), (Some(0), 0));
    let [waits, faults] = counts(&std::fs::read_to_string(&file).unwrap());
    let [waits_alone, faults_alone] = alone;
    let more = waits - waits_alone;
    assert!(more < 4 * THREADS, "{waits} waits of {THREADS} threads, {waits_alone} alone");
    // One of each thread, and those of the start.
    let more = faults - faults_alone;
    assert!(more < 2 * THREADS, "{faults} faults of {THREADS} threads, {faults_alone} alone");
    let program_journal = common::Journal::read(&bench.path("out.journal.parquet"));
    assert_eq!(program_journal.count(Op::Malloc, 1001), 10 * THREADS as usize);
    // Waits for rings are in the summary.
    assert!(program_journal.metadata.stalls < 2 * THREADS as u64);
}

/// What together.c prints.
fn counts(text: &str) -> [i64; 2] {
    let numbers: Vec<i64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn calls_of_closed_libraries_have_the_right_names() {
    let bench = Bench::new();
    let program = bench.compile("plugins.c", &[]);
    let library = bench.compile_library("plugin_allocate.c");
    let libraries = ["one.so", "two.so"].map(|name| bench.path(name));
    for path in &libraries {
        std::fs::copy(&library, path).unwrap();
    }
    let [one, two] = libraries.map(|path| path.to_str().unwrap().to_owned());
    for stacks in [0, 8] {
        let options = Options { stacks, ..bench.options(&program, &[&one, &two, "300"]) };
        let recorded = keel_record::record(&options).unwrap();
        let journal = common::whole(&recorded);
        for (size, name) in [(1000, "one.so"), (1001, "two.so")] {
            assert_eq!(journal.count(Op::Malloc, size), 3000, "stacks {stacks}");
            let modules: Vec<String> = journal.modules(Op::Malloc, size).into_iter().collect();
            assert_eq!(modules, [name], "stacks {stacks}");
        }
        assert_eq!(journal.metadata.repairs.get("unnamed_code"), None, "stacks {stacks}");
    }
}

#[test]
fn a_long_spool_path_and_odd_names_are_recorded() {
    use std::os::unix::ffi::OsStrExt as _;
    let bench = Bench::new();
    let folder = bench.path(&format!("{}/{}", "long".repeat(50), "path".repeat(50)));
    std::fs::create_dir_all(&folder).unwrap();
    let program = bench.compile("ends.c", &[]);
    let odd = bench.path("").join(std::ffi::OsStr::from_bytes(b"od d\xff:\n"));
    std::fs::copy(&program, &odd).unwrap();
    for follow_children in [false, true] {
        let output = odd.with_extension(format!("{follow_children}.journal.parquet"));
        let options = Options {
            spool_folder: folder.clone(),
            output,
            follow_children,
            ..bench.options(&odd, &["exit"])
        };
        let recorded = keel_record::record(&options).unwrap();
        assert_eq!(recorded.problems, Vec::<String>::new());
        let path = recorded.journals[0].path.as_ref().unwrap();
        assert!(path.as_os_str().as_bytes().windows(2).any(|pair| pair == b"\xff:"), "{path:?}");
        assert_eq!(common::Journal::read(path).count(Op::Malloc, 1001), 200);
    }
}
