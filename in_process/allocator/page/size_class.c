#include "allocator/page/size_class.h"

#define DOUBLING(unit)                                                                             \
    9 * (unit), 10 * (unit), 11 * (unit), 12 * (unit), 13 * (unit), 14 * (unit), 15 * (unit),      \
        16 * (unit)

#define SIZES                                                                                      \
    8, 16, 32, 48, 64, 80, 96, 112, 128, DOUBLING(16), DOUBLING(32), DOUBLING(64), DOUBLING(128),  \
        DOUBLING(256), DOUBLING(512), DOUBLING(1024), DOUBLING(2048), DOUBLING(4096)

const uint32_t size_class_bytes[CLASS_COUNT] = {
    SIZES,
#if KEEL_SECURE
    SIZES,
    SIZES,
    SIZES,
#endif
};

#define TWICE(c) (c), (c)
#define FOUR(c) TWICE(c), TWICE(c)
#define EIGHT(c) FOUR(c), FOUR(c)
#define STEPS(each, c)                                                                             \
    each(c), each(c + 1), each(c + 2), each(c + 3), each(c + 4), each(c + 5), each(c + 6),         \
        each(c + 7)

// The secure flavour has no blocks of 8 bytes: there would be no room before the state word.
#define CLASS_OF_8 (KEEL_SECURE ? 1 : 0)

const uint8_t size_class_small[SMALL_BYTES_MAX / 8 + 1] = {
    CLASS_OF_8,
    CLASS_OF_8,
    1, // .. 16
    TWICE(2),
    TWICE(3),
    TWICE(4),
    TWICE(5),
    TWICE(6),
    TWICE(7),
    TWICE(8), // .. 128
    STEPS(TWICE, 9),
    STEPS(FOUR, 17),
    STEPS(EIGHT, 25), // .. 256, 512, 1024
};

bool size_class_check(void) {
    for (unsigned c = 1; c < SIZE_COUNT; c++) {
        if (size_class_bytes[c] <= size_class_bytes[c - 1]) return false;
    }
    for (unsigned c = 0; c < CLASS_COUNT; c++) {
        if (size_class_bytes[c] != size_class_bytes[class_size(c)]) return false;
    }
    if (size_class_bytes[SIZE_COUNT - 1] != CLASS_BYTES_MAX) return false;
    for (size_t size = 1; size <= CLASS_BYTES_MAX; size++) {
        unsigned c = size_class_of(size);
        if (c >= SIZE_COUNT || size_class_bytes[c] < size) return false;
        if (c > CLASS_OF_8 && size_class_bytes[c - 1] >= size) return false;
        if (size > 128 && size_class_of_medium(size) != c) return false;
    }
    return size_class_of(0) == CLASS_OF_8;
}
