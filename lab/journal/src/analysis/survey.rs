//! Makes one pass over the events. It needs memory for the live objects, for the threads, and for
//! one number per frame.

use super::distribution::Counter;
use super::facts::{
    Facts, FrameFacts, Leaked, Lifetimes, LivePeak, OperationCount, Rate, SizeBucket, Sizes,
    ThreadFacts, WrongFree, WrongFrees,
};
use crate::{Event, FreeHint, Metadata, Op};
use rustc_hash::FxHashMap;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// The kinds of hints, correct or wrong, by index: 1 for a size, 2 for an alignment.
const HINTS: [FreeHint; 4] = [FreeHint::NONE, FreeHint::SIZE, FreeHint::ALIGN, FreeHint::BOTH];

/// The facts of a live object that are needed when it is released.
struct Object {
    size: u64,
    time: u64,
    row: u64,
    thread: u32,
    /// log2 of the object's alignment; 0 for none.
    align_log2: u8,
}

pub(crate) struct Survey<'a> {
    metadata: &'a Metadata,
    rows: u64,
    last_time: u64,
    kinds: [u64; Op::ALL.len()],
    /// Frees by kind of hint.
    frees: [u64; HINTS.len()],
    wrong_frees: WrongFrees,
    objects: u64,
    allocated_bytes: u64,
    releases: u64,
    cross_thread_releases: u64,
    live: FxHashMap<u64, Object>,
    live_bytes: u64,
    peak: LivePeak,
    sizes: Counter,
    size_buckets: [(u64, u64); 65],
    lifetimes_ns: Counter,
    lifetimes_operations: Counter,
    second: u64,
    in_second: u64,
    rate: Rate,
    frame_operations: Vec<u64>,
    threads: Vec<ThreadFacts>,
}

impl<'a> Survey<'a> {
    pub fn new(metadata: &'a Metadata) -> Survey<'a> {
        let thread = |thread: &crate::Thread| ThreadFacts {
            id: thread.id,
            name: thread.name.clone(),
            ..ThreadFacts::default()
        };
        Survey {
            metadata,
            rows: 0,
            last_time: 0,
            kinds: [0; Op::ALL.len()],
            frees: [0; HINTS.len()],
            wrong_frees: WrongFrees::default(),
            objects: 0,
            allocated_bytes: 0,
            releases: 0,
            cross_thread_releases: 0,
            live: FxHashMap::default(),
            live_bytes: 0,
            peak: LivePeak::default(),
            sizes: Counter::new(),
            size_buckets: [(0, 0); 65],
            lifetimes_ns: Counter::new(),
            lifetimes_operations: Counter::new(),
            second: 0,
            in_second: 0,
            rate: Rate::default(),
            frame_operations: vec![0; metadata.frames.len() + 1],
            threads: metadata.threads.iter().map(thread).collect(),
        }
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn add(&mut self, event: &Event) {
        self.rows += 1;
        // The times of a damaged journal may decrease; `verify` reports it.
        self.last_time = self.last_time.max(event.time);
        self.kinds[event.op as usize] += 1;
        if event.op == Op::Free {
            self.frees[usize::from(event.free_hint.has_size())
                + 2 * usize::from(event.free_hint.has_align())] += 1;
        }
        if let Some(count) = self.frame_operations.get_mut(event.frame as usize) {
            *count += 1;
        }
        self.add_to_thread(event);
        self.add_to_second(event.time / NS_PER_SECOND);
        if event.released != 0 {
            self.release(event);
        }
        if event.created != 0 {
            self.create(event);
        }
    }

    fn add_to_thread(&mut self, event: &Event) {
        // The reader rejects rows of threads that the metadata does not list.
        let thread = &mut self.threads[event.thread as usize];
        if thread.operations == 0 {
            thread.first_ns = event.time;
        }
        thread.operations += 1;
        thread.allocated_bytes = thread.allocated_bytes.saturating_add(event.size);
        thread.last_ns = event.time;
    }

    fn add_to_second(&mut self, second: u64) {
        if second != self.second {
            self.second = second;
            self.in_second = 0;
        }
        self.in_second += 1;
        if self.in_second > self.rate.peak {
            self.rate.peak = self.in_second;
            self.rate.peak_second = second;
        }
    }

    fn release(&mut self, event: &Event) {
        // A journal that breaks the rules may name an object that is not live. `verify` reports
        // such a journal.
        let Some(object) = self.live.remove(&event.released) else { return };
        if event.free_hint.is_wrong() {
            self.wrong_free(event, &object);
        }
        self.releases += 1;
        // The sum saturates; see `create`.
        self.live_bytes = self.live_bytes.saturating_sub(object.size);
        self.lifetimes_ns.add(event.begin.saturating_sub(object.time));
        self.lifetimes_operations.add(self.rows - object.row);
        if object.thread != event.thread {
            self.cross_thread_releases += 1;
            self.threads[event.thread as usize].cross_thread_releases += 1;
        }
    }

    #[cold]
    fn wrong_free(&mut self, event: &Event, object: &Object) {
        self.wrong_frees.count += 1;
        if self.wrong_frees.first.is_none() {
            self.wrong_frees.first = Some(WrongFree {
                row: self.rows - 1,
                thread: event.thread,
                kind: event.free_hint.name(),
                hint_size: event.free_hint.wrong_size(),
                hint_align: event.free_hint.wrong_align(),
                size: object.size,
                align: (object.align_log2 != 0).then_some(1 << object.align_log2),
            });
        }
    }

    fn create(&mut self, event: &Event) {
        self.objects += 1;
        self.allocated_bytes = self.allocated_bytes.saturating_add(event.size);
        self.sizes.add(event.size);
        let bucket = &mut self.size_buckets[(u64::BITS - event.size.leading_zeros()) as usize];
        bucket.0 += 1;
        bucket.1 = bucket.1.saturating_add(event.size);
        let align_log2 = if event.align == 0 { 0 } else { event.align.trailing_zeros() as u8 };
        let Event { size, time, thread, .. } = *event;
        let object = Object { size, time, row: self.rows, thread, align_log2 };
        // Sizes near 2^63 are valid, so the sum saturates.
        let replaced = self.live.insert(event.created, object).map_or(0, |old| old.size);
        self.live_bytes = self.live_bytes.saturating_sub(replaced).saturating_add(event.size);
        if self.live_bytes > self.peak.bytes {
            self.peak.bytes = self.live_bytes;
            self.peak.bytes_at_ns = event.time;
        }
        if self.live.len() as u64 > self.peak.objects {
            self.peak.objects = self.live.len() as u64;
            self.peak.objects_at_ns = event.time;
        }
    }

    pub fn finish(mut self) -> Facts {
        if self.last_time > 0 {
            self.rate.mean = self.rows as f64 * NS_PER_SECOND as f64 / self.last_time as f64;
        }
        let kinds = Op::ALL.into_iter().flat_map(|op| match op {
            Op::Free => HINTS.into_iter().map(FreeHint::name).zip(self.frees).collect(),
            op => vec![(op.name(), self.kinds[op as usize])],
        });
        let operations_by_kind =
            kinds.map(|(kind, count)| OperationCount { kind, count }).collect();
        Facts {
            operations: self.rows,
            duration_ns: self.last_time,
            operations_by_kind,
            wrong_frees: std::mem::take(&mut self.wrong_frees),
            objects: self.objects,
            allocated_bytes: self.allocated_bytes,
            cross_thread_releases: self.cross_thread_releases,
            releases: self.releases,
            sizes: Sizes { bytes: self.sizes.finish(), histogram: histogram(&self.size_buckets) },
            lifetimes: Lifetimes {
                ns: self.lifetimes_ns.finish(),
                operations: self.lifetimes_operations.finish(),
            },
            leaked: Leaked { objects: self.live.len() as u64, bytes: self.live_bytes },
            frames: self.frame_facts(),
            live_peak: self.peak,
            rate: self.rate,
            threads: self.threads,
        }
    }

    fn frame_facts(&self) -> Option<FrameFacts> {
        let marks = &self.metadata.frames;
        let (first, last) = (*self.frame_operations.first()?, *self.frame_operations.last()?);
        if marks.is_empty() {
            return None;
        }
        let (mut operations, mut ns) = (Counter::new(), Counter::new());
        let mut busiest = (0, 0);
        for (index, pair) in marks.windows(2).enumerate() {
            let count = self.frame_operations[index + 1];
            operations.add(count);
            ns.add(pair[1].saturating_sub(pair[0]));
            if count > busiest.1 {
                busiest = (index as u64 + 1, count);
            }
        }
        Some(FrameFacts {
            marks: marks.len() as u64,
            operations: operations.finish(),
            ns: ns.finish(),
            busiest: busiest.0,
            operations_before: first,
            operations_after: last,
        })
    }
}

fn histogram(buckets: &[(u64, u64); 65]) -> Vec<SizeBucket> {
    let used = |bucket: &(u64, u64)| bucket.0 > 0;
    let Some(first) = buckets.iter().position(used) else { return Vec::new() };
    let last = buckets.iter().rposition(used).unwrap_or(first);
    let bucket = |index: usize| SizeBucket {
        from: if index == 0 { 0 } else { 1 << (index - 1) },
        to: if index == 0 { 0 } else { u64::MAX >> (64 - index) },
        count: buckets[index].0,
        bytes: buckets[index].1,
    };
    (first..=last).map(bucket).collect()
}
