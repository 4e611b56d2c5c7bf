//! A program that allocates everything from Keel and prints how much. Its tests are in this file
//! too, so they run with the same global allocator.

#[global_allocator]
static ALLOCATOR: keel::Keel = keel::Keel;

fn main() {
    let words: Vec<String> = (0..1000).map(|number| format!("word {number}")).collect();
    let (major, minor, patch) = keel::version();
    let ours = words.iter().filter(|word| keel::contains(word.as_ptr())).count();
    println!("{ours} of {} words are in memory of Keel {major}.{minor}.{patch}", words.len());
    if ours != words.len() {
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};
    use std::collections::{BTreeMap, HashMap};
    use std::sync::mpsc;
    use std::thread;

    use keel::Keel;

    fn layout(size: usize, alignment: usize) -> Layout {
        Layout::from_size_align(size, alignment).expect("a power of two")
    }

    fn fill(block: *mut u8, size: usize, seed: usize) {
        for at in 0..size {
            // SAFETY: the block has that many bytes.
            unsafe { block.add(at).write((at * 31 + seed) as u8) };
        }
    }

    fn holds(block: *const u8, size: usize, seed: usize) -> bool {
        // SAFETY: the block has that many bytes, all of them written.
        (0..size).all(|at| unsafe { block.add(at).read() } == (at * 31 + seed) as u8)
    }

    #[test]
    fn every_layout_is_aligned_and_keeps_its_content() {
        for shift in 0..=16 {
            let alignment = 1 << shift;
            for size in [1, 7, 8, 9, 16, 24, 100, 1000, 5000, 70_000, 300_000] {
                let layout = layout(size, alignment);
                // SAFETY: the size is not 0, and each block is freed with its layout.
                unsafe {
                    let blocks: Vec<_> = (0..5).map(|_| Keel.alloc(layout)).collect();
                    for (seed, block) in blocks.iter().enumerate() {
                        assert!(!block.is_null() && block.addr() % alignment == 0, "{layout:?}");
                        assert!(keel::contains(*block) && keel::usable_size(*block) >= size);
                        fill(*block, size, seed);
                    }
                    for (seed, block) in blocks.iter().enumerate() {
                        assert!(holds(*block, size, seed), "{layout:?}");
                        Keel.dealloc(*block, layout);
                    }
                }
            }
        }
    }

    #[test]
    fn zeroed_is_zero_after_dirty_blocks() {
        for alignment in [1, 8, 16, 64, 4096] {
            for size in [1, 8, 40, 1000, 40_000, 200_000] {
                let layout = layout(size, alignment);
                for round in 1..20 {
                    // SAFETY: as above.
                    unsafe {
                        let block = Keel.alloc_zeroed(layout);
                        assert!(block.addr() % alignment == 0);
                        assert!((0..size).all(|at| block.add(at).read() == 0), "{layout:?}");
                        fill(block, size, round);
                        Keel.dealloc(block, layout);
                    }
                }
            }
        }
    }

    #[test]
    fn realloc_keeps_content_and_alignment() {
        let sizes = [1, 9, 8, 20, 500, 7, 3000, 100_000, 150_000, 90_000, 16, 4, 2_000_000, 24];
        for alignment in [1, 8, 16, 32, 1024] {
            // SAFETY: each block is resized and freed with its layout.
            unsafe {
                let mut block = Keel.alloc(layout(10, alignment));
                let mut before = 10;
                fill(block, before, before);
                for size in sizes {
                    block = Keel.realloc(block, layout(before, alignment), size);
                    assert!(!block.is_null() && block.addr() % alignment == 0);
                    let kept = before.min(size);
                    assert!(holds(block, kept, before), "{before} to {size} at {alignment}");
                    fill(block, size, size);
                    before = size;
                }
                Keel.dealloc(block, layout(before, alignment));
            }
        }
    }

    #[test]
    fn a_large_vector_grows_in_place_or_without_a_copy() {
        let mut vector: Vec<u8> = vec![7; 1 << 20];
        let mut moves = 0;
        while vector.len() < 128 << 20 {
            let before = vector.as_ptr();
            vector.reserve_exact(1 << 20);
            moves += usize::from(vector.as_ptr() != before);
            vector.resize(vector.len() + (1 << 20), 7);
        }
        assert!(vector.iter().step_by(4093).all(|byte| *byte == 7));
        assert!(moves < 64, "{moves} of 127 steps moved it");
    }

    #[test]
    fn blocks_may_be_freed_by_other_threads() {
        let (sender, receiver) = mpsc::channel::<HashMap<String, Vec<u32>>>();
        let takers = thread::spawn(move || receiver.iter().map(|map| map.len()).sum::<usize>());
        thread::scope(|scope| {
            for seed in 0..4 {
                let sender = sender.clone();
                scope.spawn(move || {
                    for round in 0..50 {
                        let key = |i| format!("{seed} {round} {i}");
                        let pairs = (0..100).map(|i| (key(i), vec![i; i as usize]));
                        sender.send(pairs.collect()).expect("somebody takes it");
                    }
                });
            }
        });
        drop(sender);
        assert_eq!(takers.join().expect("it has not panicked"), 4 * 50 * 100);
    }

    #[test]
    fn what_is_allocated_is_counted() {
        let entry = |i| (i, Box::new([1; 1000]));
        let map: BTreeMap<u32, Box<[u8; 1000]>> = (0..500).map(entry).collect();
        let json = keel::stats_json();
        assert!(json.starts_with('{') && json.ends_with('}'), "{json}");
        let size = format!("\"block_bytes\":{},", keel::good_size(1000));
        let row = json.split(&size).nth(1).expect("a row for blocks of 1000 bytes");
        let used = row.split("\"used\":").nth(1).expect("how many are in use");
        let used: u32 = used.split(',').next().expect("a number").parse().expect("a number");
        assert!(used >= 500, "{used}");
        assert_eq!(map.len(), 500);
    }

    #[test]
    fn the_allocator_can_be_controlled() {
        assert!(keel::warm(1 << 20) >= 1 << 20);
        assert!(keel::thread_set_realtime(128 << 10));
        keel::thread_idle();
        keel::collect(false);
        assert!(keel::thread_set_realtime(0));
        keel::collect(true);
        // The secure flavour has a state word behind each block.
        assert!([1016, 1024].contains(&keel::good_size(1000)), "{}", keel::good_size(1000));
        assert_eq!(keel::version(), (0, 1, 0));
        assert_eq!(keel::limit(1 << 40), 0);
        assert_eq!(keel::limit(0), 1 << 40);
    }

    #[test]
    fn try_reserve_without_memory_fails() {
        let mut vector: Vec<u8> = Vec::new();
        assert!(vector.try_reserve(isize::MAX as usize).is_err());
        assert!(vector.try_reserve(100).is_ok());
    }

    unsafe extern "C" {
        fn malloc(size: usize) -> *mut u8;
        fn free(block: *mut u8);
    }

    #[test]
    fn malloc_is_replaced_only_with_the_feature() {
        // SAFETY: the block is freed by the allocator that it came from.
        unsafe {
            let block = malloc(100);
            assert_eq!(keel::contains(block), cfg!(feature = "override"));
            free(block);
        }
    }
}
