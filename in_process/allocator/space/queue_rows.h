// The memory of the queues of free blocks in the secure flavour (page/free_queue.h).
//
// A queue consists of rows of 128 places, 256 bytes. Each superblock has an area of 512 rows:
//
//   row 0                 rows 1 .. 64                        rows 65 .. 511
//   | a bit for each row  | the own row of each slice ..     | rows for the pages of all slices ..
//
// The rows that are shared are given out from the lowest on, so that those which are in use are in
// few system pages. An area has 1/32 of the memory of its superblock, but only rows that were used
// are resident. Lock-free: threads change the bits with compare-and-swap, once for 127 frees.
#ifndef KEEL_ALLOCATOR_SPACE_QUEUE_ROWS_H
#define KEEL_ALLOCATOR_SPACE_QUEUE_ROWS_H

#include "allocator/space/window.h"

#define QUEUE_ROW_PLACES 128u
#define QUEUE_ROW_BYTES (QUEUE_ROW_PLACES * sizeof(uint16_t))
#define QUEUE_AREA_ROWS 512u
#define QUEUE_AREA_BYTES (QUEUE_AREA_ROWS * QUEUE_ROW_BYTES) // an area is at a multiple of it
#define QUEUE_ROWS_SHARED (1 + SUPERBLOCK_SLICES)            // the first one that is shared

_Static_assert(QUEUE_AREA_ROWS / 8 <= QUEUE_ROW_BYTES, "row 0 has room for the bits");

KEEL_INLINE uint16_t* queue_row_start(const uint16_t* place) {
    return (uint16_t*)((uintptr_t)place & ~(QUEUE_ROW_BYTES - 1));
}
KEEL_INLINE uint16_t queue_row_number(const uint16_t* row) {
    return (uint16_t)((uintptr_t)row % QUEUE_AREA_BYTES / QUEUE_ROW_BYTES);
}
// The row with this number, in the area that contains the place `near`.
KEEL_INLINE uint16_t* queue_row_numbered(const uint16_t* near, size_t number) {
    return (uint16_t*)(((uintptr_t)near & ~(QUEUE_AREA_BYTES - 1)) + number * QUEUE_ROW_BYTES);
}
// The own row of the slice that begins at `start`; likewise.
KEEL_INLINE uint16_t* queue_row_of_slice(const uint16_t* near, const char* start) {
    return queue_row_numbered(near, 1 + (uintptr_t)start / SLICE_BYTES % SUPERBLOCK_SLICES);
}

// A shared row of the area that contains the place `near`. NULL: all are in use.
uint16_t* queue_row_take(const uint16_t* near);
void queue_row_give(uint16_t* row);

#endif
