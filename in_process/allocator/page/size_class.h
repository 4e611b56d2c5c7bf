// Size classes: 8; 16, 32 .. 128; then 8 classes for each doubling up to 64 KiB. 81 classes.
//
//   class   0 | 1   2   ..  8   | 9   10  ..  16  | 17  ..  24  | ..  | 73    ..  80
//   bytes   8 | 16  32  ..  128 | 144 160 ..  256 | 288 ..  512 | ..  | 36864 ..  65536
//
// Above 128 bytes, the internal fragmentation is at most 1/9 of the block (12.5 % of the request).
// Every class except the first is a multiple of 16. Blocks begin at multiples of their size from a
// 64 KiB boundary. Therefore a block of class c is aligned to every power of two that divides its
// size. Aligned allocation relies on this alone.
//
// The secure flavour has all of these classes once for each partition (space/partition.h), so that
// blocks of different partitions are in different bins and pages: class p * SIZE_COUNT + c is class
// c of partition p.
#ifndef KEEL_ALLOCATOR_PAGE_SIZE_CLASS_H
#define KEEL_ALLOCATOR_PAGE_SIZE_CLASS_H

#include "allocator/space/partition.h"
#include "base/bits.h"
#include "base/panic.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIZE_COUNT 81u
#define CLASS_COUNT (SIZE_COUNT * PARTITION_COUNT)
#define CLASS_BYTES_MAX ((size_t)65536)
#define SMALL_BYTES_MAX ((size_t)1024) // sizes whose class is one table look-up
#define ONE_SLICE_BYTES_MAX                                                                        \
    ((size_t)8192) // classes whose pages are one slice; larger ones take four
#define WIDE_PAGE_SLICES 4u

extern const uint32_t size_class_bytes[CLASS_COUNT];
extern const uint8_t size_class_small[SMALL_BYTES_MAX / 8 + 1]; // [(size + 7) / 8]

// The class of partition 0 that has requests of the same sizes.
KEEL_INLINE unsigned class_size(unsigned size_class) {
    KEEL_ASSERT(size_class < CLASS_COUNT);
    return KEEL_SECURE ? size_class % SIZE_COUNT : size_class;
}
KEEL_INLINE unsigned class_partition(unsigned size_class) {
    return KEEL_SECURE ? size_class / SIZE_COUNT : 0;
}
// The class of this size in the partition of the thread's allocation.
KEEL_INLINE unsigned class_now(unsigned size) {
    KEEL_ASSERT(size < SIZE_COUNT && partition_now() < PARTITION_COUNT);
    return size + partition_now() * SIZE_COUNT;
}

// The functions below return classes of partition 0.

// size <= SMALL_BYTES_MAX.
KEEL_INLINE unsigned size_class_of_small(size_t size) {
    KEEL_ASSERT(size <= SMALL_BYTES_MAX);
    return size_class_small[(size + 7) / 8];
}

// 128 < size <= CLASS_BYTES_MAX.
KEEL_INLINE unsigned size_class_of_medium(size_t size) {
    KEEL_ASSERT(size > 128 && size <= CLASS_BYTES_MAX);
    unsigned top = bit_highest(size - 1); // 7..15
    return 8 * top - 55 + (unsigned)((size - 1) >> (top - 3));
}

// size <= CLASS_BYTES_MAX.
KEEL_INLINE unsigned size_class_of(size_t size) {
    KEEL_ASSERT(size <= CLASS_BYTES_MAX);
    return size <= SMALL_BYTES_MAX ? size_class_of_small(size) : size_class_of_medium(size);
}

// Returns the smallest class of at least `size` bytes whose blocks are all multiples of `alignment`
// (a power of two), or SIZE_COUNT if there is none. It is the class of `size` rounded up to the
// alignment: classes of one doubling are a power of two apart, so all of them are multiples of the
// alignment, or the rounded size is itself a class.
KEEL_INLINE unsigned size_class_aligned(size_t size, size_t alignment) {
    KEEL_ASSERT(is_power_of_two(alignment));
    if (size > CLASS_BYTES_MAX || alignment > CLASS_BYTES_MAX) return SIZE_COUNT;
    size_t rounded = round_up(size == 0 ? 1 : size, alignment);
    return rounded > CLASS_BYTES_MAX ? SIZE_COUNT : size_class_of(rounded);
}

// Verifies the tables against the definition above.
bool size_class_check(void);

#endif
