//! Arrays that grow. Copying is linear by nature; what an allocator can do is not to copy.

use crate::heap::Heap;
use crate::watch::Findings;
use std::ptr::null_mut;

/// As vectors grow (by half, 64 B to 8 MiB, 24 of them in turn), and as buffers grow (by 4 KiB, to 1 MiB, 4 in turn).
pub fn realloc_growth(heap: &Heap, findings: &mut Findings) {
    let mut vectors = heap.watch("grow by half");
    for _ in 0..heap.scaled(8) {
        let mut arrays: [*mut u8; 24] = [null_mut(); 24];
        let mut size = 64_usize;
        while size <= 8 << 20 {
            let grown = size + size / 2;
            for array in &mut arrays {
                *array = vectors.time(|| heap.realloc(*array, grown));
                heap.touch_pages(*array, grown);
            }
            size = grown;
        }
        arrays.into_iter().for_each(|array| heap.free(array));
    }
    vectors.finish(findings);
    let mut buffers = heap.watch("grow by 4 KiB");
    for _ in 0..heap.scaled(10) {
        let mut arrays: [*mut u8; 4] = [null_mut(); 4];
        for pages in 1..=256 {
            for array in &mut arrays {
                *array = buffers.time(|| heap.realloc(*array, pages << 12));
                heap.touch_pages(*array, pages << 12);
            }
        }
        arrays.into_iter().for_each(|array| heap.free(array));
    }
    buffers.finish(findings);
}
