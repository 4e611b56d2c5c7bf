#![allow(clippy::unwrap_used, reason = "a test may panic")]
use super::*;

fn spread(low: f64, median: f64, high: f64) -> Spread {
    Spread { median, low, high }
}

fn operations(p50: Spread, p999: Spread, worst: f64) -> BTreeMap<String, OperationSummary> {
    let summary = OperationSummary {
        count: 1_000_000,
        total: spread(p50.low * 1e6, p50.median * 1e6, p50.high * 1e6),
        mean: p50,
        percentiles: BTreeMap::from([("p50", p50), ("p999", p999)]),
        worst: spread(worst, worst, worst),
        curve: [vec![], vec![], vec![]],
    };
    BTreeMap::from([(ALL_OPERATIONS.to_owned(), summary)])
}

fn comparison() -> Comparison {
    let mut comparison = Comparison::default();
    comparison.clock.ticks_per_ns = 2.0;
    comparison
}

fn contenders<'a>(
    field: &'a [(&'a str, BTreeMap<String, OperationSummary>, Spread)],
    undisturbed: &'a BTreeMap<String, OperationSummary>,
    runs: usize,
) -> Vec<Contender<'a>> {
    let one = |(name, operations, peak): &'a (&'a str, BTreeMap<String, OperationSummary>, Spread)| {
        Contender { name, operations, undisturbed, peak_bytes: Some(*peak), runs }
    };
    field.iter().map(one).collect()
}

fn verdict(field: &[(&str, BTreeMap<String, OperationSummary>, Spread)], runs: usize) -> Verdict {
    let undisturbed = BTreeMap::new();
    judge(&comparison(), &contenders(field, &undisturbed, runs))
}

fn two_apart() -> Vec<(&'static str, BTreeMap<String, OperationSummary>, Spread)> {
    vec![
        (
            "slow",
            operations(spread(40.0, 41.0, 42.0), spread(900.0, 1000.0, 1100.0), 1e6),
            spread(9e6, 1e7, 2e7),
        ),
        (
            "keel",
            operations(spread(20.0, 21.0, 22.0), spread(200.0, 250.0, 300.0), 9e5),
            spread(9e6, 9.5e6, 1e7),
        ),
    ]
}

#[test]
fn a_clear_winner_is_named_with_its_lead() {
    let verdict = verdict(&two_apart(), 5);
    assert_eq!(
        verdict.headline,
        "keel has the least time in calls, the fastest typical call and the shortest tail. \
         No clear winner in peak memory."
    );
    let tail = verdict.criteria.iter().find(|criterion| criterion.id == "p999").unwrap();
    assert_eq!(tail.best, [1]);
    assert_eq!(tail.rows[0].0, 1, "lowest first");
    assert_eq!(tail.sentence, "All 5 runs of keel lie below those of all others; 4.0 times less than slow.");
    assert!(verdict.criteria.iter().all(|criterion| criterion.id != "p9999"), "no figure, no criterion");
    assert!(verdict.cautions.is_empty(), "{:?}", verdict.cautions);
}

#[test]
fn overlapping_runs_are_no_difference() {
    let mut field = two_apart();
    field[0].1 = operations(spread(21.5, 30.0, 42.0), spread(290.0, 1000.0, 1100.0), 1e6);
    let verdict = verdict(&field, 5);
    assert_eq!(
        verdict.headline,
        "No clear difference between the best allocators in anything that was measured."
    );
    assert_eq!(verdict.criteria[0].sentence, "No clear difference: the runs of all overlap.");
}

#[test]
fn a_difference_below_the_clock_is_none() {
    let mut field = two_apart();
    field[0].1 = operations(spread(22.4, 22.4, 22.4), spread(900.0, 1000.0, 1100.0), 1e6);
    let verdict = verdict(&field, 5);
    let typical = verdict.criteria.iter().find(|criterion| criterion.id == "p50").unwrap();
    assert_eq!(typical.best, [1, 0], "22 and 22.4 ns are less than a tick of 0.5 ns apart");
    assert_eq!(typical.sentence, "No clear difference: they are closer than the clock can tell.");
}

#[test]
fn few_runs_are_hedged() {
    let verdict = verdict(&two_apart(), 3);
    assert!(verdict.headline.starts_with("keel seems to have"), "{}", verdict.headline);
    assert!(verdict.criteria[0].sentence.contains("by chance"));
    assert!(verdict.cautions[0].contains("Only 3 runs"));
}

#[test]
fn one_run_has_no_spread() {
    let verdict = verdict(&two_apart(), 1);
    assert!(verdict.criteria[0].sentence.contains("the only run"), "{}", verdict.criteria[0].sentence);
    assert!(verdict.cautions[0].contains("Only 1 run of each"));
}

#[test]
fn the_floor_competes_with_nobody_but_is_told() {
    let mut field = two_apart();
    let floor = operations(spread(18.0, 18.0, 18.0), spread(30.0, 30.0, 30.0), 2e6);
    field.push((FLOOR, floor, spread(0.0, 0.0, 0.0)));
    let verdict = verdict(&field, 5);
    assert!(verdict.headline.starts_with("keel has"));
    assert!(verdict.criteria.iter().all(|criterion| criterion.rows.len() == 2));
    assert_eq!(verdict.cautions.len(), 2, "{:?}", verdict.cautions);
    assert!(verdict.cautions[0].contains("typical call is already 18 ns"), "{:?}", verdict.cautions);
    assert!(verdict.cautions[1].contains("up to 2 ms"), "{:?}", verdict.cautions);
}

#[test]
fn a_single_allocator_wins_nothing() {
    let field = [two_apart().remove(1)];
    let verdict = verdict(&field, 5);
    assert!(verdict.headline.contains("nothing to compare"), "{}", verdict.headline);
}

#[test]
fn interrupted_tails_are_told_and_weighed_without() {
    let (field, undisturbed) =
        (two_apart(), operations(spread(20.0, 21.0, 22.0), spread(90.0, 95.0, 99.0), 1e3));
    let mut comparison = comparison();
    let hit = |cause| keel_results::Outlier { cause, ..Default::default() };
    let run = keel_results::Run { outliers: vec![hit(1), hit(1), hit(2), hit(0)], ..Default::default() };
    comparison.allocators =
        vec![keel_results::AllocatorResult { name: "keel".into(), runs: vec![run], ..Default::default() }];
    let verdict = judge(&comparison, &contenders(&field, &undisturbed, 5));
    assert!(verdict.cautions[0].starts_with("50 % of the calls above p99.9"), "{:?}", verdict.cautions);
    let end = "Without them, p99.9: No clear difference: the runs of all overlap.";
    assert!(verdict.cautions[0].ends_with(end), "{:?}", verdict.cautions);
}
