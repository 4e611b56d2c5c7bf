//! One thread's part of the plan, call by call. The module's documentation in `lib.rs` is the outline.

use crate::clock::Clock;
use crate::own::{self, Usage};
use crate::wait::{Waiter, add, announce};
use crate::witness::{Evidence, Senses, Witness};
use crate::{telling, touch, unclocked, verify};
use keel_allocators::table::Table;
use keel_plan::{Control, Kind, Op, Orders, Record, Slot, ThreadState};
use std::ffi::c_void;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Calls at least this long are looked into: shorter than any page fault, longer than nearly every other call.
pub const SLOW_NS: f64 = 250.0;

/// Calls between two looks at the processor's pace, and empty pairs in each: some 0.2 us in 50.
const LOOK_EVERY: usize = 1024;
const LOOK_PAIRS: u32 = 8;

/// Everything a thread needs; nothing of it is allocated later.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The allocator.
    pub table: &'a Table,
    /// The steps before the run.
    pub prologue: &'a [Op],
    /// The steps.
    pub steps: &'a [Op],
    /// When each timed step is due, ns since the start; None at pace `max`.
    pub schedule: Option<&'a [u64]>,
    /// Where the records go, one for each timed step.
    pub records: *mut Record,
    /// All objects.
    pub slots: &'a [Slot],
    /// The states of all threads, and which is this one's.
    pub states: &'a [ThreadState],
    /// See `states`.
    pub index: usize,
    /// For complaints.
    pub control: &'a Control,
    /// How far ahead a thread may run, rows.
    pub skew: u32,
    /// Ticks at the run's start.
    pub origin: u64,
    /// How to wait.
    pub waiter: Waiter,
    /// What can be told of slow calls here.
    pub senses: Senses,
    /// How the plan is to be executed.
    pub orders: Orders,
}

impl Part<'_> {
    /// The first row at which the others must be looked at: the only thread waits for nobody.
    pub(crate) const fn first_limit(&self) -> u32 {
        if self.states.len() == 1 { u32::MAX } else { 0 }
    }

    /// Tells the others that `row` is next, and waits for them from `limit` on. Returns whether it slept.
    #[inline(always)]
    pub(crate) fn keep_pace<C: Clock>(&self, row: u32, limit: &mut u32) -> bool {
        announce(&self.states[self.index], row);
        if row < *limit {
            return false;
        }
        let slept;
        (*limit, slept) = self.hold::<C>(row);
        slept
    }

    /// Waits until no other thread is further behind than it may be; the new limit, and whether it slept.
    pub(crate) fn hold<C: Clock>(&self, row: u32) -> (u32, bool) {
        let from = C::now();
        let (limit, slept) = self.waiter.others(self.states, self.index, row, self.skew);
        if slept {
            add(&self.states[self.index].held_ticks, C::now().wrapping_sub(from));
        }
        (limit, slept)
    }
}

/// Where wrong answers of the allocator are counted.
pub struct Complaints<'a>(pub(crate) &'a Control);

impl Complaints<'_> {
    /// A block's contents were not as they should be.
    #[cold]
    pub fn corrupt(&self, row: u32) {
        if self.0.corrupt.fetch_add(1, Relaxed) == 0 {
            self.0.first_corrupt.store(u64::from(row), Relaxed);
        }
    }

    #[cold]
    pub(crate) fn refused(&self, row: u32) {
        if self.0.refused.fetch_add(1, Relaxed) == 0 {
            self.0.first_refused.store(u64::from(row), Relaxed);
        }
    }
}

/// Executes the part, from its first call to its last.
///
/// # Safety
/// The plan must be one that replay compiled: slots in range, every object freed once, by a thread that may know it.
/// `records` must have room for a record for each timed step.
pub unsafe fn perform<C: Clock>(part: Part<'_>) {
    // SAFETY: passed on.
    unsafe {
        if part.orders.unclocked {
            return unclocked::perform::<C>(part);
        }
        match (part.orders.touch, part.orders.touch_inside) {
            (touch::FIRST, true) => perform_as::<C, { touch::FIRST }, true>(part),
            (touch::FIRST, false) => perform_as::<C, { touch::FIRST }, false>(part),
            (touch::PAGE, true) => perform_as::<C, { touch::PAGE }, true>(part),
            (touch::PAGE, false) => perform_as::<C, { touch::PAGE }, false>(part),
            (touch::ALL, true) => perform_as::<C, { touch::ALL }, true>(part),
            (touch::ALL, false) => perform_as::<C, { touch::ALL }, false>(part),
            _ => perform_as::<C, { touch::NONE }, true>(part),
        }
    }
}

/// A call, as the clock and the witnesses saw it.
pub(crate) struct Timed {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) evidence: Evidence,
}

/// What is done around a call.
pub(crate) trait Meter {
    /// What is learnt of it.
    type Seen;
    fn around(&mut self, call: impl FnOnce() -> *mut u8) -> (*mut u8, Self::Seen);
}

/// No clock, and nothing to be learnt.
pub(crate) struct Unmetered;

impl Meter for Unmetered {
    type Seen = ();

    #[inline(always)]
    fn around(&mut self, call: impl FnOnce() -> *mut u8) -> (*mut u8, ()) {
        (call(), ())
    }
}

/// The clock and the witnesses.
struct Timing<C> {
    witness: Witness,
    clock: std::marker::PhantomData<C>,
}

impl<C: Clock> Meter for Timing<C> {
    type Seen = Timed;

    #[inline(always)]
    fn around(&mut self, call: impl FnOnce() -> *mut u8) -> (*mut u8, Timed) {
        timed::<C>(&mut self.witness, call)
    }
}

#[inline(always)]
pub(crate) fn timed<C: Clock>(witness: &mut Witness, call: impl FnOnce() -> *mut u8) -> (*mut u8, Timed) {
    witness.before();
    let begin = C::begin();
    let block = call();
    let end = C::end();
    let evidence = witness.after();
    (block, Timed { begin, end, evidence })
}

unsafe fn perform_as<C: Clock, const TOUCH: u8, const INSIDE: bool>(part: Part<'_>) {
    let state = &part.states[part.index];
    let complaints = Complaints(part.control);
    let slow_ticks = (SLOW_NS * part.waiter.ticks_per_ns) as u64;
    let witness = Witness::of_this_thread(part.senses, slow_ticks);
    let mut timing = Timing::<C> { witness, clock: std::marker::PhantomData };
    let (first_usage, first_cpu) = (own::thread_usage(), own::thread_cpu_ns());
    let mut limit = part.first_limit();
    let (mut record, mut high, mut first, mut last) = (0usize, 0usize, None, 0);

    for step in part.steps {
        if part.keep_pace::<C>(step.row, &mut limit) {
            timing.witness.refresh();
        }
        let slot = &part.slots[step.slot as usize];
        match step.kind() {
            Kind::Await => {
                if slot.tag.load(std::sync::atomic::Ordering::Acquire) != step.argument {
                    let from = C::now();
                    if part.waiter.object(slot, step.argument) {
                        timing.witness.refresh();
                    }
                    add(&state.waits, 1);
                    add(&state.waited_ticks, C::now().wrapping_sub(from));
                }
                continue;
            }
            Kind::High => {
                high = (step.argument as usize) << 32;
                continue;
            }
            _ => {}
        }
        if let Some(schedule) = part.schedule {
            let due = part.origin + (schedule[record] as f64 * part.waiter.ticks_per_ns) as u64;
            if part.waiter.time::<C>(due) {
                timing.witness.refresh();
            }
        }
        let size = high | step.argument as usize;
        high = 0;
        // SAFETY: the caller vouches for the plan.
        let call =
            unsafe { step_call::<_, TOUCH, INSIDE>(&part, *step, slot, size, &mut timing, &complaints) };
        let ticks = call.end.saturating_sub(call.begin);
        let cause = timing.witness.cause(ticks, call.evidence);
        let start = call.begin.wrapping_sub(part.origin);
        let entry = Record { start, ticks: ticks.min(u64::from(u32::MAX)) as u32, cause };
        // SAFETY: one record for each timed step, and this thread alone owns them.
        unsafe { part.records.add(record).write(entry) };
        record += 1;
        first.get_or_insert(start);
        last = call.end.wrapping_sub(part.origin);
        if record % LOOK_EVERY == 1 {
            look_at_pace::<C>(state, &mut timing.witness);
        }
        if TOUCH != touch::NONE && !INSIDE && step.kind().class() != Kind::Free {
            let from = C::now();
            // SAFETY: the block is live and of this size.
            unsafe { touch_outside::<TOUCH>(slot, size) };
            if C::now().wrapping_sub(from) >= slow_ticks {
                timing.witness.refresh();
            }
        }
    }
    announce(state, u32::MAX);
    timing.witness.dismiss();
    state.first_ticks.store(first.unwrap_or(0), Relaxed);
    state.last_ticks.store(last, Relaxed);
    report(state, first_usage, first_cpu);
}

/// The call that a step asks for, with what must happen right before and after it.
#[inline(always)]
pub(crate) unsafe fn step_call<M: Meter, const TOUCH: u8, const INSIDE: bool>(
    part: &Part<'_>,
    step: Op,
    slot: &Slot,
    size: usize,
    meter: &mut M,
    complaints: &Complaints<'_>,
) -> M::Seen {
    let table = part.table;
    let kind = step.kind();
    // Where there is no old block, the slot may still name that of an object long gone.
    let (old, held) = match step.is_fresh() {
        true => (std::ptr::null_mut(), 0),
        false => (slot.block.load(Relaxed), slot.size.load(Relaxed) as usize),
    };
    let releases = matches!(kind.class(), Kind::Free | Kind::Realloc);
    if part.orders.verify && releases {
        // SAFETY: the block is live, and was asked for with at least this size.
        unsafe { verify::check(old, held, slot.tag.load(Relaxed), step.row, complaints) };
    }
    // SAFETY: in all calls below, blocks are live and ours by the plan; fresh blocks have the size asked for.
    let (block, seen) = unsafe {
        match kind {
            Kind::Free => meter.around(|| {
                (table.free)(old.cast::<c_void>());
                std::ptr::null_mut()
            }),
            Kind::FreeSized => meter.around(|| {
                telling::free_sized(table, old.cast(), size);
                std::ptr::null_mut()
            }),
            Kind::FreeAligned => meter.around(|| {
                telling::free_aligned(table, old.cast(), step.align());
                std::ptr::null_mut()
            }),
            Kind::FreeAlignedSized => meter.around(|| {
                telling::free_aligned_sized(table, old.cast(), step.align(), size);
                std::ptr::null_mut()
            }),
            Kind::Realloc => meter.around(|| {
                let block = (table.realloc)(old.cast(), size).cast::<u8>();
                if INSIDE && !block.is_null() {
                    touch::touch::<TOUCH>(block, held, size);
                }
                block
            }),
            Kind::Calloc => meter.around(|| {
                let block = (table.calloc)(1, size).cast::<u8>();
                if INSIDE && !block.is_null() {
                    touch::touch::<TOUCH>(block, 0, size);
                }
                block
            }),
            Kind::Aligned => meter.around(|| {
                let block = (table.aligned)(step.align(), size).cast::<u8>();
                if INSIDE && !block.is_null() {
                    touch::touch::<TOUCH>(block, 0, size);
                }
                block
            }),
            _ => meter.around(|| {
                let block = (table.malloc)(size).cast::<u8>();
                if INSIDE && !block.is_null() {
                    touch::touch::<TOUCH>(block, 0, size);
                }
                block
            }),
        }
    };
    if kind.class() == Kind::Free {
        return seen;
    }
    // SAFETY: a fresh block of this size, or null.
    unsafe { settle(part, step, slot, block, size, complaints) };
    seen
}

/// Puts a fresh block where those who will use it find it.
#[inline(always)]
unsafe fn settle(
    part: &Part<'_>,
    step: Op,
    slot: &Slot,
    block: *mut u8,
    size: usize,
    complaints: &Complaints<'_>,
) {
    let tag = step.row.wrapping_add(1);
    if block.is_null() {
        complaints.refused(step.row);
    }
    if part.orders.verify {
        // SAFETY: as the caller vouches.
        unsafe { examine(step, slot, block, size, complaints) };
    }
    // A realloc that failed leaves its old block alive, and in the slot.
    if !(block.is_null() && step.kind() == Kind::Realloc) {
        slot.block.store(block, Relaxed);
        slot.size.store(size.min(u32::MAX as usize) as u32, Relaxed);
    }
    slot.tag.store(tag, Release);
}

#[cold]
unsafe fn examine(step: Op, slot: &Slot, block: *mut u8, size: usize, complaints: &Complaints<'_>) {
    if block.is_null() {
        return;
    }
    let checked = size.min(u32::MAX as usize);
    // SAFETY: a fresh block of this size; after a realloc its head is what the old block held.
    unsafe {
        match step.kind() {
            Kind::Calloc => verify::check_zero(block, checked, step.row, complaints),
            Kind::Realloc if !step.is_fresh() => {
                let kept = checked.min(slot.size.load(Relaxed) as usize);
                verify::check(block, kept, slot.tag.load(Relaxed), step.row, complaints);
            }
            Kind::Aligned if !block.addr().is_multiple_of(step.align()) => complaints.corrupt(step.row),
            _ => {}
        }
        if !block.addr().is_multiple_of(if size >= 16 { 16 } else { 8 }) {
            complaints.corrupt(step.row);
        }
        verify::fill(block, checked, step.row.wrapping_add(1));
    }
}

/// Touches after the window. A realloc's old end is no longer known here, so all of its block is touched.
#[inline(always)]
unsafe fn touch_outside<const TOUCH: u8>(slot: &Slot, size: usize) {
    let block = slot.block.load(Relaxed);
    if !block.is_null() {
        // SAFETY: a live block of this size.
        unsafe { touch::touch::<TOUCH>(block, 0, size) }
    }
}

pub(crate) fn report(state: &ThreadState, first: Usage, first_cpu: u64) {
    let usage = own::thread_usage();
    state.cpu_ns.store(own::thread_cpu_ns() - first_cpu, Relaxed);
    state.minor_faults.store(usage.minor_faults - first.minor_faults, Relaxed);
    state.major_faults.store(usage.major_faults - first.major_faults, Relaxed);
    state.voluntary_switches.store(usage.voluntary_switches - first.voluntary_switches, Relaxed);
    state.involuntary_switches.store(usage.involuntary_switches - first.involuntary_switches, Relaxed);
}

/// Notes how long an empty pair takes just now. Processors of virtual machines slow down by a sixth for tenths of a
/// second when a neighbour on the host shares their core, and nothing else tells of it: no time is stolen, no frequency
/// changes. The least of some is what the processor can do; an interruption of one of them does no harm.
#[cold]
fn look_at_pace<C: Clock>(state: &ThreadState, witness: &mut Witness) {
    let least = (0..LOOK_PAIRS).map(|_| empty_pair::<C>(witness)).min().unwrap_or(0);
    add(&state.pair_ticks, least);
    add(&state.pair_looks, 1);
}

/// Ticks of pairs of clock readings around nothing, witnesses and all: what the instrument itself costs a call.
pub fn empty_pair<C: Clock>(witness: &mut Witness) -> u64 {
    let (_, call) = timed::<C>(witness, std::ptr::null_mut);
    call.end.saturating_sub(call.begin)
}
