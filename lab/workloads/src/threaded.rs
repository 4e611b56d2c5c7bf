//! Throughput with threads: blocks that another thread frees.

use crate::heap::{Block, Heap};
use crate::random::Random;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::mpsc::sync_channel;

/// One thread allocates 16 to 512 B, another frees, in batches of 256 as in a message queue.
pub fn producer_consumer(heap: &Heap) -> u64 {
    let batches = heap.scaled(16_000);
    const BATCH: usize = 256;
    let (sender, receiver) = sync_channel::<Vec<Block>>(16);
    let (back, spare) = sync_channel::<Vec<Block>>(32);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            heap.thread(|| {
                for mut batch in receiver {
                    batch.drain(..).for_each(|block| heap.free(block.0));
                    // The producer may have ended; then the vector is not needed any more.
                    let _ = back.try_send(batch);
                }
            });
        });
        scope.spawn(move || {
            heap.thread(|| {
                let mut random = Random::new(3);
                for _ in 0..batches {
                    let mut batch = spare.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
                    batch.extend(
                        (0..BATCH).map(|_| Block(heap.malloc(16 + random.below(497) as usize))),
                    );
                    if sender.send(batch).is_err() {
                        return;
                    }
                }
            });
        });
    });
    batches * BATCH as u64
}

/// Larson and Krishnan's server: each thread replaces random blocks of a shared table of 16 to
/// 1,024 B, and threads start and end, so that most blocks outlive the thread that allocated them.
pub fn larson(heap: &Heap) -> u64 {
    const THREADS: u64 = 2;
    let generations = heap.scaled(40);
    const STEPS: u64 = 50_000;
    const SLOTS: usize = 1000;
    let tables: Vec<Vec<AtomicPtr<u8>>> = (0..THREADS).map(|_| empty_table(SLOTS)).collect();
    std::thread::scope(|scope| {
        for (id, table) in tables.iter().enumerate() {
            scope.spawn(move || {
                for generation in 0..generations {
                    let seed = generation * THREADS + id as u64;
                    // Each new thread takes over the table of the one before it.
                    std::thread::scope(|inner| {
                        inner.spawn(|| heap.thread(|| replace_blocks(heap, table, seed, STEPS)));
                    });
                }
            });
        }
    });
    tables.iter().flatten().for_each(|slot| heap.free(slot.load(Ordering::Relaxed)));
    THREADS * generations * STEPS
}

/// Threads free each other's blocks: four threads swap random slots of one shared table.
pub fn shared_slots(heap: &Heap) -> u64 {
    const THREADS: u64 = 4;
    let steps = heap.scaled(1_000_000);
    let table = empty_table(4096);
    std::thread::scope(|scope| {
        for id in 0..THREADS {
            let table = &table;
            scope.spawn(move || heap.thread(|| replace_blocks(heap, table, 100 + id, steps)));
        }
    });
    table.iter().for_each(|slot| heap.free(slot.load(Ordering::Relaxed)));
    THREADS * steps
}

fn empty_table(slots: usize) -> Vec<AtomicPtr<u8>> {
    (0..slots).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect()
}

fn replace_blocks(heap: &Heap, table: &[AtomicPtr<u8>], seed: u64, steps: u64) {
    let mut random = Random::new(seed);
    for _ in 0..steps {
        let fresh = heap.malloc(16 + random.below(1009) as usize);
        let slot = &table[random.below(table.len() as u64) as usize];
        heap.free(slot.swap(fresh, Ordering::AcqRel));
    }
}
