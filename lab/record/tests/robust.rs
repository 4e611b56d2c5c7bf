//! Programs that are hard to record, each with an exact expectation. More of them are in record.rs:
//! fork, exec, vfork, posix_spawn, many short threads, keys' destructors, handlers that allocate, a
//! program with its own malloc, _exit, abort, crashes, SIGKILL.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stderr, reason = "a skipped test is reported")]

mod common;

use common::{Bench, Journal, root, whole};
use keel_journal::{FreeHint, Op};
use keel_record::{Options, import_log};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

#[test]
fn all_threads_of_a_sandbox_are_recorded() {
    let bench = Bench::new();
    let program = bench.compile("sandbox.c", &[]);
    for how in ["seccomp", "setuid"] {
        let (recorded, journal) = bench.record(&program, &[how]);
        if recorded.status.code() == Some(77) {
            eprintln!("SKIPPED: {how} is not allowed here");
            continue;
        }
        assert_eq!(recorded.status.code(), Some(0), "{how}: {:?}", recorded.status);
        assert_eq!(
            (journal.count(Op::Malloc, 1001), journal.released(1001)),
            (150_000, 150_000),
            "{how}"
        );
        assert_eq!((journal.metadata.drops, journal.metadata.foreign), (0, 0), "{how}");
    }
}

#[test]
fn destructors_of_thread_local_objects_are_recorded() {
    let bench = Bench::new();
    let program = bench.compile("tls_objects.cpp", &[]);
    let (_, journal) = bench.record(&program, &[]);
    assert_eq!((journal.count(Op::Malloc, 1001), journal.released(1001)), (50, 50));
    assert_eq!((journal.count(Op::Malloc, 1003), journal.released(1003)), (50, 50));
    assert_eq!(journal.metadata.foreign, 0);
}

#[test]
fn linked_allocator_is_recorded() {
    let bench = Bench::new();
    let bump = bench.compile_library("bump.c");
    let program = bench.compile("linked.c", &["-Wl,--no-as-needed", bump.to_str().unwrap()]);
    let (recorded, journal) = bench.record(&program, &[]);
    assert_eq!(recorded.status.code(), Some(0));
    assert!(journal.metadata.allocator.ends_with("/libbump.so"), "{}", journal.metadata.allocator);
    // bump.c serves posix_memalign and aligned_alloc by calling memalign by name: each block is one
    // allocation.
    for (op, size) in
        [(Op::Malloc, 1001), (Op::Calloc, 1043), (Op::Aligned, 1009), (Op::Aligned, 1152)]
    {
        assert_eq!((journal.count(op, size), journal.released(size)), (40, 40), "{op:?} {size}");
    }
    assert_eq!((journal.count(Op::Realloc, 1007), journal.released(1005)), (40, 40));
    assert_eq!((journal.metadata.foreign, journal.metadata.repairs.get("unseen_free")), (0, None));
}

#[test]
fn first_malloc_may_run_under_a_lock_of_the_c_library() {
    let bench = Bench::new();
    let locked = bench.compile_library("locked.c");
    let program = bench.compile("linked.c", &["-Wl,--no-as-needed", locked.to_str().unwrap()]);
    for first in ["newlocale", "setlocale", "pthread_atfork"] {
        let (recorded, journal) = bench.record(&program, &[first]);
        assert_eq!(recorded.status.code(), Some(0), "{first}: {:?}", recorded.status);
        assert_eq!((journal.count(Op::Malloc, 1001), journal.released(1001)), (40, 40), "{first}");
    }
}

#[test]
fn static_program_reports_its_own_allocations() {
    let bench = Bench::new();
    let library = bench.static_library();
    let include = format!("-I{}", root().join("in_process/include").display());
    let program = bench.compile("embedded.c", &["-static", &include, library.to_str().unwrap()]);
    let options =
        Options { embedded: true, follow_children: false, ..bench.options(&program, &[]) };
    let recorded = keel_record::record(&options).unwrap();
    assert_eq!(recorded.status.code(), Some(0));
    let journal = whole(&recorded);
    assert_eq!((journal.count(Op::Malloc, 1001), journal.released(1001)), (1000, 510));
    assert_eq!((journal.count(Op::Realloc, 1003), journal.released(1003)), (10, 0));
    assert_eq!(journal.count(Op::Aligned, 1005), 10);
    assert!(
        journal.events.iter().filter(|event| event.size == 1005).all(|event| event.align == 256)
    );
    assert_eq!((journal.count(Op::Realloc, 1007), journal.released(1007)), (1, 1));
    for (size, free_hint, count) in [(1013, FreeHint::SIZE, 10), (1015, FreeHint::BOTH, 9)] {
        assert_eq!(journal.released(size), 10);
        assert_eq!(
            journal.events.iter().filter(|event| event.free_hint == free_hint).count(),
            count
        );
    }
    let wrong: Vec<_> = journal.events.iter().filter(|event| event.free_hint.is_wrong()).collect();
    assert_eq!((wrong.len(), wrong[0].free_hint), (1, FreeHint::wrong(Some(1016), Some(128))));
    assert_eq!(journal.events.len(), 1000 + 500 + 10 + 10 + 1 + 1 + 4 * 10, "no other operation");
    assert_eq!((journal.metadata.foreign, journal.metadata.threads.len()), (0, 2));
}

#[test]
fn programs_that_leave_the_session_are_reported() {
    let bench = Bench::new();
    let program = bench.compile("leaves.c", &[]);
    let jail = bench.path("jail");
    std::fs::create_dir(&jail).unwrap();
    let still = bench.compile("still.c", &["-static"]);
    std::fs::copy(&still, jail.join("still")).unwrap();
    std::fs::copy(bench.compile("sites.c", &["-static"]), jail.join("short")).unwrap();
    let (still, jail) = (still.to_str().unwrap(), jail.to_str().unwrap());
    for (how, arguments, reason) in [
        ("chroot", vec!["chroot", "/still", jail], format!("its root folder is {jail}")),
        ("setuid", vec!["setuid", "/bin/sleep"], "it runs as user 65534".to_owned()),
        ("chroot", vec!["chroot", "/short", jail], "in another root folder".to_owned()),
        ("setuid", vec!["setuid", "/bin/true"], "as another user".to_owned()),
        ("exec", vec!["exec", still], "statically linked".to_owned()),
        ("child", vec!["child", still], "statically linked".to_owned()),
    ] {
        let options =
            Options { follow_children: how == "child", ..bench.options(&program, &arguments) };
        let recorded = keel_record::record(&options).unwrap();
        if recorded.status.code() == Some(77) {
            eprintln!("SKIPPED: {how} is not allowed here");
            continue;
        }
        assert_eq!(recorded.status.code(), Some(0), "{how}");
        let (said, silent) = match how {
            "child" => (&recorded.notes, &recorded.problems),
            _ => (&recorded.problems, &recorded.notes),
        };
        assert_eq!((said.len(), silent.len()), (1, 0), "{how}: {recorded:?}");
        assert!(said[0].contains(" is not recorded: ") && said[0].contains(&reason), "{said:?}");
        let journal = Journal::read(recorded.journals[0].path.as_ref().unwrap());
        assert_eq!(journal.count(Op::Malloc, 1001), 100, "{how}");
    }
}

/// setpriv itself can open everything until it executes the program.
#[test]
fn a_program_that_lost_its_capabilities_is_reported() {
    let bench = Bench::new();
    let arguments = ["--reuid", "65534", "--clear-groups", "/bin/true"];
    if !Command::new("setpriv").args(arguments).status().is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: only root can become another user, with setpriv");
        return;
    }
    let recorded = keel_record::record(&bench.options(Path::new("setpriv"), &arguments)).unwrap();
    assert_eq!(recorded.status.code(), Some(0));
    let [problem] = &recorded.problems[..] else { panic!("{recorded:?}") };
    assert!(problem.contains("as another user"), "{problem}");
}

#[test]
fn children_that_cannot_open_the_session_are_reported() {
    let bench = Bench::new();
    let program = bench.compile("children.c", &[]);
    for how in ["setuid", "chroot"] {
        let options = Options { follow_children: true, ..bench.options(&program, &[how]) };
        let recorded = keel_record::record(&options).unwrap();
        if recorded.status.code() == Some(77) {
            eprintln!("SKIPPED: {how} is not allowed here");
            continue;
        }
        assert_eq!((recorded.status.code(), recorded.journals.len()), (Some(0), 1), "{how}");
        let [note] = &recorded.notes[..] else { panic!("{how}: {recorded:?}") };
        assert!(note.starts_with("a child of a recorded process"), "{how}: {note}");
        let journal = Journal::read(recorded.journals[0].path.as_ref().unwrap());
        assert_eq!(journal.count(Op::Malloc, 1001), 200, "{how}");
    }
}

/// The environment of a program that gains privileges is that of another user.
#[test]
fn program_that_gains_privileges_ignores_the_session() {
    let bench = Bench::new();
    let library = bench.static_library();
    let include = format!("-I{}", root().join("in_process/include").display());
    let program = bench.compile("secure.c", &["-static", &include, library.to_str().unwrap()]);
    let given = std::os::unix::fs::chown(&program, None, Some(65534));
    let mode = std::fs::Permissions::from_mode(0o2755);
    if given.is_err() || std::fs::set_permissions(&program, mode).is_err() {
        eprintln!("SKIPPED: only root can make a program of another group");
        return;
    }
    let options =
        Options { embedded: true, follow_children: false, ..bench.options(&program, &[]) };
    let recorded = keel_record::record(&options).unwrap();
    if recorded.status.code() == Some(77) {
        eprintln!("SKIPPED: the file system ignores the set-group-id bit");
        return;
    }
    assert_eq!(recorded.status.code(), Some(0));
    assert!(recorded.problems[0].starts_with("nothing was recorded"), "{:?}", recorded.problems);
}

#[test]
fn successive_embedded_recordings_are_separate_journals() {
    let bench = Bench::new();
    let library = bench.static_library();
    let include = format!("-I{}", root().join("in_process/include").display());
    let program = bench.compile("successive.c", &["-static", &include, library.to_str().unwrap()]);
    let folder = bench.path("spools");
    std::fs::create_dir(&folder).unwrap();
    let status = std::process::Command::new(&program).arg(&folder).status().unwrap();
    assert_eq!(status.code(), Some(0));
    for (round, blocks) in [(0_usize, 100), (1, 40_000), (2, 200)] {
        let output = bench.path(&format!("{round}.journal.parquet"));
        let spool = folder.join(round.to_string());
        let imported = import_log(&spool, &output, &[]).unwrap();
        assert!(imported.ended_in_order && !folder.join(format!("{round}.rings")).exists());
        let journal = Journal::read(&output);
        // Blocks of main, and of a thread that runs from the first recording to the last.
        for size in [1001, 1003] {
            assert_eq!(
                (journal.count(Op::Malloc, size), journal.released(size)),
                (blocks, blocks / 2),
                "{round}"
            );
        }
        assert_eq!(journal.metadata.threads.len(), 2, "{round}");
        // Ten blocks of the previous recording are freed in this one. Operations between the two
        // are not recorded.
        let from_before = if round == 0 { 0 } else { 10 };
        assert_eq!(journal.metadata.foreign, from_before, "{round}");
        assert_eq!(
            journal.events.len(),
            3 * blocks + from_before as usize,
            "{round}: no other operation"
        );
        let marks: Vec<&str> =
            journal.metadata.marks.iter().map(|mark| mark.text.as_str()).collect();
        assert_eq!(marks, [format!("recording {round}")]);
        assert_eq!(journal.metadata.repairs.get("unseen_free"), None);
    }
}

#[test]
fn repeated_recordings_have_the_same_operations() {
    let bench = Bench::new();
    let program = std::path::Path::new("sort");
    let lines: String =
        (0..20_000u64).map(|i| format!("{}\n", i * 2_654_435_761 % 1_000_003)).collect();
    let file = bench.path("lines");
    std::fs::write(&file, lines).unwrap();
    let out = bench.path("sorted");
    let arguments = ["--parallel=1", "-o", out.to_str().unwrap(), file.to_str().unwrap()];
    let run = || {
        let (recorded, journal) = bench.record(program, &arguments);
        assert_eq!(recorded.status.code(), Some(0));
        let row =
            |e: &keel_journal::Event| (e.op, e.size, e.align, e.created, e.released, e.thread);
        journal.events.iter().map(row).collect::<Vec<_>>()
    };
    let first = run();
    assert!(first.len() > 10, "18 without a locale, 290 with C.UTF-8");
    assert_eq!(first, run());
}

#[test]
fn a_limit_of_file_sizes_does_not_end_the_program() {
    let bench = Bench::new();
    let program = bench.compile("ends.c", &[]);
    let script = format!("ulimit -f 8; exec {} exit", program.display());
    let alone = std::process::Command::new("sh").args(["-c", &script]).status().unwrap();
    let recorded = keel_record::record(&bench.options("sh".as_ref(), &["-c", &script])).unwrap();
    assert_eq!(recorded.status, alone);
    assert!(
        recorded.problems.iter().any(|problem| problem.contains("ulimit -f")),
        "{:?}",
        recorded.problems
    );
}
