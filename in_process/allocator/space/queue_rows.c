#include "allocator/space/queue_rows.h"
#include "base/bits.h"
#include "base/panic.h"

static atomic_bits* area_bits(const uint16_t* near) {
    return (atomic_bits*)(void*)queue_row_numbered(near, 0);
}

// 1: the row with this number in the word can be taken. The bits of the area are 1 for rows that
// are in use.
static uint64_t free_rows(uint64_t used, unsigned word) {
    uint64_t reserved = word == 0 ? ~UINT64_C(0) : word == 1 ? UINT64_C(1) : 0;
    _Static_assert(QUEUE_ROWS_SHARED == 65, "the rows that are not shared");
    return ~(used | reserved);
}

uint16_t* queue_row_take(const uint16_t* near) {
    KEEL_ASSERT(KEEL_SECURE && near != NULL);
    atomic_bits* bits = area_bits(near);
    for (unsigned word = 1; word < QUEUE_AREA_ROWS / 64; word++) {
        uint64_t used = atomic_get(&bits[word]);
        while (free_rows(used, word) != 0) {
            unsigned bit = bit_lowest(free_rows(used, word));
            if (atomic_try_bits(&bits[word], &used, used | UINT64_C(1) << bit))
                return queue_row_numbered(near, 64 * word + bit);
        }
    }
    return NULL;
}

void queue_row_give(uint16_t* row) {
    KEEL_ASSERT((uintptr_t)row % QUEUE_ROW_BYTES == 0);
    unsigned number = queue_row_number(row);
    atomic_bits* bits = &area_bits(row)[number / 64];
    uint64_t used = atomic_get(bits);
    KEEL_ASSERT(number >= QUEUE_ROWS_SHARED && number < QUEUE_AREA_ROWS);
    KEEL_ASSERT((used >> number % 64 & 1) != 0);
    while (!atomic_try_bits(bits, &used, used & ~(UINT64_C(1) << number % 64))) continue;
}
