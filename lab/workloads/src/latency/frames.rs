//! The allocations of a game: a level is loaded, a frame follows every 16.6 ms, the level is
//! unloaded for the next one.

use super::program_size;
use crate::heap::Heap;
use crate::random::Random;
use crate::watch::{Findings, Watch};
use keel_player::system;
use std::ptr::null_mut;

const FRAME_NS: u64 = 16_600_000;
const LEVELS: u64 = 2;
/// Blocks that live longer than a frame.
const LIVE: usize = 4000;

/// The calls inside frames, and the calls of loading and unloading, each by kind.
struct Watches {
    malloc: Watch,
    free: Watch,
    calloc: Watch,
    realloc: Watch,
    load: Watch,
    unload: Watch,
}

/// 2 levels of 60 frames; in each frame 3,000 calls: 1,250 malloc, 150 calloc, 200 realloc, 1,400
/// free.
pub fn frame_loop(heap: &Heap, findings: &mut Findings) {
    let mut watches = Watches {
        malloc: heap.watch("malloc in a frame"),
        free: heap.watch("free in a frame"),
        calloc: heap.watch("calloc in a frame"),
        realloc: heap.watch("realloc in a frame"),
        load: heap.watch("malloc at level load"),
        unload: heap.watch("free at level unload"),
    };
    let mut random = Random::new(6);
    let mut live: Vec<(*mut u8, usize)> = (0..LIVE).map(|_| (null_mut(), 0)).collect();
    let mut level = Vec::with_capacity(50_000);
    for _ in 0..LEVELS {
        for _ in 0..heap.scaled(50_000) {
            let size = program_size(&mut random);
            let block = watches.load.time(|| heap.malloc_untouched(size));
            heap.touch_pages(block, size);
            level.push(block);
        }
        let mut due = system::monotonic_ns();
        for _ in 0..heap.scaled(60) {
            frame(heap, &mut watches, &mut random, &mut live);
            due += FRAME_NS;
            system::sleep_ns(due.saturating_sub(system::monotonic_ns()));
        }
        for block in level.drain(..) {
            watches.unload.time(|| heap.free(block));
        }
    }
    live.into_iter().for_each(|(block, _)| heap.free(block));
    for watch in [
        watches.malloc,
        watches.free,
        watches.calloc,
        watches.realloc,
        watches.load,
        watches.unload,
    ] {
        watch.finish(findings);
    }
}

fn frame(heap: &Heap, watches: &mut Watches, random: &mut Random, live: &mut [(*mut u8, usize)]) {
    for step in 0..1600 {
        let place = &mut live[random.below(LIVE as u64) as usize];
        if step % 8 == 0 && !place.0.is_null() {
            let grown = place.1 + place.1 / 4 + 16;
            // Limits the growth.
            let size = if grown > 256 << 10 { 64 } else { grown };
            *place = (watches.realloc.time(|| heap.realloc(place.0, size)), size);
        } else {
            let (old, _) = std::mem::replace(place, (null_mut(), 0));
            watches.free.time(|| heap.free(old));
            let size = program_size(random);
            *place = if step % 10 == 1 {
                (watches.calloc.time(|| heap.calloc_untouched(size)), size)
            } else {
                (watches.malloc.time(|| heap.malloc_untouched(size)), size)
            };
        }
        heap.touch_pages(place.0, place.1);
    }
}
