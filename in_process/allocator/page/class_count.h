// Rows of the statistics by size: one row for each size of small blocks, and one row for each
// doubling of the size of large blocks.
//
//   row     0 .. 80          81             82              83            ..  111
//   bytes   the class's      <= 128 KiB     <= 256 KiB      <= 512 KiB    ..  <= 128 TiB
#ifndef KEEL_ALLOCATOR_PAGE_CLASS_COUNT_H
#define KEEL_ALLOCATOR_PAGE_CLASS_COUNT_H

#include "allocator/page/size_class.h"
#include "allocator/space/page_metadata.h"
#include "base/atomic.h"

#define LARGE_ROWS 31u
#define COUNT_ROWS (SIZE_COUNT + LARGE_ROWS)

// Returns the row of a large block of `bytes` bytes. `bytes` is more than 1.
KEEL_INLINE unsigned large_row(size_t bytes) {
    unsigned log = bit_highest(bytes - 1); // the doubling ends at 2 << log
    unsigned row = log < 17 ? 0 : log - 16;
    return SIZE_COUNT + (row < LARGE_ROWS ? row : LARGE_ROWS - 1);
}

// Returns the largest usable size of a block in the row.
KEEL_INLINE uint64_t row_bytes(unsigned row) {
    if (row < SIZE_COUNT) return size_class_bytes[row] - BLOCK_STATE_BYTES;
    return UINT64_C(131072) << (row - SIZE_COUNT);
}

#endif
