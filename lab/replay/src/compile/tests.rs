#![allow(clippy::unwrap_used, reason = "a test may panic")]
use super::*;
use crate::{Pace, Sourced};
use keel_plan::SKEW_ROWS;
use proptest::prelude::*;

/// Builds a journal.
#[derive(Default)]
struct Story {
    source: Sourced,
    objects: u64,
    live: Vec<u64>,
}

impl Story {
    fn push(&mut self, thread: u32, op: Operation, size: u64, released: u64) -> u64 {
        let time = self.source.events.len() as u64 * 1000;
        let created = if op.creates() { self.objects + 1 } else { 0 };
        self.objects += u64::from(op.creates());
        let align = if op == Operation::Aligned { 64 } else { 0 };
        self.source.events.push(Event {
            thread,
            size,
            align,
            created,
            released,
            ..Event::at(time, op)
        });
        self.live.retain(|&object| object != released);
        self.live.extend((created != 0).then_some(created));
        created
    }

    fn malloc(&mut self, thread: u32, size: u64) -> u64 {
        self.push(thread, Operation::Malloc, size, 0)
    }

    fn free(&mut self, thread: u32, object: u64) {
        self.push(thread, Operation::Free, 0, object);
    }

    fn realloc(&mut self, thread: u32, object: u64, size: u64) -> u64 {
        self.push(thread, Operation::Realloc, size, object)
    }

    fn compiled(&self, pace: Pace) -> Compiled {
        compile(&self.source, &Options { pace, ..Options::default() }).unwrap()
    }
}

fn steps(compiled: &Compiled, thread: usize) -> Vec<Op> {
    compiled.plan.steps(&compiled.plan.threads()[thread]).to_vec()
}

#[test]
fn a_free_on_another_thread_waits_for_its_object_and_for_nothing_else() {
    let mut story = Story::default();
    let one = story.malloc(0, 10);
    let two = story.malloc(0, 20);
    story.free(1, two);
    story.free(0, one);
    let compiled = story.compiled(Pace::Max);
    let other = steps(&compiled, 1);
    // Row 1 created it, and tags are 1 + the row.
    assert_eq!((other[0].kind(), other[0].argument, other[0].row), (Kind::Await, 2, 2));
    assert_eq!((other[1].kind(), other[1].slot, other[1].row), (Kind::Free, other[0].slot, 2));
    assert!(steps(&compiled, 0).iter().all(|step| step.kind() != Kind::Await));
    assert_eq!(compiled.facts.cross_thread_frees, 1);
    assert_eq!(compiled.plan.header().alive, 2);
}

#[test]
fn blocks_may_be_larger_in_sum_than_any_number_is() {
    let mut story = Story::default();
    let blocks = [1, 2, 3, 4].map(|_| story.malloc(0, i64::MAX as u64));
    for block in blocks {
        story.free(0, block);
    }
    let compiled = story.compiled(Pace::Max);
    assert_eq!((compiled.facts.total_bytes, compiled.facts.peak_live_bytes), (u64::MAX, u64::MAX));
    // Each may take a step more for its size.
    assert_eq!(steps(&compiled, 0).iter().filter(|step| step.kind() == Kind::Free).count(), 4);
    story.source.metadata.prologue = 4;
    let facts = story.compiled(Pace::Max).facts;
    assert_eq!((facts.prologue_bytes, facts.peak_live_bytes), (u64::MAX, u64::MAX));
}

#[test]
fn a_realloc_keeps_its_slot_and_one_of_null_takes_a_fresh_one() {
    let mut story = Story::default();
    let one = story.malloc(0, 10);
    let one = story.realloc(0, one, 30);
    story.free(0, one);
    story.realloc(0, 0, 7);
    let compiled = story.compiled(Pace::Max);
    let steps = steps(&compiled, 0);
    assert_eq!(steps.len(), 4);
    assert!(steps.iter().all(|step| step.slot == steps[0].slot));
    assert_eq!(
        steps.iter().map(|step| step.is_fresh()).collect::<Vec<_>>(),
        [false, false, false, true]
    );
    assert_eq!(compiled.facts.peak_live_bytes, 30);
    assert_eq!(compiled.facts.operations["realloc"], 2);
}

#[test]
fn a_size_of_more_than_32_bits_is_said_in_two_steps() {
    let mut story = Story::default();
    story.malloc(0, (5 << 32) + 6);
    let compiled = story.compiled(Pace::Max);
    let steps = steps(&compiled, 0);
    assert_eq!((steps[0].kind(), steps[0].argument), (Kind::High, 5));
    assert_eq!((steps[1].kind(), steps[1].argument), (Kind::Malloc, 6));
    assert_eq!(compiled.plan.header().rows, 1);
    assert_eq!(compiled.facts.total_bytes, (5 << 32) + 6);
}

#[test]
fn slots_are_bounded_by_the_live_objects_and_not_by_the_length() {
    // Thread 0 allocates and thread 1 frees: the hardest case, since no slot returns to its
    // allocating thread by itself.
    let mut story = Story::default();
    for _ in 0..200_000 {
        let object = story.malloc(0, 8);
        story.free(1, object);
    }
    let compiled = story.compiled(Pace::Max);
    assert!(compiled.plan.header().slots < 2 * SKEW_ROWS, "{}", compiled.plan.header().slots);
}

#[test]
fn each_pace_has_its_schedule() {
    let mut story = Story::default();
    for _ in 0..3 {
        story.malloc(0, 8);
    }
    for (event, time) in story.source.events.iter_mut().zip([0, 500_000, 9_500_000]) {
        (event.time, event.begin) = (time, time);
    }
    let due = |pace| {
        let compiled = story.compiled(pace);
        let thread = compiled.plan.threads()[0];
        (compiled.plan.schedule(&thread).map(<[u64]>::to_vec), compiled.longest_pause_ns)
    };
    assert_eq!(due(Pace::Max), (None, 0));
    assert_eq!(due(Pace::Times(1.0)), (Some(vec![0, 500_000, 9_500_000]), 9_000_000));
    assert_eq!(due(Pace::Times(2.0)), (Some(vec![0, 250_000, 4_750_000]), 4_500_000));
    assert_eq!(due(Pace::Compressed), (Some(vec![0, 500_000, 1_500_000]), 1_000_000));
}

#[test]
fn a_journal_that_breaks_the_rules_is_an_error_with_its_row() {
    let mut story = Story::default();
    let object = story.malloc(0, 8);
    story.free(0, object);
    story.free(0, object);
    let error = compile(&story.source, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("row 2") && error.contains("not live"), "{error}");
    let error = compile(&Sourced::default(), &Options::default()).unwrap_err().to_string();
    assert!(error.contains("no operation"), "{error}");
}

#[test]
fn blocks_that_lived_before_are_made_before_the_run_and_in_no_row() {
    let mut story = Story::default();
    let (one, two) = (story.malloc(0, 10), story.malloc(1, (5 << 32) + 6));
    story.source.metadata.prologue = 2;
    story.malloc(1, 30);
    story.free(1, one);
    story.free(1, two);
    let compiled = story.compiled(Pace::Max);
    let threads = compiled.plan.threads();
    let before = |thread: usize| compiled.plan.prologue(&threads[thread]);
    assert_eq!(
        before(0).iter().map(|step| (step.kind(), step.argument)).collect::<Vec<_>>(),
        [(Kind::Malloc, 10)]
    );
    let kinds: Vec<_> = before(1).iter().map(|step| (step.kind(), step.argument)).collect();
    assert_eq!(kinds, [(Kind::High, 5), (Kind::Malloc, 6)]);
    assert!(steps(&compiled, 0).is_empty(), "all that it did lies before the run");
    // A thread waits for the block of another thread: threads that start late allocate late.
    let run: Vec<_> = steps(&compiled, 1).iter().map(|step| (step.kind(), step.row)).collect();
    assert_eq!(run, [(Kind::Malloc, 0), (Kind::Await, 1), (Kind::Free, 1), (Kind::Free, 2)]);
    assert_eq!(steps(&compiled, 1)[1].argument, keel_plan::PROLOGUE_ROW + 1);
    assert_eq!(compiled.plan.header().rows, 3);
    assert_eq!(compiled.plan.header().alive, 2);
    let facts = &compiled.facts;
    assert_eq!(
        (facts.operations["malloc"], facts.operations["free"], facts.total_bytes),
        (1, 2, 30)
    );
    assert_eq!((facts.prologue_blocks, facts.prologue_bytes), (2, (5 << 32) + 16));
    assert_eq!(facts.peak_live_bytes, (5 << 32) + 46);
}

#[test]
fn foreign_frees_are_left_out_and_counted() {
    let mut story = Story::default();
    story.malloc(0, 8);
    story.push(0, Operation::ForeignFree, 0, 0);
    story.push(0, Operation::ForeignRealloc, 64, 0);
    let compiled = story.compiled(Pace::Max);
    assert_eq!(compiled.facts.skipped["foreign_free"], 1);
    assert_eq!(compiled.facts.operations["malloc"], 2);
    assert_eq!(compiled.plan.header().rows, 2);
}

/// Executes a plan as the player's threads may, in the most unequal order that it allows. `choices`
/// selects which of the runnable threads continues, and how far. Every step must find the journal's
/// object in its slot.
fn execute(plan: &Plan, skew: u32, choices: &[u8]) {
    let threads: Vec<&[Op]> = plan.threads().iter().map(|thread| plan.steps(thread)).collect();
    let mut next = vec![0usize; threads.len()];
    let mut tags = vec![0u32; plan.header().slots as usize];
    let mut owner = vec![None::<u32>; plan.header().slots as usize];
    let (mut done, total) = (0, threads.iter().map(|steps| steps.len()).sum::<usize>());
    let mut choices = choices.iter().cycle();
    while done < total {
        let row = |next: &[usize], thread: usize| {
            threads[thread].get(next[thread]).map_or(u32::MAX, |step| step.row)
        };
        let able: Vec<usize> = (0..threads.len())
            .filter(|&thread| next[thread] < threads[thread].len())
            .filter(|&thread| {
                let others = (0..threads.len()).filter(|&other| other != thread);
                let slowest = others.map(|other| row(&next, other)).min().unwrap_or(u32::MAX);
                let step = threads[thread][next[thread]];
                let waits = step.kind() == Kind::Await && tags[step.slot as usize] != step.argument;
                step.row < slowest.saturating_add(skew) && !waits
            })
            .collect();
        assert!(!able.is_empty(), "no thread can go on: deadlock");
        let thread = able[usize::from(*choices.next().unwrap()) % able.len()];
        let step = threads[thread][next[thread]];
        let slot = step.slot as usize;
        match step.kind() {
            Kind::Await | Kind::High => {}
            Kind::Free => {
                assert!(owner[slot].take().is_some(), "row {} frees an empty slot", step.row)
            }
            Kind::Realloc if !step.is_fresh() => {
                assert!(owner[slot].is_some(), "row {} resizes an empty slot", step.row);
                (owner[slot], tags[slot]) = (Some(step.row), step.row + 1);
            }
            _ => {
                assert_eq!(owner[slot], None, "row {} takes a slot that is in use", step.row);
                (owner[slot], tags[slot]) = (Some(step.row), step.row + 1);
            }
        }
        next[thread] += 1;
        done += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Slots are used again while other threads lag behind as far as the skew allows. No object is
    /// lost or confused with another, and the threads never deadlock.
    #[test]
    fn any_order_that_the_skew_allows_finds_every_object(
        moves in prop::collection::vec((0u32..4, 0u8..10, any::<u16>()), 1..1500),
        choices in prop::collection::vec(any::<u8>(), 1..200),
        skew in 1u32..200,
    ) {
        let mut story = Story::default();
        for (thread, what, pick) in moves {
            let object = story.live.get(usize::from(pick) % story.live.len().max(1)).copied();
            match (what, object) {
                (0..=3, Some(object)) => story.free(thread, object),
                (4, Some(object)) => { story.realloc(thread, object, 9); }
                (5, _) => { story.realloc(thread, 0, 9); }
                (6, _) => { story.push(thread, Operation::Aligned, 64, 0); }
                _ => { story.malloc(thread, u64::from(pick)); }
            }
        }
        let compiled = compile_skewed(&story.source, skew);
        execute(&compiled, skew, &choices);
    }
}

/// A small skew and few kept slots, so that short journals reach both limits.
fn compile_skewed(source: &Sourced, skew: u32) -> Plan {
    let options = Options::default();
    let machine = || Machine { slots: Slots::new(skew, 1), ..Machine::new(&options) };
    let (mut count, mut first) = (Count::default(), machine());
    first.feed(source, &mut count, &mut |_| {}).unwrap();
    let shape = PlanShape {
        threads: count.threads.iter().map(|thread| thread.shape).collect(),
        slots: first.slots.used(),
        alive: count.alive_at_once(),
        paced: false,
    };
    let mut nobody = |_| Ok(());
    let mut write = Write { writer: PlanWriter::create(&shape).unwrap(), operated: &mut nobody };
    let mut second = machine();
    second.feed(source, &mut write, &mut |_| {}).unwrap();
    write.writer.finish(second.slots.used())
}
