//! What to change, in the order of effect.

use super::{CodeCost, Evidence, changes};
use super::{FAST, MIB, SLOW, compared, result};
use crate::figures::{Matters, figures};
use keel_results::AllocatorResult;

/// The calls of lines are those of one run. Here it took ten times as long as the median.
#[test]
fn a_line_takes_no_longer_than_all_calls() {
    let comparison = compared(vec![result("glibc", &SLOW, MIB), result("keel", &SLOW, MIB)], 5);
    let figures = figures(&comparison, None);
    let code = [("load (level.c:12)", 3), ("rest (level.c:90)", 1)].map(|(place, part)| CodeCost {
        place: place.to_owned(),
        unnamed_in: "game".to_owned(),
        ns: 255e6 * f64::from(part),
        calls: 1000,
        frees: false,
        measuring_ns: 0.0,
        shares: Vec::new(),
    });
    let matters: Matters = "program=0.1".parse().unwrap();
    let verdict = crate::verdict::judge(&comparison, None, &figures, matters, Some(&code));
    assert!(verdict.advice.text().contains("allocation calls take 102 ms"), "{verdict:?}");
    assert_eq!(
        verdict.code,
        "The most expensive line is load (level.c:12): its 1,000 calls take 76.5 ms (75.0 % of the \
         time in calls with glibc). The debug symbols of game would give its name."
    );
    assert!(verdict.changes[0].gain.ends_with("76.5 ms (1.5 % of the recorded 5 s)"));
    let code = code.map(|one| CodeCost { measuring_ns: 0.5 * one.ns, ..one });
    let verdict = crate::verdict::judge(&comparison, None, &figures, matters, Some(&code));
    let measured = "take 76.5 ms, of which 76.5 ms is the cost of measuring (75.0 %";
    assert!(verdict.code.contains(measured), "{}", verdict.code);
}

#[test]
fn changes_are_in_the_order_of_their_effect() {
    let setting = |times: &[u64]| AllocatorResult {
        environment: vec![("GLIBC_TUNABLES".to_owned(), "glibc.malloc.mmap_max=0".to_owned())],
        ..result("glibc-tuned", times, 120 * MIB)
    };
    let evidence_of = |allocators: Vec<AllocatorResult>, code: &[CodeCost]| {
        let comparison = compared(allocators, 10);
        let allocators = figures(&comparison, None);
        let evidence =
            Evidence { comparison: &comparison, calm: None, allocators: &allocators, runs: 5 };
        let advised = (comparison.allocators.len() == 3).then_some(2);
        changes(&evidence, "program=0.1".parse().unwrap(), code, advised)
    };
    let code = [
        CodeCost {
            place: "load (level.c:12)".into(),
            unnamed_in: String::new(),
            ns: 70e6,
            calls: 700_000,
            frees: false,
            measuring_ns: 21e6,
            shares: vec![0.99, 0.99, 0.9],
        },
        CodeCost {
            place: "rest (level.c:90)".into(),
            unnamed_in: String::new(),
            ns: 1e6,
            calls: 10_000,
            frees: true,
            measuring_ns: 0.0,
            shares: Vec::new(),
        },
    ];
    let quarter = SLOW.map(|ns| ns * 3 / 4);
    let field = vec![
        result("glibc", &SLOW, 100 * MIB),
        setting(&quarter),
        result("keel", &FAST, 112 * MIB),
    ];
    let found = evidence_of(field.clone(), &code);
    let brief: Vec<(&str, &str)> = found.iter().map(|one| (one.kind, one.what.as_str())).collect();
    assert_eq!(
        brief,
        [
            ("code", "Allocate less in load (level.c:12)"),
            ("allocator", "Use keel"),
            ("setting", "Or only set GLIBC_TUNABLES=glibc.malloc.mmap_max=0"),
        ]
    );
    assert!(found[1].gain.starts_with("50 % less time in calls: "), "{found:?}");
    let price =
        "link or preload it, the code stays as it is; peak memory is 12 MiB (12 %) higher; ";
    assert!(found[1].price.starts_with(price), "{found:?}");
    assert!(found[2].price.starts_with("an environment variable; "), "{found:?}");
    let gain = "up to 98.6 % less time in calls: 294 ms per minute (0.49 % of the recorded time) \
                without the cost of measuring";
    let then = "149 ms per minute (0.25 % of the recorded time)";
    assert_eq!(found[0].gain, format!("{gain}; with keel, {then}"));
    let rare = [CodeCost { shares: vec![0.99, 0.99, 0.3], ..code[0].clone() }];
    let found = evidence_of(field, &rare);
    assert!(found[0].gain.ends_with("; with keel, too little to matter"), "{found:?}");
    let equal = vec![result("glibc", &SLOW, 100 * MIB), result("keel", &SLOW, 100 * MIB)];
    assert_eq!(evidence_of(equal, &code[1..]), []);
}

#[test]
fn only_a_share_that_a_run_measures_exactly_is_a_price() {
    let price_of = |background_ns: u64| {
        let mut field = vec![result("glibc", &SLOW, MIB), result("keel", &FAST, MIB)];
        field[1].runs.iter_mut().for_each(|run| run.background_cpu_ns = background_ns);
        let comparison = compared(field, 10);
        let allocators = figures(&comparison, None);
        let evidence =
            Evidence { comparison: &comparison, calm: None, allocators: &allocators, runs: 5 };
        changes(&evidence, "program=0.1".parse().unwrap(), &[], Some(1))[0].price.clone()
    };
    // A thousandth of the recorded 10 s are 10 ms.
    assert!(price_of(9_000_000).ends_with("hardly any processor time beside the calls"));
    let threads = price_of(90_000_000);
    assert!(threads.contains("; its own threads use 540 ms per minute"), "{threads}");
}

fn judged(allocators: Vec<AllocatorResult>) -> crate::verdict::Verdict {
    let comparison = compared(allocators, 10);
    let figures = figures(&comparison, None);
    crate::verdict::judge(&comparison, None, &figures, "program=0.1".parse().unwrap(), None)
}

#[test]
fn an_open_decision_proposes_no_allocator() {
    // `slower` is lower than the C library in each round, and `lowest` may be lower than both.
    let verdict = judged(vec![
        result("glibc", &[100, 300, 150, 120, 200], MIB),
        result("slower", &[80, 250, 120, 95, 160], MIB),
        result("lowest", &[40, 39, 41, 500, 40], MIB),
    ]);
    assert!(verdict.advice.is_undecided, "{verdict:?}");
    assert_eq!(verdict.changes, []);
}

#[test]
fn what_the_runs_do_not_limit_has_no_number() {
    let wild = result("keel", &[1, 30_000, 2], MIB);
    let verdict = judged(vec![result("glibc", &[100, 104, 101], MIB), wild]);
    let text = verdict.advice.text();
    assert!(text.contains("(95 % interval). The runs do not limit what it may cost."), "{text}");
}

#[test]
fn the_programs_allocator_is_known_after_one_run() {
    let field = vec![result("keel", &[50], MIB), result("glibc", &[100], MIB)];
    let verdict = judged(field);
    assert_eq!((verdict.base, verdict.advice.sentence.as_str()), (Some(1), ""));
}

#[test]
fn the_reason_why_no_line_is_named_is_true() {
    let mut field = vec![result("glibc", &SLOW, MIB), result("keel", &SLOW, MIB)];
    let note = judged(field.clone()).changes_note;
    assert!(note.contains("compare without --raw none"), "{note}");
    field[0].runs[0].raw = Some("run-glibc-0.parquet".to_owned());
    let note = judged(field).changes_note;
    assert!(note.contains("The recording has no call stacks"), "{note}");
}

/// The calls of all threads can take longer than the program.
#[test]
fn times_of_several_threads_are_said_to_be_together() {
    let mut comparison = compared(vec![result("glibc", &FAST, MIB), result("keel", &SLOW, MIB)], 1);
    comparison.journal.threads = 100;
    let figures = figures(&comparison, None);
    let matters: Matters = "program=0.1".parse().unwrap();
    let verdict = crate::verdict::judge(&comparison, None, &figures, matters, None);
    let share = "51 ms (5.1 % of the recorded 1 s, all threads together)";
    assert!(verdict.advice.text().contains(share), "{verdict:?}");
}

#[test]
fn an_allocator_that_crashed_is_named_at_the_top() {
    let failed = AllocatorResult {
        name: "slab".to_owned(),
        failure: Some("it crashed with SIGSEGV".to_owned()),
        ..AllocatorResult::default()
    };
    let field = vec![result("glibc", &FAST, MIB), result("keel", &SLOW, MIB), failed];
    let comparison = compared(field, 10);
    let figures = figures(&comparison, None);
    let matters: Matters = "program=0.1".parse().unwrap();
    let verdict = crate::verdict::judge(&comparison, None, &figures, matters, None);
    assert_eq!(verdict.unseen[0], "slab could not run: it crashed with SIGSEGV");
}
