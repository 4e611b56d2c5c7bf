//! Growing arrays. Copying takes linear time; an allocator can avoid the copy.

use crate::heap::Heap;
use crate::watch::Findings;
use std::ptr::null_mut;

/// Vectors that grow by half (64 B to 8 MiB, 24 in turn), buffers that grow by 4 KiB (to 1 MiB, 4
/// in turn), and one large array, which grows by doubling and by 1 MiB.
pub fn realloc_growth(heap: &Heap, findings: &mut Findings) {
    vectors_by_half(heap, findings);
    buffers_by_page(heap, findings);
    let doublings: Vec<usize> = (16..=24).map(|bits| 1 << bits).collect();
    large_array(heap, findings, "double to 16 MiB", &doublings);
    let steps: Vec<usize> = (1..=24).map(|mib| mib << 20).collect();
    large_array(heap, findings, "grow by 1 MiB to 24 MiB", &steps);
}

fn vectors_by_half(heap: &Heap, findings: &mut Findings) {
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
}

fn buffers_by_page(heap: &Heap, findings: &mut Findings) {
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

/// Grows an array through all sizes, writes each new page and frees the array, repeatedly.
fn large_array(heap: &Heap, findings: &mut Findings, name: &'static str, sizes: &[usize]) {
    let mut steps = heap.watch(name);
    for _ in 0..heap.scaled(20) {
        let mut array = null_mut();
        for size in sizes {
            array = steps.time(|| heap.realloc(array, *size));
            heap.touch_pages(array, *size);
        }
        heap.free(array);
    }
    steps.finish(findings);
}
