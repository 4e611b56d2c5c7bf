//! The events that make calls slow, each provoked alone: the worst single call, calls interrupted by the kernel left
//! out.
//!
//! Beside every timed call an empty window of about the same length is timed. Its worst case is the machine's own
//! noise in the same run (a hypervisor that took the processor away is not visible to the thread); what an allocator
//! is judged by is the excess over it.

use crate::heap::Heap;
use crate::random::Random;
use keel_player::clock::{Clock, Counter, ticks_per_ns};
use keel_player::interruption::{Flag, Seen};
use std::time::Duration;

/// The slowest calls of one event.
pub struct Worst {
    /// The slowest uninterrupted call, ns.
    pub worst_ns: f64,
    /// The slowest uninterrupted empty window, ns.
    pub noise_ns: f64,
    /// Calls timed and not interrupted.
    pub calls: u64,
}

struct Watch {
    flag: Flag,
    worst: u64,
    noise: u64,
    calls: u64,
}

impl Watch {
    fn new() -> Watch {
        Watch { flag: Flag::of_this_thread(true), worst: 0, noise: 0, calls: 0 }
    }

    #[inline(always)]
    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let (result, ticks, whole) = self.window(call);
        if whole {
            self.worst = self.worst.max(ticks);
            self.calls += 1;
        }
        let ((), ticks, whole) = self.window(spin);
        if whole {
            self.noise = self.noise.max(ticks);
        }
        result
    }

    #[inline(always)]
    fn window<T>(&self, call: impl FnOnce() -> T) -> (T, u64, bool) {
        self.flag.arm();
        let begin = Counter::begin();
        let result = call();
        let ticks = Counter::end() - begin;
        (result, ticks, self.flag.look() != Seen::Interrupted)
    }

    fn finish(self) -> Worst {
        self.flag.disarm();
        let ns = 1.0 / ticks_per_ns::<Counter>();
        Worst { worst_ns: self.worst as f64 * ns, noise_ns: self.noise as f64 * ns, calls: self.calls }
    }
}

/// About 50 ns of nothing.
fn spin() {
    for step in 0..100 {
        std::hint::black_box(step);
    }
}

/// Sizes as a program has them: mostly small, now and then a page, rarely a buffer.
fn program_size(random: &mut Random) -> usize {
    match random.below(1000) {
        0..900 => 16 + random.below(240) as usize,
        900..990 => 256 + random.below(3840) as usize,
        990..999 => 4096 + random.below(61_440) as usize,
        _ => 65_536 + random.below(983_040) as usize,
    }
}

/// malloc in a heap that grows to 64 MiB: who touches new memory first? Touches by the program are outside the window.
pub fn growing_heap(heap: &Heap) -> Worst {
    let mut random = Random::new(1);
    let mut watch = Watch::new();
    let mut blocks = Vec::with_capacity(1 << 20);
    let mut bytes = 0;
    while bytes < 64 << 20 {
        let size = program_size(&mut random);
        let block = watch.time(|| heap.malloc_untouched(size));
        heap.touch_pages(block, size);
        blocks.push(block);
        bytes += size;
    }
    blocks.into_iter().for_each(|block| heap.free(block));
    watch.finish()
}

fn burst(heap: &Heap) {
    let mut random = Random::new(2);
    let mut blocks = Vec::with_capacity(1 << 20);
    let mut bytes = 0;
    while bytes < 256 << 20 {
        let size = program_size(&mut random);
        blocks.push(heap.malloc_touched(size));
        bytes += size;
    }
    blocks.into_iter().for_each(|block| heap.free(block));
}

/// malloc after 256 MiB were freed and every purge delay has passed.
pub fn malloc_after_burst(heap: &Heap) -> Worst {
    burst(heap);
    std::thread::sleep(Duration::from_millis(2500));
    let mut random = Random::new(3);
    let mut watch = Watch::new();
    let mut live = vec![std::ptr::null_mut(); 512];
    for step in 0..200_000_usize {
        let slot = step % live.len();
        heap.free(live[slot]);
        let size = program_size(&mut random);
        live[slot] = watch.time(|| heap.malloc_untouched(size));
        heap.touch_pages(live[slot], size);
    }
    live.into_iter().for_each(|block| heap.free(block));
    watch.finish()
}

/// malloc after another thread freed 200,000 small blocks of this one.
pub fn malloc_after_remote_frees(heap: &Heap) -> Worst {
    let mut random = Random::new(4);
    let sizes: Vec<usize> = (0..200_000).map(|_| 16 + random.below(240) as usize).collect();
    let blocks: Vec<usize> = sizes.iter().map(|&size| heap.malloc(size).expose_provenance()).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            heap.thread(|| {
                blocks.iter().for_each(|&block| heap.free(std::ptr::with_exposed_provenance_mut(block)));
            });
        });
    });
    let mut watch = Watch::new();
    let again: Vec<_> = sizes.iter().map(|&size| watch.time(|| heap.malloc_untouched(size))).collect();
    again.into_iter().for_each(|block| heap.free(block));
    watch.finish()
}

/// free of blocks of 64 KiB to 4 MiB whose pages were touched.
pub fn free_large(heap: &Heap) -> Worst {
    let mut random = Random::new(5);
    let mut watch = Watch::new();
    let mut live = [std::ptr::null_mut(); 24];
    for _ in 0..6000 {
        let slot = random.below(24) as usize;
        let old = std::mem::replace(&mut live[slot], std::ptr::null_mut());
        watch.time(|| heap.free(old));
        let size = (64 << 10) << random.below(6);
        live[slot] = heap.malloc_touched(size + random.below(size as u64) as usize);
    }
    live.iter().for_each(|&block| heap.free(block));
    watch.finish()
}

/// Resident bytes of the process 2.5 s after a burst of 256 MiB was freed, beyond what it had before.
pub fn resident_after_burst(heap: &Heap) -> u64 {
    let before = keel_player::own::anonymous_resident();
    burst(heap);
    std::thread::sleep(Duration::from_millis(2500));
    keel_player::own::anonymous_resident().saturating_sub(before)
}
