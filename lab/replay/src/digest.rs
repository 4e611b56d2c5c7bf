//! Converts the records of a run to a [`Run`] of the results.
//!
//! Records are stored thread by thread. [`Rows`] visits them in journal order without sorting: rows
//! rise within a thread, and the rows of all threads together are 0, 1, 2 ... without a gap. The
//! next row is nearly always the same thread's.

mod frames;
mod memory;
mod slow;

use crate::sampler::Sampler;
use frames::Frames;
use keel_plan::{Kind, Op, Plan, Record, Results, Thread};
use keel_results::raw::{RawError, RunRows, RunWriter};
use keel_results::{
    CAUSE_FAULT, CAUSE_FOLLOWS_DETECTOR, CAUSE_INTERRUPT, CAUSE_INTERRUPTED,
    CAUSE_INTERRUPTED_UNKNOWN, CAUSE_SLEPT, CAUSE_SYSCALL, CAUSE_SYSCALL_UNKNOWN, Frequency,
    Histogram, Run, Throughput,
};
use memory::Memory;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Rows passed to the writer at once.
const BATCH: usize = 1 << 16;

// The player uses the bits of the plan, readers those of the results.
const _: () = assert!(
    keel_plan::CAUSE_INTERRUPTED == CAUSE_INTERRUPTED as u32
        && keel_plan::CAUSE_FAULT == CAUSE_FAULT as u32
        && keel_plan::CAUSE_SYSCALL == CAUSE_SYSCALL as u32
        && keel_plan::CAUSE_INTERRUPTED_UNKNOWN == CAUSE_INTERRUPTED_UNKNOWN as u32
        && keel_plan::CAUSE_SLEPT == CAUSE_SLEPT as u32
        && keel_plan::CAUSE_INTERRUPT == CAUSE_INTERRUPT as u32
        && keel_plan::CAUSE_SYSCALL_UNKNOWN == CAUSE_SYSCALL_UNKNOWN as u32
        && keel_plan::CAUSE_FOLLOWS_DETECTOR == CAUSE_FOLLOWS_DETECTOR as u32
);

/// The timed steps of a plan with their records, in journal order.
pub struct Rows<'a> {
    threads: Vec<Walk<'a>>,
    current: usize,
    next_row: u32,
}

struct Walk<'a> {
    steps: std::slice::Iter<'a, Op>,
    records: std::slice::Iter<'a, Record>,
    head: Option<Op>,
    high: u64,
}

/// A timed step and its record.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The call.
    pub step: Op,
    /// Its full size; 0 for a free.
    pub size: u64,
    /// Its record.
    pub record: &'a Record,
    /// Index of its thread in the plan.
    pub thread: usize,
}

impl<'a> Rows<'a> {
    /// From the first row.
    pub fn new(plan: &'a Plan, results: &'a Results) -> Rows<'a> {
        let walk = |thread: &Thread| {
            let mut walk = Walk {
                steps: plan.steps(thread).iter(),
                records: results.records(thread.first_record, thread.records).iter(),
                head: None,
                high: 0,
            };
            walk.advance();
            walk
        };
        Rows { threads: plan.threads().iter().map(walk).collect(), current: 0, next_row: 0 }
    }
}

impl Walk<'_> {
    /// Moves the head to the next timed step.
    fn advance(&mut self) {
        self.high = 0;
        self.head = self.steps.by_ref().copied().find(|step| {
            if step.kind() == Kind::High {
                self.high = u64::from(step.argument) << 32;
            }
            step.is_timed()
        });
    }

    fn is_at(&self, row: u32) -> bool {
        self.head.is_some_and(|step| step.row == row)
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        if !self.threads.get(self.current)?.is_at(self.next_row) {
            self.current = self.threads.iter().position(|walk| walk.is_at(self.next_row))?;
        }
        let walk = &mut self.threads[self.current];
        let (step, record) = (walk.head?, walk.records.next()?);
        let size = if step.kind().class() == Kind::Free {
            0
        } else {
            walk.high | u64::from(step.argument)
        };
        walk.advance();
        self.next_row += 1;
        Some(Row { step, size, record, thread: self.current })
    }
}

/// The input of a digest.
pub struct Measured<'a> {
    pub plan: &'a Plan,
    pub results: &'a Results,
    pub sampler: &'a Sampler,
    pub frequency: Frequency,
    /// The frames that have operations, each with its first row.
    pub frame_starts: &'a [(u32, u32)],
    /// Peak of the journal's live bytes.
    pub peak_live_bytes: u64,
}

/// Computes the run, and writes its rows to `raw` if given.
pub fn digest(measured: &Measured<'_>, position: u32, raw: Option<&Path>) -> Result<Run, RawError> {
    let mut run = totals(measured, position);
    let Measured { plan, results, .. } = measured;
    let ticks_per_ns = measured.frequency.ticks_per_ns();
    let mut tallies = Tallies::new();
    let mut memory = Memory::new(measured, plan.header().slots as usize);
    let mut frames = Frames::new(measured.frame_starts, plan.threads().len(), ticks_per_ns);
    let mut rows = raw.map(RowBatch::create).transpose()?;
    for row in Rows::new(plan, results) {
        let start = (row.record.start as f64 / ticks_per_ns) as u64;
        tallies.add(row.step.kind().class(), row.record);
        memory.add(&row, start);
        frames.add(row.step.row, row.thread, row.record.ticks, row.record.cause);
        if let Some(rows) = &mut rows {
            rows.push(start, row.record)?;
        }
    }
    if let Some(rows) = rows {
        rows.finish()?;
    }
    tallies.store(&mut run, ticks_per_ns);
    run.lateness = lateness(measured, ticks_per_ns);
    run.memory = memory.finish();
    run.peak_rss_bytes = memory::peak(measured, &run.memory);
    run.fragmentation = memory::fragmentation(&run.memory, measured.peak_live_bytes);
    run.frames = frames.finish();
    (run.outliers, run.slow_causes) = slow::slow_calls(plan, results, &run, ticks_per_ns);
    Ok(run)
}

/// The measurement of a run without a clock around each call.
pub fn throughput(measured: &Measured<'_>, round: u32) -> Throughput {
    let run = totals(measured, 0);
    let operations = measured.plan.header().rows;
    Throughput {
        round,
        elapsed_ns: run.elapsed_ns,
        cpu_ns: run.cpu_ns,
        background_cpu_ns: run.background_cpu_ns,
        operations,
        empty_pair_ns: run.empty_pair_ns,
        loop_ns: run.loop_ns,
        ..Throughput::default()
    }
}

/// A histogram that takes any value.
pub fn growing() -> Histogram {
    let mut histogram = Histogram::default();
    histogram.0.auto(true);
    histogram
}

/// Counts `value` `times` times.
pub fn count(histogram: &mut Histogram, value: u64, times: u64) {
    // Can only fail where a histogram may not grow.
    let recorded = histogram.0.record_n(value, times);
    debug_assert!(recorded.is_ok(), "the histogram grows to hold {value}");
}

/// An empty pair of fewer ticks does not show the processor's speed: the counters of many arm64
/// machines move in steps as long as the pair.
const COARSE: u64 = 8;

/// The sums of the threads' counters.
fn totals(measured: &Measured<'_>, position: u32) -> Run {
    let states = measured.results.states();
    let ticks_per_ns = measured.frequency.ticks_per_ns();
    let ns_of = |ticks: u64| ticks as f64 / ticks_per_ns;
    let ns = |ticks: u64| ns_of(ticks) as u64;
    let busy: Vec<_> = measured
        .plan
        .threads()
        .iter()
        .zip(states)
        .filter(|(thread, _)| thread.records > 0)
        .map(|(_, state)| state)
        .collect();
    let sum = |field: fn(&keel_plan::ThreadState) -> u64| {
        busy.iter().map(|state| field(state)).sum::<u64>()
    };
    let first = busy.iter().map(|state| state.first_ticks.load(Relaxed)).min().unwrap_or(0);
    let last = busy.iter().map(|state| state.last_ticks.load(Relaxed)).max().unwrap_or(0);
    let (pair_ticks, pairs) =
        (sum(|state| state.pair_ticks.load(Relaxed)), sum(|state| state.pair_count.load(Relaxed)));
    let cpu_ns = sum(|state| state.cpu_ns.load(Relaxed));
    let [before, after] = &measured.results.control().process_cpu;
    let whole_process = after.load(Relaxed).saturating_sub(before.load(Relaxed));
    Run {
        position,
        elapsed_ns: ns(last.saturating_sub(first)),
        cpu_ns,
        background_cpu_ns: whole_process.saturating_sub(cpu_ns),
        waited_ns: ns(sum(|state| state.waited_ticks.load(Relaxed))),
        waits: sum(|state| state.waits.load(Relaxed)),
        throttled_ns: ns(sum(|state| state.held_ticks.load(Relaxed))),
        evicted_bytes: sum(|state| state.evicted_bytes.load(Relaxed)),
        minor_faults: sum(|state| state.minor_faults.load(Relaxed)),
        major_faults: sum(|state| state.major_faults.load(Relaxed)),
        voluntary_switches: sum(|state| state.voluntary_switches.load(Relaxed)),
        involuntary_switches: sum(|state| state.involuntary_switches.load(Relaxed)),
        empty_pair_ns: if pair_ticks >= COARSE * pairs {
            ns_of(pair_ticks) / pairs.max(1) as f64
        } else {
            0.0
        },
        // Threads of the journal may disturb each other, which is no interference of the machine.
        loop_ns: if busy.len() == 1 {
            ns_of(sum(|state| state.loop_ticks.load(Relaxed))) / pairs.max(1) as f64
        } else {
            0.0
        },
        ..Run::default()
    }
}

/// Latencies by operation. Small values are counted in a table and added to the histogram at the
/// end, which is many times faster than recording each call.
struct Tallies {
    small: [Vec<u64>; Kind::TIMED.len()],
    large: [Histogram; Kind::TIMED.len()],
    /// Calls with [`CAUSE_FOLLOWS_DETECTOR`], which are in none of the above.
    following: [Histogram; Kind::TIMED.len()],
    interrupted: [Histogram; Kind::TIMED.len()],
    sums: [u64; Kind::TIMED.len()],
}

const SMALL: usize = 1 << 14;

/// Calls that follow a system call of the detectors are left out of percentiles if they are at most
/// this share of an operation's calls. If they are more, the other calls would not represent the
/// operation.
const MAX_LEFT_OUT: f64 = 0.05;

impl Tallies {
    fn new() -> Tallies {
        Tallies {
            small: std::array::from_fn(|_| vec![0; SMALL]),
            large: std::array::from_fn(|_| growing()),
            following: std::array::from_fn(|_| growing()),
            interrupted: std::array::from_fn(|_| growing()),
            sums: [0; Kind::TIMED.len()],
        }
    }

    fn add(&mut self, kind: Kind, record: &Record) {
        let (index, ticks) = (kind as usize, record.ticks);
        if Record::only_preempted(record.cause) {
            count(&mut self.interrupted[index], u64::from(ticks), 1);
        }
        self.sums[index] += u64::from(ticks);
        if record.cause & keel_plan::CAUSE_FOLLOWS_DETECTOR != 0 {
            count(&mut self.following[index], u64::from(ticks), 1);
            return;
        }
        match self.small[index].get_mut(ticks as usize) {
            Some(count) => *count += 1,
            None => count(&mut self.large[index], u64::from(ticks), 1),
        }
    }

    fn store(self, run: &mut Run, ticks_per_ns: f64) {
        for (kind, histogram) in Kind::TIMED.into_iter().zip(self.interrupted) {
            if !histogram.0.is_empty() {
                run.interrupted.insert(kind.name().to_owned(), histogram);
            }
        }
        let counted = self.small.into_iter().zip(self.large).zip(self.following);
        for ((kind, ((small, mut histogram), following)), sum) in
            Kind::TIMED.into_iter().zip(counted).zip(self.sums)
        {
            for (ticks, count) in small.into_iter().enumerate().filter(|(_, count)| *count > 0) {
                self::count(&mut histogram, ticks as u64, count);
            }
            let (left_out, calls) = (following.0.len(), histogram.0.len() + following.0.len());
            if left_out as f64 > MAX_LEFT_OUT * calls as f64 {
                // Cannot fail: both histograms grow.
                let added = histogram.0.add(&following.0);
                debug_assert!(added.is_ok());
            } else if left_out > 0 {
                run.left_out.insert(kind.name().to_owned(), left_out);
            }
            if !histogram.0.is_empty() {
                run.inside_ns.insert(kind.name().to_owned(), sum as f64 / ticks_per_ns);
                run.latency.insert(kind.name().to_owned(), histogram);
            }
        }
    }
}

/// The lateness of calls, if there was a schedule.
fn lateness(measured: &Measured<'_>, ticks_per_ns: f64) -> Option<Histogram> {
    let Measured { plan, results, .. } = measured;
    if plan.header().paced == 0 {
        return None;
    }
    let mut histogram = growing();
    for thread in plan.threads() {
        let due = plan.schedule(thread).unwrap_or_default();
        for (record, due) in results.records(thread.first_record, thread.records).iter().zip(due) {
            let late = ((record.start as f64 / ticks_per_ns) as u64).saturating_sub(*due);
            count(&mut histogram, late, 1);
        }
    }
    Some(histogram)
}

/// Rows that are not yet written.
struct RowBatch {
    writer: RunWriter,
    start: Vec<u64>,
    ticks: Vec<u32>,
    cause: Vec<u8>,
}

impl RowBatch {
    fn create(path: &Path) -> Result<RowBatch, RawError> {
        let writer = RunWriter::create(path)?;
        let (start, ticks) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        Ok(RowBatch { writer, start, ticks, cause: Vec::with_capacity(BATCH) })
    }

    fn push(&mut self, start: u64, record: &Record) -> Result<(), RawError> {
        self.start.push(start);
        self.ticks.push(record.ticks);
        self.cause.push(record.bits());
        if self.start.len() == BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), RawError> {
        self.writer.write(RunRows {
            start: &self.start,
            ticks: &self.ticks,
            cause: &self.cause,
        })?;
        self.start.clear();
        self.ticks.clear();
        self.cause.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), RawError> {
        self.flush()?;
        self.writer.finish().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tallied(calls: u64, following: u64) -> Run {
        let (mut tallies, mut run) = (Tallies::new(), Run::default());
        let record = |ticks, cause| Record { start: 0, ticks, cause };
        (0..calls).for_each(|_| tallies.add(Kind::Malloc, &record(100, 0)));
        let chilled = record(150, keel_plan::CAUSE_FOLLOWS_DETECTOR);
        (0..following).for_each(|_| tallies.add(Kind::Malloc, &chilled));
        tallies.store(&mut run, 1.0);
        run
    }

    #[test]
    fn calls_after_a_system_call_of_the_detectors_are_left_out_of_percentiles() {
        let run = tallied(95, 5);
        assert_eq!((run.latency["malloc"].0.len(), run.latency["malloc"].0.max()), (95, 100));
        assert_eq!((run.left_out["malloc"], run.calls("malloc")), (5, 100));
        assert_eq!(run.inside_ns["malloc"], 95.0 * 100.0 + 5.0 * 150.0, "the sum has all calls");
        let run = tallied(94, 6);
        assert_eq!((run.latency["malloc"].0.len(), run.left_out.len()), (100, 0), "too many");
    }

    #[test]
    fn journal_plan_and_results_name_operations_alike() {
        let plan = Kind::TIMED.map(Kind::name);
        assert_eq!(plan, keel_results::OPERATIONS);
        let journal = keel_journal::Op::ALL.map(keel_journal::Op::name);
        assert_eq!(journal[..plan.len()], plan);
    }
}
