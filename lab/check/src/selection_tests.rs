#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::*;

fn metadata(marks: &[(u64, u32, &str)]) -> Metadata {
    let mark = |(time, thread, text): &(u64, u32, &str)| Mark {
        time: *time,
        thread: *thread,
        text: (*text).to_owned(),
        ..Mark::default()
    };
    Metadata { marks: marks.iter().map(mark).collect(), ..Metadata::default() }
}

#[test]
fn windows_extend_from_a_mark_to_the_next_other_one() {
    let marks = metadata(&[(5, 0, "b"), (10, 0, "a"), (12, 1, "a"), (20, 1, "b"), (30, 0, "a")]);
    let found = windows_between(&mut marks.marks.iter(), "a", "b");
    assert_eq!(found, [(10, 20), (30, u64::MAX)]);
    let same = windows_between(&mut marks.marks.iter(), "a", "a");
    assert_eq!(same, [(10, 12), (12, 30)]);
    assert_eq!(
        [5, 10, 11, 20, 21, 31].map(|time| window_of(&found, time)),
        [None, None, Some(0), Some(0), None, Some(1)]
    );
}

#[test]
fn scopes_are_those_of_their_thread_and_may_be_nested() {
    let [begin, end] = [SCOPE_BEGIN, SCOPE_END].map(|text| format!("{text}mix"));
    let marks = metadata(&[
        (10, 0, &begin),
        (11, 1, &begin),
        (12, 0, &begin),
        (13, 0, &end),
        (14, 1, &end),
        (20, 0, &end),
    ]);
    let selection = own_windows(&marks, "mix").unwrap();
    assert_eq!(selection.passes, 2);
    let Part::OwnWindows(found) = selection.part else { panic!("{:?}", selection.part) };
    assert_eq!(found[&0], (0, vec![(10, 20)]));
    assert_eq!(found[&1], (1, vec![(11, 14)]));
    assert!(own_windows(&marks, "mux").unwrap_err().contains("it began `mix`"));
}

#[test]
fn what_does_not_occur_is_an_error_that_names_what_does() {
    let mut found = metadata(&[(1, 0, "start")]);
    found.threads =
        vec![keel_journal::Thread { name: "main".to_owned(), ..keel_journal::Thread::default() }];
    let error = |scope: &Scope| Selection::of_scope(scope, &found).unwrap_err();
    assert!(error(&Scope::Threads("audio".into())).contains("the names are `main`"));
    let between = Scope::Between { from: "start".into(), to: "end".into() };
    assert!(error(&between).contains("no mark `end`"));
    assert!(error(&Scope::Frame { warm_up: 0 }).contains("has 0 frames"));
    assert!(error(&Scope::Within("f".into())).contains("no call stacks"));
    let zone = |place: ZonePlace, warm_up| Selection::of_zone(&place, warm_up, &found).unwrap_err();
    assert!(zone(ZonePlace::Class(Class::Fifo), 0).contains("no scheduling classes"));
    assert!(zone(ZonePlace::Thread("main".into()), 2).contains("has 0 frame marks"));
}
