#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;
use crate::ring::{self, CLOCK_MONOTONIC};
use crate::rows::describe;
use keel_journal::{Event, Op, Rules};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

const TID: u64 = 4000;

/// With the monotonic clock, a tick is a nanosecond.
fn assembler() -> (Assembler, u64) {
    let clock = Clock::start(CLOCK_MONOTONIC);
    let origin = clock.now();
    (Assembler::new(clock, origin, &Filter::default()), origin)
}

fn event(time: u64, op: u8, address: u64, size: u64) -> RawEvent {
    RawEvent { time, address, size, word: u64::from(op) | 1 << 8 }
}

fn realloc_end(time: u64, old: u64, new: u64, size: u64) -> RawEvent {
    RawEvent { time, address: new, size, word: u64::from(op::REALLOC_END) | 1 << 8 | old << 16 }
}

/// Adds one batch of events to each ring, each begun by a separate thread, and returns rows and
/// facts.
fn assemble(rings: &[Vec<RawEvent>]) -> (Vec<Event>, Facts) {
    let (mut assembler, origin) = assembler();
    for (ring, events) in rings.iter().enumerate() {
        let mut all = vec![event(origin, op::THREAD_BEGIN, TID + ring as u64, ring as u64 + 1)];
        all.extend(events.iter().map(|event| RawEvent { time: event.time + origin, ..*event }));
        assembler.add(ring, &all);
    }
    let mut rows = Vec::new();
    let clock = assembler.applier.clock;
    assembler.write(clock, u64::MAX, &mut |row: &Event| {
        rows.push(*row);
        Taken::More
    });
    let names = Names { program: "program".to_owned(), ..Names::default() };
    (rows, assembler.finish(&names))
}

fn check(rows: &[Event], facts: Facts) -> Metadata {
    let mut metadata = Metadata::default();
    describe(facts, &mut metadata);
    let mut rules = Rules::new(&metadata).unwrap();
    for row in rows {
        rules.check(row).unwrap_or_else(|violation| panic!("{violation}\n{row:?}"));
    }
    metadata
}

#[test]
fn release_timed_after_the_next_allocation_is_moved_before_it() {
    let first = vec![event(1000, op::MALLOC, 0x10, 8), event(5000, op::FREE, 0x10, 0)];
    let second = vec![event(4900, op::MALLOC, 0x10, 16), event(9000, op::FREE, 0x10, 0)];
    let (rows, facts) = assemble(&[first, second]);
    let released: Vec<_> = rows.iter().map(|row| (row.op, row.created, row.released)).collect();
    assert_eq!(
        released,
        [(Op::Malloc, 1, 0), (Op::Free, 0, 1), (Op::Malloc, 2, 0), (Op::Free, 0, 2)]
    );
    assert_eq!(facts.repairs.get("inverted"), Some(&1));
    assert_eq!(facts.foreign, 0);
    check(&rows, facts);
}

#[test]
fn release_timed_before_its_allocation_waits_for_it() {
    let first = vec![event(1000, op::MALLOC, 0x20, 8), event(5000, op::MALLOC, 0x10, 8)];
    let second = vec![event(4900, op::FREE, 0x10, 0)];
    let (rows, facts) = assemble(&[first, second]);
    assert_eq!(rows.iter().map(|row| row.released).collect::<Vec<_>>(), [0, 0, 2]);
    assert_eq!(facts.foreign, 0);
    check(&rows, facts);
}

#[test]
fn unrecorded_operations_are_counted() {
    let events = vec![
        event(1000, op::MALLOC, 0x10, 8),
        event(2000, op::MALLOC, 0x10, 9), // the program freed it without a recorded call
        event(3000, op::FREE, 0x10, 0),
        event(4000, op::FREE, 0x10, 0), // its allocation was not recorded
        event(5000, op::REALLOC_BEGIN, 0x30, 64),
        realloc_end(6000, 0x30, 0x40, 64),
    ];
    let (rows, facts) = assemble(&[events]);
    let ops: Vec<_> = rows.iter().map(|row| row.op).collect();
    assert_eq!(ops, [Op::Malloc, Op::Malloc, Op::Free, Op::ForeignFree, Op::ForeignRealloc]);
    assert_eq!((facts.foreign, facts.repairs.get("unseen_free")), (2, Some(&1)));
    check(&rows, facts);
}

#[test]
fn realloc_releases_its_block_at_its_beginning() {
    // While the realloc copies, another thread gets the old address.
    let first = vec![
        event(1000, op::MALLOC, 0x10, 8),
        event(2000, op::REALLOC_BEGIN, 0x10, 99),
        realloc_end(900_000, 0x10, 0x50, 99),
        event(910_000, op::REALLOC_BEGIN, 0x50, 1 << 60),
        realloc_end(911_000, 0x50, 0, 1 << 60), // fails: the block stays live
        event(920_000, op::REALLOC_BEGIN, 0x50, 0),
        realloc_end(921_000, 0x50, 0, 0), // a free
        event(930_000, op::REALLOC_NULL, 0x60, 7),
    ];
    let second = vec![event(400_000, op::MALLOC, 0x10, 16), event(500_000, op::FREE, 0x10, 0)];
    let (rows, facts) = assemble(&[first, second]);
    let seen: Vec<_> =
        rows.iter().map(|r| (r.begin, r.time, r.op, r.size, r.created, r.released)).collect();
    let expected = [
        (1000, 1000, Op::Malloc, 8, 1, 0),
        (400_000, 400_000, Op::Malloc, 16, 2, 0),
        (500_000, 500_000, Op::Free, 0, 0, 2),
        (2000, 900_000, Op::Realloc, 99, 3, 1),
        (921_000, 921_000, Op::Free, 0, 0, 3),
        (930_000, 930_000, Op::Realloc, 7, 4, 0),
    ];
    assert_eq!(seen, expected);
    check(&rows, facts);
}

#[test]
fn frames_are_separated_even_within_a_nanosecond() {
    let events = vec![
        event(1000, op::MALLOC, 0x10, 8),
        event(1000, op::FRAME, 0, 0),
        event(1000, op::FREE, 0x10, 0),
        event(1000, op::FRAME, 0, 0),
    ];
    let (rows, facts) = assemble(&[events]);
    assert_eq!(rows.iter().map(|row| row.frame).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(facts.frames, [1001, 1002]);
    check(&rows, facts);
}

#[test]
fn successive_threads_of_a_ring_keep_their_names() {
    let name = *b"a name of 15 ch\0";
    let half = |at: usize| u64::from_le_bytes(name[at..at + 8].try_into().unwrap());
    let events = vec![
        event(1000, op::MALLOC, 0x10, 8),
        event(1100, op::THREAD_END, half(0), half(8)),
        event(1200, op::THREAD_BEGIN, 77, 9),
        event(1300, op::FREE, 0x10, 0),
        event(1400, op::THREAD_BEGIN, TID, 1),
        event(1500, op::MALLOC, 0x10, 8),
    ];
    let (rows, facts) = assemble(&[events]);
    assert_eq!(rows.iter().map(|row| row.thread).collect::<Vec<_>>(), [0, 1, 0]);
    let metadata = check(&rows, facts);
    let threads: Vec<_> = metadata.threads.iter().map(|t| (t.id, t.name.as_str())).collect();
    assert_eq!(threads, [(TID, "a name of 15 ch"), (77, "program")]);
}

/// A recording that waits, which may take days: its clock, and when it began.
fn waiting() -> (Clock, u64, Assembler) {
    let clock = Clock::start(CLOCK_MONOTONIC);
    let origin = clock.now();
    let filter = Filter { after_ns: u64::MAX, ..Filter::default() };
    (clock, origin, Assembler::new(clock, origin, &filter))
}

/// A malloc of 8 bytes that comes from an address, or from a stack with ORIGIN_STACK.
fn made(time: u64, from: u64, address: u64) -> RawEvent {
    RawEvent { time, address, size: 8, word: u64::from(op::MALLOC) | 1 << 8 | from << 16 }
}

/// While a recording waits.
#[test]
fn ended_threads_without_live_blocks_are_forgotten() {
    const THREADS: u64 = 20_000;
    const KEPT: u64 = 3;
    let (clock, origin, mut assembler) = waiting();
    for serial in 1..=THREADS {
        let at = origin + serial * 10;
        let mut events = vec![event(at, op::THREAD_BEGIN, TID + serial, serial)];
        events.push(event(at + 1, op::MALLOC, serial * 16, 8));
        if serial != KEPT {
            events.push(event(at + 2, op::FREE, serial * 16, 0));
        }
        assembler.add(0, &events);
    }
    let mut rows = Vec::new();
    let mut sink = |row: &Event| {
        rows.push(*row);
        Taken::More
    };
    assembler.write(clock, origin + THREADS * 20, &mut sink);
    let known = assembler.applier.known_threads();
    assert!(known < 2100, "{known}");
    assembler.begin_span(&mut sink);
    let facts = assembler.finish(&Names::default());
    assert_eq!((rows.len(), facts.threads.len()), (1, 1));
    assert_eq!(facts.threads[0].id, TID + KEPT);
}

/// Rows with the addresses of their stacks, innermost first.
#[derive(Default)]
struct WithStacks(Vec<(Op, Origin)>);

impl RowSink for WithStacks {
    fn push(&mut self, row: &Event, origin: Origin, _: &dyn Fn(&mut Metadata)) -> Taken {
        self.0.push((row.op, origin));
        Taken::More
    }
}

/// Likewise, of a program whose stacks are ever new: those of live blocks stay, and those that a
/// ring may name without describing them again.
#[test]
fn stacks_without_live_blocks_are_forgotten() {
    const STACKS: u64 = 300_000;
    const KEPT: u64 = 3;
    let (clock, origin, mut assembler) = waiting();
    let mut sink = WithStacks::default();
    // Each has a caller of its own, which a common function calls.
    let described = |at, name: u64| {
        let word = u64::from(op::STACK) | 1 << 8 | name << 16;
        RawEvent { time: at, address: 0x1_0000 + name, size: 0x1000, word }
    };
    let made = |at, name: u64, address| made(at, ring::ORIGIN_STACK | name, address);
    assembler.add(0, &[event(origin, op::THREAD_BEGIN, TID, 1)]);
    for name in 1..=STACKS {
        let at = origin + name * 10;
        let mut events = vec![described(at, name), made(at + 1, name, name * 16)];
        if name != KEPT {
            events.push(event(at + 2, op::FREE, name * 16, 0));
        }
        assembler.add(0, &events);
        // The events of the last reading are not applied yet.
        assembler.write(clock, at, &mut sink);
    }
    let known = assembler.applier.known_stacks();
    assert!(known < 150_000, "{known}");
    assembler.begin_span(&mut sink);
    let last = origin + STACKS * 10;
    assembler.add(0, &[made(last + 3, STACKS - 200, 8), made(last + 4, 7, 24)]);
    assembler.write(clock, u64::MAX, &mut sink);
    let stacks = assembler.finish(&Names::default()).stacks;
    let addresses = |origin: &Origin| -> Vec<u64> {
        stacks.walk(origin.stack).map(|(_, address)| address).collect()
    };
    let made = sink.0.iter().filter(|(op, _)| *op == Op::Malloc);
    let found: Vec<Vec<u64>> = made.map(|(_, origin)| addresses(origin)).collect();
    let stack = |name| vec![0x1_0000 + name, 0x1000];
    // The live block, and that of the last reading. The ring has described others in place of 7.
    let expected = [stack(KEPT), stack(STACKS), stack(STACKS - 200), Vec::new()];
    assert_eq!(found, expected);
}

/// Likewise, of a program that loads and unloads libraries under changing names and at changing
/// addresses: those of live blocks stay, and those that are mapped.
#[test]
fn modules_without_live_blocks_are_forgotten() {
    const LIBRARIES: u64 = 5000;
    const KEPT: u64 = 3;
    let (clock, origin, mut assembler) = waiting();
    let mut sink = WithStacks::default();
    let at = |number: u64| number << 20;
    let mapped = |number: u64| Mapping {
        start: at(number),
        end: at(number) + 0x1000,
        offset: 0,
        path: format!("/lib/{number}.so"),
    };
    assembler.add(0, &[event(origin, op::THREAD_BEGIN, TID, 1)]);
    let (program, mut most) = (mapped(LIBRARIES + 1), 0);
    for number in 1..=LIBRARIES {
        let time = origin + number * 10;
        let word = u64::from(op::STACK) | 1 << 8 | number << 16;
        let stack = RawEvent { time, address: at(number) + 8, size: program.start + 16, word };
        let mut events = vec![
            stack,
            made(time + 1, ring::ORIGIN_STACK | number, number * 64),
            made(time + 2, at(number) + 4, number * 64 + 32),
        ];
        if number != KEPT {
            events.push(event(time + 3, op::FREE, number * 64, 0));
            events.push(event(time + 3, op::FREE, number * 64 + 32, 0));
        }
        assembler.add(0, &events);
        assembler.map(&[mapped(number), program.clone()]);
        // The events of the last reading are not applied yet.
        assembler.write(clock, time, &mut sink);
        most = most.max(assembler.applier.known_paths());
    }
    assert!(most < 2500, "{most}");
    assembler.begin_span(&mut sink);
    assembler.write(clock, u64::MAX, &mut sink);
    let facts = assembler.finish(&Names::default());
    let path = |module: i64| facts.modules[usize::try_from(module).unwrap()].path.clone();
    let rows = sink.0.iter().filter(|(op, _)| *op == Op::Malloc).map(|(_, origin)| {
        let calls = facts.stacks.walk(origin.stack).map(|(module, _)| path(module));
        (path(i64::from(origin.module)), calls.collect::<Vec<_>>())
    });
    let rows: Vec<(String, Vec<String>)> = rows.collect();
    let expected = [KEPT, LIBRARIES].map(|number| {
        let library = mapped(number).path;
        [(library.clone(), vec![library.clone(), program.path.clone()]), (library, Vec::new())]
    });
    assert_eq!(rows, expected.concat());
}

#[test]
fn events_after_the_stop_are_dropped() {
    let (mut assembler, origin) = assembler();
    let clock = assembler.applier.clock;
    let times = [10, 20, 30, 40].map(|at| event(origin + at, op::MALLOC, at, 8));
    assembler.add(0, &times);
    assembler.cut(origin + 25);
    let mut count = 0;
    assembler.write(clock, u64::MAX, &mut |_: &Event| {
        count += 1;
        Taken::More
    });
    assert_eq!(count, 2);
}

/// The end of a recording of limited length is known from the start.
#[test]
fn early_free_waits_across_readings() {
    let (mut assembler, origin) = assembler();
    let clock = assembler.applier.clock;
    assembler.add(
        0,
        &[event(origin, op::THREAD_BEGIN, TID, 1), event(origin + 5000, op::MALLOC, 0x10, 8)],
    );
    assembler.add(
        1,
        &[event(origin, op::THREAD_BEGIN, TID + 1, 2), event(origin + 4900, op::FREE, 0x10, 0)],
    );
    let mut rows = Vec::new();
    for until in [4950, 1_000_000] {
        assembler.cut(origin + 1_000_000);
        assembler.write(clock, origin + until, &mut |row: &Event| {
            rows.push(*row);
            Taken::More
        });
    }
    assert_eq!(rows.iter().map(|row| row.op).collect::<Vec<_>>(), [Op::Malloc, Op::Free]);
    check(&rows, assembler.finish(&Names::default()));
}

/// Parameters of a random history.
#[derive(Clone, Copy)]
struct Manner {
    threads: usize,
    /// The largest error by which times are too early, ns.
    skew: u64,
    /// The address freed last is reused first (otherwise, the one freed first).
    reuses_last: bool,
}

/// A consistent history: threads allocate and free each other's blocks, and addresses are reused.
fn random_history(seed: u64, manner: Manner) -> (Vec<(usize, RawEvent, u64)>, u64) {
    let Manner { threads, skew, reuses_last } = manner;
    let mut random = StdRng::seed_from_u64(seed);
    let (mut live, mut free) =
        (Vec::<u64>::new(), (1..400).map(|n| n * 16).collect::<VecDeque<u64>>());
    let mut history = Vec::new();
    let mut now = 10_000;
    for _ in 0..4000 {
        now += random.random_range(1..60);
        let thread = random.random_range(0..threads);
        let stamp = now - random.random_range(0..=skew);
        let allocates = live.is_empty() || (!free.is_empty() && random.random_bool(0.5));
        let raw = if allocates {
            let address = if reuses_last { free.pop_back() } else { free.pop_front() }.unwrap();
            live.push(address);
            event(stamp, op::MALLOC, address, 8)
        } else {
            let address = live.swap_remove(random.random_range(0..live.len()));
            free.push_back(address);
            event(stamp, op::FREE, address, 0)
        };
        history.push((thread, raw, now));
    }
    (history, now)
}

#[test]
fn dependencies_hold_for_any_reading_order() {
    for seed in 0..300 {
        let (threads, skew) = (1 + seed as usize % 6, [0, 50, 400][seed as usize % 3]);
        check_random_reading_order(seed, Manner { threads, skew, reuses_last: false });
    }
}

/// However soon an address is reused.
#[test]
fn exact_times_need_no_repair() {
    for seed in 0..300 {
        let manner = Manner { threads: 2 + seed as usize % 5, skew: 0, reuses_last: true };
        assert_eq!(check_random_reading_order(seed, manner), 0, "seed {seed}");
    }
}

fn check_random_reading_order(seed: u64, manner: Manner) -> u64 {
    let threads = manner.threads;
    let (history, end) = random_history(seed, manner);
    let mut random = StdRng::seed_from_u64(!seed);
    let (mut assembler, origin) = assembler();
    let clock = assembler.applier.clock;
    for ring in 0..threads {
        let begin = event(origin, op::THREAD_BEGIN, TID + ring as u64, ring as u64 + 1);
        assembler.add(ring, &[begin]);
    }
    let mut rows = Vec::new();
    let mut sink = |row: &Event| {
        rows.push(*row);
        Taken::More
    };
    let (mut at, mut round) = (0, 0);
    while at < history.len() {
        round += random.random_range(1..5000);
        let slack = random.random_range(0..300);
        while at < history.len() && (history[at].2 <= round || round > end) {
            let (ring, event, _) = history[at];
            assembler.add(ring, &[RawEvent { time: event.time + origin, ..event }]);
            at += 1;
        }
        let until =
            if at == history.len() { u64::MAX } else { origin + round.saturating_sub(slack) };
        assembler.write(clock, until, &mut sink);
    }
    let facts = assembler.finish(&Names::default());
    assert_eq!(rows.len(), history.len(), "seed {seed}");
    assert_eq!(facts.foreign, 0, "seed {seed}");
    assert_eq!(facts.repairs.get("unseen_free"), None, "seed {seed}");
    let inverted = facts.repairs.get("inverted").copied().unwrap_or(0);
    check(&rows, facts);
    inverted
}
