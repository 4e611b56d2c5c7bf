#include "allocator/override/winner.h"
#include "allocator/api/entry.h"
#include "base/atomic.h"
#include "keel/keel.h"
#include "os/process.h"

enum { UNKNOWN, KEEL, OTHER };
static atomic_state who;
static struct winner winner;
static struct winner_own here;
#define ADDRESS(function) (*(void**)&(function))

// True while the thread looks the functions up or tries them. Some of them may be Keel's, and a
// library that replaces a function of the loader may call Keel's: these do not ask then.
static KEEL_TLS bool tries;

// Nearly always Keel's malloc comes first, and no later look is needed. A look takes a lock of the
// loader, which another thread may hold when a process forks.
void winner_set_own(struct winner_own own) {
    here = own;
    tries = true;
    void* first = os_function("malloc");
    tries = false;
    if (first == ADDRESS(own.malloc)) atomic_set_release(&who, KEEL);
}

// True if dlopen loaded this library: then the C library's functions come first. Another malloc may
// define most of the family, but hardly both of these.
static bool is_behind_c_library(void) {
    return here.pvalloc != NULL && os_function("pvalloc") != ADDRESS(here.pvalloc) &&
           os_function("reallocarray") != ADDRESS(here.reallocarray);
}

// A library may wrap malloc and pass the calls on to Keel's. So the blocks decide, not the
// function.
static bool is_keel(void) {
    void* first = os_function("malloc");
    if (first == ADDRESS(here.malloc)) return true;
    if (is_behind_c_library()) return true; // who calls Keel's functions has them by a handle
    ADDRESS(winner.malloc) = first;
    ADDRESS(winner.realloc) = os_function("realloc");
    ADDRESS(winner.free) = os_function("free");
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
    ADDRESS(function) = os_function(name);
    void* block = function == NULL ? NULL : function(alignment, size);
    if (block == NULL || !kl_contains(block)) return block;
    kl_free(block); // this function is Keel's
    return NULL;
}

static void* aligned_by_posix(size_t alignment, size_t size) {
    int (*function)(void**, size_t, size_t);
    void* block = NULL;
    ADDRESS(function) = os_function("posix_memalign");
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
