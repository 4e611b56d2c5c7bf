/* parcel.h: blocks that contain their size and a pattern, so that any thread can verify them. For
 * test programs of the subject's malloc: include it after the header that declares that malloc. A
 * function returns the fault that it has found, or NULL. */
#ifndef KEEL_TESTS_PARCEL_H
#define KEEL_TESTS_PARCEL_H

#include "memory.h"

struct parcel {
    size_t size;   // of the contents
    uint64_t seed; // its lower half depends on the size, so that a damaged header is detected
    unsigned char contents[];
};

static inline uint32_t parcel_check_of(size_t size) {
    return (uint32_t)(size * 2654435761u);
}

static inline void parcel_sign(struct random* random, struct parcel* parcel, size_t size) {
    parcel->size = size;
    parcel->seed = (random_next(random) << 32) | parcel_check_of(size);
    pattern_fill(parcel->contents, size, parcel->seed);
}

static inline const char* parcel_verify(const struct parcel* parcel) {
    if ((uint32_t)parcel->seed != parcel_check_of(parcel->size)) return "a header is damaged";
    return pattern_holds(parcel->contents, parcel->size, parcel->size, parcel->seed)
               ? NULL
               : "contents are damaged";
}

// Verifies and frees.
static inline const char* parcel_discard(struct parcel* parcel) {
    const char* fault = parcel_verify(parcel);
    if (fault != NULL) return fault;
    parcel->seed = 0; // a second free or a use after free finds a damaged header
    free(parcel);
    return NULL;
}

// *made is NULL if there is no memory. Uses malloc, calloc or memalign.
static inline const char* parcel_make(struct random* random, size_t size, struct parcel** made) {
    size_t whole = size + sizeof(struct parcel), alignment = 16;
    uint64_t kind = random_below(random, 10);
    if (kind < 6) {
        *made = malloc(whole);
    } else if (kind < 8) {
        *made = calloc(1, whole);
        if (*made != NULL && !is_zero(*made, whole))
            return "calloc returned memory that is not zero";
    } else {
        alignment <<= random_below(random, kind == 8 ? 4 : 12);
        *made = memalign(alignment, whole);
    }
    if (*made == NULL) return NULL;
    if (!is_aligned(*made, alignment)) return "a block is not aligned";
    if (malloc_usable_size(*made) < whole) return "the usable size is less than the requested size";
    parcel_sign(random, *made, size);
    return NULL;
}

// *resized is NULL if there is no memory; the parcel is then unchanged. `parcel` may be NULL.
static inline const char* parcel_resize(struct random* random, struct parcel* parcel, size_t size,
                                        struct parcel** resized) {
    *resized = parcel;
    const char* fault = parcel != NULL ? parcel_verify(parcel) : NULL;
    if (fault != NULL) return fault;
    struct parcel old = parcel != NULL ? *parcel : (struct parcel){0, 0};
    *resized = realloc(parcel, size + sizeof *parcel);
    if (*resized == NULL) return NULL;
    if (parcel != NULL) {
        size_t kept = size < old.size ? size : old.size;
        bool same = (*resized)->size == old.size && (*resized)->seed == old.seed;
        if (!same || !pattern_holds((*resized)->contents, kept, old.size, old.seed))
            return "realloc lost contents";
    }
    parcel_sign(random, *resized, size);
    return NULL;
}

#endif
