#include "allocator/override/winner.h"
#include "allocator/api/entry.h"
#include "base/atomic.h"
#include "keel/keel.h"
#include "os/process.h"

enum { UNKNOWN, KEEL, OTHER };
static atomic_state who;
static struct winner winner;
static void* (*malloc_here)(size_t size), *(*pvalloc_here)(size_t size);

// True while the thread looks the functions up or tries them. Some of them may be Keel's, and a
// library that replaces a function of the loader may call Keel's: these do not ask then.
static KEEL_TLS bool tries;

// Nearly always Keel's malloc comes first, and no later look is needed. A look takes a lock of the
// loader, which another thread may hold when a process forks.
void winner_set_own(void* (*own_malloc)(size_t size), void* (*own_pvalloc)(size_t size)) {
    malloc_here = own_malloc;
    pvalloc_here = own_pvalloc;
    void* (*first)(size_t size);
    tries = true;
    *(void**)&first = os_symbol("malloc");
    tries = false;
    if (first == own_malloc) atomic_set_release(&who, KEEL);
}

// A library may wrap malloc and pass the calls on to Keel's. So the blocks decide, not the
// function.
static bool is_keel(void) {
    *(void**)&winner.malloc = os_symbol("malloc");
    if (winner.malloc == malloc_here) return true;
    // dlopen loaded this library: who calls its functions has chosen them by a handle.
    void* (*pvalloc_found)(size_t size);
    *(void**)&pvalloc_found = os_symbol("pvalloc");
    if (pvalloc_here != NULL && pvalloc_found != pvalloc_here) return true;
    *(void**)&winner.realloc = os_symbol("realloc");
    *(void**)&winner.free = os_symbol("free");
    if (winner.malloc == NULL || winner.realloc == NULL || winner.free == NULL) return true;
    void* block = winner.malloc(1);
    bool keel = block == NULL || kl_contains(block);
    winner.free(block);
    return keel;
}

const struct winner* winner_not_keel(void) {
    uint32_t known = atomic_get_acquire(&who);
    if (KEEL_LIKELY(known == KEEL) || tries) return NULL;
    if (known == UNKNOWN) { // every thread finds the same
        int saved = errno;
        tries = true;
        known = is_keel() ? KEEL : OTHER;
        tries = false;
        atomic_set_release(&who, known);
        errno = saved;
    }
    return known == KEEL ? NULL : &winner;
}

static void* aligned_by(const char* name, size_t alignment, size_t size) {
    void* (*function)(size_t, size_t);
    *(void**)&function = os_symbol(name);
    void* block = function == NULL ? NULL : function(alignment, size);
    if (block == NULL || !kl_contains(block)) return block;
    kl_free(block); // this function is Keel's
    return NULL;
}

static void* aligned_by_posix(size_t alignment, size_t size) {
    int (*function)(void**, size_t, size_t);
    void* block = NULL;
    *(void**)&function = os_symbol("posix_memalign");
    if (alignment < sizeof block) alignment = sizeof block;
    if (function == NULL || function(&block, alignment, size) != 0) return NULL;
    if (!kl_contains(block)) return block;
    kl_free(block);
    return NULL;
}

void* winner_aligned(size_t alignment, size_t size) {
    tries = true;
    void* block = aligned_by_posix(alignment, size);
    if (block == NULL) block = aligned_by("memalign", alignment, size);
    if (block == NULL) block = aligned_by("aligned_alloc", alignment, size);
    tries = false;
    return block != NULL ? block : entry_memalign(size, alignment);
}

// Blocks that are not Keel's go to the program's free, if that is not Keel's.
static bool free_elsewhere(void* block) {
    const struct winner* other = winner_not_keel();
    if (other == NULL) return false;
    tries = true; // it may pass unknown blocks on to Keel's free
    other->free(block);
    tries = false;
    return true;
}

__attribute__((constructor)) static void pass_on_foreign_blocks(void) {
    free_set_elsewhere(free_elsewhere);
}
