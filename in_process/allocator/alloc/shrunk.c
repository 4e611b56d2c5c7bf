#include "allocator/alloc/shrunk.h"
#include "base/bits.h"
#include "base/panic.h"

// Each address has one place.
static struct shrunk_block* place_of(struct shrunk_history* history, const void* address) {
    return &history->places[(bit_spread((uintptr_t)address) >> 32) % SHRUNK_PLACES];
}

static void lose(struct shrunk_history* history, uint32_t loss) {
    KEEL_ASSERT(history->score <= SHRUNK_SCORE_MAX);
    history->score -= history->score < loss ? history->score : loss;
}

bool shrunk_stays(struct heap* heap, const void* address, size_t usable, size_t size) {
    KEEL_ASSERT(size <= usable);
    struct shrunk_history* history = &heap->shrunk;
    if (!shrunk_may_stay(heap)) return false;
    shrunk_grows(heap, address, size); // it may have been smaller before
    history->spare_bytes += (uint32_t)(usable - size);
    if (history->spare_bytes <= SHRUNK_SPARE_MAX) return true;
    lose(history, 2 * SHRUNK_LOSS);
    history->spare_bytes = 0;
    return false;
}

void shrunk_watch(struct heap* heap, const void* address, size_t size) {
    struct shrunk_history* history = &heap->shrunk;
    if (history->shrinks % SHRUNK_INTERVAL != 0) return;
    struct shrunk_block* place = place_of(history, address);
    if (place->address != NULL) {
        if (history->shrinks - place->since < SHRUNK_TIMEOUT) return;
        lose(history, SHRUNK_LOSS);
    }
    *place = (struct shrunk_block){address, (uint32_t)size, history->shrinks};
}

// The block may have been freed since, and the address may be that of another one.
void shrunk_grows(struct heap* heap, const void* address, size_t size) {
    struct shrunk_history* history = &heap->shrunk;
    struct shrunk_block* place = place_of(history, address);
    if (place->address != address || place->size >= size) return;
    place->address = NULL;
    history->spare_bytes = 0;
    if (history->score < SHRUNK_SCORE_MAX) history->score++;
}
