//! The events of the latency contract. The program's own writes are outside of the timed windows.

use super::program_size;
use crate::heap::Heap;
use crate::random::Random;
use crate::watch::Findings;
use keel_player::system::anonymous_resident;
use std::ptr::null_mut;
use std::time::Duration;

/// Sizes of blocks with a sum of `bytes`.
fn sizes_of(bytes: u64, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut sizes = Vec::new();
    let mut sum = 0;
    while sum < bytes {
        let size = program_size(&mut random);
        sizes.push(size);
        sum += size as u64;
    }
    sizes
}

/// malloc in a heap that grows to 64 MiB.
pub fn first_touch(heap: &Heap, findings: &mut Findings) {
    let sizes = sizes_of(heap.scaled(64 << 20), 1);
    let mut blocks = Vec::with_capacity(sizes.len());
    let mut watch = heap.watch("malloc");
    for &size in &sizes {
        let block = watch.time(|| heap.malloc_untouched(size));
        heap.touch_pages(block, size);
        blocks.push(block);
    }
    watch.finish(findings);
    blocks.into_iter().for_each(|block| heap.free(block));
}

/// 256 MiB are allocated, touched and freed; 2.5 s later every purge delay has passed. Measures the
/// memory that is still resident, beyond that before, and the cost of malloc afterwards.
pub fn after_burst(heap: &Heap, findings: &mut Findings) {
    let sizes = sizes_of(heap.scaled(256 << 20), 2);
    let mut blocks = vec![null_mut(); sizes.len()];
    heap.free(heap.malloc(16));
    let before = anonymous_resident();
    for (block, &size) in blocks.iter_mut().zip(&sizes) {
        *block = heap.malloc_touched(size);
    }
    blocks.iter().for_each(|&block| heap.free(block));
    std::thread::sleep(heap.delay(Duration::from_millis(2500)));
    findings.resident = Some(anonymous_resident().saturating_sub(before));
    let mut random = Random::new(3);
    let mut watch = heap.watch("malloc");
    let mut live: [*mut u8; 512] = [null_mut(); 512];
    for step in 0..heap.scaled(200_000) as usize {
        let slot = step % live.len();
        heap.free(live[slot]);
        let size = program_size(&mut random);
        live[slot] = watch.time(|| heap.malloc_untouched(size));
        heap.touch_pages(live[slot], size);
    }
    watch.finish(findings);
    live.into_iter().for_each(|block| heap.free(block));
}

/// malloc after another thread freed 200,000 small blocks of this one.
pub fn after_remote_frees(heap: &Heap, findings: &mut Findings) {
    let mut random = Random::new(4);
    let sizes: Vec<usize> =
        (0..heap.scaled(200_000)).map(|_| 16 + random.below(240) as usize).collect();
    let blocks: Vec<usize> =
        sizes.iter().map(|&size| heap.malloc(size).expose_provenance()).collect();
    let mut again = Vec::with_capacity(sizes.len());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            heap.thread(|| {
                blocks
                    .iter()
                    .for_each(|&block| heap.free(std::ptr::with_exposed_provenance_mut(block)));
            });
        });
    });
    let mut watch = heap.watch("malloc");
    for &size in &sizes {
        again.push(watch.time(|| heap.malloc_untouched(size)));
    }
    watch.finish(findings);
    again.into_iter().for_each(|block| heap.free(block));
}

/// free of blocks of 64 KiB to 4 MiB whose pages were touched, and the mallocs between them.
pub fn free_large(heap: &Heap, findings: &mut Findings) {
    let mut random = Random::new(5);
    let mut frees = heap.watch("free");
    let mut mallocs = heap.watch("malloc");
    let mut live: [*mut u8; 24] = [null_mut(); 24];
    for _ in 0..heap.scaled(6000) {
        let slot = random.below(live.len() as u64) as usize;
        let old = std::mem::replace(&mut live[slot], null_mut());
        if !old.is_null() {
            frees.time(|| heap.free(old));
        }
        let size = (64 << 10) << random.below(6);
        let size = size + random.below(size as u64) as usize;
        live[slot] = mallocs.time(|| heap.malloc_untouched(size));
        heap.touch_pages(live[slot], size);
    }
    // In a tiny run hardly any block is replaced.
    for block in live.into_iter().filter(|block| !block.is_null()) {
        frees.time(|| heap.free(block));
    }
    frees.finish(findings);
    mallocs.finish(findings);
}
