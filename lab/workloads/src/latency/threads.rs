//! Threads that start and end, and blocks that other threads free.

use crate::heap::{Block, Heap};
use crate::random::Random;
use crate::watch::{self, Findings, Tally};
use std::sync::mpsc::sync_channel;

/// The number of calls of a new thread that are watched.
const FIRST_CALLS: usize = 256;

/// Threads start one after another, allocate 20,000 blocks and end without freeing them. The main
/// thread frees the blocks, and the next thread may reuse them. The exit is timed from the end of a
/// thread's function until another thread has joined it; its noise is the same time of a thread
/// that allocated nothing.
pub fn come_and_go(heap: &Heap, findings: &mut Findings) {
    let mut first = Tally::new("first mallocs of a thread", heap.mode());
    let mut exits = Tally::undetected("thread exit", heap.mode());
    let mut frees = heap.watch("free after the exit");
    for generation in 0..heap.scaled(40) {
        let (ticks, ()) = exit_ticks(heap, || ());
        exits.enter_noise(ticks);
        let (ticks, (blocks, tally)) = exit_ticks(heap, || fill(heap, generation));
        exits.enter(ticks);
        first.merge(&tally);
        for block in blocks {
            frees.time(|| heap.free(block.0));
        }
    }
    first.finish(findings);
    exits.finish(findings);
    frees.finish(findings);
}

fn fill(heap: &Heap, generation: u64) -> (Vec<Block>, Tally) {
    let mut random = Random::new(generation);
    let count = heap.scaled(20_000) as usize;
    let mut blocks = Vec::with_capacity(count.max(FIRST_CALLS));
    let mut watch = heap.watch("first mallocs of a thread");
    for _ in 0..FIRST_CALLS {
        let size = 16 + random.below(497) as usize;
        blocks.push(Block(watch.time(|| heap.malloc_untouched(size))));
    }
    let tally = watch.leave();
    while blocks.len() < count {
        blocks.push(Block(heap.malloc(16 + random.below(497) as usize)));
    }
    (blocks, tally)
}

/// Runs `body` on a new thread. Returns the ticks from the end of `body` until the thread is
/// joined.
fn exit_ticks<T: Send>(heap: &Heap, body: impl FnOnce() -> T + Send) -> (u64, T) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            heap.thread(|| {
                let result = body();
                (watch::now(), result)
            })
        });
        match thread.join() {
            Ok((end, result)) => (watch::now().saturating_sub(end), result),
            Err(_) => std::process::abort(),
        }
    })
}

/// A queue between two threads: malloc on one side, free on the other, each call watched.
pub fn handover(heap: &Heap, findings: &mut Findings) {
    const BATCH: usize = 256;
    let batches = heap.scaled(1200);
    let (sender, receiver) = sync_channel::<Vec<Block>>(16);
    let (mallocs, frees) = std::thread::scope(|scope| {
        let consumer = scope.spawn(move || {
            heap.thread(|| {
                let mut watch = heap.watch("free of another thread's block");
                for batch in receiver {
                    for block in batch {
                        watch.time(|| heap.free(block.0));
                    }
                }
                watch.leave()
            })
        });
        let producer = scope.spawn(move || {
            heap.thread(|| {
                let mut random = Random::new(3);
                let mut watch = heap.watch("malloc of blocks that go");
                for _ in 0..batches {
                    let mut batch = Vec::with_capacity(BATCH);
                    for _ in 0..BATCH {
                        let size = 16 + random.below(497) as usize;
                        let block = watch.time(|| heap.malloc_untouched(size));
                        heap.touch_pages(block, size);
                        batch.push(Block(block));
                    }
                    if sender.send(batch).is_err() {
                        break;
                    }
                }
                watch.leave()
            })
        });
        (producer.join(), consumer.join())
    });
    for tally in [mallocs, frees] {
        // The panic has been printed; there is no result without this thread.
        tally.unwrap_or_else(|_| std::process::abort()).finish(findings);
    }
}
