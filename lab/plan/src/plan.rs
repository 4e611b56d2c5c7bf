//! The plan: the steps of each thread.

use crate::{Op, Plain, SharedError, SharedMemory};
use std::os::fd::OwnedFd;

const MAGIC: u64 = u64::from_le_bytes(*b"keelplan");
const VERSION: u32 = 3;

/// The first bytes of a plan.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Header {
    magic: u64,
    version: u32,
    /// Threads.
    pub threads: u32,
    /// All steps, including untimed ones and those of the prologue.
    pub steps: u64,
    /// Timed steps = rows of `operations.parquet`.
    pub rows: u64,
    /// Slots used.
    pub slots: u32,
    /// See [`crate::SKEW_ROWS`].
    pub skew: u32,
    /// The most threads that were alive at once, by their first and last operations: this many must
    /// be able to run.
    pub alive: u32,
    /// 1 if there is a schedule.
    pub paced: u32,
}

/// One thread's part of the steps and of the records.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Thread {
    /// Index of its first step, prologue included.
    pub first_step: u64,
    /// Number of steps of the prologue, which allocate the blocks that were live when the recording
    /// began.
    pub prologue: u64,
    /// Number of steps after the prologue.
    pub steps: u64,
    /// Index of its first record, and of its first time in the schedule.
    pub first_record: u64,
    /// Number of timed steps.
    pub records: u64,
}

// SAFETY: integers without padding.
unsafe impl Plain for Header {}
// SAFETY: integers without padding.
unsafe impl Plain for Thread {}

/// The number of steps of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadShape {
    /// See [`Thread`].
    pub prologue: u64,
    /// See [`Thread`].
    pub steps: u64,
    /// See [`Thread`].
    pub records: u64,
}

/// The size of a plan.
#[derive(Clone, Debug, Default)]
pub struct PlanShape {
    /// Thread by thread.
    pub threads: Vec<ThreadShape>,
    /// See [`Header`].
    pub slots: u32,
    /// See [`Header`].
    pub alive: u32,
    /// Whether each timed step has a time.
    pub paced: bool,
}

/// A mapped plan.
#[derive(Debug)]
pub struct Plan {
    memory: SharedMemory,
    header: Header,
}

/// Fills a plan, thread by thread or in any order of threads, each thread's steps in their order.
pub struct PlanWriter {
    plan: Plan,
    written: Vec<ThreadShape>,
}

impl Header {
    fn threads_at() -> usize {
        4096
    }

    fn steps_at(&self) -> usize {
        (Self::threads_at() + self.threads as usize * size_of::<Thread>()).next_multiple_of(4096)
    }

    fn schedule_at(&self) -> usize {
        (self.steps_at() + self.steps as usize * size_of::<Op>()).next_multiple_of(4096)
    }

    fn bytes(&self) -> usize {
        self.schedule_at() + if self.paced == 1 { self.rows as usize * 8 } else { 0 }
    }
}

impl Plan {
    /// Maps a plan that was passed to this process.
    pub fn open(descriptor: OwnedFd) -> Result<Plan, SharedError> {
        let memory = SharedMemory::open("the plan", descriptor)?;
        let foreign = SharedError::Foreign { what: "plan" };
        let Some(header) = memory.slice::<Header>(0, 1).map(|headers| headers[0]) else {
            return Err(foreign);
        };
        if header.magic != MAGIC || header.version != VERSION || memory.bytes() < header.bytes() {
            return Err(foreign);
        }
        Ok(Plan { memory, header })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The memory, to be passed to a player.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// The threads.
    pub fn threads(&self) -> &[Thread] {
        self.memory.slice(Header::threads_at(), self.header.threads as usize).unwrap_or_default()
    }

    /// The steps of a thread's prologue.
    pub fn prologue(&self, thread: &Thread) -> &[Op] {
        self.part(thread.first_step, thread.prologue)
    }

    /// The steps of a thread after its prologue.
    pub fn steps(&self, thread: &Thread) -> &[Op] {
        self.part(thread.first_step + thread.prologue, thread.steps)
    }

    fn part(&self, first: u64, count: u64) -> &[Op] {
        let at = self.header.steps_at() + first as usize * size_of::<Op>();
        self.memory.slice(at, count as usize).unwrap_or_default()
    }

    /// The time of each timed step of a thread, ns since the run's start; None at pace `max`.
    pub fn schedule(&self, thread: &Thread) -> Option<&[u64]> {
        if self.header.paced == 0 {
            return None;
        }
        self.memory.slice(
            self.header.schedule_at() + thread.first_record as usize * 8,
            thread.records as usize,
        )
    }
}

impl PlanWriter {
    /// Creates the memory for a plan of this shape.
    pub fn create(shape: &PlanShape) -> Result<PlanWriter, SharedError> {
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            threads: shape.threads.len() as u32,
            steps: shape.threads.iter().map(|thread| thread.prologue + thread.steps).sum(),
            rows: shape.threads.iter().map(|thread| thread.records).sum(),
            slots: shape.slots,
            skew: crate::SKEW_ROWS,
            alive: shape.alive,
            paced: u32::from(shape.paced),
        };
        let memory = SharedMemory::create("the plan", header.bytes())?;
        let plan = Plan { memory, header };
        let (mut first_step, mut first_record) = (0, 0);
        for (index, &ThreadShape { prologue, steps, records }) in shape.threads.iter().enumerate() {
            plan.put(
                Header::threads_at() + index * size_of::<Thread>(),
                Thread { first_step, prologue, steps, first_record, records },
            );
            first_step += prologue + steps;
            first_record += records;
        }
        Ok(PlanWriter { plan, written: vec![ThreadShape::default(); shape.threads.len()] })
    }

    /// Appends a step to a thread; `time` is its due time (ns), ignored without a schedule and for
    /// untimed steps.
    ///
    /// # Panics
    /// If the thread gets more steps than the shape has.
    pub fn push(&mut self, thread: usize, op: Op, time: u64) {
        let (header, entry) = (self.plan.header, self.plan.threads()[thread]);
        let written = &mut self.written[thread];
        assert!(written.steps < entry.steps, "thread {thread} has more steps than were counted");
        let step = (entry.first_step + entry.prologue + written.steps) as usize;
        written.steps += 1;
        self.plan.put(header.steps_at() + step * size_of::<Op>(), op);
        if op.is_timed() {
            assert!(
                written.records < entry.records,
                "thread {thread} has more timed steps than were counted"
            );
            let record = (entry.first_record + written.records) as usize;
            written.records += 1;
            if header.paced == 1 {
                self.plan.put(header.schedule_at() + record * 8, time);
            }
        }
    }

    /// Appends a step to a thread's prologue.
    ///
    /// # Panics
    /// If the prologue gets more steps than the shape has.
    pub fn push_prologue(&mut self, thread: usize, op: Op) {
        let (header, entry) = (self.plan.header, self.plan.threads()[thread]);
        let written = &mut self.written[thread].prologue;
        assert!(
            *written < entry.prologue,
            "thread {thread} has a longer prologue than was counted"
        );
        let step = (entry.first_step + *written) as usize;
        *written += 1;
        self.plan.put(header.steps_at() + step * size_of::<Op>(), op);
    }

    /// Completes the plan; `slots` is the number of slots that it needs.
    ///
    /// # Panics
    /// If a thread has fewer steps than the shape has.
    pub fn finish(mut self, slots: u32) -> Plan {
        for (entry, written) in self.plan.threads().iter().zip(&self.written) {
            let Thread { prologue, steps, records, .. } = *entry;
            assert!(
                ThreadShape { prologue, steps, records } == *written,
                "steps written and counted agree"
            );
        }
        self.plan.header.slots = slots;
        self.plan.put(0, self.plan.header);
        self.plan
    }
}

impl Plan {
    fn put<T: Plain>(&self, offset: usize, value: T) {
        let place = self.memory.part::<T>(offset, 1);
        debug_assert!(place.is_some(), "inside the plan by construction");
        if let Some(place) = place {
            // SAFETY: in bounds and aligned; only the writer of the plan, which owns it, calls
            // this.
            unsafe { place.write(value) }
        }
    }
}
