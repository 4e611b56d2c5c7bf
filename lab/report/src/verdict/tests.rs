#![allow(clippy::unwrap_used, reason = "a test may panic")]
use super::criteria::Criterion;
use super::judge::{Verdict, judge};
use super::sentences::sentence;
use crate::figures::{FLOOR, Matters, complete, figures, undisturbed};
use keel_results::{AllocatorResult, Comparison, Histogram, Outlier, Run, Throughput};

/// A million mallocs of `p50` ticks, except two in a thousand of `tail` and one of `worst`.
fn run(p50: u64, tail: u64, worst: u64, peak: u64) -> Run {
    let mut malloc = Histogram::default();
    malloc.0.auto(true);
    for (ticks, calls) in [(p50, 998_000), (tail, 1_999), (worst, 1)] {
        malloc.0.record_n(ticks, calls).unwrap();
    }
    let inside_ns = [("malloc".to_owned(), malloc.0.mean() * 1e6 / 2.0)].into();
    Run {
        latency: [("malloc".to_owned(), malloc)].into(),
        inside_ns,
        peak_rss_bytes: peak,
        ..Run::default()
    }
}

fn result(name: &str, runs: Vec<Run>) -> AllocatorResult {
    AllocatorResult { name: name.into(), runs, ..AllocatorResult::default() }
}

fn comparison(allocators: Vec<AllocatorResult>) -> Comparison {
    let mut comparison = Comparison { allocators, ..Comparison::default() };
    comparison.clock.ticks_per_ns = 2.0;
    comparison.clock.step_ticks = 1;
    comparison.journal.operations.insert("malloc".to_owned(), 1_000_000);
    complete(&mut comparison, FLOOR);
    comparison
}

fn of(comparison: &Comparison) -> Verdict {
    let calm = undisturbed(comparison);
    judge(comparison, calm.as_ref(), &figures(comparison, calm.as_ref()), Matters::default(), None)
}

fn verdict(allocators: Vec<AllocatorResult>) -> Verdict {
    of(&comparison(allocators))
}

/// Two allocators: the second has half the latency and a quarter of the tail latency of the first,
/// in nearly the same memory.
fn two_apart(runs: usize) -> Vec<AllocatorResult> {
    let wobble = [0, 3, 1, 4, 2];
    let slow = (0..runs).map(|at| {
        run(82 + wobble[at], 2000 + 40 * wobble[at], 2_000_000, 10_000_000 + wobble[at] * 500_000)
    });
    let keel = (0..runs).map(|at| {
        run(42 + wobble[at], 500 + 9 * wobble[at], 1_800_000, 11_500_000 - wobble[at] * 700_000)
    });
    vec![result("slow", slow.collect()), result("keel", keel.collect())]
}

fn criterion<'a>(verdict: &'a Verdict, id: &str) -> &'a Criterion {
    verdict.criteria.iter().find(|criterion| criterion.id == id).unwrap()
}

#[test]
fn a_clear_winner_is_named_with_its_lead() {
    let verdict = verdict(two_apart(5));
    assert_eq!(verdict.headline, "", "an advice takes its place");
    assert!(verdict.first_sentence().starts_with("Use keel: "), "{:?}", verdict.advice);
    let tail = criterion(&verdict, "p999");
    assert_eq!(tail.best, [1]);
    assert_eq!(tail.answer, ["keel", "75 % lower than slow"]);
    assert_eq!(
        criterion(&verdict, "memory").answer,
        ["all", "no significant difference between them"]
    );
    assert_eq!(tail.rows[0].0, 1, "lowest first");
    let said = &tail.sentence;
    assert!(said.starts_with("keel is lowest: 75 % lower than slow"), "{said}");
    let spread = "which is second (95 % interval: 75 % to 75 %; 5 runs of each).";
    assert!(said.ends_with(spread), "{said}");
    assert_eq!(tail.ratios.len(), 2);
    assert!(tail.ratios[0].is_none() && tail.ratios[1].is_some(), "no ratio to itself");
    assert!(
        verdict.criteria.iter().all(|criterion| criterion.id != "throughput"),
        "no figure, no criterion"
    );
    assert!(verdict.cautions.is_empty(), "{:?}", verdict.cautions);
}

#[test]
fn small_leads_are_in_percent_with_their_interval() {
    let drift = [0, 60, 30, 90, 10];
    let runs = |more: u64| drift.map(|by| run((200 + by) * more / 100, 2000, 5000, 1)).to_vec();
    let verdict = verdict(vec![result("one", runs(100)), result("two", runs(110))]);
    let said = &criterion(&verdict, "p50").sentence;
    // The ranges of the runs overlap; within each round one is 9 % lower.
    assert!(
        said.starts_with(
            "one is lowest: 9.1 % lower than two, which is second (95 % interval: 8.7"
        ),
        "{said}"
    );
}

#[test]
fn runs_that_vary_give_no_verdict() {
    let scattered =
        |ticks: [u64; 5]| ticks.map(|ticks| run(ticks, 10 * ticks, 100 * ticks, 1 << 20)).to_vec();
    let field = vec![
        result("a", scattered([100, 140, 90, 120, 95])),
        result("b", scattered([120, 90, 130, 100, 118])),
    ];
    let verdict = verdict(field);
    let said = &verdict.criteria[0].sentence;
    assert_eq!(said, "The difference is not significant: it is within the variation between runs.");
}

#[test]
fn several_without_a_significant_difference_are_named() {
    let mut field = two_apart(5);
    field.push(result("twin", field[1].runs.iter().rev().cloned().collect()));
    let verdict = verdict(field);
    let said = &criterion(&verdict, "p999").sentence;
    assert!(
        said.starts_with("The difference between ")
            && said.contains("keel")
            && said.contains("twin"),
        "{said}"
    );
    assert!(said.ends_with("step of the clock. slow is significantly higher."), "{said}");
    let [who, how] = &criterion(&verdict, "p999").answer;
    assert!(["keel and twin", "twin and keel"].contains(&who.as_str()), "{who}");
    assert_eq!(how, "no significant difference between them");
}

#[test]
fn a_significant_but_slight_lead_is_not_relevant() {
    let field = ["thin", "thinner"].into_iter().zip([1_000_400, 1_000_000]);
    let runs = |peak: u64| (0..5).map(|round| run(44, 900, 9000, peak + round)).collect();
    let verdict = verdict(field.map(|(name, peak)| result(name, runs(peak))).collect());
    let memory = criterion(&verdict, "memory");
    assert_eq!(memory.best, [1, 0]);
    assert_eq!(memory.sentence, "The difference is not relevant: it is less than half a percent.");
    assert_eq!(memory.answer, ["all", "they differ by less than half a percent"]);
}

#[test]
fn a_difference_below_the_clocks_step_is_not_significant() {
    let mut comparison = comparison(vec![
        result("one", vec![run(44, 900, 9000, 1); 5]),
        result("two", vec![run(45, 2000, 9000, 1); 5]),
    ]);
    comparison.paired.clear();
    comparison.allocators.iter_mut().for_each(|one| one.intervals.clear());
    comparison.clock.step_ticks = 26;
    complete(&mut comparison, FLOOR);
    let verdict = of(&comparison);
    let typical = criterion(&verdict, "p50");
    assert_eq!(typical.best.len(), 2, "22 and 22.5 ns are less than a step of 13 ns apart");
    assert_eq!(
        typical.sentence,
        "The difference is not significant: it is smaller than one step of the clock."
    );
}

#[test]
fn few_runs_are_hedged() {
    let verdict = verdict(two_apart(3));
    let hedge = "This advice is based on only 3 runs.";
    assert!(verdict.advice.text().ends_with(hedge), "{:?}", verdict.advice);
    assert!(
        verdict.criteria[0].sentence.contains("seems to be lowest"),
        "{}",
        verdict.criteria[0].sentence
    );
    assert!(verdict.cautions[0].contains("ran only 3 times"));
    let [_, how] = &criterion(&verdict, "p999").answer;
    assert!(how.ends_with("slow (only 3 runs)"), "{how}");
}

#[test]
fn one_run_has_no_spread_and_no_winner() {
    let verdict = verdict(two_apart(1));
    assert!(verdict.headline.contains("ran only once"), "{}", verdict.headline);
    assert!(
        verdict.criteria[0].sentence.contains("one run does not show"),
        "{}",
        verdict.criteria[0].sentence
    );
    assert!(verdict.cautions[0].contains("ran only once"));
    assert!(verdict.criteria.iter().all(|one| one.best.is_empty() && one.answer[0].is_empty()));
}

#[test]
fn the_runs_of_the_null_allocator_do_not_count() {
    let mut field = two_apart(4);
    field.push(result(FLOOR, vec![run(20, 30, 40, 1)]));
    let verdict = verdict(field);
    assert!(verdict.first_sentence().starts_with("Use keel: "), "{:?}", verdict.advice);
    assert!(verdict.cautions.iter().all(|one| !one.contains("ran only")), "{:?}", verdict.cautions);
}

#[test]
fn throughput_is_a_criterion() {
    let mut field = two_apart(5);
    for (place, one) in field.iter_mut().enumerate() {
        let took = |round: u32| 1_000_000 * (40 - 20 * place as u64) + u64::from(round) * 9_000;
        one.throughput = (0..5)
            .map(|round| Throughput {
                round,
                elapsed_ns: took(round),
                operations: 1_000_000,
                ..Throughput::default()
            })
            .collect();
    }
    let verdict = verdict(field);
    let found = criterion(&verdict, "throughput");
    assert_eq!(found.title, "Time per operation");
    assert_eq!((found.best.as_slice(), found.rows[0].1.median.round()), ([1].as_slice(), 20.0));
    assert_eq!(found.answer[0], "keel");
}

#[test]
fn the_floor_does_not_compete_but_is_reported() {
    let mut field = two_apart(5);
    field.push(result(FLOOR, vec![run(36, 60, 4_000_000, 0); 5]));
    let verdict = verdict(field);
    assert!(verdict.first_sentence().starts_with("Use keel: "), "{:?}", verdict.advice);
    assert!(verdict.criteria.iter().all(|criterion| criterion.rows.len() == 2));
    assert_eq!(verdict.cautions.len(), 3, "{:?}", verdict.cautions);
    assert!(
        verdict.cautions[0].contains("It is 18.0 ns with the null allocator"),
        "{:?}",
        verdict.cautions
    );
    assert!(verdict.cautions[1].starts_with("The value “Time in all calls” depends mostly on"));
    assert!(verdict.cautions[2].contains("one call took 2.00 ms"), "{:?}", verdict.cautions);
}

#[test]
fn a_single_allocator_is_not_compared() {
    let verdict = verdict(vec![two_apart(5).remove(1)]);
    assert!(verdict.headline.contains("there is no comparison"), "{}", verdict.headline);
}

#[test]
fn interrupted_tails_are_reported_and_judged_without() {
    let mut field = two_apart(5);
    let hit = |cause| Outlier { cause, ..Outlier::default() };
    for run in field.iter_mut().flat_map(|one| &mut one.runs) {
        run.outliers = vec![hit(1), hit(1), hit(2), hit(0)];
        // All of the tail was interrupted: without it p99.9 is the latency of the typical call.
        let mut tail = Histogram::default();
        tail.0.auto(true);
        let slow = run.latency["malloc"]
            .0
            .iter_recorded()
            .find(|value| value.value_iterated_to() > 200)
            .unwrap();
        tail.0.record_n(slow.value_iterated_to(), 1_999).unwrap();
        run.interrupted = [("malloc".to_owned(), tail)].into();
    }
    let verdict = verdict(field);
    let said = &verdict.cautions[0];
    assert!(said.starts_with("50 % of the slowest calls (those above p99.9)"), "{said}");
    let without = "malloc p99.9 leaves out calls that were only preempted (no page fault, system \
                   call or wait). keel is lowest: ";
    assert!(said.contains(without), "{said}");
}

/// Adds a million slow frees, and `callocs` slow callocs.
fn with_others(mut field: Vec<AllocatorResult>, callocs: u64) -> Vec<AllocatorResult> {
    for run in field.iter_mut().flat_map(|one| &mut one.runs) {
        for (name, calls) in [("free", 1_000_000), ("calloc", callocs)] {
            let mut counts = Histogram::default();
            counts.0.auto(true);
            counts.0.record_n(9_000_000, calls).unwrap();
            run.latency.insert(name.into(), counts);
        }
    }
    field
}

#[test]
fn percentiles_are_of_the_allocating_operation_with_most_calls() {
    let mallocs = verdict(with_others(two_apart(5), 999_999));
    assert_eq!(mallocs.operation, "malloc");
    let tail = criterion(&mallocs, "p999");
    assert_eq!(tail.title, "malloc p99.9");
    assert!(tail.rows[0].1.median < 1000.0, "no frees and callocs in it: {:?}", tail.rows);
    let callocs = verdict(with_others(two_apart(5), 1_000_001));
    assert_eq!(
        (callocs.operation, criterion(&callocs, "p999").title.as_str()),
        ("calloc", "calloc p99.9")
    );
}

#[test]
fn wide_intervals_at_a_multiple_of_the_lowest_time_are_too_noisy_to_tell() {
    let runs =
        |ticks: [u64; 4]| ticks.map(|ticks| run(ticks, 10 * ticks, 100 * ticks, 1 << 20)).to_vec();
    let steady = || result("steady", runs([100, 102, 101, 103]));
    let noisy = || result("noisy", runs([90, 900, 800, 140]));
    let verdict = verdict(vec![steady(), noisy()]);
    let tail = criterion(&verdict, "p999");
    assert_eq!(
        (tail.best.as_slice(), tail.noisy.as_slice()),
        ([].as_slice(), [1].as_slice()),
        "{tail:?}"
    );
    assert_eq!(tail.answer, ["undecided", "steady has the lowest median"]);
    let undecided = "It is not known whether noisy is higher: the difference varies too much \
                     between the rounds.";
    assert_eq!(tail.sentence, format!("steady has the lowest median. {undecided}"));

    let first = Criterion { noisy: vec![tail.rows[0].0], ..tail.clone() };
    let comparison = comparison(vec![steady(), noisy()]);
    assert_eq!(
        sentence(&first, &figures(&comparison, None), 4, 0.0),
        "steady has the lowest median. It is not known which one is lowest: the differences vary \
         too much between the rounds."
    );

    let near = result("near", runs([102, 100, 103, 101]));
    let verdict = self::verdict(vec![steady(), noisy(), near]);
    let tail = criterion(&verdict, "p999");
    assert!(tail.best.len() == 2 && !tail.best.contains(&1), "{tail:?}");
    assert!(tail.sentence.ends_with(undecided), "{}", tail.sentence);
    assert!(!tail.answer[0].contains("noisy"), "{:?}", tail.answer);
}

/// Of the two runs that a wide interval compares, any one can be the one that varies.
#[test]
fn variation_is_not_attributed_to_the_higher_allocator() {
    let runs = |ticks: [u64; 4]| ticks.map(|ticks| run(ticks, 10 * ticks, 9_000, 1 << 20)).to_vec();
    let verdict = verdict(vec![
        result("varies", runs([10, 12, 11, 300])),
        result("steady", runs([100, 101, 102, 100])),
        result("also_steady", runs([110, 111, 112, 110])),
    ]);
    let tail = criterion(&verdict, "p999");
    assert_eq!(tail.noisy.len(), 2, "{tail:?}");
    assert_eq!(
        tail.sentence,
        "varies has the lowest median. It is not known whether steady and also_steady are higher: \
         the differences vary too much between the rounds."
    );
}

#[test]
fn the_significantly_higher_are_named_beside_the_noisy() {
    let runs =
        |ticks: [u64; 4]| ticks.map(|ticks| run(ticks, 10 * ticks, 100 * ticks, 1 << 20)).to_vec();
    let verdict = verdict(vec![
        result("steady", runs([100, 102, 101, 103])),
        result("near", runs([102, 100, 103, 101])),
        result("noisy", runs([90, 900, 800, 140])),
        result("high", runs([1000, 1010, 1005, 1015])),
    ]);
    let tail = criterion(&verdict, "p999");
    assert_eq!((tail.best.len(), tail.noisy.as_slice()), (2, [2].as_slice()), "{tail:?}");
    assert!(
        tail.sentence.ends_with(
            " high is significantly higher. It is not known whether noisy is higher: the \
             difference varies too much between the rounds."
        ),
        "{}",
        tail.sentence
    );
}
