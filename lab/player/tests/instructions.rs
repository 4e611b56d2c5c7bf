//! What the loop without a clock costs an operation, counted in instructions, which no other load
//! disturbs.
//!
//! The test runs itself under callgrind, which counts inside of [`counted`] only: the loop, and an
//! allocator of two instructions a call.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use keel_allocators::table::{ABI, Table};
use keel_plan::{Orders, Results};
use keel_player::causes::Detectors;
use keel_player::clock::Monotonic;
use keel_player::part::Part;
use keel_player::perform::perform;
use keel_player::wait_settings;
use keel_replay::Options;
use std::ffi::{c_char, c_void};
use std::process::Command;
use support::Story;

/// Pairs of a malloc and a free, and what an operation may cost on average. On x86-64 it was 23.4
/// in the only thread and 26.1 among others when this was written; the loop before, which announced
/// every step, had 66.5.
const PAIRS: u64 = 20_000;
const BOUND_ALONE: f64 = 26.0;
const BOUND_AMONG_OTHERS: f64 = 29.0;

static mut BLOCK: [u8; 64] = [0; 64];

unsafe extern "C" fn version(_: *mut c_char, _: usize) {}

unsafe extern "C" fn block(_: usize) -> *mut c_void {
    (&raw mut BLOCK).cast()
}

unsafe extern "C" fn free(_: *mut c_void) {}

unsafe extern "C" fn free_sized(_: *mut c_void, _: usize) {}

unsafe extern "C" fn of_two(_: usize, _: usize) -> *mut c_void {
    (&raw mut BLOCK).cast()
}

unsafe extern "C" fn realloc(_: *mut c_void, _: usize) -> *mut c_void {
    (&raw mut BLOCK).cast()
}

static TABLE: Table = Table {
    abi: ABI,
    has_hints: 1,
    version,
    malloc: block,
    free,
    calloc: of_two,
    realloc,
    aligned: of_two,
    usable_size: None,
    init: None,
    thread_init: None,
    thread_exit: None,
    teardown: None,
    free_sized: Some(free_sized),
    free_aligned: None,
    free_aligned_sized: None,
    hint_names: None,
};

/// All of a part; named so that callgrind finds it.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn keel_test_counted(part: &Part<'_>) {
    // SAFETY: the plan is replay's.
    unsafe { perform::<Monotonic>(*part) }
}

/// Performs the first thread's part of a plan of `threads` threads. The other threads have only one
/// malloc, at the end.
fn perform_first(threads: u32) {
    let mut story = Story::default();
    let mut held = std::collections::VecDeque::new();
    for size in 0..PAIRS {
        held.push_back(story.malloc(0, 16 + size % 100));
        if held.len() > 100 {
            story.free(0, held.pop_front().unwrap());
        }
    }
    held.into_iter().for_each(|object| story.free(0, object));
    (1..threads).for_each(|thread| _ = story.malloc(thread, 8));
    let compiled = keel_replay::compile(&story.source, &Options::default()).unwrap();
    let results = Results::create(compiled.plan.header()).unwrap();
    results.reset(Orders { unclocked: true, ..Orders::default() });
    let room = vec![0u128; compiled.plan.header().slots as usize];
    // SAFETY: as many slots as the plan asks for, of 16 bytes each and aligned; zeroes are valid
    // slots.
    let slots = unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), room.len()) };
    // The others stand at their ends, as if they had done their parts.
    results
        .states()
        .iter()
        .for_each(|state| state.next_row.store(u32::MAX, std::sync::atomic::Ordering::Relaxed));
    keel_test_counted(&Part {
        table: &TABLE,
        prologue: &[],
        steps: compiled.plan.steps(&compiled.plan.threads()[0]),
        schedule: None,
        evicted: &[],
        records: std::ptr::null_mut(),
        slots,
        states: results.states(),
        index: 0,
        control: results.control(),
        skew: compiled.plan.header().skew,
        origin: 0,
        waiter: wait_settings(1.0, 1),
        detectors: Detectors { flag: false, calls: false, interrupts: false },
        orders: results.control().orders(),
    });
}

/// Set in the process that runs under callgrind: how many threads its plan has.
const THREADS: &str = "KEEL_TEST_COUNTED_THREADS";
const NAME: &str = "an_operation_without_a_clock_costs_few_instructions";

/// Instructions an operation.
fn counted(threads: u32) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=keel_test_counted"])
        .arg("--toggle-collect=*loop_ticks*") // not while the processor's speed is measured
        .arg(format!("--callgrind-out-file={}", folder.path().join("out").display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--test-threads=1"])
        .env(THREADS, threads.to_string())
        .output()
        .expect("valgrind is there; `make setup` installs it");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let line =
        text.lines().find_map(|line| line.split_once("Collected :")).expect("callgrind's sum").1;
    let instructions: u64 = line.trim().replace(',', "").parse().unwrap();
    instructions as f64 / (2 * PAIRS) as f64
}

#[test]
#[cfg(target_arch = "x86_64")]
fn an_operation_without_a_clock_costs_few_instructions() {
    if let Ok(threads) = std::env::var(THREADS) {
        return perform_first(threads.parse().unwrap());
    }
    let (alone, among_others) = (counted(1), counted(2));
    assert!(alone > 5.0 && alone <= BOUND_ALONE, "{alone} instructions an operation");
    assert!(
        among_others > alone && among_others <= BOUND_AMONG_OTHERS,
        "{among_others} instructions an operation"
    );
}
