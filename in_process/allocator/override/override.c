// The malloc family under its own names. Where the standards leave a choice, the functions behave
// like those of the GNU C library. Functions that other definitions of malloc may lack ask
// winner.h.
#include "allocator/api/entry.h"
#include "allocator/override/winner.h"
#include "keel/keel.h"
#include "os/memory.h"
#if __has_include(<malloc.h>)
#include <malloc.h>
#else // OpenBSD
#include <stddef.h>
size_t malloc_usable_size(void* block);
#endif
#include <stdlib.h>

// Not every C library declares these.
void cfree(void* block);
void* valloc(size_t size);
void* memalign(size_t alignment, size_t size);
void* pvalloc(size_t size);
int malloc_trim(size_t pad);
int mallopt(int parameter, int value);

KEEL_EXPORT void* malloc(size_t size) {
    return entry_allocate(size);
}
KEEL_EXPORT void free(void* block) {
    entry_free_kind(block, BLOCK_MALLOC);
}
KEEL_EXPORT void cfree(void* block) {
    entry_free_kind(block, BLOCK_MALLOC);
} // removed in glibc 2.26; old programs still refer to it
// C23. libc may not declare them yet.
void free_sized(void* block, size_t size);
void free_aligned_sized(void* block, size_t alignment, size_t size);

KEEL_EXPORT void free_sized(void* block, size_t size) {
    entry_free_sized_kind(block, size, 1, false, BLOCK_MALLOC);
}
KEEL_EXPORT void free_aligned_sized(void* block, size_t alignment, size_t size) {
    entry_free_sized_kind(block, size, alignment, false, BLOCK_MALLOC);
}
KEEL_EXPORT void* calloc(size_t count, size_t size) {
    return entry_zeroed(entry_product(count, size));
}
KEEL_EXPORT void* realloc(void* block, size_t size) {
    if (KEEL_DEBUG) debug_require_kind(block, BLOCK_MALLOC);
    return entry_realloc(block, size);
}

KEEL_EXPORT void* reallocarray(void* block, size_t count, size_t size) {
    const struct winner* other = winner_not_keel();
    if (other != NULL) return other->realloc(block, entry_product(count, size));
    if (KEEL_DEBUG) debug_require_kind(block, BLOCK_MALLOC);
    return entry_realloc(block, entry_product(count, size));
}

static void* aligned(size_t alignment, size_t size) {
    if (KEEL_UNLIKELY(winner_not_keel() != NULL) && is_power_of_two(alignment))
        return winner_aligned(alignment, size);
    return entry_memalign(size, alignment);
}

KEEL_EXPORT void* memalign(size_t alignment, size_t size) {
    return aligned(alignment, size);
}
KEEL_EXPORT void* aligned_alloc(size_t alignment, size_t size) {
    return aligned(alignment, size);
}

KEEL_EXPORT int posix_memalign(void** block, size_t alignment, size_t size) {
    if (KEEL_LIKELY(winner_not_keel() == NULL) || alignment % sizeof(void*) != 0 ||
        !is_power_of_two(alignment))
        return entry_posix_memalign(block, alignment, size);
    int saved = errno;
    void* other = winner_aligned(alignment, size);
    errno = saved;
    if (other == NULL) return ENOMEM;
    *block = other;
    return 0;
}

KEEL_EXPORT void* valloc(size_t size) {
    return aligned(os_page_bytes(), size);
}
KEEL_EXPORT void* pvalloc(size_t size) {
    size_t page = os_page_bytes();
    if (winner_not_keel() == NULL || size > KEEL_SIZE_MAX - page) return entry_pvalloc(size);
    return winner_aligned(page, size == 0 ? page : round_up(size, page));
}

// This library's functions, also where the program's are others.
extern __typeof__(malloc) own_malloc
    __attribute__((alias("malloc"), visibility("hidden"), leaf, malloc, nothrow));
extern __typeof__(pvalloc) own_pvalloc
    __attribute__((alias("pvalloc"), visibility("hidden"), leaf, malloc, nothrow));
extern __typeof__(reallocarray) own_reallocarray
    __attribute__((alias("reallocarray"), visibility("hidden"), leaf, malloc, nothrow));
__attribute__((constructor)) static void name_own_functions(void) {
    winner_set_own((struct winner_own){own_malloc, own_pvalloc, own_reallocarray});
}

KEEL_EXPORT size_t malloc_usable_size(KEEL_USABLE_BLOCK block) {
    return entry_usable_bytes(block);
}

// Returns as much memory to the system as possible. `pad` refers to the top of glibc's heap, which
// does not exist here. The result 1 means that memory may have been returned.
KEEL_EXPORT int malloc_trim(size_t pad) {
    (void)pad;
    kl_collect(true);
    return 1;
}

// glibc's tunables have no meaning here. The result 1 means "accepted" in glibc. Programs that
// check the result would otherwise stop.
KEEL_EXPORT int mallopt(int parameter, int value) {
    (void)parameter;
    (void)value;
    return 1;
}
