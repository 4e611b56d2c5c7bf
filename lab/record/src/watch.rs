//! What `keel watch` shows: the sums of a recording that is not written.

use crate::assemble::Assembler;
use crate::output::{Begin, Rows, take_rows};
use crate::ring::op;
use crate::rows::{RowSink, Taken};
use keel_journal::{Event, Metadata, Module, Origin, Sampling, Stacks};
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// Allocations that take at least so many ticks of the clock are timed one by one. Of the time
/// stamp counter, this is a fraction of a microsecond.
pub const SLOW_TICKS: u64 = 1000;
/// The call stacks of a snapshot: these many by each of their sums.
const STACKS: usize = 64;

/// Operations; estimated if the recording has samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Allocations, reallocs included.
    pub allocations: f64,
    /// Bytes that they requested.
    pub bytes: f64,
    /// Releases, reallocs included.
    pub frees: f64,
}

impl Counts {
    fn allocated(&mut self, weight: f64, bytes: f64) {
        self.allocations += weight;
        self.bytes += bytes;
    }
}

/// The sums of a call stack.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StackCounts {
    /// Index into the nodes of [`Snapshot::stacks`]; [`Origin::NONE`] for operations without a
    /// stack.
    pub stack: u32,
    /// In the interval.
    pub interval: Counts,
    /// Since the beginning.
    pub total: Counts,
    /// In live blocks.
    pub live_bytes: f64,
}

/// The slow allocations of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Only calls of at least this time are timed, ns.
    pub least_ns: u64,
    /// Of 1000 allocations, 999 took at most this time, ns; `None`: less than `least_ns`.
    pub p999_ns: Option<u64>,
    /// The longest allocation, ns, interruptions by the system included; 0: none was slow.
    pub worst_ns: u64,
    /// Its bytes.
    pub worst_bytes: u64,
    /// Its stack, as in [`StackCounts::stack`].
    pub worst_stack: u32,
}

/// The state of a watched program.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Since the beginning.
    pub seconds: f64,
    /// The length of the interval, which ends now.
    pub interval_seconds: f64,
    /// In the interval.
    pub interval: Counts,
    /// Since the beginning.
    pub total: Counts,
    /// Live blocks that were allocated since the beginning.
    pub live_blocks: f64,
    /// Their bytes.
    pub live_bytes: f64,
    /// The interval's slow allocations.
    pub latency: Latency,
    /// The stacks with the largest sums.
    pub top: Vec<StackCounts>,
    /// The object files.
    pub modules: Vec<Module>,
    /// The stacks of `top`, and that of the longest call.
    pub stacks: Stacks,
}

/// A watched image.
pub struct Watching {
    assembler: Assembler,
    sums: Sums,
    slow: Slow,
    least_ns: u64,
    began_ns: u64,
    now_ns: u64,
    interval_began_ns: u64,
    shown: Instant,
}

impl Watching {
    pub fn new(begin: &Begin) -> Watching {
        let began_ns = begin.clock.nanoseconds(begin.origin);
        let sampling = Sampling::of(&begin.metadata);
        Watching {
            assembler: Assembler::new(begin.clock, begin.origin, &begin.filter),
            sums: Sums { sampling, ..Sums::default() },
            slow: Slow::default(),
            least_ns: begin.clock.duration(SLOW_TICKS),
            began_ns,
            now_ns: began_ns,
            interval_began_ns: began_ns,
            shown: Instant::now(),
        }
    }

    /// Applies the events of one reading.
    pub fn take(&mut self, mut rows: Rows) {
        let mut slow = Vec::new();
        for (ring, events) in &mut rows.rings {
            let found = events.extract_if(.., |event| event.op() == op::SLOW);
            slow.extend(found.map(|event| (*ring, event)));
        }
        take_rows(&mut self.assembler, &mut self.sums, &rows);
        for (ring, event) in slow {
            let ns = rows.clock.duration(event.address);
            let weight = self.sums.weight(event.size);
            if self.slow.take(ns, weight) {
                let origin = self.assembler.origin(ring as usize, &event);
                self.slow.worst = (ns, event.size, origin.stack);
            }
        }
        self.least_ns = rows.clock.duration(SLOW_TICKS);
        // The last reading has no time.
        if rows.until < u64::MAX {
            self.now_ns = rows.clock.nanoseconds(rows.until).max(self.now_ns);
        }
    }

    /// Whether the interval is over. After the end of the recording, time does not advance.
    pub fn is_due(&self, interval: Duration) -> bool {
        let passed = Duration::from_nanos(self.now_ns.saturating_sub(self.interval_began_ns));
        self.shown.elapsed() >= interval && passed >= interval / 10
    }

    /// The state now. The next interval begins.
    pub fn snapshot(&mut self) -> Snapshot {
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
        let mut known = Metadata::default();
        self.assembler.known(&mut known);
        let sums = &self.sums;
        let mut snapshot = Snapshot {
            seconds: seconds(self.began_ns, self.now_ns),
            interval_seconds: seconds(self.interval_began_ns, self.now_ns),
            interval: sums.interval,
            total: sums.total,
            live_blocks: sums.live_blocks,
            live_bytes: sums.live_bytes,
            latency: self.slow.latency(sums.interval.allocations, self.least_ns),
            top: sums.top(),
            modules: known.modules,
            stacks: Stacks::default(),
        };
        let mut copied = FxHashMap::default();
        let (from, to) = (&known.stacks, &mut snapshot.stacks);
        let latency = &mut snapshot.latency;
        let stacks = snapshot.top.iter_mut().map(|one| &mut one.stack);
        for stack in stacks.chain(std::iter::once(&mut latency.worst_stack)) {
            *stack = copy_stack(*stack, from, to, &mut copied);
        }
        self.sums.end_interval();
        self.slow = Slow::default();
        self.interval_began_ns = self.now_ns;
        self.shown = Instant::now();
        snapshot
    }
}

/// Copies a stack and returns its number in the copy.
fn copy_stack(stack: u32, from: &Stacks, to: &mut Stacks, copied: &mut FxHashMap<u32, u32>) -> u32 {
    if let Some(known) = copied.get(&stack) {
        return *known;
    }
    let mut calls: Vec<(i64, u64)> = from.walk(stack).collect();
    let mut parent = -1;
    while let Some(site) = calls.pop() {
        to.sites.push(site);
        to.nodes.push((parent, to.sites.len() as u32 - 1));
        parent = to.nodes.len() as i64 - 1;
    }
    let copy = u32::try_from(parent).unwrap_or(Origin::NONE);
    copied.insert(stack, copy);
    copy
}

/// The sums of the rows.
#[derive(Default)]
struct Sums {
    sampling: Option<Sampling>,
    interval: Counts,
    total: Counts,
    live_blocks: f64,
    live_bytes: f64,
    stacks: FxHashMap<u32, StackCounts>,
    /// Stack and size of the live blocks.
    live: FxHashMap<u64, (u32, u64)>,
}

impl Sums {
    fn weight(&self, size: u64) -> f64 {
        self.sampling.map_or(1.0, |sampling| sampling.weight(size))
    }

    fn stack(&mut self, stack: u32) -> &mut StackCounts {
        self.stacks.entry(stack).or_insert(StackCounts { stack, ..StackCounts::default() })
    }

    fn allocated(&mut self, event: &Event, stack: u32) {
        let weight = self.weight(event.size);
        let bytes = weight * event.size as f64;
        self.live.insert(event.created, (stack, event.size));
        self.live_blocks += weight;
        self.live_bytes += bytes;
        let of_stack = self.stack(stack);
        of_stack.live_bytes += bytes;
        of_stack.interval.allocated(weight, bytes);
        of_stack.total.allocated(weight, bytes);
        self.interval.allocated(weight, bytes);
        self.total.allocated(weight, bytes);
    }

    fn released(&mut self, object: u64) {
        let Some((stack, size)) = self.live.remove(&object) else { return };
        let weight = self.weight(size);
        let bytes = weight * size as f64;
        self.live_blocks -= weight;
        self.live_bytes -= bytes;
        self.interval.frees += weight;
        self.total.frees += weight;
        let of_stack = self.stack(stack);
        of_stack.live_bytes -= bytes;
        of_stack.interval.frees += weight;
        of_stack.total.frees += weight;
    }

    fn top(&self) -> Vec<StackCounts> {
        let mut chosen: FxHashMap<u32, StackCounts> = FxHashMap::default();
        let mut all: Vec<&StackCounts> = self.stacks.values().collect();
        let keys: [fn(&StackCounts) -> f64; 3] =
            [|one| one.interval.bytes, |one| one.live_bytes, |one| one.total.bytes];
        for key in keys {
            all.sort_unstable_by(|one, other| {
                key(other).total_cmp(&key(one)).then(one.stack.cmp(&other.stack))
            });
            chosen.extend(all.iter().take(STACKS).map(|one| (one.stack, **one)));
        }
        chosen.into_values().collect()
    }

    fn end_interval(&mut self) {
        self.interval = Counts::default();
        self.stacks.values_mut().for_each(|one| one.interval = Counts::default());
    }
}

impl RowSink for Sums {
    fn push(&mut self, event: &Event, origin: Origin, _: &dyn Fn(&mut Metadata)) -> Taken {
        if event.released != 0 {
            self.released(event.released);
        }
        if event.created != 0 {
            self.allocated(event, origin.stack);
        }
        Taken::More
    }
}

/// The slow allocations of an interval, in classes whose limits are an eighth of an octave apart.
struct Slow {
    classes: [f64; 512],
    /// ns, bytes, stack.
    worst: (u64, u64, u32),
}

impl Default for Slow {
    fn default() -> Slow {
        Slow { classes: [0.0; 512], worst: (0, 0, Origin::NONE) }
    }
}

impl Slow {
    /// Returns true if it is the longest so far.
    fn take(&mut self, ns: u64, weight: f64) -> bool {
        self.classes[class_of(ns)] += weight;
        ns > self.worst.0
    }

    fn latency(&self, allocations: f64, least_ns: u64) -> Latency {
        let (worst_ns, worst_bytes, worst_stack) = self.worst;
        let mut slower = 0.0;
        let of_p999 = self.classes.iter().enumerate().rev().find(|(_, weight)| {
            slower += *weight;
            slower > allocations / 1000.0
        });
        let p999_ns = of_p999.map(|(class, _)| limit_of(class).min(worst_ns));
        Latency { least_ns, p999_ns, worst_ns, worst_bytes, worst_stack }
    }
}

fn class_of(ns: u64) -> usize {
    let ns = ns.max(8);
    let octave = 63 - ns.leading_zeros() as usize;
    octave * 8 + (ns >> (octave - 3) & 7) as usize
}

/// The largest value of a class.
fn limit_of(class: usize) -> u64 {
    let (octave, eighth) = (class / 8, class as u64 % 8);
    let least = (8 + eighth) << (octave.max(3) - 3);
    least + (1 << (octave.max(3) - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_contains_the_values_up_to_its_limit() {
        for ns in (8..4000).chain([1 << 20, (1 << 40) + 12345]) {
            let class = class_of(ns);
            assert!(ns <= limit_of(class) && limit_of(class) <= ns + ns / 8, "{ns}");
            assert_eq!(class_of(limit_of(class)), class);
            assert_eq!(class_of(limit_of(class) + 1), class + 1);
        }
    }

    #[test]
    fn the_thousandth_allocation_gives_the_percentile() {
        let mut slow = Slow::default();
        let take = |slow: &mut Slow, ns, weight| {
            if slow.take(ns, weight) {
                slow.worst.0 = ns;
            }
        };
        for index in 0..9 {
            take(&mut slow, 1000 + index, 1.0);
        }
        assert_eq!(slow.latency(10_000.0, 300).p999_ns, None);
        for _ in 0..2 {
            take(&mut slow, 50_000, 1.0);
        }
        let latency = slow.latency(10_000.0, 300);
        assert!(latency.p999_ns.is_some_and(|ns| (1000..1200).contains(&ns)), "{latency:?}");
        take(&mut slow, 8_000_000, 20.0);
        let latency = slow.latency(10_000.0, 300);
        assert!(latency.p999_ns.is_some_and(|ns| ns > 7_000_000), "{latency:?}");
    }
}
