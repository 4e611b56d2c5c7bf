// The malloc family under its own names, with the GNU C library's semantics where the standards leave a choice.
#include "allocator/api/entry.h"
#include "base/bits.h"
#include "os/memory.h"
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

void cfree(void* block);

KEEL_EXPORT void* malloc(size_t size) { return entry_allocate(size); }
KEEL_EXPORT void free(void* block) { free_block(block); }
KEEL_EXPORT void cfree(void* block) { free_block(block); } // gone from glibc 2.26 on; old programs still name it
KEEL_EXPORT void* calloc(size_t count, size_t size) { return entry_zeroed(entry_product(count, size)); }
KEEL_EXPORT void* realloc(void* block, size_t size) { return entry_realloc(block, size); }

KEEL_EXPORT void* reallocarray(void* block, size_t count, size_t size) {
    return entry_realloc(block, entry_product(count, size));
}

// glibc takes any number and uses the next power of two.
static void* aligned_any(size_t alignment, size_t size) {
    if (KEEL_UNLIKELY(!is_power_of_two(alignment))) {
        if (alignment > KEEL_SIZE_MAX / 2) {
            errno = EINVAL;
            return NULL;
        }
        alignment = alignment < 2 ? 1 : (size_t)1 << (bit_highest(alignment - 1) + 1);
    }
    return entry_aligned(size, alignment < 16 && size > 8 ? 16 : alignment);
}

KEEL_EXPORT void* memalign(size_t alignment, size_t size) { return aligned_any(alignment, size); }
KEEL_EXPORT void* aligned_alloc(size_t alignment, size_t size) { return aligned_any(alignment, size); }

KEEL_EXPORT int posix_memalign(void** block, size_t alignment, size_t size) {
    return entry_posix_memalign(block, alignment, size);
}

KEEL_EXPORT void* valloc(size_t size) { return entry_aligned(size, os_page_bytes()); }

KEEL_EXPORT void* pvalloc(size_t size) {
    size_t page = os_page_bytes();
    if (size > KEEL_SIZE_MAX - page) return entry_malloc(SIZE_MAX); // for its errno
    return entry_aligned(size == 0 ? page : round_up(size, page), page);
}

KEEL_EXPORT size_t malloc_usable_size(void* block) { return block_usable_bytes(block); }

// Gives back what it can; `pad` is about glibc's heap top, which does not exist here. 1: something may have been given.
KEEL_EXPORT int malloc_trim(size_t pad) {
    (void)pad;
    reclaim_all();
    return 1;
}

// glibc's tunables mean nothing here. 1 is its "accepted": programs that check it would otherwise give up.
KEEL_EXPORT int mallopt(int parameter, int value) {
    (void)parameter;
    (void)value;
    return 1;
}
