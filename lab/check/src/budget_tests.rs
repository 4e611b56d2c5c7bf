#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::*;

#[test]
fn every_table_is_read() {
    let budget = Budget::parse(
        r#"
        [run]
        operations = 1000
        live_peak = "64 KiB"
        [frame]
        warm_up = 10
        allocations = 0
        [[thread]]
        name = "audio*"
        frees = 0
        [[between]]
        from = "level 1"
        to = "level 2"
        bytes = 5
        [[call_site]]
        function = "load"
        largest = 1
        [[within]]
        function = "update"
        never_freed = 2
        [[zone]]
        symbol = "process"
        warm_up = 3
        also = ["locks", "sleeps"]
        [[zone]]
        marks = "a..b"
        [[suppress]]
        symbol = "log"
        reason = "only in debug builds"
        "#,
    )
    .unwrap();
    let scopes: Vec<String> = budget.limits.iter().map(|one| one.scope.to_string()).collect();
    let wanted = ["run", "frame", "thread audio*", "between level 1 and level 2", "call site load"];
    assert_eq!(scopes[..5], wanted);
    assert_eq!(budget.limits[0].limits, [(Metric::Operations, 1000), (Metric::LivePeak, 65536)]);
    assert_eq!(budget.limits[1].scope, Scope::Frame { warm_up: 10 });
    let also = vec![CallKind::Lock, CallKind::Sleep];
    let place = ZonePlace::Symbol("process".into());
    assert_eq!(budget.zones[0], Zone { place, warm_up: 3, also });
    assert_eq!(budget.zones[1].place.to_string(), "marks=a..b");
    assert_eq!(budget.suppressions[0].reason.0, "only in debug builds");
}

#[test]
fn wrong_files_are_refused_with_their_line() {
    for (text, line, part) in [
        ("[run]\noperatons = 5\n", 2, "unknown field `operatons`, expected one of `operations`"),
        ("[runs]\noperations = 5\n", 1, "unknown field `runs`"),
        ("[run]\noperations = -5\n", 2, "not negative"),
        ("[run]\nbytes = \"5 apples\"\n", 2, "64 KiB"),
        ("[run]\nbytes = 1.5\n", 2, "whole number"),
        ("[run]\n", 1, "sets no limit"),
        ("[run]\nbytes = 1\nbytes = 2\n", 3, "duplicate key"),
        ("\n[[thread]]\nbytes = 1\n", 2, "missing field `name`"),
        ("[[thread]]\nname = \"\"\nbytes = 1\n", 2, "empty"),
        ("[[suppress]]\nsymbol = \"f\"\n", 1, "missing field `reason`"),
        ("[[suppress]]\nsymbol = \"f\"\nreason = \" \"\n", 3, "state why"),
        ("[[zone]]\nwarm_up = 1\n", 1, "exactly one of"),
        ("[[zone]]\nthread = \"a\"\nsymbol = \"b\"\n", 1, "exactly one of"),
        ("[[zone]]\nclass = \"idle\"\n", 1, "scheduling class"),
        ("[[zone]]\nmarks = \"a\"\n", 1, "BEGIN..END"),
        ("[run\n", 1, "TOML parse error"),
    ] {
        let message = Budget::parse(text).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
        assert!(message.contains(&format!("line {line},")), "{text}: {message}");
    }
}
