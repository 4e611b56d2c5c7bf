//! Small C programs under the recorder, and the exact contents of their journals.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{Bench, Journal, whole};
use keel_journal::Op;
use keel_record::Options;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn operations_of_many_threads_are_recorded_once() {
    let bench = Bench::new();
    let program = bench.compile("counts.c", &[]);
    let (recorded, journal) = bench.record(&program, &["4", "5000"]);
    assert_eq!(recorded.status.code(), Some(7));
    let each = 4 * 5000;
    let allocations = [
        (Op::Malloc, 1001),
        (Op::Calloc, 1043),
        (Op::Realloc, 1005),
        (Op::Realloc, 1007),
        (Op::Realloc, 1017),
        (Op::Aligned, 1009),
        (Op::Aligned, 1152),
        (Op::Aligned, 1011),
        (Op::Malloc, 1013),
    ];
    for (op, size) in allocations {
        assert_eq!(journal.count(op, size), each, "{op:?} {size}");
        assert_eq!(journal.released(size), each, "free of {size}");
    }
    let aligns: BTreeMap<u64, u64> =
        journal.events.iter().filter(|e| e.align != 0).map(|e| (e.size, e.align)).collect();
    assert_eq!(aligns, BTreeMap::from([(1009, 64), (1152, 128), (1011, 256)]));
    assert_eq!(journal.metadata.foreign, 0);
    assert!(
        journal.events.iter().all(|event| event.size < 1 << 40),
        "failed calls are not recorded"
    );
    let metadata = &journal.metadata;
    assert_eq!((metadata.drops, metadata.ended.as_str()), (0, "exit 7"));
    assert_eq!(metadata.program, program.display().to_string());
    assert_eq!(metadata.arguments, ["4", "5000"]);
    let working = (0..metadata.threads.len() as u32).filter(|thread| {
        journal.events.iter().filter(|event| event.thread == *thread && event.size == 1001).count()
            == 5000
    });
    assert_eq!(working.count(), 4);
}

#[test]
fn order_holds_while_threads_reuse_addresses() {
    let bench = Bench::new();
    let program = bench.compile("exchange.c", &[]);
    let (_, journal) = bench.record(&program, &["6", "250000"]);
    assert_eq!(journal.metadata.foreign, 0);
    // All times are exact. Only the counters of two processors may differ slightly.
    let inverted = journal.metadata.repairs.get("inverted").copied().unwrap_or(0);
    assert!(inverted < 20, "{inverted} operations were out of order");
    assert!(journal.events.len() > 3_000_000, "{} operations", journal.events.len());
    let mallocs = (1100..1133).map(|size| journal.count(Op::Malloc, size)).sum::<usize>();
    assert_eq!(mallocs, 6 * 250_000);
    let allocations = journal.events.iter().filter(|event| event.created != 0).count();
    let frees = journal.events.iter().filter(|event| event.released != 0).count();
    // The C library keeps a few blocks.
    assert!(allocations - frees < 40, "{allocations} allocations, {frees} frees");
}

#[test]
fn killed_program_has_a_complete_journal() {
    let bench = Bench::new();
    let program = bench.compile("endless.c", &[]);
    let counter_file = bench.path("counter");
    std::fs::write(&counter_file, [0; 4096]).unwrap();
    let options = bench.options(&program, &[counter_file.to_str().unwrap()]);
    let word = |at: usize| {
        u64::from_le_bytes(std::fs::read(&counter_file).unwrap()[at..at + 8].try_into().unwrap())
    };
    let count = || word(0);
    let recorded = std::thread::scope(|scope| {
        let recording = scope.spawn(|| keel_record::record(&options).unwrap());
        let began = Instant::now();
        while count() < 300_000 {
            assert!(began.elapsed() < Duration::from_secs(60), "the program makes no progress");
            std::thread::sleep(Duration::from_millis(1));
        }
        let pid = word(8).to_string();
        assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
        recording.join().unwrap()
    });
    assert_eq!(recorded.status.signal(), Some(9));
    let journal = whole(&recorded);
    assert_eq!(journal.metadata.ended, "signal 9");
    let (mallocs, counted) = (journal.count(Op::Malloc, 1001) as u64, count());
    assert!(mallocs == counted || mallocs == counted + 1, "{mallocs} recorded, {counted} done");
    assert!(journal.released(1001) as u64 + 1 >= counted);
}

#[test]
fn every_way_to_end_keeps_all_operations() {
    let bench = Bench::new();
    let program = bench.compile("ends.c", &[]);
    for (how, ended) in
        [("exit", "exit 5"), ("_exit", "exit 5"), ("abort", "signal 6"), ("crash", "signal 11")]
    {
        let (_, journal) = bench.record(&program, &[how]);
        assert_eq!(journal.count(Op::Malloc, 1001), 200, "{how}");
        assert_eq!(journal.metadata.ended, ended);
    }
}

#[test]
fn children_are_not_recorded() {
    let bench = Bench::new();
    let program = bench.compile("children.c", &[]);
    // Way to start the child, blocks of the parent, of the child in its own memory, of the executed
    // leaf.
    for (how, own, child, leaf) in [
        ("fork", 200, 0, 0),
        ("clone", 200, 0, 0),
        ("fork_exec", 200, 0, 0),
        ("vfork", 200, 50, 0), // a vforked child uses its parent's memory
        ("posix_spawn", 200, 0, 0),
    ] {
        let (recorded, journal) = bench.record(&program, &[how]);
        assert_eq!(recorded.status.code(), Some(0), "{how}");
        let counts = [1001, 1003, 1005].map(|size| journal.count(Op::Malloc, size));
        assert_eq!(counts, [own, child, leaf], "{how}");
        assert_eq!(journal.metadata.foreign, 0, "{how}");
    }
}

#[test]
fn each_executed_program_has_a_journal() {
    let bench = Bench::new();
    let program = bench.compile("children.c", &[]);
    // The image that requests more bytes has the name of the journal: the first or the second. In
    // the last case the other one has more operations.
    for (how, main, other, number) in
        [("exec", 1001, 1005, 2), ("exec_large", 1009, 1001, 1), ("exec_few", 100_003, 1001, 1)]
    {
        for follow_children in [false, true] {
            let options = Options { follow_children, ..bench.options(&program, &[how]) };
            let recorded = keel_record::record(&options).unwrap();
            assert_eq!(recorded.status.code(), Some(0), "{how}");
            assert_eq!(recorded.problems, Vec::<String>::new(), "{how}");
            assert_eq!(recorded.journals.len(), 2, "{how}");
            let pid = recorded.journals[0].metadata.pid;
            let process = if follow_children { format!("out.{pid}") } else { "out".to_owned() };
            let read = |name: &str| Journal::read(&bench.path(name));
            let main_journal = read(&format!("{process}.journal.parquet"));
            let other_journal = read(&format!("{process}.image-{number}.journal.parquet"));
            let counts =
                |journal: &Journal| [main, other].map(|size| journal.count(Op::Malloc, size) > 0);
            assert_eq!(counts(&main_journal), [true, false], "{how}");
            assert_eq!(counts(&other_journal), [false, true], "{how}");
            for journal in [&main_journal, &other_journal] {
                assert_eq!((journal.metadata.foreign, journal.metadata.threads.len()), (0, 1));
            }
            let ended = recorded.journals.iter().map(|journal| journal.metadata.ended.clone());
            let replaced = format!("exec {}", program.display());
            assert_eq!(ended.collect::<Vec<_>>(), [replaced, "exit 0".to_owned()], "{how}");
        }
    }
}

#[test]
fn followed_children_have_separate_journals() {
    let bench = Bench::new();
    let program = bench.compile("children.c", &[]);
    // Way to start the child, blocks in the parent's journal, blocks in the child's, foreign frees
    // in the child.
    for (how, parent, child, foreign) in [
        ("fork", [200, 0, 0], vec![[0, 50, 0]], 1),
        ("clone", [200, 0, 0], vec![[0, 50, 0]], 1),
        ("cleared", [200, 0, 0], vec![[0, 50, 0]], 1),
        ("fork_exec", [200, 0, 0], vec![[0, 50, 0], [0, 0, 25]], 1),
        ("vfork", [200, 50, 0], vec![[0, 0, 25]], 0),
        ("posix_spawn", [200, 0, 0], vec![[0, 0, 25]], 0),
    ] {
        let options = Options { follow_children: true, ..bench.options(&program, &[how]) };
        let recorded = keel_record::record(&options).unwrap();
        assert_eq!(recorded.status.code(), Some(0), "{how}");
        assert_eq!(recorded.problems, Vec::<String>::new(), "{how}");
        let journals: Vec<Journal> = recorded
            .journals
            .iter()
            .map(|journal| Journal::read(journal.path.as_ref().unwrap()))
            .collect();
        let counts =
            |journal: &Journal| [1001, 1003, 1005].map(|size| journal.count(Op::Malloc, size));
        let expected = [child, vec![parent]].concat();
        assert_eq!(journals.iter().map(counts).collect::<Vec<_>>(), expected, "{how}");
        // The first is the child's.
        let foreign_frees: Vec<u64> = journals.iter().map(|j| j.metadata.foreign).collect();
        assert_eq!(foreign_frees[0], foreign, "{how}");
        assert_eq!(foreign_frees[1..].iter().sum::<u64>(), 0, "{how}");
        for (index, journal) in recorded.journals.iter().enumerate() {
            let image = if expected.len() == 3 && index == 1 { ".image-2" } else { "" };
            let name = format!("out.{}{image}.journal.parquet", journal.metadata.pid);
            assert_eq!(journal.path.as_ref().unwrap().file_name().unwrap().to_str().unwrap(), name);
        }
    }
}

#[test]
fn processes_of_the_compiler_are_followed() {
    let bench = Bench::new();
    let source = bench.path("hello.c");
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n")
        .unwrap();
    let arguments =
        [source.to_str().unwrap(), "-o", bench.path("hello").to_str().unwrap()].map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let options = Options { follow_children: true, ..bench.options(Path::new("gcc"), &arguments) };
    let recorded = keel_record::record(&options).unwrap();
    assert_eq!(recorded.status.code(), Some(0));
    assert!(bench.path("hello").is_file());
    let journals: Vec<Journal> = recorded
        .journals
        .iter()
        .map(|journal| Journal::read(journal.path.as_ref().unwrap()))
        .collect();
    let programs: Vec<&str> =
        journals.iter().map(|j| j.metadata.program.rsplit('/').next().unwrap()).collect();
    for wanted in ["cc1", "as", "collect2", "ld", "gcc"] {
        assert!(
            programs.iter().any(|program| program.contains(wanted)),
            "no {wanted} in {programs:?}"
        );
    }
    let compiler = journals.iter().find(|j| j.metadata.program.ends_with("/cc1")).unwrap();
    assert!(compiler.events.len() > 1000 && compiler.metadata.foreign == 0);
}

#[test]
fn thousands_of_short_threads_are_recorded() {
    let bench = Bench::new();
    let program = bench.compile("threads.c", &[]);
    let (recorded, journal) = bench.record(&program, &["3000", "250"]);
    assert_eq!(recorded.status.code(), Some(0));
    assert_eq!((journal.count(Op::Malloc, 1001), journal.released(1001)), (3000, 3000));
    // The key's destructor runs four times per thread; the fourth run frees the block of the third
    // and last malloc.
    assert_eq!((journal.count(Op::Malloc, 1003), journal.released(1003)), (9000, 9000));
    assert_eq!(journal.metadata.foreign, 0);
    assert_eq!(journal.metadata.threads.len(), 3001);
    let named =
        journal.metadata.threads.iter().filter(|thread| thread.name.starts_with("worker ")).count();
    assert_eq!(named, 3000);
}

#[test]
fn signal_handler_may_interrupt_anywhere() {
    let bench = Bench::new();
    let program = bench.compile("handler.c", &[]);
    let bump = bench.compile_library("bump.c");
    let counted = bench.path("counted");
    let script = format!("exec {} 2000000 > {}", program.display(), counted.display());
    let options = Options {
        preload: Some(bump.into()),
        ..bench.options(Path::new("/bin/sh"), &["-c", &script])
    };
    let recorded = keel_record::record(&options).unwrap();
    assert_eq!((recorded.status.code(), recorded.problems), (Some(0), Vec::new()));
    // The shell's operations are in another journal.
    let journal = Journal::read(&options.output);
    let handled: usize = std::fs::read_to_string(&counted).unwrap().trim().parse().unwrap();
    assert!(handled > 100, "{handled} signals");
    assert_eq!((journal.count(Op::Malloc, 1001), journal.released(1001)), (2_000_000, 2_000_000));
    assert_eq!((journal.count(Op::Malloc, 1003), journal.released(1003)), (handled, handled));
    assert!(journal.metadata.allocator.ends_with("libbump.so"), "{}", journal.metadata.allocator);
}

#[test]
fn operators_are_recorded_once_on_any_allocator() {
    let bench = Bench::new();
    let program = bench.compile("operators.cpp", &["-std=c++17"]);
    let bump = bench.compile_library("bump.c");
    for preload in [None, Some(bump.into_os_string())] {
        let own = preload.is_some();
        let options = Options { preload, ..bench.options(&program, &[]) };
        let recorded = keel_record::record(&options).unwrap();
        // bump.c's operators return NULL where they should throw.
        assert_eq!(recorded.status.code(), Some(i32::from(own)));
        let journal = whole(&recorded);
        for (form, size) in (1001..1016).step_by(2).enumerate() {
            let allocations: usize =
                [Op::Malloc, Op::Aligned].map(|op| journal.count(op, size)).iter().sum();
            // libstdc++ rounds the size of an aligned block up to the alignment; the size of the
            // request is recorded.
            assert_eq!(allocations, 10, "form {form}, own operators: {own}");
            assert_eq!(journal.released(size), 10, "form {form}, own operators: {own}");
        }
        assert_eq!(journal.metadata.foreign, 0);
    }
}

#[test]
fn frames_are_marked_by_presenting_functions() {
    let bench = Bench::new();
    let library = bench.compile_library("picture.c");
    let program = bench.compile("frames.c", &[library.to_str().unwrap()]);
    let (_, journal) = bench.record(&program, &[]);
    assert_eq!(journal.metadata.frames.len(), 60);
    let mut in_frame = vec![0; 60];
    for event in journal.events.iter().filter(|event| event.op == Op::Malloc && event.size == 1001)
    {
        in_frame[event.frame as usize] += 1;
    }
    assert_eq!(in_frame, vec![3; 60]);
}

#[test]
fn unrecordable_programs_are_not_started() {
    let bench = Bench::new();
    let refused =
        |program: &Path| keel_record::record(&bench.options(program, &[])).unwrap_err().to_string();
    let fixed = bench.compile("ends.c", &["-static"]);
    let message = refused(&fixed);
    assert!(message.contains("it is statically linked") && message.contains("ends"), "{message}");
    let own = bench.compile("own_malloc.c", &["-rdynamic"]);
    let message = refused(&own);
    assert!(message.contains("it exports its own malloc"), "{message}");
    let message = refused(Path::new("/no/such/program"));
    assert!(message.starts_with("cannot find the program /no/such/program"), "{message}");

    let mark = bench.path("was started");
    let mut options = bench.options(Path::new("/bin/touch"), &[mark.to_str().unwrap()]);
    options.output = PathBuf::from("/no/such/folder/x.journal.parquet");
    for follow_children in [false, true] {
        options.follow_children = follow_children;
        let message = keel_record::record(&options).unwrap_err().to_string();
        assert!(message.starts_with("cannot create /no/such/folder/x"), "{message}");
    }
    options.output = bench.path("x.journal.parquet");
    options.spool_folder = PathBuf::from("/no/such/spool");
    let message = keel_record::record(&options).unwrap_err().to_string();
    assert!(message.contains("/no/such/spool") && message.contains("--spool"), "{message}");
    assert!(!mark.exists(), "the program was started");
    assert!(!options.output.exists(), "an unfinished journal was left");
}
