//! What is said about the allocators beside the advised one.

use super::{FAST, MIB, SHUFFLED, SLOW, advise, compared, result};
use crate::figures::{FLOOR, figures};
use crate::verdict::judge;

/// `tight` may be as fast as the other two, because its runs vary, and has the least memory.
#[test]
fn the_choice_among_equals_is_explained() {
    let field = vec![
        result("glibc", &SLOW, 100 * MIB),
        result("fast", &FAST, 150 * MIB),
        result("lean", &SHUFFLED.map(|ns| ns + 1), 110 * MIB),
        result("tight", &[48, 66, 50, 70, 64], 90 * MIB),
    ];
    let found = advise(field, 10);
    assert!(found.sentence.starts_with("Use lean: "), "{found:?}");
    let why = "Of these, lean is named because it needs 40 MiB less memory than fast, whose median \
               is lower by only 1.0 % of glibc's. tight needs 20 MiB less memory than lean, but \
               its median is higher by 12 % of glibc's.";
    assert!(found.text().contains(why), "{found:?}");
}

/// The one with the lowest median and the least memory may not be better than the base at all.
#[test]
fn an_uncertain_equal_is_compared_once() {
    let field = vec![
        result("glibc", &SLOW, 100 * MIB),
        result("sure", &FAST, 150 * MIB),
        result("perhaps", &[40, 130, 44, 90, 41], 90 * MIB),
    ];
    let found = advise(field, 10);
    assert!(found.sentence.starts_with("Use sure: "), "{found:?}");
    assert!(
        found.text().contains("perhaps, whose median is lower by 6.9 % of glibc's, perhaps not.")
    );
    assert!(!found.text().contains("higher by"), "{found:?}");
}

#[test]
fn the_advised_allocator_is_the_first_alternative() {
    let field = vec![
        result("glibc", &SLOW, 100 * MIB),
        result("fast", &FAST, 150 * MIB),
        result("lean", &SHUFFLED.map(|ns| ns + 1), 110 * MIB),
    ];
    let comparison = compared(field, 10);
    let allocators = figures(&comparison, None);
    let verdict = judge(&comparison, None, &allocators, "program=0.1".parse().unwrap(), None);
    let named: Vec<&str> = verdict.changes.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(named, ["Use lean", "Or use fast"]);
}

/// Nobody can save more than the time that the null allocator does not need.
#[test]
fn what_no_allocator_can_save_is_not_unknown() {
    let field = |floor: u64| {
        let noisy = result("noisy", &[40, 300, 60, 900, 50], MIB);
        vec![result("glibc", &SLOW, MIB), noisy, result(FLOOR, &[floor; 5], MIB)]
    };
    assert!(advise(field(20), 10).sentence.starts_with("Stay with glibc for now: "));
    let found = advise(field(97), 10);
    assert_eq!(found.sentence, "Stay with glibc: no other allocator saves enough time to matter.");
    let most = "Without it, they take 30 ms per minute (0.05 % of the recorded time), and no \
                allocator can save more than that.";
    assert!(found.text().contains(most), "{found:?}");
}

#[test]
fn the_cost_of_measuring_is_stated_where_it_is_large() {
    let field = |floor: u64| {
        let floor = result(FLOOR, &[floor; 5], MIB);
        vec![result("glibc", &SLOW, MIB), result("keel", &FAST, MIB), floor]
    };
    let found = advise(field(40), 10);
    let cost = "All times contain the cost of measuring, 40 ns a call, which is 39 % of the time \
                in calls with glibc. Without it, the calls take 82 % less time with keel.";
    assert!(found.text().contains(cost), "{found:?}");
    assert!(!advise(field(20), 10).text().contains("measuring"), "a small part");
    assert!(!advise(field(200), 10).text().contains("measuring"), "more than the whole");
}
