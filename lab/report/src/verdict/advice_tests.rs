#![allow(clippy::unwrap_used, reason = "a test may panic")]
use super::{Advice, CodeCost, Evidence, advice, changes};
use crate::figures::{FLOOR, Matters, complete, figures, undisturbed};
use keel_results::{AllocatorResult, Comparison, FrameSums, Histogram, Run};

const MIB: u64 = 1 << 20;

/// A run of a million mallocs of `ns`.
fn run(ns: u64, peak: u64) -> Run {
    run_of(1_000_000, ns, peak)
}

fn run_of(calls: u64, ns: u64, peak: u64) -> Run {
    let mut malloc = Histogram::default();
    malloc.0.auto(true);
    malloc.0.record_n(ns, calls).unwrap();
    let inside_ns = [("malloc".to_owned(), (ns * calls) as f64)].into();
    Run {
        latency: [("malloc".to_owned(), malloc)].into(),
        inside_ns,
        peak_rss_bytes: peak,
        ..Run::default()
    }
}

/// An allocator whose runs take these times a call.
fn result(name: &str, times: &[u64], peak: u64) -> AllocatorResult {
    let runs = times.iter().map(|ns| run(*ns, peak)).collect();
    AllocatorResult { name: name.into(), runs, ..AllocatorResult::default() }
}

/// The same with `frames` frames, which spend these times in calls.
fn with_frames(mut result: AllocatorResult, frames: u64, ns: &[u64]) -> AllocatorResult {
    for (run, ns) in result.runs.iter_mut().zip(ns) {
        let mut sums = FrameSums::default();
        sums.all_threads.0.auto(true);
        sums.all_threads.0.record_n(*ns, frames).unwrap();
        run.frames = Some(sums);
    }
    result
}

fn advise(allocators: Vec<AllocatorResult>, seconds: u64) -> Advice {
    advise_if(allocators, seconds, "program=0.1".parse().unwrap())
}

fn compared(allocators: Vec<AllocatorResult>, seconds: u64) -> Comparison {
    let mut comparison = Comparison { allocators, ..Comparison::default() };
    comparison.clock.ticks_per_ns = 1.0;
    comparison.clock.step_ticks = 1;
    comparison.journal.operations.insert("malloc".to_owned(), 1_000_000);
    comparison.journal.duration_ns = seconds * 1_000_000_000;
    complete(&mut comparison, FLOOR);
    comparison
}

fn advise_if(allocators: Vec<AllocatorResult>, seconds: u64, matters: Matters) -> Advice {
    let runs = allocators[0].runs.len();
    let comparison = compared(allocators, seconds);
    let calm = undisturbed(&comparison);
    let allocators = figures(&comparison, calm.as_ref());
    let evidence =
        Evidence { comparison: &comparison, calm: calm.as_ref(), allocators: &allocators, runs };
    advice(&evidence, matters)
}

const SLOW: [u64; 5] = [100, 104, 101, 103, 102];
const FAST: [u64; 5] = [50, 52, 51, 53, 50];
const NOISY: [u64; 5] = [40, 300, 60, 900, 50];

#[test]
fn a_saving_that_matters_is_named_with_its_price() {
    let found =
        advise(vec![result("glibc", &SLOW, 100 * MIB), result("keel", &FAST, 112 * MIB)], 10);
    assert_eq!(
        found.sentence,
        "Use keel: allocation calls take 50 % less time than with glibc, and peak memory is 12 \
         MiB (12 %) higher."
    );
    assert_eq!(found.grade, "The choice of allocator matters for this program.");
    assert_eq!(
        found.text(),
        "keel saves 306 ms per minute (0.51 % of the recorded time). No call took more than 1 ms."
    );
}

#[test]
fn slightly_slower_allocators_are_named() {
    let allocators = vec![
        result("glibc", &SLOW, 100 * MIB),
        result("keel", &FAST, 80 * MIB),
        result("other", &FAST.map(|ns| ns + 1), 102 * MIB),
    ];
    let found = advise(allocators, 10);
    assert!(found.sentence.ends_with("peak memory is 20 MiB (20 %) lower."), "{found:?}");
    assert!(found.text().contains(" other is slower, but by less than 5 %. "), "{found:?}");
}

/// The same times in another order of rounds: no difference is significant.
const SHUFFLED: [u64; 5] = [52, 50, 50, 51, 53];

#[test]
fn of_equally_fast_allocators_the_one_with_less_memory_is_recommended() {
    let field = |lean: u64, shuffled: u64| {
        vec![
            result("glibc", &SLOW, 100 * MIB),
            result("lean", &FAST, lean * MIB),
            result("shuffled", &SHUFFLED, shuffled * MIB),
        ]
    };
    let found = advise(field(110, 150), 10);
    assert!(found.sentence.starts_with("Use lean: "), "{found:?}");
    let rival = " shuffled may be just as good (no significant difference). Of these, lean has \
                 the lowest median and needs the least memory. ";
    assert!(found.text().contains(rival), "{found:?}");
    assert!(advise(field(150, 110), 10).sentence.starts_with("Use shuffled: "));
}

#[path = "alternatives_tests.rs"]
mod alternatives;
#[path = "changes_tests.rs"]
mod changes_in_order;
#[path = "settings_tests.rs"]
mod settings;

#[test]
fn table_answers_and_advice_name_the_same_equals() {
    let field = vec![
        result("glibc", &SLOW, 100 * MIB),
        result("one", &FAST, 100 * MIB),
        result("two", &SHUFFLED, 100 * MIB),
    ];
    let comparison = compared(field, 10);
    let allocators = figures(&comparison, None);
    let verdict =
        crate::verdict::judge(&comparison, None, &allocators, "program=0.1".parse().unwrap(), None);
    let time = verdict.criteria.iter().find(|one| one.id == "time").unwrap();
    assert_eq!(time.best.len(), 2, "{time:?}");
    for index in &time.best {
        assert!(
            verdict.advice.sentence.contains(&allocators[*index].name)
                || verdict.advice.text().contains(&allocators[*index].name),
            "{:?}",
            verdict.advice
        );
    }
    assert!(verdict.headline.is_empty() && !verdict.next_sentences().contains("No allocator"));
}

#[test]
fn an_allocator_is_not_recommended_while_a_lower_one_may_be_better() {
    // In each round `slower` is lower than the C library; the runs of `lowest` are far lower in
    // the median, but vary.
    let field = vec![
        result("glibc", &[100, 300, 150, 120, 200], MIB),
        result("slower", &[80, 250, 120, 95, 160], MIB),
        result("lowest", &[40, 39, 41, 500, 40], MIB),
    ];
    let found = advise(field, 10);
    assert_eq!(
        found.sentence,
        "Stay with glibc for now: it is not known whether lowest is better than glibc for this \
         program."
    );
}

#[test]
fn calls_above_a_millisecond_are_counted_without_interruptions() {
    let with_long = |mut one: AllocatorResult, long: u64, interrupted: u64| {
        for run in &mut one.runs {
            let all = &mut run.latency.get_mut("malloc").unwrap().0;
            all.record_n(1_500_000, long + interrupted).unwrap();
            let mut part = Histogram::default();
            part.0.auto(true);
            part.0.record_n(1_500_000, interrupted).unwrap();
            run.interrupted.insert("malloc".to_owned(), part);
        }
        one
    };
    let field = vec![
        with_long(result("glibc", &SLOW, MIB), 7, 2),
        with_long(result("keel", &FAST, MIB), 3, 50),
        with_long(result("other", &SLOW, MIB), 9, 1),
    ];
    let found = advise(field, 10);
    let counts = "Median number of calls above 1 ms in a run: keel 3, glibc 7, other 9. Calls that \
                  were only preempted (no page fault, system call or wait) are not counted.";
    assert!(found.text().ends_with(counts), "{found:?}");
}

#[test]
fn a_median_of_no_long_calls_is_not_called_none() {
    let mut field = vec![result("glibc", &SLOW, MIB), result("keel", &FAST, MIB)];
    let latency = &mut field[0].runs[0].latency;
    latency.get_mut("malloc").unwrap().0.record(1_500_000).unwrap();
    let found = advise(field, 10);
    // No call was preempted, so none was left out.
    let counts = "Median number of calls above 1 ms in a run: keel 0, glibc 0.";
    assert!(found.text().ends_with(counts), "{found:?}");
}

#[test]
fn own_threads_are_a_price() {
    let mut field = vec![result("glibc", &SLOW, MIB), result("keel", &FAST, MIB)];
    field[1].runs.iter_mut().for_each(|run| run.background_cpu_ns = 20_000_000);
    let found = advise(field, 10);
    let price = "In a run, keel's own threads use 20 ms of processor time. Its calls take 51 ms \
                 less than those of glibc.";
    assert!(found.text().contains(price), "{found:?}");
}

/// Twenty calls are too few to matter, however much they vary.
#[test]
fn a_program_that_hardly_allocates_has_nothing_to_gain() {
    let few = |name: &str, times: [u64; 5]| AllocatorResult {
        name: name.into(),
        runs: times.map(|ns| run_of(20, 20 * ns, MIB)).into(),
        ..AllocatorResult::default()
    };
    let found = advise(vec![few("glibc", SLOW), few("keel", NOISY)], 0);
    assert_eq!(found.grade, "The choice of allocator hardly matters for this program.");
}

/// What a program does in a second says little about a minute of it.
#[test]
fn a_short_recording_is_not_extrapolated() {
    let allocators = vec![result("glibc", &SLOW, 100 * MIB), result("keel", &FAST, 112 * MIB)];
    let found = advise(allocators, 1);
    assert_eq!(
        found.text(),
        "keel saves 51 ms (5.1 % of the recorded 1 s). No call took more than 1 ms."
    );
    let slower = vec![result("glibc", &FAST, 10 * MIB), result("keel", &SLOW, 10 * MIB)];
    let avoid = "With glibc, allocation calls take 51 ms (5.1 % of the recorded 1 s). Avoid \
                 keel: allocation calls take 102 ms (with glibc: 51 ms).";
    let found = advise(slower, 1);
    assert!(found.text().starts_with(avoid), "{found:?}");
}

#[test]
fn a_saving_without_effect_on_the_program_does_not_matter() {
    let allocators = vec![result("glibc", &SLOW, 100 * MIB), result("keel", &FAST, 90 * MIB)];
    let found = advise(allocators, 10_000);
    assert_eq!(found.sentence, "Stay with glibc: no other allocator saves enough time to matter.");
    assert_eq!(found.grade, "The choice of allocator hardly matters for this program.");
    assert_eq!(
        found.text(),
        "With glibc, allocation calls take 612 µs per minute (less than 0.01 % of the recorded \
         time). keel has the lowest median: 50 % less time in calls than glibc. This would save \
         306 µs per minute (less than 0.01 % of the recorded time). Savings below 0.1 % of the \
         recorded time do not matter. If memory matters, use keel: peak memory is 10 MiB (10 %) \
         lower. No call took more than 1 ms."
    );
}

#[test]
fn the_base_is_kept_if_the_others_are_slower() {
    let allocators = vec![result("glibc", &FAST, 10 * MIB), result("keel", &SLOW, 10 * MIB)];
    let found = advise(allocators, 10);
    assert_eq!(found.sentence, "Stay with glibc: no other allocator saves enough time to matter.");
    assert_eq!(
        found.grade,
        "The choice of allocator matters for this program: all others are clearly slower than \
         glibc."
    );
    let avoid = "With glibc, allocation calls take 306 ms per minute (0.51 % of the recorded \
                 time). Avoid keel: allocation calls take 612 ms per minute (with glibc: 306 ms).";
    assert!(found.text().starts_with(avoid), "{found:?}");
}

#[test]
fn an_allocator_whose_runs_vary_is_never_recommended() {
    let allocators = vec![result("glibc", &SLOW, MIB), result("keel", &NOISY, MIB)];
    let found = advise(allocators, 10);
    assert_eq!(
        found.sentence,
        "Stay with glibc for now: it is not known whether keel is better than glibc for this \
         program."
    );
    assert_eq!((found.other, found.uncertain), (None, Some(1)));
    let remedy = "Repeat the comparison on a quiet machine, or with --runs 20.";
    assert!(found.text().starts_with("keel may save up to "), "{found:?}");
    assert!(found.text().contains(", or cost up to "), "{found:?}");
    assert!(found.text().contains("The price of keel: link or preload it"), "{found:?}");
    assert!(found.text().contains(remedy), "{found:?}");
    let wild = result("mimalloc", &[10, 300, 90, 2000, 20], MIB);
    let three = vec![result("glibc", &SLOW, MIB), wild, result("keel", &NOISY, MIB)];
    assert_eq!(advise(three, 10).uncertain, Some(2), "the one with the lowest median");
}

#[test]
fn a_busy_machine_is_named_as_the_reason() {
    let mut noisy = result("keel", &NOISY, MIB);
    for run in &mut noisy.runs {
        run.interference = vec![keel_results::OTHER_PROGRAMS.to_owned()];
    }
    let mut steady = result("glibc", &SLOW, MIB);
    steady.runs[0].interference = vec![keel_results::OTHER_PROGRAMS.to_owned()];
    // The null allocator's runs are not compared, so they are not counted.
    let mut null = result("null", &FAST, MIB);
    for run in &mut null.runs {
        run.interference = vec![keel_results::OTHER_PROGRAMS.to_owned()];
    }
    let found = advise(vec![steady, noisy, null], 10);
    let reason = "Other programs used the processors during 6 of the 10 runs. Repeat the \
                  comparison on an idle machine.";
    assert!(found.text().contains(reason), "{found:?}");
}

#[test]
fn interrupted_calls_are_left_out() {
    let mut allocators = vec![result("glibc", &SLOW, MIB), result("keel", &FAST, MIB)];
    // Preempted for longer in some runs than all calls together take.
    for (at, run) in allocators.iter_mut().flat_map(|one| &mut one.runs).enumerate() {
        let mut interrupted = Histogram::default();
        interrupted.0.auto(true);
        interrupted.0.record_n((1 + at as u64 * 7 % 5) * 300_000_000, 1).unwrap();
        run.latency.get_mut("malloc").unwrap().0.add(&interrupted.0).unwrap();
        *run.inside_ns.get_mut("malloc").unwrap() += interrupted.0.max() as f64;
        run.interrupted.insert("malloc".to_owned(), interrupted);
    }
    let found = advise(allocators, 10);
    assert!(
        found
            .sentence
            .starts_with("Use keel: allocation calls take 50 % less time than with glibc"),
        "{found:?}"
    );
}

#[test]
fn differences_that_do_not_matter_are_set_by_the_reader() {
    let field = || vec![result("glibc", &SLOW, MIB), result("keel", &FAST, MIB)];
    for matters in ["time=60,program=0.1", "time=5,program=1"] {
        let found = advise_if(field(), 10, matters.parse().unwrap());
        assert!(found.sentence.starts_with("Stay with glibc"), "{found:?}");
    }
    assert!(advise(field(), 10).sentence.starts_with("Use keel"));
}

#[test]
fn allocators_that_are_worse_by_what_matters_are_named() {
    let frames = |name, ns: u64| {
        with_frames(result(name, &SLOW, MIB), 2000, &[ns, ns + 9, ns + 5, ns + 7, ns + 1])
    };
    let field = vec![
        frames("glibc", 100_000),
        frames("near", 90_000),
        frames("lock", 400_000),
        frames("worse", 900_000),
    ];
    let found = advise(field, 10);
    assert_eq!(found.sentence, "Stay with glibc: no other allocator saves enough time to matter.");
    let average = "With glibc, the calls of an average frame take 100 µs (0.60 % of a frame of \
                   16.7 ms).";
    assert!(found.text().starts_with(average), "{found:?}");
    let grade = "The choice of allocator hardly matters for this program. But some allocators are \
                 clearly slower than glibc: lock and worse.";
    assert_eq!(found.grade, grade);
    let range = "Avoid lock and worse: the calls of a slow frame (p99) take 400 µs to 900 µs (with \
                 glibc: 100 µs; medians of the runs).";
    assert!(found.text().contains(range), "{found:?}");
}

#[test]
fn frames_are_judged_first() {
    let advice = |frames: u64| {
        let keel = result("keel", &SLOW, MIB);
        let allocators = vec![
            with_frames(result("glibc", &SLOW, MIB), frames, &[2_000_000; 5]),
            with_frames(keel, frames, &[500_000, 510_000, 505_000, 500_000, 500_000]),
            with_frames(result("fast", &FAST, MIB), frames, &[2_000_000; 5]),
        ];
        advise(allocators, 10)
    };
    let (many, few) = (advice(2000), advice(200));
    assert_eq!(
        many.sentence,
        "Use keel: allocation calls take 75 % less time than with glibc in a slow frame (p99), and \
         peak memory is about the same."
    );
    let amount = "In 99 % of the frames, the calls take at most 500 µs instead of 2.00 ms (medians \
                  of the runs). The difference above, 75 %, is the mean over the rounds, so these \
                  two times can give a slightly different one.";
    assert!(many.text().starts_with(amount), "{many:?}");
    assert_eq!(
        few.sentence,
        "Use keel: allocation calls take 75 % less time than with glibc in an average frame, and \
         peak memory is about the same."
    );
    let amount = "The calls of an average frame take 500 µs instead of 2.00 ms (medians of the \
                  runs).";
    assert!(few.text().starts_with(amount), "{few:?}");
}

#[test]
fn the_worst_of_few_frames_matters_if_it_can_make_a_frame_late() {
    let frames = |name, ns: u64| with_frames(result(name, &SLOW, MIB), 200, &[ns; 5]);
    let found = advise(vec![frames("glibc", 9_000_000), frames("keel", 1_000_000)], 10);
    assert_eq!(
        found.sentence,
        "Use keel: allocation calls take 89 % less time than with glibc in the worst frame, and \
         peak memory is about the same."
    );
    let amount = "The calls of the worst frame take 1.00 ms instead of 9.00 ms (medians of the \
                  runs).";
    assert!(found.text().starts_with(amount), "{found:?}");
}

#[test]
fn frames_that_are_short_enough_do_not_matter() {
    let allocators = vec![
        with_frames(result("glibc", &SLOW, MIB), 2000, &[100_000; 5]),
        with_frames(result("keel", &SLOW, MIB), 2000, &[50_000; 5]),
    ];
    let found = advise(allocators, 10_000);
    assert!(found.sentence.starts_with("Stay with glibc"), "{found:?}");
}

#[test]
fn a_saving_is_judged_by_the_length_of_the_recorded_frames() {
    // A saving of 250 µs: 1.5 % of a frame at 60 Hz, and 0.7 % of one of 35 ms.
    for (length, sentence) in [(16_000_000, "Use keel"), (35_000_000, "Stay with glibc: ")] {
        let mut comparison = compared(
            vec![
                with_frames(result("glibc", &SLOW, MIB), 2000, &[500_000; 5]),
                with_frames(result("keel", &SLOW, MIB), 2000, &[250_000; 5]),
            ],
            10,
        );
        // Some long frames, as at the loading of a level, are not usual.
        let frame = |at: u64| at * length + at / 500 * 1_000_000_000;
        comparison.journal.frames = (0..2000).map(frame).collect();
        let (calm, allocators) = (undisturbed(&comparison), figures(&comparison, None));
        let evidence = Evidence {
            comparison: &comparison,
            calm: calm.as_ref(),
            allocators: &allocators,
            runs: 5,
        };
        let found = advice(&evidence, Matters::default());
        assert!(found.sentence.starts_with(sentence), "{found:?}");
    }
}

#[test]
fn the_usual_frame_is_that_of_most_of_the_time() {
    use super::{FRAME_NS, usual_frame_ns};
    assert_eq!(usual_frame_ns(&[]), FRAME_NS);
    assert_eq!(usual_frame_ns(&[7]), FRAME_NS);
    assert_eq!(usual_frame_ns(&[7, 7, 7]), FRAME_NS);
    assert_eq!(usual_frame_ns(&[0, 10, 30]), 20.0);
    // Two windows, each of which marks its frames.
    let both = (0..100_u64).flat_map(|frame| [frame * 1000, frame * 1000 + 1, frame * 1000 + 1]);
    assert_eq!(usual_frame_ns(&both.collect::<Vec<_>>()), 999.0);
}

#[test]
fn few_runs_are_hedged_and_one_gives_no_advice() {
    let found = advise(vec![result("glibc", &SLOW[..3], MIB), result("keel", &FAST[..3], MIB)], 10);
    assert!(found.text().ends_with("This advice is based on only 3 runs."), "{found:?}");
    let found = advise(vec![result("glibc", &SLOW[..1], MIB), result("keel", &FAST[..1], MIB)], 10);
    assert_eq!(found, Advice::default());
    assert_eq!(advise(vec![result("glibc", &SLOW, MIB)], 10), Advice::default());
}

#[test]
fn without_the_c_library_the_first_allocator_is_the_base() {
    let found = advise(vec![result("slow", &SLOW, MIB), result("keel", &FAST, MIB)], 10);
    assert!(
        found.sentence.starts_with("Use keel: allocation calls take 50 % less time than with slow"),
        "{found:?}"
    );
}

/// A comparison of a journal whose program used the allocator of this object file.
fn advise_user_of(path: &str, allocators: Vec<AllocatorResult>) -> Advice {
    let mut comparison = compared(allocators, 10);
    comparison.journal.allocator = path.to_owned();
    comparison.journal.program = "/usr/bin/server --port 1".to_owned();
    let allocators = figures(&comparison, None);
    let runs = comparison.allocators[0].runs.len();
    let evidence = Evidence { comparison: &comparison, calm: None, allocators: &allocators, runs };
    advice(&evidence, "program=0.1".parse().unwrap())
}

#[test]
fn the_base_is_the_allocator_that_the_program_used() {
    let field = |own: &[u64; 5]| {
        vec![result("glibc", &SLOW, 100 * MIB), result("jemalloc", own, 100 * MIB)]
    };
    const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    let found = advise_user_of(JEMALLOC, field(&FAST));
    assert_eq!(
        found.sentence,
        "Stay with jemalloc: no other allocator saves enough time to matter."
    );
    assert!(found.text().contains("With jemalloc, allocation calls take"), "{found:?}");
    let swapped = vec![result("glibc", &FAST, 100 * MIB), result("jemalloc", &SLOW, 100 * MIB)];
    let found = advise_user_of(JEMALLOC, swapped);
    assert!(
        found.sentence.starts_with(
            "Use glibc: allocation calls take 50 % less time than with jemalloc, which the \
             program used, and"
        ),
        "{found:?}"
    );
}

/// What a program is, its allocator, the results, its seconds, the first words of the headline, and
/// what should be changed.
type Program<'a> = (&'a str, &'a str, Vec<AllocatorResult>, u64, &'a str, &'a str);

/// What an expert decides from the times and the memory of the runs alone, for ten kinds of
/// programs: the beginning of the headline, and the kind of the first change.
#[test]
fn ten_kinds_of_programs_get_the_decision_of_an_expert() {
    const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";
    const JEMALLOC: &str = "/usr/lib/libjemalloc.so.2";
    const SERVER: &str = "/usr/bin/server";
    let pair = |base: &[u64; 5], other: &[u64; 5]| {
        vec![result("glibc", base, 100 * MIB), result("keel", other, 110 * MIB)]
    };
    let on_jemalloc = |glibc: &[u64; 5], jemalloc: &[u64; 5]| {
        vec![result("glibc", glibc, 90 * MIB), result("jemalloc", jemalloc, 100 * MIB)]
    };
    let frames = |base: [u64; 5], other: [u64; 5]| {
        let [glibc, keel] = [("glibc", base), ("keel", other)]
            .map(|(name, ns)| with_frames(result(name, &SLOW, 100 * MIB), 2000, &ns));
        vec![glibc, keel]
    };
    let tuned = AllocatorResult {
        environment: vec![("GLIBC_TUNABLES".into(), "glibc.malloc.mmap_max=0".into())],
        ..result("glibc-tuned", &FAST, 100 * MIB)
    };
    let glibc = result("glibc", &SLOW, 100 * MIB);
    let slightly = SLOW.map(|ns| ns - 2);
    let hot = CodeCost {
        place: "parse (json.c:88)".into(),
        unnamed_in: String::new(),
        ns: 95e6,
        calls: 950_000,
        frees: false,
        measuring_ns: 0.0,
        shares: Vec::new(),
    };
    let ms = 1_000_000;
    // 100 ms of calls in 10 s are 1 % of the time; half of it is saved, or a fiftieth.
    let programs: [Program; 10] = [
        ("a compiler, whose calls halve", LIBC, pair(&SLOW, &FAST), 10, "Use keel: ", "allocator"),
        ("a renderer, all equal", LIBC, pair(&SLOW, &SLOW), 10, "Stay with glibc: ", ""),
        ("Redis, fastest", JEMALLOC, on_jemalloc(&SLOW, &FAST), 10, "Stay with jemalloc: ", ""),
        ("2 % slower", JEMALLOC, on_jemalloc(&slightly, &SLOW), 10, "Stay with jemalloc: ", ""),
        ("a daemon, idle for an hour", LIBC, pair(&SLOW, &FAST), 3600, "Stay with glibc: ", ""),
        ("a game, half", LIBC, frames([2 * ms; 5], [ms; 5]), 10, "Use keel: ", "allocator"),
        ("a calm game", LIBC, frames([20_000; 5], [10_000; 5]), 10, "Stay with glibc: ", ""),
        ("own malloc", SERVER, pair(&SLOW, &FAST), 10, "The program used its own", "allocator"),
        ("a setting helps", LIBC, vec![glibc, tuned], 10, "Set GLIBC_TUNABLES", "setting"),
        ("a batch job", LIBC, pair(&SLOW, &NOISY), 10, "Stay with glibc for now: it is not", ""),
    ];
    for (kind, path, allocators, seconds, headline, change) in programs {
        let mut comparison = compared(allocators, seconds);
        comparison.journal.allocator = path.to_owned();
        comparison.journal.program = SERVER.to_owned();
        let allocators = figures(&comparison, None);
        let matters: Matters = "program=0.1".parse().unwrap();
        let judged = |code: &[CodeCost]| {
            crate::verdict::judge(&comparison, None, &allocators, matters, Some(code))
        };
        let verdict = judged(&[]);
        let first = verdict.first_sentence();
        assert!(first.starts_with(headline), "{kind}: {first}");
        assert_eq!(verdict.changes.first().map_or("", |one| one.kind), change, "{kind}");
        // One line that makes nearly all calls is the first change, where calls matter.
        let with_code = judged(std::slice::from_ref(&hot));
        if seconds == 10 && !kind.contains("game") {
            assert_eq!(with_code.changes[0].kind, "code", "{kind}");
            assert!(with_code.code.contains("parse (json.c:88)"), "{kind}: {}", with_code.code);
        }
        let nothing = verdict.changes.is_empty() && !verdict.advice.is_undecided;
        assert_eq!(verdict.changes_note.starts_with("Nothing to gain"), nothing, "{kind}");
    }
}

#[test]
fn an_allocator_that_was_not_measured_is_named() {
    let field = || vec![result("glibc", &SLOW, 100 * MIB), result("keel", &FAST, 100 * MIB)];
    let found = advise_user_of("/opt/lib/libhoard.so", field());
    assert_eq!(
        found.sentence,
        "The program used hoard, which was not measured: add it to the comparison with -a \
         /opt/lib/libhoard.so."
    );
    assert!(found.text().starts_with("Among the measured ones: Use keel: "), "{found:?}");
    let own = advise_user_of("/usr/bin/server", field());
    assert!(own.sentence.starts_with("The program used its own malloc (server)"), "{own:?}");
}
