//! Throughput on one thread: five workloads that are commonly used to compare allocators.
//!
//! Each function makes a number of malloc/free pairs, which depends on the heap's scale, and
//! returns that number. It writes to every block once, as a program would, so that an allocator
//! gains nothing by returning memory that is not yet resident.

use crate::heap::Heap;
use crate::random::Random;

/// Frees each block directly after its allocation: 64 B, at most one live.
pub fn lifo_64(heap: &Heap) -> u64 {
    let pairs = heap.scaled(20_000_000);
    for _ in 0..pairs {
        heap.free(heap.malloc(64));
    }
    pairs
}

/// Allocates 1,000 blocks of 64 B and frees them in the order of allocation, repeatedly.
pub fn batch_64(heap: &Heap) -> u64 {
    let rounds = heap.scaled(12_000);
    let mut blocks = [std::ptr::null_mut(); 1000];
    for _ in 0..rounds {
        for block in &mut blocks {
            *block = heap.malloc(64);
        }
        for block in &blocks {
            heap.free(*block);
        }
    }
    rounds * blocks.len() as u64
}

/// Sizes of 4 to 516 B, mostly small; 2,000 are live, and each step replaces a random one.
pub fn mixed_516(heap: &Heap) -> u64 {
    let pairs = heap.scaled(10_000_000);
    let mut random = Random::new(7);
    let sizes: Vec<usize> =
        (0..4096).map(|_| 4 + random.below(513).min(random.below(513)) as usize).collect();
    let mut live: Vec<_> = (0..2000).map(|i| heap.malloc(sizes[i])).collect();
    for step in 0..pairs {
        let slot = random.below(live.len() as u64) as usize;
        heap.free(live[slot]);
        live[slot] = heap.malloc(sizes[(step % 4096) as usize]);
    }
    live.into_iter().for_each(|block| heap.free(block));
    pairs
}

/// 65,536 live blocks of 64 B; all are freed in random order and allocated again.
pub fn random_free_64k(heap: &Heap) -> u64 {
    const BLOCKS: usize = 1 << 16;
    let rounds = heap.scaled(60);
    let mut random = Random::new(11);
    let mut order: Vec<usize> = (0..BLOCKS).collect();
    for i in (1..BLOCKS).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    let mut blocks = vec![std::ptr::null_mut(); BLOCKS];
    for _ in 0..rounds {
        blocks.iter_mut().for_each(|block| *block = heap.malloc(64));
        order.iter().for_each(|&index| heap.free(blocks[index]));
    }
    rounds * BLOCKS as u64
}

/// calloc of 16 B to 2 KiB, 256 live blocks.
pub fn calloc_2k(heap: &Heap) -> u64 {
    let pairs = heap.scaled(4_000_000);
    let mut random = Random::new(13);
    let sizes: Vec<usize> = (0..4096).map(|_| 16 + random.below(2033) as usize).collect();
    let mut live: Vec<_> = (0..256).map(|i| heap.calloc(sizes[i])).collect();
    for step in 0..pairs {
        let slot = (step % 256) as usize;
        heap.free(live[slot]);
        live[slot] = heap.calloc(sizes[(step % 4096) as usize]);
    }
    live.into_iter().for_each(|block| heap.free(block));
    pairs
}

/// Blocks of 64 KiB to 4 MiB, 16 live, the first byte of each 4 KiB written: buffers of images, of
/// files, of messages.
pub fn large_churn(heap: &Heap) -> u64 {
    let pairs = heap.scaled(12_000);
    let mut random = Random::new(17);
    let mut live = [std::ptr::null_mut(); 16];
    for _ in 0..pairs {
        let slot = random.below(16) as usize;
        heap.free(live[slot]);
        let size = (64 << 10) << random.below(6);
        live[slot] = heap.malloc_touched(size + random.below(size as u64) as usize);
    }
    live.iter().for_each(|&block| heap.free(block));
    pairs
}
