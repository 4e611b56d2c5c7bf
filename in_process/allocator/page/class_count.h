// Rows of the statistics by size: the classes of small blocks, and for large ones a row a doubling.
//
//   row     0 .. 80          81             82              83            ..  111
//   bytes   the class's      <= 128 KiB     <= 256 KiB      <= 512 KiB    ..  <= 128 TiB
#ifndef KEEL_ALLOCATOR_PAGE_CLASS_COUNT_H
#define KEEL_ALLOCATOR_PAGE_CLASS_COUNT_H

#include "allocator/page/size_class.h"
#include "base/atomic.h"

#define LARGE_ROWS 31u
#define COUNT_ROWS (CLASS_COUNT + LARGE_ROWS)

// The row of a large block of so many bytes, > 1.
KEEL_INLINE unsigned large_row(size_t bytes) {
    unsigned log = bit_highest(bytes - 1); // the doubling ends at 2 << log
    unsigned row = log < 17 ? 0 : log - 16;
    return CLASS_COUNT + (row < LARGE_ROWS ? row : LARGE_ROWS - 1);
}

// The most bytes of a block of that row.
KEEL_INLINE uint64_t row_bytes(unsigned row) {
    return row < CLASS_COUNT ? size_class_bytes[row] : UINT64_C(131072) << (row - CLASS_COUNT);
}

#endif
