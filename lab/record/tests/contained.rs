//! Programs that contain their allocator, so that the recorder changes their code.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![cfg(target_arch = "x86_64")]

mod common;

use common::{Bench, Journal, whole};
use keel_journal::{Metadata, Op, Origin};
use keel_record::{Options, Sample};
use std::path::Path;

/// The numbers of allocations, and of frees, in the order of contained.c.
fn counts(journal: &Journal) -> [usize; 5] {
    let all = 1000..2000;
    let of = |op: Op| {
        journal.events.iter().filter(|event| event.op == op && all.contains(&event.size)).count()
    };
    // A realloc of a block releases one, too.
    let frees = all.clone().map(|size| journal.released(size)).sum::<usize>();
    let moved = journal.events.iter().filter(|e| e.op == Op::Realloc && e.released != 0).count();
    [of(Op::Malloc), of(Op::Calloc), of(Op::Realloc), of(Op::Aligned), frees - moved]
}

/// What the program counted itself.
fn counted(file: &Path) -> [usize; 5] {
    let text = std::fs::read_to_string(file).unwrap();
    let numbers: Vec<usize> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn a_malloc_in_the_program_is_recorded() {
    for flags in [
        &["-pie", "-fPIE", "-fcf-protection=full"][..],
        &["-no-pie", "-fno-pie"],
        &["-O2", "-fcf-protection=none"],
        &["-O2", "-s"],
        &["-Os", "-fno-plt"],
        &["-O0"],
    ] {
        let bench = Bench::new();
        let program = bench.compile("contained.c", flags);
        let file = bench.path("counts");
        let (recorded, journal) = bench.record(&program, &[file.to_str().unwrap(), "3"]);
        assert_eq!(recorded.status.code(), Some(0), "{flags:?}");
        let expected = counted(&file);
        assert_eq!(expected, [4000, 4000, 8000, 4000, 16_000]);
        assert_eq!(counts(&journal), expected, "{flags:?}");
        assert_eq!(recorded.notes, Vec::<String>::new());
        let Metadata { allocator, memory, foreign, .. } = &journal.metadata;
        assert_eq!(Path::new(allocator), program);
        // The one mapping is the allocator's.
        assert_eq!((memory.mapped_calls, *foreign), (0, 0), "{flags:?}");
    }
}

#[test]
fn an_allocator_with_names_of_its_own_is_recorded_beside_malloc() {
    for (flags, names) in [
        (&[][..], "_rjem_"),
        (&["-fvisibility=hidden"], "je_arrow_"),
        (&["-pie", "-fPIE", "-Wl,--gc-sections"], "je_"),
    ] {
        let bench = Bench::new();
        let name = format!("-DNAME(function)={names}##function");
        let flags = [flags, &[name.as_str()]].concat();
        let program = bench.compile("contained.c", &flags);
        let file = bench.path("counts");
        let (_, journal) = bench.record(&program, &[file.to_str().unwrap(), "1"]);
        assert_eq!(counts(&journal), counted(&file), "{names}");
        assert!(journal.metadata.allocator.contains("libc"), "{:?}", journal.metadata.allocator);
        let other = &journal.metadata.other_allocators[0];
        assert_eq!((Path::new(&other.path), other.recorded), (program.as_path(), true));
    }
}

#[test]
fn forked_children_are_recorded() {
    let bench = Bench::new();
    let program = bench.compile("contained.c", &[]);
    let file = bench.path("counts");
    let options = bench.options(&program, &[file.to_str().unwrap()]);
    let recorded = keel_record::record(&Options { follow_children: true, ..options }).unwrap();
    assert_eq!(recorded.problems, Vec::<String>::new());
    let journals: Vec<Journal> =
        recorded.journals.iter().map(|one| Journal::read(one.path.as_ref().unwrap())).collect();
    let of = |journal: &Journal| (journal.count(Op::Malloc, 1005), journal.released(1005));
    assert_eq!(journals.iter().map(of).collect::<Vec<_>>(), [(25, 25), (0, 0)]);
    assert_eq!(counts(&journals[1]), counted(&file));
}

#[test]
fn operators_that_call_malloc_are_recorded_once() {
    let bench = Bench::new();
    let program = bench.compile("contained.cpp", &[]);
    let (recorded, journal) = bench.record(&program, &[]);
    assert_eq!(recorded.status.code(), Some(0));
    for (op, size) in [(Op::Malloc, 1001), (Op::Malloc, 1002), (Op::Aligned, 1088)] {
        assert_eq!((journal.count(op, size), journal.released(size)), (100, 100), "{size}");
    }
    // Freed by a handler inside of operator new.
    assert_eq!((journal.count(Op::Malloc, 1003), journal.released(1003)), (1, 1));
    let hints = journal.events.iter().filter(|event| event.free_hint.has_size()).count();
    assert_eq!(hints, 200, "of the array, and of the aligned block");
    let callers = journal.modules(Op::Malloc, 1002);
    assert_eq!(callers.into_iter().collect::<Vec<_>>(), ["contained"]);
}

#[test]
fn call_stacks_pass_through_changed_functions() {
    let bench = Bench::new();
    let program = bench.compile("contained.cpp", &[]);
    let options = Options { stacks: 4, ..bench.options(&program, &[]) };
    let journal = whole(&keel_record::record(&options).unwrap());
    let deep = journal.events.iter().zip(&journal.origins);
    let deep = deep.filter(|(event, origin)| event.size == 1002 && origin.stack != Origin::NONE);
    assert_eq!(deep.count(), 100);
}

#[test]
fn changed_functions_leave_the_registers_alone() {
    let bench = Bench::new();
    let program = bench.compile("contained_registers.c", &[]);
    for stacks in [0, 4] {
        let options = Options { stacks, ..bench.options(&program, &[]) };
        let recorded = keel_record::record(&options).unwrap();
        assert_eq!(recorded.status.code(), Some(0), "the registers are as without the recorder");
        let journal = whole(&recorded);
        assert_eq!((journal.count(Op::Malloc, 1500), journal.released(1500)), (100, 100));
    }
    // Some calls are samples, and some are not.
    let sample = Some(Sample { bytes: 3000, seed: 1 });
    let recorded = keel_record::record(&Options { sample, ..bench.options(&program, &[]) });
    assert_eq!(recorded.unwrap().status.code(), Some(0), "the same with samples");
}

#[test]
fn a_malloc_around_the_next_one_is_recorded_once() {
    for flags in [&[][..], &["-DJUMP"]] {
        let bench = Bench::new();
        let program = bench.compile("contained_around.c", flags);
        let (recorded, journal) = bench.record(&program, &[]);
        assert_eq!(recorded.status.code(), Some(0), "{flags:?}");
        let counts = (journal.count(Op::Malloc, 1001), journal.released(1001));
        assert_eq!(counts, (1000, 1000), "{flags:?}");
    }
}

#[test]
fn functions_that_cannot_be_changed_are_named() {
    let bench = Bench::new();
    let refused = |flags: &[&str]| {
        let program = bench.compile("contained_refused.c", flags);
        keel_record::record(&bench.options(&program, &[])).map_err(|error| error.to_string())
    };
    let said = refused(&["-DSHORT"]).unwrap_err();
    assert!(said.contains("its function free: it is too short (1 bytes)"), "{said}");
    let said = refused(&["-DLOOP"]).unwrap_err();
    assert!(said.contains("its function malloc: a jump in it leads to one of its"), "{said}");
    assert_eq!(whole(&refused(&[]).unwrap()).count(Op::Malloc, 1001), 1);
}

#[test]
fn the_user_learns_that_the_code_could_not_be_changed() {
    for (flags, reason) in [
        (&["-DTHREAD"][..], "a library of the program started a thread"),
        (&[], "the system does not let its code be changed"),
    ] {
        let bench = Bench::new();
        let library = bench.compile("obstacle.c", &[&["-shared", "-fPIC"], flags].concat());
        let program = bench.compile("contained.c", &[]);
        let file = bench.path("counts");
        let mut options = bench.options(&program, &[file.to_str().unwrap()]);
        options.preload = Some(library.into());
        let recorded = keel_record::record(&options).unwrap();
        if recorded.status.code() == Some(77) {
            continue;
        }
        assert_eq!(recorded.status.code(), Some(0), "the program works");
        assert!(recorded.problems.iter().any(|text| text.contains(reason)), "{recorded:?}");
        assert_eq!(counted(&file)[0], 1000);
    }
}

#[test]
fn a_stripped_allocator_is_named() {
    let bench = Bench::new();
    let names = "-DNAME(function)=_rjem_##function";
    let record = |flags: &[&str]| {
        let flags = [&[names, "-DTEXT=\"<jemalloc>: \""], flags].concat();
        let program = bench.compile("contained.c", &flags);
        let file = bench.path("counts");
        let options = bench.options(&program, &[file.to_str().unwrap()]);
        keel_record::record(&options).unwrap().notes
    };
    let notes = record(&["-s"]);
    assert!(notes[0].contains("seems to contain jemalloc, but it is stripped"), "{notes:?}");
    assert_eq!(record(&[]), Vec::<String>::new());
}
