//! Calls of known cost: the instrument must show this cost, less the floor, within 3 ns or 2 %.
//!
//! Two kinds of calls are measured, with an allocator (`bias.c`) that measures itself:
//!
//! - Multiplications without a fence of their own. Their cost is known from many in a row, with the
//!   clock read once. An instrument without a fence before or after the call shows some 10 ns less
//!   or nearly nothing.
//! - Loops, page faults, system calls and loads of cold lines between two readings with fences. The
//!   allocator notes the time of each call. An instrument with a wrong floor shows another time at
//!   some percentile. Calls that were interrupted are not compared, and calls after a system call
//!   of the instrument must be left out.
//!
//! The machine can disturb a measurement, but a wrong instrument is wrong in every one. Therefore
//! one measurement out of several must agree.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use keel_allocators::Kind;
use keel_journal::Op;
use keel_replay::{Keep, Options, Touch};
use keel_results::raw::RunReader;
use keel_results::{
    AllocatorResult, CAUSE_FOLLOWS_DETECTOR, CAUSE_INTERRUPT, CAUSE_INTERRUPTED, Comparison,
    Histogram, percentile,
};
use support::{Bench, Story, allocator, floor, library, with};

const TRIES: usize = 12;
const NS: f64 = 3.0;
const SHARE: f64 = 0.02;
const QUANTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// A measurement of a story.
struct Measured {
    comparison: Comparison,
    /// Ticks and causes of the allocator's mallocs, and those of the floor.
    rows: [Vec<(u32, u8)>; 2],
    /// Ticks of a reading of the counter, and of 100 multiplications.
    reading: f64,
    multiplications: f64,
    /// Ticks of each malloc as the allocator noted them.
    took: Vec<u64>,
}

fn measure(story: &Story) -> Measured {
    let mut bench = Bench::new();
    let library = library(bench.folder.path(), "bias");
    let path = bench.folder.path().join("took");
    let bias = allocator("bias", Kind::Peer, Some(library));
    let bias = with(&bias, &[("KEEL_BIAS", path.to_str().unwrap())]);
    bench.options =
        Options { touch: Touch::None, keep: Keep::All, throughput: false, ..bench.options };
    let comparison = bench.compare(story, vec![bias, floor()]).unwrap().comparison;
    let rows = |result: &AllocatorResult| {
        let raw = result.runs[0].raw.as_ref().unwrap();
        let mut reader = RunReader::open(&bench.results().join(raw)).unwrap();
        let mut all = Vec::new();
        while let Some(rows) = reader.next_rows().unwrap() {
            all.extend(rows.ticks.iter().copied().zip(rows.cause.iter().copied()));
        }
        let mallocs = story.source.events.iter().zip(all);
        mallocs.filter(|(event, _)| event.op == Op::Malloc).map(|(_, row)| row).collect()
    };
    let rows = [0, 1].map(|index| rows(&comparison.allocators[index]));
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let known: Vec<f64> =
        lines.next().unwrap().split(' ').map(|word| word.parse().unwrap()).collect();
    let took = lines.map(|line| line.parse().unwrap()).collect();
    Measured { comparison, rows, reading: known[0], multiplications: known[1], took }
}

/// Mallocs of these sizes, with a calloc, which measures the known costs, after every 100.
fn story(sizes: impl Iterator<Item = u64>) -> Story {
    let mut story = Story::default();
    for (index, size) in sizes.enumerate() {
        story.malloc(0, size);
        if index % 100 == 99 {
            story.push(0, Op::Calloc, 8, 0);
        }
    }
    story
}

/// How far a measured time is from the known one, as a multiple of what is allowed.
fn excess(measured: f64, known: f64) -> f64 {
    (measured - known).abs() / NS.max(SHARE * known)
}

/// Measures until the excess is at most 1; the least excess, with a description.
fn least(mut attempt: impl FnMut() -> (f64, String)) -> (f64, String) {
    let mut best = (f64::INFINITY, String::new());
    for _ in 0..TRIES {
        let found = attempt();
        if found.0 < best.0 {
            best = found;
        }
        if best.0 <= 1.0 {
            break;
        }
    }
    best
}

/// The mean without the rare calls that the machine disturbed. All calls cost the same, so that the
/// mean does not depend on the clock's steps.
fn mean_of_most(rows: &[(u32, u8)]) -> f64 {
    let counted = rows.iter().filter(|(_, cause)| cause & CAUSE_FOLLOWS_DETECTOR == 0);
    let mut ticks: Vec<u32> = counted.map(|(ticks, _)| *ticks).collect();
    ticks.sort_unstable();
    ticks.truncate(ticks.len() * 97 / 100);
    ticks.iter().map(|&ticks| f64::from(ticks)).sum::<f64>() / ticks.len() as f64
}

#[test]
fn calls_without_fences_are_measured_from_begin_to_end() {
    for (size, times) in [(1, 1.0), (10, 10.0)] {
        let story = story(std::iter::repeat_n(size, 20_000));
        let (excess, text) = least(|| {
            let measured = measure(&story);
            let rate = measured.comparison.clock.ticks_per_ns;
            let [bias, floor] = measured.rows.each_ref().map(|rows| mean_of_most(rows) / rate);
            let known = times * measured.multiplications / rate;
            let text = format!("{bias:.1} ns, less {floor:.1} ns, instead of {known:.1} ns");
            (excess(bias - floor, known), text)
        });
        assert!(excess <= 1.0, "multiplications took {text}");
    }
}

/// Sizes for [`timed_calls_are_measured_at_every_percentile`]: loops of 100 to 400 ticks, a few of
/// them up to four times as long, a hundredth up to 40 times; one in a hundred has an action. Few
/// are slow, so that the calls after them are left out.
fn mixture(count: u64) -> impl Iterator<Item = u64> {
    let mut state = 1u64;
    (0..count).map(move |index| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = |below: u64| (state >> 33) % below;
        let longest = match random(1000) {
            0..=9 => 40,
            10..=29 => 4,
            _ => 1,
        };
        let ticks = (state >> 20) % (300 * longest);
        let action = if index % 300 < 3 { index % 300 + 6 } else { 0 };
        ticks / 10 * 10 + action + 100
    })
}

fn histogram(ticks: impl Iterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::default();
    histogram.0.auto(true);
    ticks.for_each(|ticks| histogram.0.record(ticks).unwrap());
    histogram
}

/// The largest excess of a percentile, and its description.
fn worst(
    measured: &Histogram,
    known: &Histogram,
    clock: &keel_results::Clock,
    added: f64,
    what: &str,
) -> (f64, String) {
    let supported = |quantile: &f64| known.0.len() as f64 * (1.0 - quantile) >= 9.99;
    let of = |counts: &Histogram, quantile: f64| {
        percentile(&counts.0, quantile, clock.step_ticks) / clock.ticks_per_ns
    };
    let each = QUANTILES.into_iter().filter(supported).map(|quantile| {
        let (measured, known) = (of(measured, quantile), of(known, quantile) + added);
        let text = format!("{what} p{}: {measured:.1} ns, known {known:.1} ns", quantile * 100.0);
        (excess(measured, known), text)
    });
    each.max_by(|one, other| one.0.total_cmp(&other.0)).unwrap()
}

#[test]
fn timed_calls_are_measured_at_every_percentile() {
    let sizes: Vec<u64> = mixture(300_000).collect();
    let story = story(sizes.iter().copied());
    let (excess, text) = least(|| {
        let Measured { comparison, rows, reading, took, .. } = measure(&story);
        assert_eq!(took.len(), sizes.len());
        let run = &comparison.allocators[0].runs[0];
        let has = |cause: u8, bits: u8| cause & bits != 0;
        let counted = rows[0].iter().filter(|(_, cause)| !has(*cause, CAUSE_FOLLOWS_DETECTOR));
        let counted = histogram(counted.map(|(ticks, _)| u64::from(*ticks)));
        assert!(counted.0 == run.latency["malloc"].0, "percentiles are of all but marked calls");
        assert_eq!(run.left_out["malloc"], sizes.len() as u64 - counted.0.len());
        // Each call contains one reading of the counter more than it notes.
        let clock = &comparison.clock;
        let added = (mean_of_most(&rows[1]) + reading) / clock.ticks_per_ns;
        // An interruption may be in the call, but outside of what it notes.
        let calm =
            |cause: u8| !has(cause, CAUSE_FOLLOWS_DETECTOR | CAUSE_INTERRUPTED | CAUSE_INTERRUPT);
        let counted: Vec<(u64, u64, u64)> = sizes
            .iter()
            .zip(&took)
            .zip(&rows[0])
            .filter(|(_, (_, cause))| calm(*cause))
            .map(|((size, took), (ticks, _))| (*size, *took, u64::from(*ticks)))
            .collect();
        let known = histogram(counted.iter().map(|(_, took, _)| *took));
        let measured = histogram(counted.iter().map(|(.., ticks)| *ticks));
        let mut found = vec![worst(&measured, &known, clock, added, "all")];
        for (kind, what) in [(6, "faults"), (7, "system calls"), (8, "cold lines"), (0, "loops")] {
            let calls = || counted.iter().filter(|(size, ..)| size % 10 == kind);
            let known = histogram(calls().map(|(_, took, _)| *took));
            let measured = histogram(calls().map(|(.., ticks)| *ticks));
            found.push(worst(&measured, &known, clock, added, what));
        }
        found.into_iter().max_by(|one, other| one.0.total_cmp(&other.0)).unwrap()
    });
    assert!(excess <= 1.0, "{text}");
}
