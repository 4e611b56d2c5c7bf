//! Rows that are the program's allocator with other settings.

use super::{FAST, MIB, NOISY, SHUFFLED, SLOW, compared, result};
use crate::figures::figures;
use crate::verdict::{Change, Verdict, judge};
use keel_results::{AllocatorResult, MemorySample};

/// glibc with a setting.
fn set(times: &[u64; 5], peak: u64) -> AllocatorResult {
    AllocatorResult {
        environment: vec![("GLIBC_TUNABLES".into(), "glibc.malloc.mmap_max=0".into())],
        ..result("glibc-tuned", times, peak * MIB)
    }
}

fn judged_user_of(path: &str, allocators: Vec<AllocatorResult>) -> Verdict {
    let mut comparison = compared(allocators, 10);
    comparison.journal.allocator = path.to_owned();
    let allocators = figures(&comparison, None);
    judge(&comparison, None, &allocators, "program=0.1".parse().unwrap(), None)
}

/// Beside glibc, with `keel` of these times and memory.
fn judged(setting: AllocatorResult, times: &[u64; 5], peak: u64) -> Verdict {
    let field = vec![result("glibc", &SLOW, 100 * MIB), setting, result("keel", times, peak * MIB)];
    judged_user_of("/lib/x86_64-linux-gnu/libc.so.6", field)
}

fn whats(verdict: &Verdict) -> Vec<&str> {
    verdict.changes.iter().map(|one| one.what.as_str()).collect()
}

const SET: &str = "Set GLIBC_TUNABLES=glibc.malloc.mmap_max=0";

#[test]
fn a_setting_as_good_as_the_best_allocator_comes_first() {
    // In the median keel is lower by 1 ns, without a significant difference.
    let found = judged(set(&SHUFFLED.map(|ns| ns + 1), 104), &FAST, 90);
    assert_eq!(
        found.advice.sentence,
        format!(
            "{SET} (stay with glibc): allocation calls take 49 % less time than without it, and \
             peak memory is about the same."
        )
    );
    assert_eq!(found.advice.grade, "A setting of glibc matters for this program.");
    let text = found.advice.text();
    assert!(text.starts_with("The setting saves 300 ms per minute (0.50 % of the recorded time)."));
    let library = " keel may be just as good (no significant difference), but needs another \
                   library. keel needs 14 MiB less memory than the setting. ";
    assert!(text.contains(library), "{text}");
    assert_eq!(whats(&found), [SET, "Or use keel"]);
    assert_eq!((found.changes[0].kind, found.changes[1].kind), ("setting", "allocator"));
    assert_eq!((found.settings.len(), found.settings[0].index), (1, 1));
    assert!(found.changes_note.is_empty() || !found.changes_note.contains("Nothing to gain"));
}

#[test]
fn a_setting_that_is_slower_by_less_than_what_matters_comes_first() {
    let found = judged(set(&FAST.map(|ns| ns + 1), 100), &FAST, 100);
    assert!(found.advice.sentence.starts_with(SET), "{:?}", found.advice);
    let library = "keel is faster, but by less than 5 %, and needs another library.";
    assert!(found.advice.text().contains(library), "{:?}", found.advice);
}

#[test]
fn an_allocator_that_saves_more_is_the_headline_and_the_setting_the_smaller_step() {
    let found = judged(set(&SLOW.map(|ns| ns * 3 / 4), 130), &FAST, 100);
    assert!(found.advice.sentence.starts_with("Use keel: "), "{:?}", found.advice);
    assert_eq!(whats(&found), ["Use keel", "Or only set GLIBC_TUNABLES=glibc.malloc.mmap_max=0"]);
    let Change { kind, gain, price, .. } = &found.changes[1];
    assert_eq!(*kind, "setting");
    assert!(gain.starts_with("25 % less time in calls: "), "{gain}");
    let expected = "an environment variable; peak memory is 30 MiB (30 %) higher; no processor \
                    time beside the calls";
    assert_eq!(price, expected);
}

/// Beyond its own price in memory, a setting is no better than a library.
#[test]
fn a_setting_that_needs_much_memory_does_not_replace_a_lean_allocator() {
    let found = judged(set(&SHUFFLED, 200), &FAST, 100);
    assert!(found.advice.sentence.starts_with("Use keel: "), "{:?}", found.advice);
    assert_eq!(whats(&found)[1], "Or set GLIBC_TUNABLES=glibc.malloc.mmap_max=0");
    let dear_both = judged(set(&SHUFFLED, 200), &FAST, 200);
    assert!(dear_both.advice.sentence.starts_with(SET), "{:?}", dear_both.advice);
}

#[test]
fn a_setting_without_a_gain_is_no_news() {
    for (times, last) in [(&SLOW, false), (&[900, 904, 901, 903, 902], true)] {
        let found = judged(set(times, 100), &SLOW, 100);
        assert_eq!(
            found.advice.sentence,
            "Stay with glibc: no other allocator saves enough time to matter."
        );
        assert!(!found.advice.grade.contains("tuned"), "{last} {:?}", found.advice);
        let text = found.advice.text();
        assert!(!text.contains("Avoid") && !text.contains("TUNABLES"), "{last} {text}");
        let note = "Nothing to gain: no other allocator and no measured setting saves enough time \
                    to matter.";
        assert!(found.changes_note.starts_with(note), "{last} {}", found.changes_note);
    }
    let worse = SLOW.map(|ns| ns * 9);
    let found = judged(set(&worse, 100), &worse, 100);
    assert!(found.advice.grade.contains("all others are clearly slower"), "{:?}", found.advice);
    assert!(found.advice.text().contains("Avoid keel: "), "{:?}", found.advice);
}

#[test]
fn a_setting_whose_runs_vary_leaves_the_choice_of_allocator_decided() {
    let found = judged(set(&NOISY, 100), &SLOW, 100);
    assert!(found.advice.sentence.starts_with("Stay with glibc: "), "{:?}", found.advice);
    let unknown =
        "It is not known whether the setting glibc-tuned saves time: its runs vary too much.";
    assert!(found.advice.text().contains(unknown), "{:?}", found.advice);
    assert!(!found.changes_note.contains("measured setting"), "{}", found.changes_note);
    let found = judged(set(&NOISY, 100), &FAST, 100);
    assert!(found.advice.sentence.starts_with("Use keel: "), "{:?}", found.advice);
}

/// A reader of a page without a decision asked why not just the setting.
#[test]
fn a_setting_near_the_candidate_of_an_open_decision_is_named() {
    let like = "The setting glibc-tuned may save about as much, and needs no other library.";
    for (times, is_near) in [(NOISY, true), (NOISY.map(|ns| ns + 30), false)] {
        let found = judged(set(&times, 100), &NOISY, 100).advice;
        assert!(found.sentence.contains("whether keel is better"), "{found:?}");
        assert_eq!(found.text().contains(like), is_near, "{found:?}");
    }
}

/// An allocator whose calls take longer in the median is no candidate, however its runs vary.
#[test]
fn a_higher_median_opens_no_decision() {
    let field = vec![result("glibc", &SLOW, MIB), result("keel", &[110, 20, 900, 115, 120], MIB)];
    let found = judged_user_of("", field).advice;
    assert!(found.sentence.starts_with("Stay with glibc: "), "{found:?}");
}

/// Another library is not advised while it is possible that a setting is as good.
#[test]
fn a_setting_whose_runs_vary_may_be_the_lowest() {
    let field = vec![
        result("glibc", &[100, 300, 150, 120, 200], MIB),
        set(&[40, 39, 41, 500, 40], 1),
        result("keel", &[80, 250, 120, 95, 160], MIB),
    ];
    let found = judged_user_of("", field).advice;
    assert_eq!(
        found.sentence,
        "Stay with glibc for now: it is not known whether glibc-tuned is better than glibc for \
         this program."
    );
}

#[test]
fn the_text_to_set_is_that_of_the_program() {
    let with = |name, times: &[u64; 5], settings: &[(&str, &str)]| AllocatorResult {
        environment: settings.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect(),
        ..result(name, times, MIB)
    };
    const CONF: &str = "_RJEM_MALLOC_CONF";
    let own = [(CONF, "narenas:1"), ("A", "1")];
    let tuned = [("A", "1"), (CONF, "narenas:1,dirty_decay_ms:30000")];
    let field = vec![
        with("jemalloc", &SLOW, &own),
        with("jemalloc-tuned", &FAST, &tuned),
        result("glibc", &SLOW, MIB),
    ];
    let found = judged_user_of("/usr/lib/libjemalloc.so.2", field);
    assert_eq!(whats(&found), ["Set MALLOC_CONF=narenas:1,dirty_decay_ms:30000"]);
    assert!(found.advice.sentence.contains(" (stay with jemalloc): "), "{:?}", found.advice);
}

/// A setting of glibc is no setting for a program with its own malloc.
#[test]
fn a_program_with_another_allocator_does_not_stay_with_glibc() {
    let field = vec![result("glibc", &SLOW, MIB), set(&FAST, 1)];
    let found = judged_user_of("/usr/bin/server", field);
    let what = "Use glibc and set GLIBC_TUNABLES=glibc.malloc.mmap_max=0";
    assert_eq!(whats(&found), [what]);
}

#[test]
fn the_memory_at_the_end_is_a_part_of_the_price() {
    let ends = |mut one: AllocatorResult, resident: u64| {
        for run in &mut one.runs {
            run.memory = vec![MemorySample { time: 1, resident, live: 0 }];
        }
        one
    };
    let price = |end: u64| {
        let field =
            vec![ends(result("glibc", &SLOW, 100 * MIB), 10 * MIB), ends(set(&FAST, 100), end)];
        judged_user_of("", field).changes[0].price.clone()
    };
    let kept = "an environment variable; peak memory is about the same, and at the end 90 MiB \
                instead of 10 MiB; no processor time beside the calls";
    assert_eq!(price(90 * MIB), kept);
    let same = "an environment variable; memory is about the same, at its peak and at the end; ";
    assert!(price(10 * MIB).starts_with(same));
}
