//! Throughput on one thread: the five columns by which small-block allocators are usually compared.
//!
//! Each function performs a number of malloc/free pairs, which the heap's scale decides, and returns that number. Every
//! block is written to once, as any program would, so that an allocator gains nothing by handing out memory that is not
//! there.

use crate::heap::Heap;
use crate::random::Random;

/// Free what was just allocated: 64 B, the depth of a call stack at most 1.
pub fn lifo_64(heap: &Heap) -> u64 {
    let pairs = heap.scaled(20_000_000);
    for _ in 0..pairs {
        heap.free(heap.malloc(64));
    }
    pairs
}

/// Allocate 1,000 blocks of 64 B, free them in the order of their birth, again and again.
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

/// Sizes of 4 to 516 B, drawn so that small ones are common; 2,000 live, each step replaces a random one.
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

/// 64Ki blocks of 64 B live; all freed in random order, all allocated again.
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

/// calloc of 16 B to 2 KiB, 256 live.
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

/// Blocks of 64 KiB to 4 MiB, 16 live, the first byte of each 4 KiB written: buffers of images, of files, of messages.
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
