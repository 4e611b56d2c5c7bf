//! `keel-player`: `keel compare` starts it in a fresh process for each run. It is not a command for
//! users.
//!
//! ```text
//! keel-player TARGET                  plan at descriptor 3, results at 4
//! keel-player --describe TARGET       prints the allocator's version
//! keel-player --time TARGET           script at descriptor 3, which receives the readings
//! keel-player --hold TARGET           script at descriptor 3; prints blocks and resident pages
//! keel-player --self-test             prints the capabilities of this machine
//! ```

use keel_plan::{ClockChoice, Plan, Results, Script, Slot, State, Thread};
use keel_player::causes::{CauseDetector, Detectors};
use keel_player::clock::{self, Clock, Counter, Monotonic};
use keel_player::clocked::empty_pair;
use keel_player::part::Part;
use keel_player::perform::perform;
use keel_player::wait_settings;
use keel_player::{
    bump::Bump, evict, examine, free_hints, holding, inline_syscalls, self_test, stores, system,
    target, threads, timing,
};
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

#[global_allocator]
static OWN: Bump = Bump::new();

static GATE: threads::Gate = threads::Gate::new();

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [flag, name] if flag == "--describe" => describe(name),
        [flag, name] if flag == "--time" => time(name),
        [flag, name] if flag == "--hold" => hold(name),
        [flag] if flag == "--self-test" => examine(),
        [name] => play(name),
        _ => Err(
            "usage: keel-player TARGET | keel-player --describe TARGET | keel-player --self-test"
                .to_owned(),
        ),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "{message}");
            ExitCode::from(3)
        }
    }
}

/// Prints the capabilities of this machine.
fn examine() -> Result<(), String> {
    let fault = clock::fault();
    let facts =
        if fault.is_none() { examine::facts::<Counter>() } else { examine::facts::<Monotonic>() };
    let mut text = facts.map_err(|error| error.to_string())?;
    if let Some(fault) = fault {
        text += &format!("clock_fault {fault}\n");
    }
    let _ = write!(std::io::stdout(), "{text}");
    Ok(())
}

/// Prints the version, after a test with one small block.
fn describe(name: &OsStr) -> Result<(), String> {
    let table = initialised(name)?;
    // SAFETY: initialised; one block, written, freed.
    unsafe {
        if let Some(thread_init) = table.thread_init {
            thread_init();
        }
        let block = (table.malloc)(64).cast::<u8>();
        if block.is_null() {
            return Err("its malloc(64) returns NULL".to_owned());
        }
        block.write_volatile(1);
        (table.free)(block.cast());
    }
    let _ = writeln!(std::io::stdout(), "{}", target::version(table));
    Ok(())
}

/// Executes a script, for `keel time`.
fn time(name: &OsStr) -> Result<(), String> {
    let script = script()?;
    let table = initialised_here(name)?;
    // SAFETY: initialised, in this thread too.
    unsafe { timing::play(table, &script) }
}

/// Executes a script and prints where its blocks are, for `keel blame --pinned`.
fn hold(name: &OsStr) -> Result<(), String> {
    let script = script()?;
    let before = holding::Before::read(&script)?;
    let table = initialised_here(name)?;
    // SAFETY: initialised, in this thread too.
    unsafe { before.play(table, &script) }
}

/// The script that the parent passed.
fn script() -> Result<Script, String> {
    // SAFETY: the parent opened the script there, and nothing else in this process uses the
    // descriptor.
    let script = unsafe { OwnedFd::from_raw_fd(3) };
    let script = Script::open(script).map_err(|error| error.to_string())?;
    script.memory().lock();
    Ok(script)
}

/// An allocator that is initialised, in this thread too.
fn initialised_here(name: &OsStr) -> Result<&'static keel_allocators::table::Table, String> {
    let table = initialised(name)?;
    if let Some(thread_init) = table.thread_init {
        // SAFETY: initialised.
        unsafe { thread_init() };
    }
    Ok(table)
}

fn initialised(name: &OsStr) -> Result<&'static keel_allocators::table::Table, String> {
    let table = target::load(name)?;
    // SAFETY: called once, before any other function of the table.
    match table.init.map_or(0, |init| unsafe { init() }) {
        0 => Ok(table),
        code => Err(format!("its initialisation failed with {code}")),
    }
}

fn play(name: &OsStr) -> Result<(), String> {
    // SAFETY: the parent opened the plan and the results there, and nothing else in this process
    // uses the descriptors.
    let (plan, results) = unsafe { (OwnedFd::from_raw_fd(3), OwnedFd::from_raw_fd(4)) };
    let plan: &'static Plan =
        Box::leak(Box::new(Plan::open(plan).map_err(|error| error.to_string())?));
    let results = Results::open(results, plan.header()).map_err(|error| error.to_string())?;
    let results: &'static Results = Box::leak(Box::new(results));
    let control = results.control();
    let outcome = match (control.orders().clock, clock::fault()) {
        (ClockChoice::Counter, Some(fault)) => {
            Err(format!("the processor's counter was requested, but {fault}: use --clock auto"))
        }
        (ClockChoice::Auto | ClockChoice::Counter, None) => run::<Counter>(name, plan, results),
        (choice, fault) => {
            let requested = "CLOCK_MONOTONIC was requested".to_owned();
            control.remark(&if choice == ClockChoice::Monotonic {
                requested
            } else {
                fault.unwrap_or(requested)
            });
            run::<Monotonic>(name, plan, results)
        }
    };
    if let Err(message) = &outcome {
        results.control().fail(message);
    }
    outcome
}

fn run<C: Clock + 'static>(
    name: &OsStr,
    plan: &'static Plan,
    results: &'static Results,
) -> Result<(), String> {
    let control = results.control();
    let (ticks, ns) = clock::pair::<C>();
    control.prepare_ticks.store(ticks, Relaxed);
    control.prepare_ns.store(ns, Relaxed);
    let locked = plan.memory().lock() & results.memory().lock();
    control.locked.store(if locked { 1 } else { 2 }, Relaxed);
    control.clock.store(C::CODE, Relaxed);
    let ticks_per_ns = clock::ticks_per_ns::<C>();
    let detectors = self_test::run::<C>(control, ticks_per_ns);
    let known = |known| if known { 1 } else { 2 };
    control.interruptions.store(known(detectors.flag), Relaxed);
    control.interrupts.store(known(detectors.interrupts), Relaxed);
    control.syscalls.store(known(detectors.calls), Relaxed);
    measure_empty_pairs::<C>(results, detectors);
    stores::measure::<C>(control);
    let slots = slots(plan.header().slots as usize)?;
    let common = Part {
        table: &keel_player::null::TABLE,
        prologue: &[],
        steps: &[],
        schedule: None,
        evicted: evict::lines(control.orders().evict.most_bytes())?,
        records: std::ptr::null_mut(),
        slots,
        states: results.states(),
        index: 0,
        control,
        skew: plan.header().skew,
        origin: 0,
        waiter: wait_settings(ticks_per_ns, plan.header().alive as usize),
        detectors,
        orders: control.orders(),
    };
    let parts: Vec<Part<'static>> = plan
        .threads()
        .iter()
        .enumerate()
        .map(|(index, thread)| part_of(common, plan, results, index, thread))
        .collect::<Result<_, _>>()?;
    perform_all::<C>(name, &parts, plan.header().alive as usize, results)
}

fn part_of(
    common: Part<'static>,
    plan: &'static Plan,
    results: &'static Results,
    index: usize,
    thread: &Thread,
) -> Result<Part<'static>, String> {
    let (prologue, steps) = (plan.prologue(thread), plan.steps(thread));
    // A thread that has not begun counts as being at its first step, and no thread may run too far
    // ahead of it.
    results.states()[index]
        .next_row
        .store(steps.first().map_or(u32::MAX, |step| step.row), Relaxed);
    let records = results
        .records_mut(thread.first_record, thread.records)
        .ok_or("the results are smaller than the plan")?;
    Ok(Part { prologue, steps, schedule: plan.schedule(thread), records, index, ..common })
}

/// Starts and parks the threads, loads the allocator, releases the threads and joins them. The
/// journal's main thread is this process's main thread: glibc's main arena grows by `brk`, and a
/// journal of one thread is replayed in a process of one thread.
fn perform_all<C: Clock + 'static>(
    name: &OsStr,
    parts: &[Part<'static>],
    alive: usize,
    results: &'static Results,
) -> Result<(), String> {
    let control = results.control();
    let limit = alive.max(threads::AT_ONCE);
    // In order of their first steps: threads that are not yet created are then later than all
    // running ones.
    let (own, others) = parts.split_at(parts.len().min(1));
    let own = own.first().filter(|part| first_row(part).is_some());
    let mut order: Vec<&Part<'static>> =
        others.iter().filter(|part| first_row(part).is_some()).collect();
    order.sort_by_key(|part| first_row(part));
    let beforehand = order.len().min(limit);
    let mut started = Vec::with_capacity(order.len());
    for part in &order[..beforehand] {
        started.push(threads::start::<C>(**part, &GATE)?);
    }
    let late: Vec<Part<'static>> = order[beforehand..].iter().map(|part| **part).collect();
    let late = threads::start_late::<C>(late, beforehand, limit, &GATE, control)?;
    threads::warm_stack();
    GATE.wait_for_parked(beforehand);
    control.baseline_bytes.store(system::anonymous_resident(), Relaxed);
    let table = initialised(name)?;
    control.set_free_functions(&free_hints::named(table));
    if name != "null" {
        control
            .inline_syscalls
            .store(inline_syscalls::count(table.malloc as *const std::ffi::c_void), Relaxed);
    }
    let own = own.map(|part| Part { table, ..*part });
    if let Some(part) = &own {
        // SAFETY: as in the other threads; this one initialised the allocator.
        unsafe { threads::begin(part) };
    }
    GATE.prepare(table, beforehand);
    let peak_is_known = locked(control) && system::reset_peak();
    let before = system::resident();
    control.process_cpu[0].store(system::process_cpu_ns(), Relaxed);
    let origin = open_gate::<C>(control);
    if let Some(part) = own {
        // SAFETY: replay compiled the plan. Like a program's main thread, this one does not end
        // before its process.
        unsafe { perform::<C>(Part { origin, ..part }) };
    }
    started.into_iter().for_each(threads::join);
    if let Some(late) = late {
        late.join().map_err(|_| "the thread that starts others failed".to_owned())?;
    }
    control.process_cpu[1].store(system::process_cpu_ns(), Relaxed);
    let (ticks, ns) = clock::pair::<C>();
    control.end_ticks.store(ticks, Relaxed);
    control.end_ns.store(ns, Relaxed);
    let after = system::resident();
    control.end_bytes.store(after.anonymous, Relaxed);
    if peak_is_known {
        control.peak_bytes.store(after.anonymous_peak(&before), Relaxed);
    }
    if let Some(teardown) = table.teardown {
        // SAFETY: all threads have ended.
        unsafe { teardown() }
    }
    control.set_state(State::Done);
    Ok(())
}

/// Releases the threads. Returns the time of that moment.
fn open_gate<C: Clock>(control: &keel_plan::Control) -> u64 {
    let (origin, ns) = clock::pair::<C>();
    control.start_ticks.store(origin, Relaxed);
    control.start_ns.store(ns, Relaxed);
    control.set_state(State::Running);
    GATE.open(origin);
    origin
}

/// Whether the plan and the results are locked in memory. Otherwise their pages become resident
/// during the run, and the kernel's high-water mark contains them.
fn locked(control: &keel_plan::Control) -> bool {
    control.locked.load(Relaxed) == 1
}

/// The row at which a thread begins; None if it has no steps.
fn first_row(part: &Part<'_>) -> Option<u32> {
    if part.prologue.is_empty() { part.steps.first().map(|step| step.row) } else { Some(0) }
}

fn measure_empty_pairs<C: Clock>(results: &Results, detectors: Detectors) {
    // With this threshold no pair is examined, so nothing happens between two pairs.
    let mut detector = CauseDetector::of_this_thread(detectors, f64::INFINITY, 1.0);
    for place in results.empty_pairs() {
        place.store(empty_pair::<C>(&mut detector).min(u64::from(u32::MAX)) as u32, Relaxed);
    }
    detector.dismiss();
}

fn slots(count: usize) -> Result<&'static [Slot], String> {
    let bytes = count.max(1) * size_of::<Slot>();
    let memory = system::anonymous(bytes, libc::MAP_POPULATE)
        .ok_or_else(|| format!("there is no memory for {count} objects"))?;
    // SAFETY: fresh zeroed memory of this size, never unmapped; all zeroes is a valid Slot.
    Ok(unsafe { std::slice::from_raw_parts(memory.as_ptr().cast::<Slot>(), count) })
}
